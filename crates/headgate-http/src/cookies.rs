//! The cookies of a request: those that the user gave, and those of a cookie jar.

use headgate_core::clock;
use headgate_core::cookie_jar::{CookieUrl, SharedCookieJar};
use headgate_core::origin::Origin;
use headgate_core::redirect_chain::RedirectChain;
use http::HeaderValue;
use http::header::COOKIE;

use crate::header_lines::HeaderLine;

/// Returns the value of the `cookie` header with the cookies that servers have set: those of the client's jar, or if it has
/// none, those of the redirect chain.
pub(crate) fn header(
    jar: Option<&SharedCookieJar>,
    chain: Option<&RedirectChain>,
    origin: &Origin,
    path: &str,
) -> Option<HeaderValue> {
    match (jar, chain) {
        (Some(jar), _) if !jar.is_empty() => jar.header(&CookieUrl::new(origin, path)),
        (None, Some(chain)) if !chain.cookies.is_empty() => {
            chain.cookies.header(&CookieUrl::new(origin, path), clock::system_now())
        }
        _ => None,
    }
}

/// Adds cookies that servers have set to those of the user, which replace them by name: both are sent in one header.
pub(crate) fn add(lines: &mut Vec<HeaderLine>, set: &HeaderValue) {
    let Some(line) = lines.iter_mut().find(|line| line.name == COOKIE) else {
        lines.push(HeaderLine::new(COOKIE, set.clone()));
        return;
    };
    let of_user: Vec<&[u8]> = pairs(&line.value).map(name).collect();
    let added = pairs(set).filter(|pair| !of_user.contains(&name(pair)));
    let all: Vec<&[u8]> = pairs(&line.value).chain(added).collect();
    if let Ok(mut value) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
        value.set_sensitive(true);
        line.value = value;
    }
}

fn pairs(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty())
}

fn name(pair: &[u8]) -> &[u8] {
    pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_of_the_user_and_of_servers_are_sent_in_one_header() {
        for (expected, of_user, set) in [
            ("mine=1; theirs=2", "mine=1", "theirs=2"),
            ("a=1; b=2; c=4", "a=1;b=2;", "a=3; c=4"),
            ("a=1=2; b; c=3", "a=1=2; b", "a=x; b=y; c=3"),
        ] {
            let mut lines = vec![HeaderLine::new(COOKIE, HeaderValue::from_static(of_user))];
            add(&mut lines, &HeaderValue::from_static(set));
            assert_eq!(vec![HeaderLine::new(COOKIE, HeaderValue::from_static(expected))], lines);
        }
    }
}
