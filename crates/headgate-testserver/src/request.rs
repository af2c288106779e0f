//! Parses the request line and headers in the connection's buffer.

use std::mem::MaybeUninit;

use crate::received::MAX_FIELDS;
use crate::response::Persistence;
use crate::route::RequestRoute;

/// The bound of a request line with headers, and of a chunked body's trailers.
pub(crate) const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The part of a request on which the response depends. It borrows nothing from the buffer, which can then be reused.
#[derive(Debug)]
pub(crate) struct ParsedRequest {
    pub head_bytes: usize,
    pub is_head: bool,
    pub persistence: Persistence,
    pub body: RequestFraming,
    pub expects_continue: bool,
    pub route: RequestRoute,
}

/// How the end of a request's body is known (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestFraming {
    Empty,
    Length(u64),
    Chunked,
}

/// Why a request is invalid. The connection ends with it, since the start of the next request is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub status: u16,
    pub reason: &'static str,
}

impl Rejection {
    pub(crate) const fn bad(reason: &'static str) -> Self {
        Self { status: 400, reason }
    }
}

/// Parses a request; returns `None` until its headers are complete.
pub(crate) fn parse(buffer: &[u8]) -> Result<Option<ParsedRequest>, Rejection> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut []);
    let head_bytes = match parsed.parse_with_uninit_headers(buffer, &mut fields) {
        Ok(httparse::Status::Complete(head_bytes)) if head_bytes <= MAX_HEAD_BYTES => head_bytes,
        Ok(httparse::Status::Partial) if buffer.len() < MAX_HEAD_BYTES => return Ok(None),
        Ok(_) => return Err(Rejection { status: 431, reason: "the head of the request is longer than 64 KiB" }),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Rejection { status: 431, reason: "the request has more than 256 header fields" });
        }
        Err(_) => return Err(Rejection::bad("the head of the request is not HTTP/1.1")),
    };

    let is_http_10 = parsed.version == Some(0);
    let mut persistence = if is_http_10 { Persistence::Close } else { Persistence::Implied };
    let mut body = RequestFraming::Empty;
    let mut expects_continue = false;
    for field in &*parsed.headers {
        // The length excludes nearly all headers before their names are compared.
        match field.name.len() {
            6 if field.name.eq_ignore_ascii_case("expect") => expects_continue = has_token(field.value, "100-continue"),
            10 if field.name.eq_ignore_ascii_case("connection") => {
                if has_token(field.value, "close") {
                    persistence = Persistence::Close;
                } else if is_http_10 && has_token(field.value, "keep-alive") {
                    persistence = Persistence::Stated;
                }
            }
            14 if field.name.eq_ignore_ascii_case("content-length") => {
                let length = length(field.value).ok_or(Rejection::bad("the content-length is not a number"))?;
                if !matches!(body, RequestFraming::Empty) && body != RequestFraming::Length(length) {
                    return Err(Rejection::bad("the request gives its length twice, and not the same"));
                }
                body = RequestFraming::Length(length);
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                if !matches!(body, RequestFraming::Empty) || !field.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Rejection::bad("the transfer-encoding is not just chunked"));
                }
                body = RequestFraming::Chunked;
            }
            _ => {}
        }
    }
    let is_head = parsed.method == Some("HEAD");
    let route = RequestRoute::of(parsed.path.unwrap_or_default());
    Ok(Some(ParsedRequest { head_bytes, is_head, persistence, body, expects_continue, route }))
}

fn length(value: &[u8]) -> Option<u64> {
    // `parse` alone would accept a sign.
    let digits = str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}

fn has_token(value: &[u8], token: &str) -> bool {
    value.split(|byte| *byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(fields: &str) -> Result<RequestFraming, &'static str> {
        let head = format!("POST /x HTTP/1.1\r\n{fields}\r\n");
        match parse(head.as_bytes()) {
            Ok(Some(request)) => Ok(request.body),
            Ok(None) => Err("partial"),
            Err(rejection) => Err(rejection.reason),
        }
    }

    #[test]
    fn the_framing_of_a_body_follows_rfc_9112() {
        assert_eq!(Ok(RequestFraming::Empty), framing(""));
        assert_eq!(Ok(RequestFraming::Length(5)), framing("Content-Length: 5\r\n"));
        assert_eq!(Ok(RequestFraming::Length(5)), framing("Content-Length: 5\r\ncontent-length: 5\r\n"));
        assert_eq!(Ok(RequestFraming::Chunked), framing("transfer-encoding: Chunked\r\n"));
    }

    #[test]
    fn ambiguous_framing_is_refused() {
        let twice = "the request gives its length twice, and not the same";
        let not_chunked = "the transfer-encoding is not just chunked";
        assert_eq!(Err("the content-length is not a number"), framing("Content-Length: +5\r\n"));
        assert_eq!(Err(twice), framing("Content-Length: 5\r\nContent-Length: 6\r\n"));
        assert_eq!(Err(twice), framing("Transfer-Encoding: chunked\r\nContent-Length: 6\r\n"));
        assert_eq!(Err(not_chunked), framing("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n"));
        assert_eq!(Err(not_chunked), framing("Transfer-Encoding: gzip, chunked\r\n"));
    }

    #[test]
    fn persistence_depends_on_the_version_and_the_client() {
        let cases = [
            ("1.1", "", Persistence::Implied),
            ("1.1", "Connection: close\r\n", Persistence::Close),
            ("1.1", "connection: x, Close\r\n", Persistence::Close),
            ("1.1", "Connection: keep-alive\r\n", Persistence::Implied),
            ("1.0", "", Persistence::Close),
            ("1.0", "Connection: Keep-Alive\r\n", Persistence::Stated),
        ];
        for (version, fields, expected) in cases {
            let head = format!("GET / HTTP/{version}\r\n{fields}\r\n");
            let request = parse(head.as_bytes()).expect("sound").expect("whole");
            assert_eq!(expected, request.persistence, "{head}");
        }
    }
}
