//! The headers of a request as they are sent: in the order and with the capitals in which the user gave them.
//!
//! The case of a name has no meaning (RFC 9110 section 5.1), but some servers accept only one.

use std::fmt;

use headgate_core::credentials::is_credential;
use headgate_core::reason::{Reason, shown};
use headgate_core::secret::MASK;
use http::{HeaderName, HeaderValue};

/// The most headers of a row or a run: servers accept far fewer.
const MAX_OWN_HEADERS: usize = 1000;

/// One header.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HeaderLine {
    pub name: HeaderName,
    /// The name as the user gave it, unless that is all lower case.
    spelled: Option<Box<str>>,
    pub value: HeaderValue,
}

impl fmt::Debug for HeaderLine {
    /// Masks the value, which may be a credential whatever the name is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {MASK}", self.name)
    }
}

impl HeaderLine {
    /// Returns a header that headgate adds itself.
    pub(crate) fn new(name: HeaderName, value: HeaderValue) -> Self {
        Self { name, spelled: None, value }
    }

    /// Returns the name as the user gave it.
    pub(crate) fn spelled(&self) -> &str {
        self.spelled.as_deref().unwrap_or(self.name.as_str())
    }

    pub(crate) fn write(&self, wire: &mut Vec<u8>) {
        self.write_with(self.value.as_bytes(), wire);
    }

    /// Appends the line with another value.
    pub(crate) fn write_with(&self, value: &[u8], wire: &mut Vec<u8>) {
        for piece in [self.spelled().as_bytes(), b": ", value, b"\r\n"] {
            wire.extend_from_slice(piece);
        }
    }
}

/// Checks the names and values of headers that the user gave.
///
/// # Errors
/// Returns a message for the user if a header can't be sent.
pub(crate) fn checked<'a>(pairs: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<Vec<HeaderLine>, Reason> {
    let mut checked = Vec::new();
    for (given, value) in pairs {
        if checked.len() == MAX_OWN_HEADERS {
            return Err(format!("it has more than {MAX_OWN_HEADERS} headers").into());
        }
        let name = parse_name(given)?;
        let mut value = HeaderValue::from_bytes(value).map_err(|_| {
            Reason::new("a header has a character that can't be sent, such as a line break")
                .with(shown(given.as_bytes()))
        })?;
        // HTTP/2 does not add a sensitive value to its header table (RFC 7541 section 7.1.3).
        value.set_sensitive(is_credential(given, &[]));
        let spelled = (name.as_str() != given).then(|| given.into());
        checked.push(HeaderLine { name, spelled, value });
    }
    Ok(checked)
}

/// Parses the name of a header that the user gave.
///
/// # Errors
/// Returns a message for the user if it can't be sent.
pub(crate) fn parse_name(given: &str) -> Result<HeaderName, Reason> {
    HeaderName::from_bytes(given.as_bytes())
        .map_err(|_| Reason::new("a header has a name that can't be sent").with(shown(given.as_bytes())))
}

/// Returns whether one of the lines has this name.
pub(crate) fn contains(lines: &[HeaderLine], name: &HeaderName) -> bool {
    lines.iter().any(|line| line.name == *name)
}

/// Returns `lines` with the lines of `own` instead of those with the same names. The lines of `own` come last, in their order,
/// but a `host` stays the first (RFC 9110 section 7.2).
pub(crate) fn replaced(lines: &[HeaderLine], own: &[HeaderLine]) -> Vec<HeaderLine> {
    let host = own.iter().rfind(|line| line.name == http::header::HOST);
    let kept = lines.iter().filter_map(|line| match host {
        Some(host) if line.name == http::header::HOST => Some(host.clone()),
        _ => (!contains(own, &line.name)).then(|| line.clone()),
    });
    let others = own.iter().filter(|line| line.name != http::header::HOST || !contains(lines, &line.name));
    kept.chain(others.cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pairs: &[(&str, &str)]) -> Vec<HeaderLine> {
        checked(pairs.iter().map(|(name, value)| (*name, value.as_bytes()))).expect("headers")
    }

    fn text(lines: &[HeaderLine]) -> String {
        let mut wire = Vec::new();
        for line in lines {
            line.write(&mut wire);
        }
        String::from_utf8(wire).expect("text")
    }

    #[test]
    fn the_case_order_and_repetitions_of_headers_are_kept() {
        let ours = lines(&[("host", "a"), ("accept", "*/*"), ("x-job", "1")]);
        let own = lines(&[("X-Z", "1"), ("aCCept", "text/html"), ("X-A", "2"), ("x-z", "3")]);
        let expected = "host: a\r\nx-job: 1\r\nX-Z: 1\r\naCCept: text/html\r\nX-A: 2\r\nx-z: 3\r\n";
        assert_eq!(expected, text(&replaced(&ours, &own)));
        assert_eq!(
            "Host: b\r\nX: 1\r\n",
            text(&replaced(&lines(&[("host", "a")]), &lines(&[("X", "1"), ("Host", "b")])))
        );
    }

    #[test]
    fn a_name_or_value_that_would_begin_another_header_is_refused() {
        for (name, value) in [("a b", "c"), ("a:", "b"), ("", "b"), ("a", "b\r\nc: d"), ("a", "b\0")] {
            assert!(checked([(name, value.as_bytes())].into_iter()).is_err(), "{name}: {value}");
        }
    }
}
