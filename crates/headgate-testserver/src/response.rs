//! Correct responses as bytes.

use std::fmt::Write as _;

use bytes::Bytes;

/// Whether the connection stays open after a response, and the header that states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// HTTP/1.1: the connection stays open without a header.
    Implied,
    /// A client of HTTP/1.0 has requested it: `Connection: keep-alive`.
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

/// A response that is in memory as a whole.
#[derive(Debug)]
pub(crate) struct FullResponse {
    pub status: u16,
    /// The headers as they are written, each with its line end.
    pub fields: String,
    pub body: Bytes,
}

impl FullResponse {
    /// Creates a text response. A status that allows no body (RFC 9110 sections 15.3.5 and 15.4.5) gets none.
    pub(crate) fn new(status: u16, body: impl Into<Bytes>) -> Self {
        let without_body = matches!(status, 204 | 304);
        let body = if without_body { Bytes::new() } else { body.into() };
        let fields = if without_body { String::new() } else { length_fields(body.len() as u64) };
        Self { status, fields, body }
    }

    pub(crate) fn json(body: &serde_json::Value) -> Self {
        let body = Bytes::from(body.to_string());
        let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        Self { status: 200, fields, body }
    }

    pub(crate) fn html(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let fields = format!("Content-Type: text/html\r\nContent-Length: {}\r\n", body.len());
        Self { status: 200, fields, body }
    }

    /// Creates a response whose media type is that of an image.
    pub(crate) fn image(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let fields = format!("Content-Type: image/jpeg\r\nContent-Length: {}\r\n", body.len());
        Self { status: 200, fields, body }
    }

    /// Returns the body in at most `count` pieces of about the same length; for 0, nothing of it.
    pub(crate) fn pieces(&self, count: usize) -> impl Iterator<Item = Bytes> {
        let piece = self.body.len().div_ceil(count.max(1)).max(1);
        let bytes = if count == 0 { 0 } else { self.body.len() };
        (0..bytes).step_by(piece).map(move |start| self.body.slice(start..bytes.min(start + piece)))
    }

    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn with_field(mut self, name: &str, value: &str) -> Self {
        // Writing to a string can't fail.
        let _ = write!(self.fields, "{name}: {value}\r\n");
        self
    }

    pub(crate) fn head(&self, persistence: Persistence) -> Vec<u8> {
        head(self.status, &self.fields, persistence)
    }
}

/// The headers of a text body.
pub(crate) const TEXT_FIELDS: &str = "Content-Type: text/plain\r\n";

/// Returns the headers of a text body of known length.
pub(crate) fn length_fields(bytes: u64) -> String {
    format!("{TEXT_FIELDS}Content-Length: {bytes}\r\n")
}

/// Returns a status line, `fields` (each with its line end), the header for `persistence`, and the empty line.
pub(crate) fn head(status: u16, fields: &str, persistence: Persistence) -> Vec<u8> {
    format!("HTTP/1.1 {status} {}\r\n{fields}{}\r\n", reason(status), persistence.field()).into_bytes()
}

/// A [`FullResponse`] whose status line and headers are already encoded.
#[derive(Debug)]
pub(crate) struct EncodedResponse {
    pub status: u16,
    heads: [Vec<u8>; 3],
    /// The headers for HTTP/2.
    pub fields: http::HeaderMap,
    pub body: Bytes,
}

impl EncodedResponse {
    pub(crate) fn new(response: &FullResponse) -> Self {
        let heads = [Persistence::Implied, Persistence::Stated, Persistence::Close].map(|each| response.head(each));
        Self { status: response.status, heads, fields: field_map(&response.fields), body: response.body.clone() }
    }

    pub(crate) fn head(&self, persistence: Persistence) -> &[u8] {
        &self.heads[persistence as usize]
    }
}

/// Returns headers, each with its line end, for HTTP/2, without those that it does not allow.
pub(crate) fn field_map(fields: &str) -> http::HeaderMap {
    let mut map = http::HeaderMap::new();
    for (name, value) in fields.lines().filter_map(|line| line.split_once(": ")) {
        if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), http::HeaderValue::try_from(value)) {
            map.append(name, value);
        }
    }
    map
}

/// Returns whether a name is valid for a header (RFC 9110 section 5.1).
pub(crate) fn is_name(name: &str) -> bool {
    http::HeaderName::try_from(name).is_ok()
}

/// Returns whether the value stays within its line.
pub(crate) fn is_value(value: &str) -> bool {
    !value.contains(['\r', '\n', '\0'])
}

/// Returns the reason phrase of a status.
pub(crate) fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Other")
}
