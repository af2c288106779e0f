//! Cookies that servers set along a redirect chain, for the next requests of the row (RFC 6265 section 5).
//!
//! Each row has its own cookies, so they need no lock and are dropped with the row. The `cookie` crate parses `Set-Cookie`; the
//! public suffixes, for which no server can set a cookie, are those of the `psl` crate.

use std::time::SystemTime;

use headgate_core::origin::{HostName, Origin};
use headgate_core::redirect_chain::Cookie;
use headgate_core::target::is_public_suffix;
use http::HeaderValue;
use http::header::COOKIE;

use crate::header_lines::HeaderLine;

/// The most cookies of a row, as many as browsers keep for a site (RFC 6265 section 6.1).
const MAX_COOKIES: usize = 50;
/// The most bytes of name, value and attributes together (RFC 6265 section 6.1).
const MAX_COOKIE_BYTES: usize = 4096;

/// Stores or removes the cookie of a `Set-Cookie` header in a response from `origin` and `path`.
pub(crate) fn store(cookies: &mut Vec<Cookie>, set_cookie: &[u8], origin: &Origin, path: &str, now: SystemTime) {
    let text = std::str::from_utf8(set_cookie).ok().filter(|text| text.len() <= MAX_COOKIE_BYTES);
    let Some(set) = text.and_then(|text| cookie::Cookie::parse(text).ok()) else { return };
    let Some(new) = allowed(&set, origin, path) else { return };
    if !origin.https && cookies.iter().any(|old| is_shadowed(&new, old)) {
        return;
    }
    cookies.retain(|old| (&old.name, &old.domain, &old.path) != (&new.name, &new.domain, &new.path));
    let has_expired = match (set.max_age(), set.expires_datetime()) {
        (Some(age), _) => age.whole_seconds() <= 0,
        (None, Some(at)) => SystemTime::from(at) <= now,
        (None, None) => false,
    };
    if !has_expired && cookies.len() < MAX_COOKIES {
        cookies.push(new);
    }
}

/// Returns the cookie as it is stored, if a server of this origin may set it.
fn allowed(set: &cookie::Cookie<'_>, origin: &Origin, path: &str) -> Option<Cookie> {
    let host = host(origin);
    let is_name = matches!(origin.name, HostName::Domain(_));
    let domain = set.domain().filter(|domain| !domain.is_empty()).map(str::to_ascii_lowercase);
    let domain = match domain {
        // A host that is a public suffix itself may set a host-only cookie (RFC 6265 section 5.3 step 5).
        Some(domain) if is_public_suffix(&domain) => {
            if domain != host {
                return None;
            }
            None
        }
        Some(domain) if !is_within(&host, &domain, is_name) => return None,
        domain => domain.filter(|_| is_name),
    };
    let is_secure = set.secure().unwrap_or(false);
    let own_path = set.path().filter(|path| path.starts_with('/'));
    let is_right_for_prefix = if set.name().starts_with("__Host-") {
        is_secure && domain.is_none() && own_path == Some("/")
    } else {
        is_secure || !set.name().starts_with("__Secure-")
    };
    // A server without TLS is not authenticated and must not set cookies for the site with TLS.
    if (is_secure && !origin.https) || !is_right_for_prefix || (set.name().is_empty() && set.value().is_empty()) {
        return None;
    }
    Some(Cookie {
        name: set.name().into(),
        value: set.value().into(),
        is_host_only: domain.is_none(),
        domain: domain.unwrap_or(host).into(),
        path: own_path.unwrap_or_else(|| default_path(path)).into(),
        is_secure,
    })
}

/// Returns whether a cookie set without TLS would replace, remove or hide one that is `Secure` ("leave Secure cookies alone",
/// RFC 6265bis section 5.7).
fn is_shadowed(new: &Cookie, secure: &Cookie) -> bool {
    secure.is_secure
        && secure.name == new.name
        && (is_within(&new.domain, &secure.domain, true) || is_within(&secure.domain, &new.domain, true))
        && is_under(&new.path, &secure.path)
}

