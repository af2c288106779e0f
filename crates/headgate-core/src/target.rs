//! Parses URLs: the origin to connect to, and the path to request.
//!
//! The rules are those of the WHATWG URL standard (the `url` crate), as in browsers. Most rows have a known host and a path
//! that is sent unchanged. Then the full parse (some 0.4 µs) is skipped, and only the two halves of the text are checked
//! ([`authority_end`], [`is_plain_path`]).

use http::HeaderValue;
use http::uri::PathAndQuery;
use url::Url;

use crate::authorization::basic;
use crate::limits::HostBy;
use crate::origin::{HostName, Origin};
use crate::origin_set::{OriginPattern, OriginSet};
use crate::public_suffix::is_public_suffix;
use crate::reason::Reason;

/// The longest hostname (RFC 1035 section 2.3.4), with the dot at its end.
const MAX_NAME_BYTES: usize = 254;
/// A longer path is left to the full parse, which may refuse it.
const MAX_PLAIN_PATH_BYTES: usize = 32 * 1024;
/// A longer text before the path is left to the full parse.
const MAX_PREFIX_BYTES: usize = 512;

/// The target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub origin: Origin,
    pub path: PathAndQuery,
    /// The header for `user:password@` in the URL.
    pub authorization: Option<HeaderValue>,
}

/// Returns where the path begins in `scheme://authority/path`; `None` if the text has another form.
pub fn authority_end(text: &str) -> Option<usize> {
    // In a text that is only tolerated as a URL (`http:/host`, `http:///host`), the authority ends elsewhere.
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"))?;
    let length = rest.find(['/', '?', '#', '\\']).filter(|length| *length > 0)?;
    Some(text.len() - rest.len() + length).filter(|end| *end <= MAX_PREFIX_BYTES)
}

/// Returns whether the path and query after the authority are sent unchanged: they have only bytes that no rule changes, and no
/// dot segments. A property test compares this with the full parse.
pub fn is_plain_path(path: &str) -> bool {
    let path = path.as_bytes();
    if path.first() != Some(&b'/') || path.len() > MAX_PLAIN_PATH_BYTES {
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

/// Parses a URL in full: some 0.4 µs.
///
/// # Errors
/// Returns a message for the user if the text is not a URL that can be fetched.
pub fn parse(text: &str) -> Result<Target, Reason> {
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => {
            Reason::new("not an absolute URL: it must start with http:// or https://")
        }
        other => Reason::new(format!("not a URL: {other}")),
    })?;
    let https = match url.scheme() {
        "http" => false,
        "https" => true,
        other => return Err(Reason::new("only URLs of http and https are supported").with(format!("not {other}"))),
    };
    let name = match url.host() {
        Some(url::Host::Domain(name)) if name.len() > MAX_NAME_BYTES => {
            return Err(format!("the hostname is longer than {MAX_NAME_BYTES} bytes").into());
        }
        Some(url::Host::Domain(name)) => HostName::Domain(name.into()),
        Some(url::Host::Ipv4(address)) => HostName::V4(address),
        Some(url::Host::Ipv6(address)) => HostName::V6(address),
        None => return Err("the URL has no host".into()),
    };
    let port = url.port_or_known_default().unwrap_or(80);
    if port == 0 {
        return Err("port 0 can't be connected to".into());
    }
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let path = PathAndQuery::try_from(path).map_err(|error| format!("the path can't be sent: {error}"))?;
    Ok(Target { origin: Origin { https, name, port }, path, authorization: authorization(&url) })
}

/// Parses origins as a user writes them (see [`OriginSet`]).
///
/// # Errors
/// Returns a message for the user if a text is not an origin.
pub fn origin_set(texts: &[String]) -> Result<OriginSet, String> {
    texts.iter().map(|text| origin_pattern(text)).collect()
}

