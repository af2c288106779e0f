//! The head of a response: what it says, and how the body after it is delimited (RFC 9112 sections 4 to 6).
//!
//! Syntax is `httparse`'s. What is decided here is decided strictly, because two readers that disagree on where a response
//! ends can be made to take one's answer for another's (response splitting): contradicting lengths are refused, and
//! whatever is unusual ends the connection after this response.

use std::mem::MaybeUninit;

use http::Version;

use crate::model::error::{ErrorKind, Failure};
use crate::model::headers::Headers;
use crate::model::reason::{Reason, shown};

/// A head may be this long.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
/// A head may have so many headers.
const MAX_HEADERS: usize = 128;
/// What every response begins with.
const PREFIX: &[u8] = b"HTTP/1.";

/// Where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    Empty,
    Length(u64),
    Chunked,
    /// With the connection.
    UntilClose,
}

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
    fn to_head(&self) -> Head {
        let bytes = self.headers.iter().map(|header| header.name.len() + header.value.len()).sum();
        let mut headers = Headers::with_capacity(self.headers.len(), bytes);
        for header in self.headers {
            headers.push(header.name, header.value);
        }
        let Self { status, version, framing, keep_alive, encoded, .. } = *self;
        Head { status, version, headers, framing, keep_alive, encoded }
    }
}

/// Where the headers of a head are put while it is parsed.
pub type HeaderRoom<'a> = [MaybeUninit<httparse::Header<'a>>; MAX_HEADERS];

/// Room for the headers of one head.
pub fn header_room<'a>() -> HeaderRoom<'a> {
    [MaybeUninit::uninit(); MAX_HEADERS]
}

/// What of the headers concerns us.
#[expect(clippy::struct_excessive_bools, reason = "what headers say, each by itself")]
#[derive(Debug, Default)]
struct Meaning {
    content_length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    encoded: bool,
}

/// Parses a head at the beginning of `data`: the head and its length, or `None` while it is not whole.
///
/// # Errors
/// `protocol`: it is no head, contradicts itself, or is too long.
pub fn parse(data: &[u8], to_head: bool) -> Result<Option<(Head, usize)>, Failure> {
    let mut room = header_room();
    let parsed = parse_in_place(data, &mut room, to_head)?;
    Ok(parsed.map(|parsed| (parsed.to_head(), parsed.length)))
}

/// Does what [`parse`] does, and copies nothing.
///
/// # Errors
/// As [`parse`].
pub fn parse_in_place<'a>(
    data: &'a [u8],
    room: &'a mut HeaderRoom<'a>,
    to_head: bool,
) -> Result<Option<ParsedHead<'a>>, Failure> {
    let begin = &data[..data.len().min(PREFIX.len())];
    if *begin != PREFIX[..begin.len()] {
        let reason = Reason::new("the answer is not HTTP/1: it doesn't start with a status line");
        return Err(protocol(reason.with(format!("with {}", shown(data)))));
    }
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut response, data, room) {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD_BYTES => length,
        Ok(httparse::Status::Partial) if data.len() <= MAX_HEAD_BYTES => return Ok(None),
        Ok(_) => return Err(protocol(format!("the head of the response is longer than {MAX_HEAD_BYTES} bytes"))),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(protocol(format!("the response has more than {MAX_HEADERS} headers")));
        }
        Err(error) => return Err(protocol(format!("the head of the response is broken: {error}"))),
    };
    let status = response.code.unwrap_or_default();
    if !(100..=999).contains(&status) {
        return Err(protocol(Reason::new("the status is out of range").with(status.to_string())));
    }
    let headers = &*response.headers;
    let mut meaning = Meaning::default();
    for header in headers {
        meaning.take(header)?;
    }
    let http_11 = response.version == Some(1);
    let framing = framing(status, to_head, http_11, &meaning)?;
    let keep_alive = !meaning.close
        && (http_11 || meaning.keep_alive)
        && framing != Framing::UntilClose
        // Both at once is how responses are smuggled (RFC 9112 section 6.3).
        && !(meaning.chunked && meaning.content_length.is_some())
        // Neither may be there (RFC 9110 section 8.6, RFC 9112 section 6.1); the body it announces may be on its way.
        && !(status == 204 && (meaning.chunked || meaning.content_length.is_some_and(|length| length > 0)));
    let version = if http_11 { Version::HTTP_11 } else { Version::HTTP_10 };
    Ok(Some(ParsedHead { status, version, headers, framing, keep_alive, encoded: meaning.encoded, length }))
}

fn framing(status: u16, to_head: bool, http_11: bool, meaning: &Meaning) -> Result<Framing, Failure> {
    Ok(if to_head || status == 204 || status == 304 || status < 200 {
        Framing::Empty
    } else if meaning.chunked {
        if !http_11 {
            return Err(protocol("a response of HTTP/1.0 can't be chunked"));
        }
        Framing::Chunked
    } else {
        match meaning.content_length {
            Some(0) => Framing::Empty,
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        }
    })
}

