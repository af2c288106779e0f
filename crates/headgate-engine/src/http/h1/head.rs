//! The head of a response: what it says, and how the body after it is delimited (RFC 9112 sections 4 to 6).
//!
//! `httparse` reads those that keep to the grammar, where they lie. Any other is for `lenient.rs`; what headers mean is
//! decided in `meaning.rs` for both.

use std::mem::MaybeUninit;

use http::Version;

use crate::http::h1::meaning::{Ending, Framing, Meaning};
use crate::model::error::{ErrorKind, Failure};
use crate::model::headers::Headers;
use crate::model::reason::Reason;

/// A head may be this long.
pub const MAX_HEAD_BYTES: usize = 300 * 1024;
/// So many headers are read where they lie.
const MAX_HEADERS: usize = 128;
/// What every response begins with.
pub(super) const PREFIX: &[u8] = b"HTTP/1.";

#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    pub version: Version,
    pub headers: Headers,
    pub framing: Framing,
    /// Whether the connection may be used again after the body.
    pub keep_alive: bool,
    /// It names content codings, if perhaps none that is known.
    pub encoded: bool,
    /// Headers that were left out because they break the grammar.
    pub skipped: u32,
}

/// A head as it lies in what was read.
#[derive(Debug)]
pub struct ParsedHead<'a> {
    pub status: u16,
    pub version: Version,
    pub headers: &'a [httparse::Header<'a>],
    pub framing: Framing,
    pub keep_alive: bool,
    /// As in [`Head`].
    pub encoded: bool,
    /// Bytes of it, the empty line at its end included.
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

/// Where the headers of a head are put while it is parsed.
pub type HeaderRoom<'a> = [MaybeUninit<httparse::Header<'a>>; MAX_HEADERS];

/// Room for the headers of one head.
pub fn header_room<'a>() -> HeaderRoom<'a> {
    [MaybeUninit::uninit(); MAX_HEADERS]
}

/// A head that must be read line by line, or can't be read at all: `lenient.rs` tells.
#[derive(Debug)]
pub struct Unclear;

/// Parses a head that keeps to the grammar at the beginning of `data`, or `None` while it is not whole, and copies nothing.
///
/// # Errors
/// [`Unclear`].
pub fn parse_in_place<'a>(
    data: &'a [u8],
    room: &'a mut HeaderRoom<'a>,
    to_head: bool,
) -> Result<Option<ParsedHead<'a>>, Unclear> {
    // Empty lines before a head are none of the grammar.
    if data.first() != PREFIX.first() {
        return Err(Unclear);
    }
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut response, data, room) {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD_BYTES => length,
        Ok(httparse::Status::Partial) if data.len() <= MAX_HEAD_BYTES => return Ok(None),
        _ => return Err(Unclear),
    };
    let headers = &*response.headers;
    let mut meaning = Meaning::default();
    for header in headers {
        meaning.take(header.name, header.value).map_err(|_| Unclear)?;
    }
    let (status, http_11) = (response.code.unwrap_or_default(), response.version == Some(1));
    let Ending { framing, keep_alive } = meaning.ending(status, to_head, http_11).map_err(|_| Unclear)?;
    let version = if http_11 { Version::HTTP_11 } else { Version::HTTP_10 };
    Ok(Some(ParsedHead { status, version, headers, framing, keep_alive, encoded: meaning.encoded, length }))
}

pub(super) fn protocol(reason: impl Into<Reason>) -> Failure {
    Failure::new(ErrorKind::Protocol, reason)
}
