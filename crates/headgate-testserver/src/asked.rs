//! What of a request's head matters to limits and to the log.

use serde::Deserialize;

use crate::helpers::chat;
use crate::request::MAX_FIELDS;

#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// As in the `Host` field.
    pub host: Box<str>,
    /// As in the request line.
    pub target: Box<str>,
    pub idempotency_key: Option<Box<[u8]>>,
    tokens: Option<f64>,
}

impl Asked {
    /// Of a head that was parsed before.
    pub fn of(head: &[u8]) -> Self {
        let mut fields = vec![httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut parsed = httparse::Request::new(&mut fields);
        // It was parsed before, with the same result.
        let _ = parsed.parse(head);
        let field = |name: &str| parsed.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        Self::new(parsed.path.unwrap_or_default(), |name| field(name).map(|field| field.value))
    }

    /// `field` has the value of a field by its name.
    pub fn new<'a>(target: &str, field: impl Fn(&str) -> Option<&'a [u8]>) -> Self {
        let text = |name: &str| field(name).map(String::from_utf8_lossy);
        Self {
            host: text("host").unwrap_or_default().into(),
            target: target.into(),
            idempotency_key: field("idempotency-key").map(Into::into),
            tokens: text("x-tokens").and_then(|text| cost(text.trim().parse().ok()?)),
        }
    }

    /// What the request costs: what its field `X-Tokens` says, or `tokens` of its body in JSON, or what the answer of a model
    /// will say, or the bytes of its body.
    pub fn tokens(&self, body: &[u8]) -> f64 {
        #[derive(Deserialize)]
        struct Cost {
            tokens: f64,
        }
        let said = || serde_json::from_slice::<Cost>(body).ok().and_then(|said| cost(said.tokens));
        let of_model = || (*self.target == *chat::PATH).then(|| chat::total_tokens(body)).flatten();
        self.tokens.or_else(said).unwrap_or_else(|| of_model().unwrap_or(body.len()) as f64)
    }
}

fn cost(tokens: f64) -> Option<f64> {
    Some(tokens).filter(|tokens| tokens.is_finite() && *tokens >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_costs_what_it_says_or_else_its_bytes() {
        let tokens = |fields: &str, body: &str| {
            Asked::of(format!("POST / HTTP/1.1\r\n{fields}\r\n").as_bytes()).tokens(body.as_bytes()).to_string()
        };
        let of_model =
            |body: &str| Asked::of(b"POST /v1/chat/completions HTTP/1.1\r\n\r\n").tokens(body.as_bytes()).to_string();
        let json = r#"{"prompt": "x", "tokens": 40}"#;
        assert_eq!("7.5", tokens("X-Tokens: 7.5\r\n", json));
        assert_eq!("40", tokens("", json));
        assert_eq!("40", tokens("x-tokens: -1\r\n", json));
        assert_eq!("5", tokens("", "Hello"));
        assert_eq!("14", tokens("", r#"{"tokens": -1}"#));
        assert_eq!("0", tokens("", ""));
        let conversation = r#"{"messages": [{"content": "three short words"}]}"#;
        assert_eq!("8", of_model(conversation));
        assert_eq!("48", tokens("", conversation));
        assert_eq!("12", of_model(r#"{"messages"}"#));
    }
}
