//! A chat model that repeats the last message, with the response format of commercial APIs.

use serde_json::{Value, json};

use crate::response::FullResponse;

pub(crate) const PATH: &str = "/v1/chat/completions";

/// Returns a completion that repeats the last message. Its usage is counted in words.
pub(super) fn completion(body: &[u8]) -> FullResponse {
    let request: Option<Value> = serde_json::from_slice(body).ok();
    let (Some(request), Some(last)) = (&request, request.as_ref().and_then(last_message)) else {
        let error = json!({ "error": { "message": "messages must be a list, of which the last has a content" } });
        return FullResponse::json(&error).with_status(400);
    };
    let reply = reply_to(last);
    let (prompt, completion) = (words(last), words(&reply));
    FullResponse::json(&json!({
        "object": "chat.completion",
        "model": request["model"],
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": reply }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion },
    }))
}

/// Returns the usage that the completion will report, or `None` without a message.
pub(crate) fn total_tokens(body: &[u8]) -> Option<usize> {
    let request: Value = serde_json::from_slice(body).ok()?;
    let last = last_message(&request)?;
    Some(words(last) + words(&reply_to(last)))
}

fn last_message(request: &Value) -> Option<&str> {
    request["messages"].as_array()?.last()?["content"].as_str()
}

fn reply_to(message: &str) -> String {
    format!("You said: {message}")
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(body: &str) -> (u16, Value) {
        let response = completion(body.as_bytes());
        (response.status, serde_json::from_slice(&response.body).expect("JSON"))
    }

    #[test]
    fn the_last_message_is_repeated_and_its_words_are_counted() {
        let (status, reply) =
            response(r#"{"model": "m", "messages": [{"content": "no"}, {"content": "three \"w\" ö"}]}"#);
        assert_eq!(
            (200, "You said: three \"w\" ö"),
            (status, reply["choices"][0]["message"]["content"].as_str().unwrap_or(""))
        );
        assert_eq!(
            (Some(3), Some(5), Some(8)),
            (
                reply["usage"]["prompt_tokens"].as_u64(),
                reply["usage"]["completion_tokens"].as_u64(),
                reply["usage"]["total_tokens"].as_u64(),
            )
        );
    }

    #[test]
    fn a_request_without_messages_gets_an_error() {
        for body in ["", "{}", r#"{"messages": []}"#, r#"{"messages": [{"content": 7}]}"#] {
            let (status, reply) = response(body);
            assert_eq!(400, status, "{body}");
            assert!(reply["error"]["message"].is_string(), "{body}");
        }
    }
}
