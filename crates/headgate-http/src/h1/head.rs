//! The head of a response, and how the body after it is delimited (RFC 9112 sections 4 to 6).
//!
//! `httparse` parses heads that keep to the grammar in place. `lenient.rs` parses all others; `framing.rs` interprets the
//! headers for both.

use std::mem::MaybeUninit;

use headgate_core::error::{ErrorKind, Failure};
use headgate_core::headers::Headers;
use headgate_core::reason::Reason;
use http::Version;

use crate::h1::framing::{Framing, FramingHeaders, ResponseEnd};

/// The most bytes of a head.
pub(crate) const MAX_HEAD_BYTES: usize = 300 * 1024;
/// The most headers that are parsed in place.
const MAX_HEADERS: usize = 128;
/// The prefix of every response.
const PREFIX: &[u8] = b"HTTP/1.";

#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub version: Version,
    pub headers: Headers,
    pub framing: Framing,
    /// The connection can take another request after the body.
    pub keep_alive: bool,
    /// There is a `content-encoding` header, perhaps with an unknown encoding.
    pub encoded: bool,
    /// The number of headers that were skipped because they break the grammar.
    pub skipped: u32,
}

/// A head that borrows from the bytes that were read.
#[derive(Debug)]
pub struct ParsedHead<'a> {
    pub status: u16,
    pub version: Version,
    pub headers: &'a [httparse::Header<'a>],
    pub framing: Framing,
    pub keep_alive: bool,
    /// See [`Head::encoded`].
    pub encoded: bool,
    /// The length of the head in bytes, with the empty line at its end.
    pub length: usize,
}

impl ParsedHead<'_> {
    pub(super) fn to_head(&self) -> Head {
        let bytes = self.headers.iter().map(|header| header.name.len() + header.value.len()).sum();
        let mut headers = Headers::with_capacity(self.headers.len(), bytes);
        for header in self.headers {
            headers.push(header.name, header.value);
        }
        let Self { status, version, framing, keep_alive, encoded, .. } = *self;
        Head { status, version, headers, framing, keep_alive, encoded, skipped: 0 }
    }
}

/// Holds the headers of a head while it is parsed in place.
pub(crate) type HeaderBuffer<'a> = [MaybeUninit<httparse::Header<'a>>; MAX_HEADERS];

/// Returns an empty buffer for the headers of one head.
pub(crate) fn header_buffer<'a>() -> HeaderBuffer<'a> {
    [MaybeUninit::uninit(); MAX_HEADERS]
}

/// The error for a head that `lenient.rs` must parse line by line, or refuse.
#[derive(Debug)]
pub(crate) struct NeedsLenientParser;

/// Parses a head that keeps to the grammar at the beginning of `data` without copying it. Returns `None` while it is
/// incomplete.
///
/// # Errors
/// [`NeedsLenientParser`].
pub(crate) fn parse_in_place<'a>(
    data: &'a [u8],
    buffer: &'a mut HeaderBuffer<'a>,
    to_head: bool,
) -> Result<Option<ParsedHead<'a>>, NeedsLenientParser> {
    // httparse skips empty lines before a head, which the grammar does not allow.
    if data.first() != PREFIX.first() {
        return Err(NeedsLenientParser);
    }
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut response, data, buffer) {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD_BYTES => length,
        Ok(httparse::Status::Partial) if data.len() <= MAX_HEAD_BYTES => return Ok(None),
        _ => return Err(NeedsLenientParser),
    };
    let headers = &*response.headers;
    let mut meaning = FramingHeaders::default();
    for header in headers {
        meaning.add(header.name, header.value).map_err(|_| NeedsLenientParser)?;
    }
    let (status, http_11) = (response.code.unwrap_or_default(), response.version == Some(1));
    let ResponseEnd { framing, keep_alive } =
        meaning.ending(status, to_head, http_11).map_err(|_| NeedsLenientParser)?;
    let version = if http_11 { Version::HTTP_11 } else { Version::HTTP_10 };
    Ok(Some(ParsedHead { status, version, headers, framing, keep_alive, encoded: meaning.encoded, length }))
}

/// Returns whether `data` may be the beginning of a head.
pub(super) fn is_head_start(data: &[u8]) -> bool {
    PREFIX.starts_with(&data[..data.len().min(PREFIX.len())])
}

pub(super) fn protocol(reason: impl Into<Reason>) -> Failure {
    Failure::new(ErrorKind::Protocol, reason)
}
