//! From the text of a URL to where to connect and what to ask for.
//!
//! The rules are those of the WHATWG URL standard (the `url` crate), as browsers have them. Consecutive rows mostly
//! differ in their path alone, so a parser remembers the last origin: where the text before the path is the same
//! and the path needs no normalising, the full parse (some 0.4 µs) is skipped. A property test holds the two
//! ways together.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::uri::PathAndQuery;
use url::Url;

/// Whom connections are made to, and shared by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    pub https: bool,
    pub host: Host,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// In lower case and ASCII (punycode).
    Name(Box<str>),
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl Origin {
    /// The value of the `host` header: without the port where it is the scheme's own (RFC 9110 section 7.2).
    pub fn authority(&self) -> String {
        let host = match &self.host {
            Host::Name(name) => name.to_string(),
            Host::V4(address) => address.to_string(),
            Host::V6(address) => format!("[{address}]"),
        };
        if self.port == if self.https { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }
}

/// Where one request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub origin: Rc<Origin>,
    pub path: PathAndQuery,
    /// From `user:password@` in the URL.
    pub authorization: Option<HeaderValue>,
}

/// Parses URLs; remembers the last origin.
#[derive(Debug, Default)]
pub struct TargetParser {
    last: Option<(Box<str>, Rc<Origin>)>,
}

impl TargetParser {
    /// # Errors
    /// Why the text is no URL that can be fetched, for a person.
    pub fn parse(&mut self, text: &str) -> Result<Target, String> {
        if let Some((prefix, origin)) = &self.last
            && let Some(path) = text.strip_prefix(&**prefix)
            && needs_no_normalising(path.as_bytes())
            && let Ok(path) = PathAndQuery::try_from(path)
        {
            return Ok(Target { origin: origin.clone(), path, authorization: None });
        }
        let target = parse_in_full(text)?;
        if target.authorization.is_none()
            && let Some(end) = authority_end(text)
        {
            self.last = Some((text[..end].into(), target.origin.clone()));
        }
        Ok(target)
    }
}

/// Where the path begins in `scheme://authority/path`.
fn authority_end(text: &str) -> Option<usize> {
    // Not where the text is only forgiven to be a URL (`http:/host`, `http:///host`): there it ends elsewhere.
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"))?;
    let length = rest.find(['/', '?', '#', '\\']).filter(|length| *length > 0)?;
    Some(text.len() - rest.len() + length)
}

/// Whether the path and query stay as they are when parsed: only bytes that no rule touches, no dot segments.
fn needs_no_normalising(path: &[u8]) -> bool {
    if path.first() != Some(&b'/') {
        return false;
    }
    let mut after_slash = false;
    let mut in_query = false;
    for &byte in path {
        match byte {
            b'/' => {
                after_slash = true;
                continue;
            }
            // A segment that begins with a dot, or an escaped one, may be `.` or `..`.
            b'.' | b'%' if after_slash && !in_query => return false,
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'-'
            | b'.'
            | b'_'
            | b'~'
            | b'!'
            | b'$'
            | b'&'
            | b'('
            | b')'
            | b'*'
            | b'+'
            | b','
            | b';'
            | b'='
            | b':'
            | b'@'
            | b'%' => {}
            b'?' => in_query = true,
            _ => return false,
        }
        after_slash = false;
    }
    true
}

fn parse_in_full(text: &str) -> Result<Target, String> {
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => "no absolute URL: it must begin with http:// or https://".to_owned(),
        other => format!("not a URL: {other}"),
    })?;
    let https = match url.scheme() {
        "http" => false,
        "https" => true,
        other => return Err(format!("scheme `{other}` is not supported: only http and https are")),
    };
    let host = match url.host() {
        Some(url::Host::Domain(name)) => Host::Name(name.into()),
        Some(url::Host::Ipv4(address)) => Host::V4(address),
        Some(url::Host::Ipv6(address)) => Host::V6(address),
        None => return Err("the URL has no host".into()),
    };
    let port = url.port_or_known_default().unwrap_or(80);
    if port == 0 {
        return Err("port 0 cannot be connected to".into());
    }
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let path = PathAndQuery::try_from(path).map_err(|error| format!("the path cannot be sent: {error}"))?;
    Ok(Target { origin: Rc::new(Origin { https, host, port }), path, authorization: authorization(&url) })
}

fn authorization(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut credentials = percent_decoded(url.username());
    credentials.push(b':');
    credentials.extend(percent_decoded(url.password().unwrap_or_default()));
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(credentials))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn percent_decoded(text: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(text).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Target, String> {
        TargetParser::default().parse(text)
    }

    #[test]
    fn a_url_becomes_an_origin_and_a_path() {
        for (authority, path, text) in [
            ("example.com", "/", "http://example.com"),
            ("example.com", "/?q=1", "http://EXAMPLE.com:80?q=1#fragment"),
            ("example.com:8443", "/a/c", "https://example.com:8443/a/b/../c"),
            ("[::1]:8080", "/x", "http://[::1]:8080/x"),
            ("127.0.0.1", "/", "http://2130706433/"),
            ("xn--bcher-kva.example", "/%C3%BC", "https://bücher.example/ü"),
        ] {
            let target = parse(text).expect(text);
            assert_eq!((authority, path), (&*target.origin.authority(), target.path.as_str()), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_fetched_is_refused_with_the_reason() {
        for (reason, text) in [
            ("no absolute URL: it must begin with http:// or https://", "example.com/x"),
            ("no absolute URL: it must begin with http:// or https://", ""),
            ("scheme `ftp` is not supported: only http and https are", "ftp://example.com/"),
            ("not a URL: invalid port number", "http://example.com:99999/"),
            ("not a URL: empty host", "http:///"),
            ("port 0 cannot be connected to", "http://example.com:0/"),
        ] {
            assert_eq!(Err(reason.to_owned()), parse(text), "{text}");
        }
    }

    #[test]
    fn credentials_in_the_url_become_basic_authorization() {
        let target = parse("http://Aladdin:open%20sesame@example.com/").expect("valid");
        assert_eq!("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", target.authorization.expect("given"));
    }

    #[test]
    fn a_forgiven_url_does_not_lend_its_host_to_the_next() {
        for (first, second) in [
            ("http:///127.0.0.1:81/first", "http:///other.example/second"),
            ("http:/127.0.0.1:81/a?u=http://b/c", "http:/127.0.0.1:81/a?u=http://b/d"),
            ("http:\\\\127.0.0.1:81/a", "http:\\\\other.example/b"),
        ] {
            let mut parser = TargetParser::default();
            parser.parse(first).expect("forgiven");
            assert_eq!(parse_in_full(second), parser.parse(second), "{second}");
        }
    }

    proptest! {
        #[test]
        fn the_short_way_gives_what_the_full_parse_gives(
            first in "[a-z]{1,5}", path in "/[ -~]{0,20}", odd in "(/|\\.|%2e|%2E|\\?|#|\\\\|a){0,8}",
        ) {
            let mut parser = TargetParser::default();
            parser.parse(&format!("http://{first}.example:81/warm")).expect("valid");
            for text in [format!("http://{first}.example:81{path}"), format!("http://{first}.example:81/{odd}")] {
                prop_assert_eq!(parse_in_full(&text), parser.parse(&text), "{}", text);
            }
        }
    }
}
