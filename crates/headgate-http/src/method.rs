//! The method of a request: the row's own, else the run's, else POST if there is a body, and GET if not.

use headgate_core::reason::{Reason, shown};
use headgate_core::row::{Row, RowExtra};
use http::Method;

/// The only list of methods: HEAD, and GET where a server refuses that.
pub const HEAD_OR_GET: &str = "HEAD,GET";

/// The methods of rows that have none of their own.
#[derive(Debug, Clone)]
pub struct Methods {
    of_run: Method,
    /// Whether these are [`HEAD_OR_GET`].
    fall_back: bool,
    /// The method of rows that have a body of their own.
    with_body: Method,
}

impl Methods {
    /// Returns the methods of a run. `option`: the method of all its rows; `None`: a request with a body is a POST, as in
    /// curl.
    ///
    /// # Errors
    /// Returns a message for the user if it is not a method.
    pub fn new(option: Option<&str>, run_has_body: bool) -> Result<Self, Reason> {
        Ok(if let Some(option) = option {
            let method = parse(option)?;
            Self { of_run: method.clone(), with_body: method, fall_back: option == HEAD_OR_GET }
        } else {
            let of_run = if run_has_body { Method::POST } else { Method::GET };
            Self { of_run, with_body: Method::POST, fall_back: false }
        })
    }

    /// Returns the method of rows that consist of a URL only.
    pub fn of_run(&self) -> &Method {
        &self.of_run
    }

    /// Returns the method of a row that has none of its own.
    pub(crate) fn of_row(&self, extra: Option<&RowExtra>) -> &Method {
        if extra.is_some_and(|extra| extra.body.is_some()) { &self.with_body } else { &self.of_run }
    }

    /// Returns the name of a row's method, which may be invalid.
    pub fn name<'a>(&'a self, row: &'a Row) -> &'a str {
        let extra = row.extra.as_deref();
        let own = extra.and_then(|extra| extra.method.as_deref());
        own.map_or_else(|| self.of_row(extra).as_str(), first_of)
    }

    /// Returns whether a row's request is a HEAD that is replaced by a GET where a server refuses it.
    pub fn falls_back(&self, row: &Row) -> bool {
        let own = row.extra.as_deref().and_then(|extra| extra.method.as_deref());
        own.map_or(self.fall_back, |own| own == HEAD_OR_GET)
    }
}

/// Returns whether a method is idempotent (RFC 9110 section 9.2.2).
pub fn is_idempotent(name: &str) -> bool {
    matches!(name, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
}

/// Returns whether this is a method of RFC 9110 or RFC 5789 in the wrong case, which servers treat as another method.
pub fn lacks_capitals(name: &str) -> bool {
    const STANDARD: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
    name.bytes().any(|byte| byte.is_ascii_lowercase())
        && STANDARD.iter().any(|standard| standard.eq_ignore_ascii_case(name))
}

/// Returns whether a response with this status refuses HEAD, and perhaps only that (RFC 9110 sections 15.5.6 and 15.6.2).
pub fn refuses_head(status: u16) -> bool {
    matches!(status, 405 | 501)
}

/// Returns the method that is sent first.
fn first_of(name: &str) -> &str {
    if name == HEAD_OR_GET { Method::HEAD.as_str() } else { name }
}

/// Parses a method; of [`HEAD_OR_GET`], the first.
///
/// # Errors
/// Returns a message for the user if the method can't be sent.
pub fn parse(text: &str) -> Result<Method, Reason> {
    match Method::from_bytes(first_of(text).as_bytes()) {
        Ok(Method::CONNECT) => Err("CONNECT requests a tunnel, which has no result".into()),
        Ok(method) => Ok(method),
        Err(_) => Err(Reason::new("this is not an HTTP method").with(shown(text.as_bytes()))),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn the_same_methods_are_idempotent_as_in_the_http_crate() {
        for name in ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "POST", "PATCH", "LOCK", "get"] {
            assert_eq!(Method::from_bytes(name.as_bytes()).expect("a method").is_idempotent(), is_idempotent(name));
        }
    }

    #[test]
    fn a_standard_method_lacks_capitals_if_it_has_a_small_letter() {
        for (expected, name) in [(true, "get"), (true, "Post"), (true, "patch"), (false, "GET"), (false, "brew")] {
            assert_eq!(expected, lacks_capitals(name), "{name}");
        }
    }

    #[test]
    fn a_request_with_a_body_is_a_post_unless_the_row_or_the_run_has_a_method() {
        let body = || Some(Bytes::from_static(b"x"));
        let empty = || Some(Bytes::new());
        for (expected, option, run_has_body, own, body) in [
            ("GET", None, false, None, None),
            ("POST", None, true, None, None),
            ("POST", None, false, None, body()),
            ("POST", None, false, None, empty()),
            ("PUT", None, false, Some("PUT"), body()),
            ("GET", Some("GET"), false, None, body()),
            ("PATCH", Some("PATCH"), true, None, body()),
            ("DELETE", Some("PATCH"), true, Some("DELETE"), body()),
            ("HEAD", Some("HEAD,GET"), false, None, None),
            ("HEAD", None, false, Some("HEAD,GET"), None),
            ("GET", Some("HEAD,GET"), false, Some("GET"), None),
        ] {
            let methods = Methods::new(option, run_has_body).expect("methods");
            let extra = RowExtra { method: own.map(Into::into), body: body.map(Into::into), ..RowExtra::default() };
            let row = Row { extra: Some(Box::new(extra)), ..Row::new(0, "http://a/") };
            assert_eq!(expected, methods.name(&row));
            assert_eq!(expected == "HEAD", methods.falls_back(&row));
        }
    }

    #[test]
    fn head_and_get_are_the_only_list_of_methods() {
        for list in ["GET,POST", "GET,HEAD", "HEAD,GET,POST", "HEAD, GET", "head,get"] {
            assert!(parse(list).is_err(), "{list}");
        }
        assert_eq!(Some(Method::HEAD), parse(HEAD_OR_GET).ok());
    }
}