impl Meaning {
    fn take(&mut self, header: &httparse::Header<'_>) -> Result<(), Failure> {
        // Most headers are told from ours by their length alone.
        match header.name.len() {
            10 if header.name.eq_ignore_ascii_case("connection") => {
                for option in list(header.value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                for value in list(header.value) {
                    let length = decimal(value).ok_or_else(|| {
                        protocol(Reason::new("the content-length is not a number").with(shown(header.value)))
                    })?;
                    if let Some(other) = self.content_length.filter(|other| *other != length) {
                        let reason = Reason::new("the response has several content-lengths that differ");
                        return Err(protocol(reason.with(format!("{other} and {length}"))));
                    }
                    self.content_length = Some(length);
                }
            }
            16 if header.name.eq_ignore_ascii_case("content-encoding") => self.encoded = true,
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                // No other coding was asked for (there was no TE header), and chunked may be applied once only.
                if self.chunked || !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    let reason = Reason::new("the transfer-encoding is not `chunked`");
                    return Err(protocol(reason.with(shown(header.value))));
                }
                self.chunked = true;
            }
            _ => {}
        }
        Ok(())
    }
}

fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Digits only: no sign, no space, no overflow.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

fn protocol(reason: impl Into<Reason>) -> Failure {
    Failure::new(ErrorKind::Protocol, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(head: &str) -> Result<(u16, Framing, bool), String> {
        match parse(head.as_bytes(), false) {
            Ok(Some((head, _))) => Ok((head.status, head.framing, head.keep_alive)),
            Ok(None) => Err("not whole".into()),
            Err(failure) => Err(failure.reason.to_string()),
        }
    }

    #[test]
    fn the_head_says_where_the_body_ends() {
        for (expected, head) in [
            ((200, Framing::Length(13), true), "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n"),
            (
                (200, Framing::Length(13), true),
                "HTTP/1.1 200 OK\r\nContent-Length: 13\r\ncontent-length: 13,13\r\n\r\n",
            ),
            ((200, Framing::Empty, true), "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
            ((200, Framing::Chunked, true), "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"),
            (
                (200, Framing::Chunked, false),
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
            ),
            ((200, Framing::UntilClose, false), "HTTP/1.1 200 OK\r\n\r\n"),
            ((204, Framing::Empty, true), "HTTP/1.1 204 No Content\r\n\r\n"),
            ((204, Framing::Empty, true), "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"),
            ((204, Framing::Empty, false), "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"),
            ((304, Framing::Empty, true), "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"),
            ((200, Framing::Length(1), false), "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: x, Close\r\n\r\n"),
            ((200, Framing::Length(1), false), "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n"),
            ((200, Framing::Length(1), true), "HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n"),
        ] {
            assert_eq!(Ok(expected), parsed(head), "{head}");
        }
    }

    #[test]
    fn what_contradicts_itself_or_is_no_head_is_refused() {
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
        let long = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "b".repeat(MAX_HEAD_BYTES));
        for (message, head) in [
            (
                "the response has several content-lengths that differ (1 and 2)",
                "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n",
            ),
            ("the content-length is not a number (`-1`)", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
            ("the content-length is not a number (`+1`)", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n"),
            (
                "the content-length is not a number (`18446744073709551616`)",
                "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
            ),
            (
                "the transfer-encoding is not `chunked` (`gzip, chunked`)",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            ),
            (
                "the transfer-encoding is not `chunked` (`chunked`)",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            ),
            ("a response of HTTP/1.0 can't be chunked", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            (
                "the answer is not HTTP/1: it doesn't start with a status line (with `SSH-2.0-OpenSSH\\r\\n`)",
                "SSH-2.0-OpenSSH\r\n",
            ),
            (
                "the answer is not HTTP/1: it doesn't start with a status line (with `HTTP/2 200\\r\\n\\r\\n`)",
                "HTTP/2 200\r\n\r\n",
            ),
            ("the head of the response is broken: invalid header name", "HTTP/1.1 200 OK\r\na : b\r\n\r\n"),
            ("the head of the response is broken: invalid header name", "HTTP/1.1 200 OK\r\na: b\r\n folded\r\n\r\n"),
            ("the status is out of range (99)", "HTTP/1.1 099 Low\r\n\r\n"),
            ("the response has more than 128 headers", &many),
            ("the head of the response is longer than 65536 bytes", &long),
            ("not whole", "HTTP/1.1 200 OK\r\nContent-"),
            ("not whole", "HT"),
        ] {
            assert_eq!(Err(message.to_owned()), parsed(head), "{head:.100}");
        }
    }
}