/// Parses one text of [`origin_set`].
///
/// # Errors
/// As [`origin_set`].
pub fn origin_pattern(text: &str) -> Result<OriginPattern, String> {
    if text == "*" {
        return Ok(OriginPattern::Any);
    }
    let parsed = |text: &str| {
        let url = parse(text).ok().filter(|target| target.path == "/" && target.authorization.is_none());
        // A URL may have these after its path; an origin may not.
        url.filter(|_| !text.contains(['?', '#', '@', '*'])).map(|target| target.origin)
    };
    let found = match text.split_once("://*.") {
        None => parsed(text).map(OriginPattern::One),
        Some((scheme, name)) => match parsed(&format!("{scheme}://{name}")) {
            Some(Origin { name: HostName::Domain(name), .. }) if is_public_suffix(name.trim_end_matches('.')) => {
                return Err(format!(
                    "'{text}' would be all hosts of a public suffix: name more of the domain, or use *"
                ));
            }
            Some(above @ Origin { name: HostName::Domain(_), .. }) => Some(OriginPattern::Below(above)),
            _ => None,
        },
    };
    found.ok_or_else(|| {
        format!("'{text}' is not an origin: write https://api.example.com, https://*.example.com, or * for all")
    })
}

/// Returns the key of a host that a user wrote, as [`HostBy`] distinguishes hosts.
///
/// # Errors
/// Returns a message for the user if the text is not such a host.
pub fn host_key(text: &str, by: HostBy) -> Result<Box<str>, String> {
    let key = match by {
        // Brackets belong to an address where a port may follow.
        HostBy::Name | HostBy::Address => parse(&format!("http://{text}/"))
            .or_else(|_| parse(&format!("http://[{text}]/")))
            .ok()
            .filter(|target| target.path == "/" && target.origin.port == 80 && target.authorization.is_none())
            .filter(|target| by == HostBy::Name || !matches!(target.origin.name, HostName::Domain(_)))
            .map(|target| target.origin.key(by)),
        HostBy::Origin => parse(text)
            .ok()
            .filter(|target| target.path == "/" && target.authorization.is_none())
            .map(|target| target.origin.key(by)),
    };
    key.ok_or_else(|| match by {
        HostBy::Name => format!("'{text}' is not the name of a host, such as api.example.com"),
        HostBy::Origin => {
            format!("'{text}' is not an origin, such as https://api.example.com or http://10.0.0.1:8080")
        }
        HostBy::Address => format!("'{text}' is not the address of a host, such as 192.0.2.1"),
    })
}

fn authorization(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut credentials = percent_decoded(url.username());
    credentials.push(b':');
    credentials.extend(percent_decoded(url.password().unwrap_or_default()));
    Some(basic(&credentials))
}