/// Returns the value of the `cookie` header with those of these cookies that are sent to a URL.
pub(crate) fn header(cookies: &[Cookie], origin: &Origin, path: &str) -> Option<HeaderValue> {
    let host = host(origin);
    let is_name = matches!(origin.name, HostName::Domain(_));
    let matches_url = |cookie: &&Cookie| {
        let is_domain =
            if cookie.is_host_only { *cookie.domain == host } else { is_within(&host, &cookie.domain, is_name) };
        is_domain && is_under(path, &cookie.path) && (origin.https || !cookie.is_secure)
    };
    let mut sent: Vec<&Cookie> = cookies.iter().filter(matches_url).collect();
    // Longer paths first, and otherwise in the order in which they were set (section 5.4).
    sent.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
    let pairs: Vec<String> = sent.iter().map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
    (!pairs.is_empty()).then(|| HeaderValue::try_from(pairs.join("; ")).ok()).flatten()
}

/// Adds cookies that servers have set to those of the user: both are sent in one header.
pub(crate) fn add(lines: &mut Vec<HeaderLine>, set: &HeaderValue) {
    let Some(line) = lines.iter_mut().find(|line| line.name == COOKIE) else {
        lines.push(HeaderLine::new(COOKIE, set.clone()));
        return;
    };
    if let Ok(both) = HeaderValue::from_bytes(&[line.value.as_bytes(), b"; ", set.as_bytes()].concat()) {
        line.value = both;
    }
}

fn host(origin: &Origin) -> String {
    match &origin.name {
        HostName::Domain(name) => name.trim_end_matches('.').to_ascii_lowercase(),
        HostName::V4(address) => address.to_string(),
        HostName::V6(address) => address.to_string(),
    }
}

