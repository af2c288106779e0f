//! A model that one can talk to, as far as its answers have the form of those that are sold.

use serde_json::{Value, json};

use crate::answer::Answer;

pub(crate) const PATH: &str = "/v1/chat/completions";

/// What the last message says, said back. What it costs is counted in words.
pub(super) fn completion(body: &[u8]) -> Answer {
    let request: Option<Value> = serde_json::from_slice(body).ok();
    let (Some(request), Some(last)) = (&request, request.as_ref().and_then(last_message)) else {
        let error = json!({ "error": { "message": "messages must be a list, of which the last has a content" } });
        return Answer::json(&error).with_status(400);
    };
    let said = saying_back(last);
    let (prompt, completion) = (words(last), words(&said));
    Answer::json(&json!({
        "object": "chat.completion",
        "model": request["model"],
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": said }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion },
    }))
}

/// What the completion that is asked for will say that it has used; `None`: nothing is asked.
pub(crate) fn total_tokens(body: &[u8]) -> Option<usize> {
    let request: Value = serde_json::from_slice(body).ok()?;
    let last = last_message(&request)?;
    Some(words(last) + words(&saying_back(last)))
}

fn last_message(request: &Value) -> Option<&str> {
    request["messages"].as_array()?.last()?["content"].as_str()
}

fn saying_back(message: &str) -> String {
    format!("You said: {message}")
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &str) -> (u16, Value) {
        let answer = completion(body.as_bytes());
        (answer.status, serde_json::from_slice(&answer.body).expect("JSON"))
    }

    #[test]
    fn the_last_message_is_said_back_and_its_words_are_counted() {
        let (status, said) = answer(r#"{"model": "m", "messages": [{"content": "no"}, {"content": "three \"w\" ö"}]}"#);
        assert_eq!(
            (200, "You said: three \"w\" ö"),
            (status, said["choices"][0]["message"]["content"].as_str().unwrap_or(""))
        );
        assert_eq!(
            (Some(3), Some(5), Some(8)),
            (
                said["usage"]["prompt_tokens"].as_u64(),
                said["usage"]["completion_tokens"].as_u64(),
                said["usage"]["total_tokens"].as_u64(),
            )
        );
    }

    #[test]
    fn what_is_no_conversation_is_told() {
        for body in ["", "{}", r#"{"messages": []}"#, r#"{"messages": [{"content": 7}]}"#] {
            let (status, said) = answer(body);
            assert_eq!(400, status, "{body}");
            assert!(said["error"]["message"].is_string(), "{body}");
        }
    }
}
