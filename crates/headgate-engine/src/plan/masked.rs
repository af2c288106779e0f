//! A request as it is sent, without its secrets.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use headgate_core::credentials::is_credential;
use headgate_core::options::RequestOptions;
use headgate_core::origin::Origin;
use headgate_core::row::BodyPiece;
use headgate_core::secret::MASK;
use headgate_core::url_user::without_user;
use serde::Serialize;

const HEAD_END: &[u8] = b"\r\n\r\n";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedRequest {
    pub row: u64,
    /// The URL of the input, without a user.
    pub url: String,
    /// The destination: scheme, hostname and port, and what follows the host in the request line.
    pub target: String,
    /// The request line.
    pub line: String,
    /// In the order in which they are sent; bytes that are not UTF-8 are shown as U+FFFD.
    pub headers: Vec<(String, String)>,
    /// The names of headers whose values are omitted.
    pub secret: Vec<String>,
    /// Whether its host gets the credentials of the job, including the client certificate.
    pub gets_credentials: bool,
    /// `None`: there is no body.
    pub body: Option<PlannedBody>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedBody {
    pub bytes: u64,
    /// The body, if it is UTF-8.
    pub text: Option<String>,
    /// The body, if it is not UTF-8.
    pub base64: Option<String>,
    /// Replaces both if parts of the body are in files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pieces: Option<Vec<PlannedPiece>>,
}

/// A piece of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedPiece {
    Text(String),
    Base64(String),
    /// The contents of this file, and their current size.
    File {
        path: String,
        bytes: u64,
    },
}

/// The part of a request that is not written with its header section.
#[derive(Debug)]
pub(super) enum MeasuredBody {
    Bytes(Bytes),
    /// Each piece with its length.
    Pieces(Vec<(BodyPiece, u64)>),
}

impl PlannedRequest {
    /// Returns the request of a row. `wire` is what the worker would write, `rest` what would follow.
    pub(super) fn of(
        (row, url): (u64, &str),
        (origin, gets_credentials): (&Origin, bool),
        (wire, rest): (&[u8], &MeasuredBody),
        options: &RequestOptions,
    ) -> Self {
        let end = memchr::memmem::find(wire, HEAD_END).unwrap_or(wire.len());
        let head = String::from_utf8_lossy(&wire[..end]);
        let mut lines = head.split("\r\n");
        let line = lines.next().unwrap_or_default().to_owned();
        let mut headers: Vec<(String, String)> =
            lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.into(), value.into())).collect();
        let mut secret = Vec::new();
        for (name, value) in headers.iter_mut().filter(|(name, _)| is_credential(name, &options.secret_headers)) {
            MASK.clone_into(value);
            secret.push(name.clone());
        }
        let scheme = if origin.https { "https" } else { "http" };
        let path = line.split(' ').nth(1).unwrap_or_default();
        let body = match rest {
            MeasuredBody::Bytes(rest) => {
                let body = [wire.get(end + HEAD_END.len()..).unwrap_or_default(), rest].concat();
                (!body.is_empty()).then(|| PlannedBody::of(body))
            }
            MeasuredBody::Pieces(pieces) => Some(PlannedBody::of_pieces(pieces)),
        };
        Self {
            row,
            url: without_user(url).into_owned(),
            target: format!("{scheme}://{}{path}", origin.authority()),
            line,
            headers,
            secret,
            gets_credentials,
            body,
        }
    }
}

impl PlannedBody {
    fn of(body: Vec<u8>) -> Self {
        let bytes = body.len() as u64;
        let (text, base64) = match PlannedPiece::of(body) {
            PlannedPiece::Text(text) => (Some(text), None),
            PlannedPiece::Base64(base64) => (None, Some(base64)),
            PlannedPiece::File { .. } => (None, None),
        };
        Self { bytes, text, base64, pieces: None }
    }

    fn of_pieces(pieces: &[(BodyPiece, u64)]) -> Self {
        let bytes = pieces.iter().map(|(_, bytes)| bytes).sum();
        let pieces = pieces.iter().map(|(piece, bytes)| match piece {
            BodyPiece::Bytes(bytes) => PlannedPiece::of(bytes.to_vec()),
            BodyPiece::File(path) | BodyPiece::FileBelow(_, path) => {
                PlannedPiece::File { path: path.display().to_string(), bytes: *bytes }
            }
            BodyPiece::OpenFile(file) => PlannedPiece::File { path: file.name.to_string(), bytes: *bytes },
        });
        Self { bytes, text: None, base64: None, pieces: Some(pieces.collect()) }
    }
}

impl PlannedPiece {
    fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Base64(STANDARD.encode(error.as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use headgate_core::target;
    use serde_json::json;

    use super::*;

    fn masked(wire: &[u8], rest: &[u8]) -> PlannedRequest {
        let url = "https://me:secret@host:81/a?b";
        let options = RequestOptions { secret_headers: vec!["X-Key".into()], ..RequestOptions::default() };
        let origin = target::parse(url).expect("a URL").origin;
        PlannedRequest::of((7, url), (&origin, true), (wire, &MeasuredBody::Bytes(rest.to_vec().into())), &options)
    }

    #[test]
    fn credentials_are_omitted_and_the_rest_is_shown_as_sent() {
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
            gets_credentials: true,
            body: Some(PlannedBody { bytes: 9, text: Some("ab\r\n\r\ncde".into()), base64: None, pieces: None }),
        };
        assert_eq!(expected, masked(wire, b"de"));
    }

    #[test]
    fn a_binary_body_is_shown_in_base64() {
        let body = |rest| masked(b"GET / HTTP/1.1\r\n\r\n", rest).body;
        assert_eq!(None, body(b""));
        assert_eq!(
            Some(PlannedBody { bytes: 2, text: None, base64: Some("/wA=".into()), pieces: None }),
            body(b"\xff\0")
        );
    }

    #[test]
    fn files_are_named_and_the_text_between_them_is_shown() {
        let [text, bytes] = [&b"a=1"[..], b"\xff"].map(|bytes| (BodyPiece::Bytes(bytes.into()), bytes.len() as u64));
        let rest = MeasuredBody::Pieces(vec![text, (BodyPiece::File(Path::new("a/b.png").into()), 1000), bytes]);
        let origin = target::parse("http://host/").expect("a URL").origin;
        let wire = b"POST / HTTP/1.1\r\n\r\n";
        let planned =
            PlannedRequest::of((0, "http://host/"), (&origin, true), (wire, &rest), &RequestOptions::default());
        let body = serde_json::to_value(planned.body).expect("JSON");
        let pieces = json!([{"text": "a=1"}, {"file": {"path": "a/b.png", "bytes": 1000}}, {"base64": "/w=="}]);
        assert_eq!(json!({"bytes": 1004, "text": null, "base64": null, "pieces": pieces}), body);
    }
}
