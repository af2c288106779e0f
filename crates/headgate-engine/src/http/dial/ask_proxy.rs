//! How a proxy of HTTP is asked for what is not encrypted: by the whole URL, and with the credentials that are its own.
//!
//! This belongs to the connection, and not to the request: of several proxies each has its own credentials, and which of
//! them a request goes to is known when it is sent.

use http::HeaderValue;

use crate::http::dial::proxy::Proxy;
use crate::http::dial::tunnel::wants_credentials;
use crate::model::error::Failure;
use crate::model::origin::Origin;

/// Only a proxy answers so (RFC 9110 section 15.5.8).
pub const PROXY_WANTS_CREDENTIALS: u16 = 407;

/// What requests over a connection to a proxy have that others have not.
#[derive(Debug)]
pub struct AskProxy {
    /// What comes before the path (RFC 9112 section 3.2.2).
    origin: Box<str>,
    authorization: Option<HeaderValue>,
    proxy: Box<str>,
    is_only_one: bool,
}

impl AskProxy {
    pub(super) fn new(proxy: &Proxy, origin: &Origin, is_only_one: bool) -> Self {
        Self {
            origin: format!("http://{}", origin.authority()).into(),
            authorization: proxy.credentials.as_ref().map(|credentials| credentials.basic.clone()),
            proxy: proxy.to_string().into(),
            is_only_one,
        }
    }

    /// The same request, for a proxy: `wire` begins with a request line, and then come headers.
    pub fn rewritten(&self, wire: &[u8]) -> Vec<u8> {
        let path = memchr::memchr(b' ', wire).map_or(wire.len(), |space| space + 1);
        let headers = memchr::memchr(b'\n', wire).map_or(wire.len(), |end| end + 1);
        let mut rewritten = Vec::with_capacity(wire.len() + self.origin.len() + 128);
        rewritten.extend_from_slice(&wire[..path]);
        rewritten.extend_from_slice(self.origin.as_bytes());
        rewritten.extend_from_slice(&wire[path..headers]);
        if let Some(authorization) = &self.authorization {
            rewritten.extend_from_slice(b"proxy-authorization: ");
            rewritten.extend_from_slice(authorization.as_bytes());
            rewritten.extend_from_slice(b"\r\n");
        }
        rewritten.extend_from_slice(&wire[headers..]);
        rewritten
    }

    /// Why an answer with this status is the proxy's, and says that it did not ask the host; `None`: it may be the host's.
    pub fn refusal(&self, status: u16) -> Option<Failure> {
        if status != PROXY_WANTS_CREDENTIALS {
            return None;
        }
        let mut failure = wants_credentials(status, self.authorization.is_some()).at(&self.proxy);
        // Another proxy may want none.
        failure.is_lasting = self.is_only_one;
        Some(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::target;

    #[test]
    fn a_proxy_is_told_the_whole_url_and_who_asks() {
        let wire = b"GET /a?b HTTP/1.1\r\nhost: h:81\r\n\r\nbody\r\n";
        let origin = target::parse("http://h:81/").expect("a URL").origin;
        for (expected, proxy) in [
            ("GET http://h:81/a?b HTTP/1.1\r\nhost: h:81\r\n\r\nbody\r\n", "http://p:1"),
            (
                "GET http://h:81/a?b HTTP/1.1\r\nproxy-authorization: Basic bWU6c2VjcmV0\r\nhost: h:81\r\n\r\nbody\r\n",
                "http://me:secret@p:1",
            ),
        ] {
            let ask = AskProxy::new(&Proxy::parse(proxy).expect("a proxy"), &origin, true);
            assert_eq!(expected, String::from_utf8(ask.rewritten(wire)).expect("ASCII"));
            assert!(!format!("{ask:?}").contains("bWU6"), "{ask:?}");
        }
    }
}
