//! Forwarding by an HTTP proxy, without a tunnel: `http://` requests get the target in absolute form (RFC 9112 section 3.2.2)
//! and the proxy's credentials.
//!
//! This belongs to the connection, and not to the request: each proxy has its own credentials, and which proxy a request goes
//! to is known when it is sent.

use headgate_core::error::Failure;
use headgate_core::origin::Origin;
use http::HeaderValue;

use crate::dial::proxy::Proxy;
use crate::dial::tunnel::credentials_failure;

/// Only a proxy sends this status (RFC 9110 section 15.5.8).
pub(crate) const PROXY_AUTHENTICATION_REQUIRED: u16 = 407;

/// The additions to requests on a connection to a forwarding proxy.
#[derive(Debug)]
pub struct ProxyForwarding {
    /// The prefix of the path in absolute form (RFC 9112 section 3.2.2).
    origin: Box<str>,
    authorization: Option<HeaderValue>,
    proxy: Box<str>,
    is_only_proxy: bool,
}

impl ProxyForwarding {
    pub(super) fn new(proxy: &Proxy, origin: &Origin, is_only_proxy: bool) -> Self {
        Self {
            origin: format!("http://{}", origin.authority()).into(),
            authorization: proxy.credentials.as_ref().map(|credentials| credentials.basic.clone()),
            proxy: proxy.to_string().into(),
            is_only_proxy,
        }
    }

    /// Returns the request for the proxy; `wire` is the request line, followed by headers.
    pub fn rewrite(&self, wire: &[u8]) -> Vec<u8> {
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

    /// Returns the failure if this status means that the proxy refused the request; otherwise the response may be the host's.
    pub fn refusal(&self, status: u16) -> Option<Failure> {
        if status != PROXY_AUTHENTICATION_REQUIRED {
            return None;
        }
        let mut failure = credentials_failure(status, self.authorization.is_some()).at(&self.proxy);
        // Another proxy may require no credentials.
        failure.is_lasting = self.is_only_proxy;
        Some(failure)
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::target;

    use super::*;

    #[test]
    fn a_proxy_gets_the_absolute_url_and_the_credentials() {
        let wire = b"GET /a?b HTTP/1.1\r\nhost: h:81\r\n\r\nbody\r\n";
        let origin = target::parse("http://h:81/").expect("a URL").origin;
        for (expected, proxy) in [
            ("GET http://h:81/a?b HTTP/1.1\r\nhost: h:81\r\n\r\nbody\r\n", "http://p:1"),
            (
                "GET http://h:81/a?b HTTP/1.1\r\nproxy-authorization: Basic bWU6c2VjcmV0\r\nhost: h:81\r\n\r\nbody\r\n",
                "http://me:secret@p:1",
            ),
        ] {
            let forwarding = ProxyForwarding::new(&Proxy::parse(proxy).expect("a proxy"), &origin, true);
            assert_eq!(expected, String::from_utf8(forwarding.rewrite(wire)).expect("ASCII"));
            assert!(!format!("{forwarding:?}").contains("bWU6"), "{forwarding:?}");
        }
    }
}
