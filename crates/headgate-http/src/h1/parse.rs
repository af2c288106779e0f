//! Parses a head, whether it keeps to the grammar or not.

use headgate_core::error::Failure;
use headgate_core::reason::{Reason, shown};

use crate::h1::head::{Head, NeedsLenientParser, header_buffer, is_head_start, parse_in_place, protocol};
use crate::h1::lenient;

/// Parses a head at the beginning of `data`. Returns the head and its length, or `None` while it is incomplete.
///
/// # Errors
/// `protocol`: `data` is not a head, contradicts itself, or is too long.
pub(crate) fn parse(data: &[u8], to_head: bool) -> Result<Option<(Head, usize)>, Failure> {
    if !is_head_start(data) {
        let reason = Reason::new("the response is not HTTP/1: it doesn't start with a status line");
        return Err(protocol(reason.with(format!("with {}", shown(data)))));
    }
    let mut buffer = header_buffer();
    match parse_in_place(data, &mut buffer, to_head) {
        Ok(parsed) => Ok(parsed.map(|parsed| (parsed.to_head(), parsed.length))),
        Err(NeedsLenientParser) => lenient::parse(data, to_head),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::framing::Framing;

    fn parsed(head: &str) -> Result<(u16, Framing, bool), String> {
        match parse(head.as_bytes(), false) {
            Ok(Some((head, _))) => Ok((head.status, head.framing, head.keep_alive)),
            Ok(None) => Err("not whole".into()),
            Err(failure) => Err(failure.reason.to_string()),
        }
    }

    #[test]
    fn the_head_determines_where_the_body_ends() {
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
    fn a_head_that_contradicts_itself_or_breaks_the_grammar_is_refused() {
        for (message, head) in [
            (
                "the response has several content-lengths that differ (status 200, header `Content-Length: 1, 2`)",
                "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n",
            ),
            (
                "the content-length is not a number (status 503, header `Content-Length: -1`)",
                "HTTP/1.1 503 Gone\r\nContent-Length: -1\r\n\r\n",
            ),
            (
                "the content-length is not a number (status 200, header `Content-Length: +1`)",
                "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            ),
            (
                "the content-length is not a number (status 200, header `Content-Length: 18446744073709551616`)",
                "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
            ),
            (
                "the transfer-encoding is not `chunked` (status 200, header `Transfer-Encoding: gzip, chunked`)",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            ),
            (
                "the transfer-encoding is not `chunked` (status 200, header `Transfer-Encoding: chunked`)",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            ),
            (
                "a response of HTTP/1.0 can't be chunked (status 200)",
                "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            ),
            (
                "the response is not HTTP/1: it doesn't start with a status line (with `SSH-2.0-OpenSSH\\r\\n`)",
                "SSH-2.0-OpenSSH\r\n",
            ),
            (
                "the response is not HTTP/1: it doesn't start with a status line (with `HTTP/2 200\\r\\n\\r\\n`)",
                "HTTP/2 200\r\n\r\n",
            ),
            (
                "a header has a carriage return in the middle (status 200, header `a: b\\rc`)",
                "HTTP/1.1 200 OK\r\na: b\rc\r\n\r\n",
            ),
            ("the status is out of range (99)", "HTTP/1.1 099 Low\r\n\r\n"),
            ("not whole", "HTTP/1.1 200 OK\r\nContent-"),
            ("not whole", "HT"),
        ] {
            assert_eq!(Err(message.to_owned()), parsed(head), "{head:.100}");
        }
    }

    #[test]
    fn the_connection_is_closed_after_a_response_to_head_without_a_length() {
        for (expected, head) in [
            (false, "HTTP/1.1 200 OK\r\n\r\n"),
            (true, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
            (true, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            (true, "HTTP/1.1 204 No Content\r\n\r\n"),
            (true, "HTTP/1.1 304 Not Modified\r\n\r\n"),
        ] {
            let (parsed, _) = parse(head.as_bytes(), true).expect("a head").expect("whole");
            assert_eq!((Framing::Empty, expected), (parsed.framing, parsed.keep_alive), "{head}");
        }
    }
}
