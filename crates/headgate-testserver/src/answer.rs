//! Responses that are as they should be, as bytes.

use std::fmt::Write as _;

use bytes::Bytes;

/// What becomes of the connection after an answer, and what the answer says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// HTTP/1.1: stays open, nothing to be said.
    Implied,
    /// HTTP/1.0 asked for it: `Connection: keep-alive`.
    Stated,
    /// `Connection: close`.
    Close,
}

impl Persistence {
    fn field(self) -> &'static str {
        match self {
            Persistence::Implied => "",
            Persistence::Stated => "Connection: keep-alive\r\n",
            Persistence::Close => "Connection: close\r\n",
        }
    }
}

/// An answer that is held whole in memory.
#[derive(Debug)]
pub(crate) struct Answer {
    pub status: u16,
    /// Each with its line end, as they are written.
    pub fields: String,
    pub body: Bytes,
}

impl Answer {
    /// Text by default. A status that allows no body (RFC 9110 sections 15.3.5 and 15.4.5) gets none.
    pub fn new(status: u16, body: impl Into<Bytes>) -> Self {
        let without_body = matches!(status, 204 | 304);
        let body = if without_body { Bytes::new() } else { body.into() };
        let fields = if without_body { String::new() } else { length_fields(body.len() as u64) };
        Self { status, fields, body }
    }

    pub fn json(body: &serde_json::Value) -> Self {
        let body = Bytes::from(body.to_string());
        let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        Self { status: 200, fields, body }
    }

    /// Bytes that are said to be an image.
    pub fn image(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let fields = format!("Content-Type: image/jpeg\r\nContent-Length: {}\r\n", body.len());
        Self { status: 200, fields, body }
    }

    /// The body in so many pieces, or fewer, of about the same length; in none, nothing of it.
    pub fn pieces(&self, count: usize) -> impl Iterator<Item = Bytes> {
        let piece = self.body.len().div_ceil(count.max(1)).max(1);
        let bytes = if count == 0 { 0 } else { self.body.len() };
        (0..bytes).step_by(piece).map(move |start| self.body.slice(start..bytes.min(start + piece)))
    }

    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub fn with_field(mut self, name: &str, value: &str) -> Self {
        // Writing to a string can't fail.
        let _ = write!(self.fields, "{name}: {value}\r\n");
        self
    }

    pub fn head(&self, persistence: Persistence) -> Vec<u8> {
        head(self.status, &self.fields, persistence)
    }
}

/// The fields of a text body.
pub(crate) const TEXT_FIELDS: &str = "Content-Type: text/plain\r\n";

/// As [`TEXT_FIELDS`], of known length.
pub(crate) fn length_fields(bytes: u64) -> String {
    format!("{TEXT_FIELDS}Content-Length: {bytes}\r\n")
}

/// A status line, `fields` (each with its line end), what `persistence` has to say, and the empty line.
pub(crate) fn head(status: u16, fields: &str, persistence: Persistence) -> Vec<u8> {
    format!("HTTP/1.1 {status} {}\r\n{fields}{}\r\n", reason(status), persistence.field()).into_bytes()
}

/// An [`Answer`] with its heads already made.
#[derive(Debug)]
pub(crate) struct ReadyAnswer {
    pub status: u16,
    heads: [Vec<u8>; 3],
    /// As HTTP/2 has it.
    pub fields: http::HeaderMap,
    pub body: Bytes,
}

impl ReadyAnswer {
    pub fn new(answer: &Answer) -> Self {
        let heads = [Persistence::Implied, Persistence::Stated, Persistence::Close].map(|each| answer.head(each));
        Self { status: answer.status, heads, fields: field_map(&answer.fields), body: answer.body.clone() }
    }

    pub fn head(&self, persistence: Persistence) -> &[u8] {
        &self.heads[persistence as usize]
    }
}

/// Fields, each with its line end, for HTTP/2; those that can't be said there are left out.
pub(crate) fn field_map(fields: &str) -> http::HeaderMap {
    let mut map = http::HeaderMap::new();
    for (name, value) in fields.lines().filter_map(|line| line.split_once(": ")) {
        if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), http::HeaderValue::try_from(value)) {
            map.append(name, value);
        }
    }
    map
}

/// Returns whether it is a valid field name (RFC 9110 section 5.1).
pub(crate) fn is_name(name: &str) -> bool {
    http::HeaderName::try_from(name).is_ok()
}

/// Returns whether the value stays within its line.
pub(crate) fn is_value(value: &str) -> bool {
    !value.contains(['\r', '\n', '\0'])
}

/// The phrase of the status.
pub(crate) fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Other")
}
