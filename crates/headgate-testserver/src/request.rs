//! The head of a request, parsed in the connection's buffer.

use std::mem::MaybeUninit;

use crate::answer::Persistence;
use crate::received::MAX_FIELDS;
use crate::route::Route;

/// Bytes of a request's head, and of a chunked body's trailers.
pub(crate) const MAX_HEAD_BYTES: usize = 64 * 1024;

/// What of a head matters to the answer; it borrows nothing, so that the buffer may go on.
#[derive(Debug)]
pub(crate) struct Request {
    pub head_bytes: usize,
    pub is_head: bool,
    pub persistence: Persistence,
    pub body: Framing,
    pub expects_continue: bool,
    pub route: Route,
}

/// How the end of a request's body is known (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Empty,
    Length(u64),
    Chunked,
}

/// A request that is not answered as it asked. The connection ends with it: where the next request would begin
/// is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub status: u16,
    pub reason: &'static str,
}

impl Rejection {
    pub const fn bad(reason: &'static str) -> Self {
        Self { status: 400, reason }
    }
}

/// `Ok(None)`: the head is not complete yet.
pub(crate) fn parse(buffer: &[u8]) -> Result<Option<Request>, Rejection> {
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
    let mut body = Framing::Empty;
    let mut expects_continue = false;
    for field in &*parsed.headers {
        // The length sorts out nearly all fields before their names are looked at.
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
                if !matches!(body, Framing::Empty) && body != Framing::Length(length) {
                    return Err(Rejection::bad("the request gives its length twice, and not the same"));
                }
                body = Framing::Length(length);
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                if !matches!(body, Framing::Empty) || !field.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Rejection::bad("the transfer-encoding is not just chunked"));
                }
                body = Framing::Chunked;
            }
            _ => {}
        }
    }
    let is_head = parsed.method == Some("HEAD");
    let route = Route::of(parsed.path.unwrap_or_default());
    Ok(Some(Request { head_bytes, is_head, persistence, body, expects_continue, route }))
}

fn length(value: &[u8]) -> Option<u64> {
    // `parse` alone would take a sign.
    let digits = str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}

fn has_token(value: &[u8], token: &str) -> bool {
    value.split(|byte| *byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(fields: &str) -> Result<Framing, &'static str> {
        let head = format!("POST /x HTTP/1.1\r\n{fields}\r\n");
        match parse(head.as_bytes()) {
            Ok(Some(request)) => Ok(request.body),
            Ok(None) => Err("partial"),
            Err(rejection) => Err(rejection.reason),
        }
    }

    #[test]
    fn the_framing_of_a_body_is_read_as_rfc_9112_says() {
        assert_eq!(Ok(Framing::Empty), framing(""));
        assert_eq!(Ok(Framing::Length(5)), framing("Content-Length: 5\r\n"));
        assert_eq!(Ok(Framing::Length(5)), framing("Content-Length: 5\r\ncontent-length: 5\r\n"));
        assert_eq!(Ok(Framing::Chunked), framing("transfer-encoding: Chunked\r\n"));
    }

    #[test]
    fn a_framing_that_could_be_read_in_two_ways_is_refused() {
        let twice = "the request gives its length twice, and not the same";
        let not_chunked = "the transfer-encoding is not just chunked";
        assert_eq!(Err("the content-length is not a number"), framing("Content-Length: +5\r\n"));
        assert_eq!(Err(twice), framing("Content-Length: 5\r\nContent-Length: 6\r\n"));
        assert_eq!(Err(twice), framing("Transfer-Encoding: chunked\r\nContent-Length: 6\r\n"));
        assert_eq!(Err(not_chunked), framing("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n"));
        assert_eq!(Err(not_chunked), framing("Transfer-Encoding: gzip, chunked\r\n"));
    }

    #[test]
    fn a_connection_lasts_as_its_version_and_its_client_say() {
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