/// Returns whether a host domain-matches the domain of a cookie (section 5.1.3).
fn is_within(host: &str, domain: &str, is_name: bool) -> bool {
    host == domain || is_name && host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// Returns whether a path path-matches the path of a cookie (section 5.1.4).
fn is_under(path: &str, of_cookie: &str) -> bool {
    path.strip_prefix(of_cookie)
        .is_some_and(|rest| rest.is_empty() || of_cookie.ends_with('/') || rest.starts_with('/'))
}

/// Returns the directory of a path (section 5.1.4).
fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(end) => &path[..end],
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headgate_core::target;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_780_000_000);

    /// Returns the cookies that are sent to `to` after `from` has set those of `set`.
    fn sent(from: &str, set: &[&str], to: &str) -> Option<String> {
        let mut cookies = Vec::new();
        let at = target::parse(from).expect("a URL");
        for set in set {
            store(&mut cookies, set.as_bytes(), &at.origin, at.path.path(), SystemTime::UNIX_EPOCH + NOW);
        }
        let to = target::parse(to).expect("a URL");
        header(&cookies, &to.origin, to.path.path()).map(|value| value.to_str().expect("text").to_owned())
    }

    #[test]
    fn a_cookie_is_sent_to_the_hosts_and_paths_that_it_was_set_for() {
        for (expected, from, set, to) in [
            (Some("a=1"), "http://h.example/x", &["a=1"][..], "http://h.example/y"),
            (None, "http://h.example/x", &["a=1"], "http://other.example/y"),
            (None, "http://h.example/x", &["a=1"], "http://sub.h.example/"),
            (Some("a=1"), "http://h.example/", &["a=1; Domain=h.example"], "http://sub.h.example/"),
            (Some("a=1"), "http://w.h.example/", &["a=1; Domain=.H.example"], "http://h.example/"),
            (None, "http://h.example/", &["a=1; Domain=other.example"], "http://other.example/"),
            (None, "http://sub.h.example/", &["a=1; Domain=b.h.example"], "http://b.h.example/"),
            (None, "http://nothample.example/", &["a=1; Domain=ample.example"], "http://ample.example/"),
            (Some("a=1"), "http://h.example/d/x", &["a=1"], "http://h.example/d/e"),
            (None, "http://h.example/d/x", &["a=1"], "http://h.example/"),
            (None, "http://h.example/d/x", &["a=1"], "http://h.example/dd"),
            (Some("b=2; a=1"), "http://h.example/", &["a=1; Path=/", "b=2; Path=/d"], "http://h.example/d/e"),
            (None, "http://h.example/", &["a=1; Secure"], "https://h.example/"),
            (Some("a=1"), "https://h.example/", &["a=1; Secure"], "https://h.example/"),
            (None, "https://h.example/", &["a=1; Secure"], "http://h.example/"),
            (Some("a=2"), "http://h.example/", &["a=1", "a=2"], "http://h.example/"),
            (None, "http://h.example/", &["a=1", "a=; Max-Age=0"], "http://h.example/"),
            (None, "http://h.example/", &["a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], "http://h.example/"),
            (Some("a=1"), "http://127.0.0.1/", &["a=1; Domain=127.0.0.1"], "http://127.0.0.1:81/"),
            (None, "http://127.0.0.1/", &["a=1; Domain=0.0.1"], "http://127.0.0.1/"),
        ] {
            assert_eq!(expected, sent(from, set, to).as_deref(), "{from} {set:?} {to}");
        }
    }

    #[test]
    fn rfc6265bis_plain_http_does_not_replace_secure_cookies() {
        let then = |secure: &str, at: &str, plain: &str| {
            let mut cookies = Vec::new();
            for (url, set) in [("https://h.example/", secure), (at, plain)] {
                let at = target::parse(url).expect("a URL");
                store(&mut cookies, set.as_bytes(), &at.origin, at.path.path(), SystemTime::UNIX_EPOCH + NOW);
            }
            let to = target::parse("https://h.example/login/en").expect("a URL");
            header(&cookies, &to.origin, to.path.path()).map(|value| value.to_str().expect("text").to_owned())
        };
        let secure = "a=secure; Secure; Path=/login; Domain=h.example";
        for (expected, at, plain) in [
            ("a=secure", "http://h.example/", "a=plain; Path=/login; Domain=h.example"),
            ("a=secure", "http://h.example/", "a=plain; Path=/login/en"),
            ("a=secure", "http://w.h.example/", "a=plain; Path=/login; Domain=h.example"),
            ("a=secure", "http://h.example/", "a=; Path=/login; Max-Age=0; Domain=h.example"),
            // A different path or name makes a different cookie.
            ("a=secure; a=plain", "http://h.example/", "a=plain; Path=/"),
            ("a=secure; b=plain", "http://h.example/", "b=plain; Path=/login"),
            ("a=plain", "https://h.example/", "a=plain; Path=/login; Domain=h.example"),
        ] {
            assert_eq!(Some(expected), then(secure, at, plain).as_deref(), "{at} {plain}");
        }
    }

    #[test]
    fn a_cookie_for_a_public_suffix_is_refused() {
        assert_eq!(None, sent("http://a.co.uk/", &["a=1; Domain=co.uk"], "http://b.co.uk/"));
        assert_eq!(None, sent("http://me.github.io/", &["a=1; Domain=github.io"], "http://you.github.io/"));
        // A host that is a public suffix can set a cookie only for itself.
        assert_eq!(Some("a=1"), sent("http://github.io/", &["a=1; Domain=github.io"], "http://github.io/").as_deref());
        assert_eq!(None, sent("http://github.io/", &["a=1; Domain=github.io"], "http://you.github.io/"));
    }

    #[test]
    fn a_cookie_with_a_prefix_must_have_the_attributes_of_the_prefix() {
        let at = "https://h.example/";
        for (expected, set) in [
            (false, "__Host-a=1; Path=/"),
            (false, "__Host-a=1; Secure"),
            (false, "__Host-a=1; Secure; Path=/; Domain=h.example"),
            (true, "__Host-a=1; Secure; Path=/"),
            (false, "__Secure-a=1"),
            (true, "__Secure-a=1; Secure"),
        ] {
            assert_eq!(expected, sent(at, &[set], at).is_some(), "{set}");
        }
    }

    #[test]
    fn the_cookies_of_a_row_are_bounded() {
        let many: Vec<String> = (0..100).map(|number| format!("c{number}=1")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let kept = sent("http://h.example/", &many, "http://h.example/").expect("some");
        assert_eq!(MAX_COOKIES, kept.split("; ").count());
        let long = format!("a={}", "x".repeat(MAX_COOKIE_BYTES));
        assert_eq!(None, sent("http://h.example/", &[&long], "http://h.example/"));
    }

    #[test]
    fn cookies_of_the_user_and_of_servers_are_sent_in_one_header() {
        let mut lines = vec![HeaderLine::new(COOKIE, HeaderValue::from_static("mine=1"))];
        add(&mut lines, &HeaderValue::from_static("theirs=2"));
        assert_eq!(vec![HeaderLine::new(COOKIE, HeaderValue::from_static("mine=1; theirs=2"))], lines);
    }
}
