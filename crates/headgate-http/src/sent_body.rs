//! A body as it is sent with its request, and the headers that describe it.

use bytes::Bytes;
use headgate_core::options::BodyEncoding;
use headgate_core::reason::{Reason, shown};
use headgate_core::row::RowBody;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Method};

use crate::body_encoding;
use crate::header_lines::HeaderLine;
use crate::upload::{self, UploadSource};

/// The media type of files for which the user gave none (RFC 9110 section 8.3).
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// The part of a request that is not written together with its head.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyRest {
    /// The end of the body, or nothing.
    Bytes(Bytes),
    /// A body that is read while it is sent; the caller must write the end of the head with [`end_head`].
    Upload(UploadSource),
}

/// Appends the end of the head of a request, once it is known whether its body has a known length. A body without one is sent
/// in chunks over HTTP/1.1 (RFC 9112 section 7.1); HTTP/2 removes that header.
pub fn end_head(body_bytes: Option<u64>, wire: &mut Vec<u8>) {
    if let Some(body_bytes) = body_bytes {
        wire.extend_from_slice(b"content-length: ");
        wire.extend_from_slice(itoa::Buffer::new().format(body_bytes).as_bytes());
    } else {
        wire.extend_from_slice(b"transfer-encoding: chunked");
    }
    wire.extend_from_slice(b"\r\n\r\n");
}

/// A body as it is sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct SentBody {
    pub bytes: Bytes,
    /// The body instead of `bytes`, if it is read while it is sent.
    pub upload: Option<UploadSource>,
    pub encoding: Option<BodyEncoding>,
    media_type: MediaType,
}

/// The media type of a body.
#[derive(Debug, Clone)]
enum MediaType {
    Given(HeaderValue),
    /// Guessed by the first bytes of the body.
    Guessed(&'static str),
}

impl Default for MediaType {
    fn default() -> Self {
        Self::Guessed(UNKNOWN_TYPE)
    }
}

impl SentBody {
    /// Returns the body, compressed if there is an `encoding`.
    pub(crate) fn new(bytes: Bytes, encoding: Option<BodyEncoding>) -> Self {
        let media_type = MediaType::Guessed(guessed_type(&bytes));
        match encoding.filter(|_| !bytes.is_empty()) {
            None => Self { bytes, upload: None, encoding: None, media_type },
            Some(encoding) => {
                let bytes = body_encoding::compressed(&bytes, encoding).into();
                Self { bytes, upload: None, encoding: Some(encoding), media_type }
            }
        }
    }

    /// Returns the body of a row. `media_type`: its type, if the row has one.
    ///
    /// # Errors
    /// Returns a message for the user if the body or its type can't be sent.
    pub(crate) fn of_row(
        body: RowBody,
        encoding: Option<BodyEncoding>,
        media_type: Option<&str>,
    ) -> Result<Self, Reason> {
        let body = match body {
            RowBody::Bytes(bytes) => Self::new(bytes, encoding),
            RowBody::Pieces(pieces) => match upload::join(&pieces) {
                Some(bytes) => Self::new(bytes, encoding),
                None if encoding.is_some() => return Err("a body with files can't be compressed".into()),
                None => Self { upload: Some(UploadSource::Files(pieces)), ..Self::default() },
            },
            RowBody::Stream(_) if encoding.is_some() => {
                return Err("a body that is a stream can't be compressed: give it as bytes".into());
            }
            RowBody::Stream(stream) => Self { upload: Some(UploadSource::Stream(stream)), ..Self::default() },
        };
        let Some(given) = media_type else { return Ok(body) };
        let value = HeaderValue::try_from(given).map_err(|_| {
            Reason::new("the body's media type can't be sent in a header").with(shown(given.as_bytes()))
        })?;
        Ok(Self { media_type: MediaType::Given(value), ..body })
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.upload.is_none()
    }

    /// Returns the headers that describe the body. `is_untyped`: no other header gives its media type.
    pub(crate) fn headers(&self, method: &Method, is_untyped: bool) -> impl Iterator<Item = HeaderLine> {
        let media_type = match &self.media_type {
            _ if !is_untyped || self.is_empty() => None,
            MediaType::Given(given) => Some(given.clone()),
            MediaType::Guessed(guessed) => (*method == Method::POST).then(|| HeaderValue::from_static(guessed)),
        };
        let encoding = self.encoding.map(|encoding| HeaderValue::from_static(encoding.name()));
        let [media_type, encoding] = [(CONTENT_TYPE, media_type), (CONTENT_ENCODING, encoding)]
            .map(|(name, value)| value.map(|value| HeaderLine::new(name, value)));
        media_type.into_iter().chain(encoding)
    }
}

/// Guesses the media type of a body: JSON if it begins like JSON, and otherwise a form, which curl sends for all bodies.
fn guessed_type(body: &[u8]) -> &'static str {
    match body.trim_ascii_start().first() {
        Some(b'{' | b'[') => "application/json",
        _ => "application/x-www-form-urlencoded",
    }
}
