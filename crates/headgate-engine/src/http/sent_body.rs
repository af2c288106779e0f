//! A body as it is sent with its request, and what is said of it.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Method};

use crate::http::body_coding;
use crate::http::header_lines::HeaderLine;
use crate::http::upload;
use crate::model::options::BodyCoding;
use crate::model::reason::{Reason, shown};
use crate::model::row::{BodyPiece, RowBody};

/// What files are that nobody has named (RFC 9110 section 8.3).
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// What of a request is not written with its head.
#[derive(Debug, PartialEq, Eq)]
pub enum Rest {
    /// The end of its body, or nothing.
    Bytes(Bytes),
    /// Its body, of which some is in files; and of the head, [`end_head`] writes the end.
    Files(Arc<[BodyPiece]>),
}

/// Ends the head of a request whose body is so long, as is known when its files have been looked at.
pub fn end_head(body_bytes: u64, wire: &mut Vec<u8>) {
    wire.extend_from_slice(b"content-length: ");
    wire.extend_from_slice(itoa::Buffer::new().format(body_bytes).as_bytes());
    wire.extend_from_slice(b"\r\n\r\n");
}

/// A body as it is sent.
#[derive(Debug, Clone, Default)]
pub struct SentBody {
    pub bytes: Bytes,
    /// In place of `bytes`, where some of it is in files.
    pub files: Option<Arc<[BodyPiece]>>,
    pub coding: Option<BodyCoding>,
    media_type: MediaType,
}

/// What a body is.
#[derive(Debug, Clone)]
enum MediaType {
    Told(HeaderValue),
    /// By its first bytes, for where nobody has said so.
    Guessed(&'static str),
}

impl Default for MediaType {
    fn default() -> Self {
        Self::Guessed(UNKNOWN_TYPE)
    }
}

impl SentBody {
    /// Compresses a body, if that is asked for.
    pub fn new(bytes: Bytes, coding: Option<BodyCoding>) -> Self {
        let media_type = MediaType::Guessed(guessed_type(&bytes));
        match coding.filter(|_| !bytes.is_empty()) {
            None => Self { bytes, files: None, coding: None, media_type },
            Some(coding) => {
                let bytes = body_coding::compressed(&bytes, coding).into();
                Self { bytes, files: None, coding: Some(coding), media_type }
            }
        }
    }

    /// The body that a row brings; `told_type`: what it says that it is.
    ///
    /// # Errors
    /// What of it can't be sent, for a person.
    pub fn of_row(body: RowBody, coding: Option<BodyCoding>, told_type: Option<&str>) -> Result<Self, Reason> {
        let body = match body {
            RowBody::Bytes(bytes) => Self::new(bytes, coding),
            RowBody::Pieces(pieces) => match upload::join(&pieces) {
                Some(bytes) => Self::new(bytes, coding),
                None if coding.is_some() => return Err("a body with files can't be compressed".into()),
                None => Self { files: Some(pieces), ..Self::default() },
            },
        };
        let Some(told) = told_type else { return Ok(body) };
        let told = HeaderValue::try_from(told)
            .map_err(|_| Reason::new("the body's media type can't be sent in a header").with(shown(told.as_bytes())))?;
        Ok(Self { media_type: MediaType::Told(told), ..body })
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.files.is_none()
    }

    /// What is said of it; `is_untyped`: nobody else says what it is.
    pub fn said(&self, method: &Method, is_untyped: bool) -> impl Iterator<Item = HeaderLine> {
        let media_type = match &self.media_type {
            _ if !is_untyped || self.is_empty() => None,
            MediaType::Told(told) => Some(told.clone()),
            MediaType::Guessed(guessed) => (*method == Method::POST).then(|| HeaderValue::from_static(guessed)),
        };
        let coding = self.coding.map(|coding| HeaderValue::from_static(body_coding::name(coding)));
        let [media_type, coding] = [(CONTENT_TYPE, media_type), (CONTENT_ENCODING, coding)]
            .map(|(name, value)| value.map(|value| HeaderLine::new(name, value)));
        media_type.into_iter().chain(coding)
    }
}

/// What a body is that nobody has named: a form, as curl says of all, unless it begins as no form does.
fn guessed_type(body: &[u8]) -> &'static str {
    match body.trim_ascii_start().first() {
        Some(b'{' | b'[') => "application/json",
        _ => "application/x-www-form-urlencoded",
    }
}
