//! `user:password@` in the text of a URL, which is neither shown nor stored (RFC 3986 section 3.2.1).

use std::borrow::Cow;
use std::ops::Range;

/// Returns the text without what precedes the host, including the `@`; the text need not be a valid URL.
pub fn without_user(text: &str) -> Cow<'_, str> {
    match user_range(text) {
        None => Cow::Borrowed(text),
        Some(Range { start, end }) => Cow::Owned([&text[..start], &text[end..]].concat()),
    }
}

/// Returns the range of the user, including the `@` after it.
fn user_range(text: &str) -> Option<Range<usize>> {
    // Most URLs have none.
    memchr::memchr(b'@', text.as_bytes())?;
    let start = authority_start(text)?;
    // As in the URL standard for http: a backslash is a slash, and the last `@` counts.
    let end = text[start..].find(['/', '?', '#', '\\']).map_or(text.len(), |length| start + length);
    let at = text[start..end].rfind('@')?;
    Some(start..start + at + 1)
}

fn authority_start(text: &str) -> Option<usize> {
    // The URL standard allows any number of slashes after these, and blanks before them.
    let trimmed = text.trim_start_matches(|letter: char| letter <= ' ');
    let lower = |length| trimmed.get(..length).map(str::to_ascii_lowercase);
    let scheme = ["https:", "http:"].into_iter().find(|scheme| lower(scheme.len()).as_deref() == Some(*scheme));
    let Some(scheme) = scheme else { return text.find("://").map(|at| at + "://".len()) };
    let rest = &trimmed[scheme.len()..];
    Some(text.len() - rest.trim_start_matches(['/', '\\']).len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use url::Url;

    use super::*;

    #[test]
    fn only_the_user_before_the_host_is_removed() {
        for (expected, text) in [
            ("http://host/a", "http://me:secret@host/a"),
            ("HTTPS://host", "HTTPS://me@host"),
            ("http://host/@a?b@c", "http://a@b:c@host/@a?b@c"),
            (" http:host/", " http:me:secret@host/"),
            ("http:\\\\host\\a@b", "http:\\\\me:secret@host\\a@b"),
            ("ftp://host/", "ftp://me:secret@host/"),
            ("http://host/?q=me:secret@other", "http://host/?q=me:secret@other"),
            ("http://host#a@b", "http://host#a@b"),
            ("mailto:me@host", "mailto:me@host"),
            ("@", "@"),
            ("http://é/", "http://ö:ü@é/"),
            ("", ""),
        ] {
            assert_eq!(expected, without_user(text));
        }
    }

    proptest! {
        #[test]
        fn a_url_without_its_user_leads_to_the_same_host(
            text in "[ ]?[hH]ttps?:[/\\\\]{0,3}[a-z:@%/?#\\\\. é]{0,12}@[a-z]{1,3}[/?#a-z@]{0,6}",
        ) {
            let Ok(mut url) = Url::parse(&text) else { return Ok(()) };
            let without = Url::parse(&without_user(&text)).expect("it was a URL before");
            url.set_username("").expect("it has a host");
            url.set_password(None).expect("it has a host");
            prop_assert_eq!(url, without);
        }
    }
}
