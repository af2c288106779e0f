//! A request as it goes on the wire, with what is secret left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::model::credentials::is_credential;
use crate::model::options::RequestOptions;
use crate::model::origin::Origin;
use crate::model::url_user::without_user;

/// What stands for the value of a header that is a credential.
pub const MASK: &str = "***";

const HEAD_END: &[u8] = b"\r\n\r\n";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedRequest {
    pub row: u64,
    /// As the input has it, but for a user.
    pub url: String,
    /// Where it is sent: scheme, name and port, and what follows the host in the request line.
    pub target: String,
    /// The first line.
    pub line: String,
    /// In the order in which they are sent; bytes that are no UTF-8 are shown as U+FFFD.
    pub headers: Vec<(String, String)>,
    /// Names of those whose values are left out.
    pub secret: Vec<String>,
    /// `None`: it has none.
    pub body: Option<Body>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Body {
    pub bytes: u64,
    /// If it is UTF-8.
    pub text: Option<String>,
    /// If it is not.
    pub base64: Option<String>,
}

impl PlannedRequest {
    /// `wire` is what the worker would write, `rest` what of the body would follow.
    pub(super) fn of(
        (row, url): (u64, &str),
        origin: &Origin,
        (wire, rest): (&[u8], &[u8]),
        options: &RequestOptions,
    ) -> Self {
        let end = memchr::memmem::find(wire, HEAD_END).unwrap_or(wire.len());
        let head = String::from_utf8_lossy(&wire[..end]);
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or_default().to_owned();
        let mut headers: Vec<(String, String)> =
            lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.into(), value.into())).collect();
        let mut secret = Vec::new();
        for (name, value) in headers.iter_mut().filter(|(name, _)| is_credential(name, options)) {
            MASK.clone_into(value);
            secret.push(name.clone());
        }
        let scheme = if origin.https { "https" } else { "http" };
        let path = line.split(' ').nth(1).unwrap_or_default();
        let body = [wire.get(end + HEAD_END.len()..).unwrap_or_default(), rest].concat();
        Self {
            row,
            url: without_user(url).into_owned(),
            target: format!("{scheme}://{}{path}", origin.authority()),
            line,
            headers,
            secret,
            body: (!body.is_empty()).then(|| Body::of(body)),
        }
    }
}

impl Body {
    fn of(body: Vec<u8>) -> Self {
        let bytes = body.len() as u64;
        match String::from_utf8(body) {
            Ok(text) => Self { bytes, text: Some(text), base64: None },
            Err(error) => Self { bytes, text: None, base64: Some(STANDARD.encode(error.as_bytes())) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::target;

    fn masked(wire: &[u8], rest: &[u8]) -> PlannedRequest {
        let url = "https://me:secret@host:81/a?b";
        let options = RequestOptions { secret_headers: vec!["X-Key".into()], ..RequestOptions::default() };
        let origin = target::parse(url).expect("a URL").origin;
        PlannedRequest::of((7, url), &origin, (wire, rest), &options)
    }

    #[test]
    fn credentials_are_left_out_and_all_else_is_as_it_is_sent() {
        let wire = b"POST /a?b HTTP/1.1\r\nhost: host:81\r\nAuthorization: secret\r\nx-key: secret\r\n\
            cookie: secret\r\nx-empty: \r\nx-a: b: c\r\n\r\nab\r\n\r\nc";
        let expected = PlannedRequest {
            row: 7,
            url: "https://host:81/a?b".into(),
            target: "https://host:81/a?b".into(),
            line: "POST /a?b HTTP/1.1".into(),
            headers: [
                ("host", "host:81"),
                ("Authorization", MASK),
                ("x-key", MASK),
                ("cookie", MASK),
                ("x-empty", ""),
                ("x-a", "b: c"),
            ]
            .map(|(name, value)| (name.into(), value.into()))
            .into(),
            secret: vec!["Authorization".into(), "x-key".into(), "cookie".into()],
            body: Some(Body { bytes: 9, text: Some("ab\r\n\r\ncde".into()), base64: None }),
        };
        assert_eq!(expected, masked(wire, b"de"));
    }

    #[test]
    fn a_body_that_is_no_text_is_told_in_base64() {
        let body = |rest| masked(b"GET / HTTP/1.1\r\n\r\n", rest).body;
        assert_eq!(None, body(b""));
        assert_eq!(Some(Body { bytes: 2, text: None, base64: Some("/wA=".into()) }), body(b"\xff\0"));
    }
}
