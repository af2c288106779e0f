//! Translates a request that was written for HTTP/1.1 to HTTP/2: so only one module writes requests.
//!
//! Most requests of a run have the same header bytes: these are translated once.

use bytes::Bytes;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::reason::{Reason, shown};
use http::header::{CONNECTION, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

/// Headers of one connection, which HTTP/2 does not allow (RFC 9113 section 8.2.2).
const CONNECTION_HEADERS: [&str; 3] = ["keep-alive", "proxy-connection", "http2-settings"];

/// Translates requests, and remembers the headers of the last one.
#[derive(Debug, Default)]
pub(crate) struct Translator {
    /// The header lines of the last request in HTTP/1.1.
    lines: Vec<u8>,
    authority: Option<Authority>,
    headers: HeaderMap,
}

impl Translator {
    /// Translates the request in `wire`. Returns its head, and the part of its body in `wire`.
    ///
    /// # Errors
    /// `invalid_request`: the request can't be expressed in HTTP/2.
    pub(crate) fn translate(&mut self, wire: &[u8], is_https: bool) -> Result<(Request<()>, Bytes), Failure> {
        self.try_translate(wire, is_https).map_err(|reason| Failure::new(ErrorKind::InvalidRequest, reason))
    }

    fn try_translate(&mut self, wire: &[u8], is_https: bool) -> Result<(Request<()>, Bytes), Reason> {
        let broken = || Reason::new("the request can't be translated to HTTP/2");
        let line_end = memchr::memchr(b'\n', wire).ok_or_else(broken)?;
        let mut words = wire[..line_end].split(|byte| *byte == b' ');
        let (method, path) = words.next().zip(words.next()).ok_or_else(broken)?;
        let rest = &wire[line_end + 1..];
        let (lines, body) = if let Some(body) = rest.strip_prefix(b"\r\n") {
            (&rest[..0], body)
        } else {
            let end = memchr::memmem::find(rest, b"\r\n\r\n").ok_or_else(broken)?;
            (&rest[..end + 2], &rest[end + 4..])
        };
        if lines != self.lines || self.authority.is_none() {
            self.translate_headers(lines)?;
        }
        let mut parts = Parts::default();
        parts.scheme = Some(if is_https { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority.clone_from(&self.authority);
        parts.path_and_query = Some(PathAndQuery::try_from(path).map_err(|error| broken().with(error.to_string()))?);
        let mut request = Request::new(());
        *request.method_mut() = Method::from_bytes(method).map_err(|error| broken().with(error.to_string()))?;
        *request.uri_mut() = Uri::from_parts(parts).map_err(|error| broken().with(error.to_string()))?;
        request.headers_mut().clone_from(&self.headers);
        Ok((request, Bytes::copy_from_slice(body)))
    }

    fn translate_headers(&mut self, lines: &[u8]) -> Result<(), Reason> {
        self.headers.clear();
        self.authority = None;
        lines.clone_into(&mut self.lines);
        for line in self.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let unsendable = || Reason::new("a header can't be sent over HTTP/2").with(shown(line));
            let colon = memchr::memchr(b':', line).ok_or_else(unsendable)?;
            let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| unsendable())?;
            let value = line[colon + 1..].trim_ascii();
            if name == HOST {
                self.authority = Some(Authority::try_from(value).map_err(|_| unsendable())?);
            } else if !is_connection_header(&name, value) {
                self.headers.append(name, HeaderValue::from_bytes(value).map_err(|_| unsendable())?);
            }
        }
        if self.authority.is_none() {
            return Err("a request over HTTP/2 needs a host".into());
        }
        Ok(())
    }
}

fn is_connection_header(name: &HeaderName, value: &[u8]) -> bool {
    [CONNECTION, TRANSFER_ENCODING, UPGRADE].contains(name)
        || CONNECTION_HEADERS.contains(&name.as_str())
        || *name == TE && !value.eq_ignore_ascii_case(b"trailers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(translator: &mut Translator, wire: &str) -> Result<(Request<()>, Bytes), String> {
        translator.translate(wire.as_bytes(), true).map_err(|failure| failure.reason.to_string())
    }

    #[test]
    fn a_translated_request_differs_only_where_http2_requires_it() {
        let mut translator = Translator::default();
        let head =
            "POST /a?b=c HTTP/1.1\r\nHost: example.com:8443\r\nX-A: 1\r\nConnection: close\r\nTE: gzip\r\nx-a:  2\r\n";
        for body in ["", "one", "two\r\n\r\n"] {
            let (request, sent) = translated(&mut translator, &format!("{head}\r\n{body}")).expect("fine");
            assert_eq!(
                ("POST", "https://example.com:8443/a?b=c"),
                (request.method().as_str(), &*request.uri().to_string())
            );
            let headers: Vec<_> =
                request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
            assert_eq!(vec![("x-a", &b"1"[..]), ("x-a", b"2")], headers);
            assert_eq!(body.as_bytes(), sent);
        }
        let (other, _) = translated(&mut translator, "GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("fine");
        assert_eq!(("https://a/", 0), (&*other.uri().to_string(), other.headers().len()));
    }

    #[test]
    fn a_request_without_a_valid_host_is_refused_each_time() {
        let mut translator = Translator::default();
        for (expected, wire) in [
            ("a request over HTTP/2 needs a host", "GET / HTTP/1.1\r\n\r\n"),
            ("a header can't be sent over HTTP/2 (`host: a b\\r`)", "GET / HTTP/1.1\r\nhost: a b\r\n\r\n"),
        ] {
            for _ in 0..2 {
                assert_eq!(Err(expected.to_owned()), translated(&mut translator, wire).map(drop));
            }
        }
    }
}