fn percent_decoded(text: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(text).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
    fn a_host_has_the_key_by_which_limits_distinguish_hosts() {
        for (key, by, text) in [
            ("api.example.com", HostBy::Name, "API.example.com"),
            ("xn--bcher-kva.example", HostBy::Name, "bücher.example"),
            ("10.0.0.1", HostBy::Name, "10.0.0.1"),
            ("::1", HostBy::Name, "[::1]"),
            ("::1", HostBy::Address, "0:0::1"),
            ("10.0.0.1", HostBy::Address, "10.0.0.1"),
            ("https://api.example.com", HostBy::Origin, "https://API.example.com:443"),
            ("http://[::1]:8080", HostBy::Origin, "http://[::1]:8080/"),
        ] {
            assert_eq!(Ok(key), host_key(text, by).as_deref(), "{text}");
        }
        for (by, text) in [
            (HostBy::Name, ""),
            (HostBy::Name, "a b"),
            (HostBy::Name, "https://a"),
            (HostBy::Name, "a:8080"),
            (HostBy::Name, "a/b"),
            (HostBy::Name, "me@a"),
            (HostBy::Address, "api.example.com"),
            (HostBy::Origin, "api.example.com"),
            (HostBy::Origin, "https://a/b"),
        ] {
            assert!(host_key(text, by).is_err(), "{text}");
        }
        let refused = host_key("a:8080", HostBy::Name);
        assert_eq!(Err("'a:8080' is not the name of a host, such as api.example.com".into()), refused);
    }

    #[test]
    fn an_origin_is_a_scheme_host_and_port_and_a_wildcard_matches_all_subdomains() {
        let contains = |pattern: &str, url: &str| {
            origin_set(&[pattern.to_owned()]).expect(pattern).contains(&parse(url).expect(url).origin)
        };
        for (expected, pattern, url) in [
            (true, "https://api.example.com", "https://API.example.com:443/x?y"),
            (true, "https://bücher.example", "https://xn--bcher-kva.example/"),
            (true, "http://[::1]:8080", "http://[0:0::1]:8080/"),
            (true, "http://127.0.0.1", "http://2130706433/"),
            (false, "https://api.example.com", "http://api.example.com/"),
            (false, "https://api.example.com", "https://api.example.com:8443/"),
            (false, "https://api.example.com", "https://api.example.com.evil.example/"),
            (false, "https://api.example.com", "https://api.example.com@evil.example/"),
            (true, "https://*.example.com", "https://a.example.com/"),
            (true, "https://*.example.com", "https://a.b.EXAMPLE.com/"),
            (false, "https://*.example.com", "https://example.com/"),
            (false, "https://*.example.com", "https://evilexample.com/"),
            (false, "https://*.example.com", "https://.example.com/"),
            (false, "https://*.example.com", "http://a.example.com/"),
            (false, "https://*.example.com", "https://a.example.com:8443/"),
            (true, "https://*.example.com:8443", "https://a.example.com:8443/"),
            (true, "*", "http://anything/"),
        ] {
            assert_eq!(expected, contains(pattern, url), "{pattern} {url}");
        }
        assert_eq!(
            "https://*.example.com:8443",
            origin_pattern("https://*.Example.com:8443").expect("one").to_string()
        );
    }

    #[test]
    fn a_text_that_is_not_an_origin_is_refused() {
        for text in [
            "",
            "api.example.com",
            "https://api.example.com/v1",
            "https://api.example.com/?",
            "https://me:secret@api.example.com",
            "https://*",
            "https://*example.com",
            "https://a.*.example.com",
            "https://*.*.example.com",
            "https://*.127.0.0.1",
            "ftp://example.com",
            "**",
        ] {
            assert!(origin_pattern(text).is_err(), "{text}");
        }
        for text in ["https://*.com", "https://*.com.", "http://*.localhost", "https://*.co.uk", "https://*.github.io"]
        {
            let refused = origin_pattern(text).expect_err(text);
            assert!(refused.contains("all hosts of a public suffix"), "{refused}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_fetched_is_refused_with_the_reason() {
        for (reason, text) in [
            ("not an absolute URL: it must start with http:// or https://", "example.com/x"),
            ("not an absolute URL: it must start with http:// or https://", ""),
            ("only URLs of http and https are supported (not ftp)", "ftp://example.com/"),
            ("not a URL: invalid port number", "http://example.com:99999/"),
            ("not a URL: empty host", "http:///"),
            ("port 0 can't be connected to", "http://example.com:0/"),
            ("the hostname is longer than 254 bytes", &format!("http://{}/", "a".repeat(255))),
        ] {
            assert_eq!(Err(reason.to_owned()), parse(text).map_err(|reason| reason.to_string()), "{text}");
        }
    }

    #[test]
    fn credentials_in_the_url_become_basic_authorization() {
        let target = parse("http://Aladdin:open%20sesame@example.com/").expect("valid");
        assert_eq!("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", target.authorization.expect("given"));
    }

    /// Returns the two halves of a URL that needs no full parse.
    fn split(text: &str) -> Option<(&str, PathAndQuery)> {
        let (prefix, rest) = text.split_at(authority_end(text)?);
        is_plain_path(rest).then(|| (prefix, PathAndQuery::try_from(rest).expect("it can be sent")))
    }

    #[test]
    fn a_text_that_is_only_tolerated_as_a_url_is_parsed_in_full() {
        for text in ["http:///127.0.0.1:81/first", "http:/127.0.0.1:81/a?u=http://b/c", "http:\\\\127.0.0.1:81/a"] {
            assert_eq!(None, split(text), "{text}");
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn splitting_a_url_gives_the_result_of_the_full_parse(
            host in "[a-z]{1,5}", path in "/[ -~]{0,20}", odd in "(/|\\.|%2e|%2E|\\?|#|\\\\|a){0,8}",
        ) {
            for text in [format!("http://{host}.example:81{path}"), format!("http://{host}.example:81/{odd}")] {
                let Some((prefix, path)) = split(&text) else { continue };
                let whole = parse(&text).expect("valid");
                let origin = parse(&format!("{prefix}/")).expect("valid").origin;
                prop_assert_eq!((whole.origin, whole.path), (origin, path), "{}", text);
            }
        }
    }
}
