//! Which method a request has: the row's own, else the run's, else what its body says.

use http::Method;

use crate::model::reason::{Reason, shown};
use crate::model::row::{Row, RowExtra};

/// The methods of rows that name none.
#[derive(Debug, Clone)]
pub struct Methods {
    of_run: Method,
    /// Of a row that brings a body.
    with_body: Method,
}

impl Methods {
    /// What the run asks for; `None`: a body makes it a POST, as in curl.
    ///
    /// # Errors
    /// Why it is no method, for a person.
    pub fn new(asked: Option<&str>, run_has_body: bool) -> Result<Self, Reason> {
        Ok(if let Some(asked) = asked {
            let asked = parse(asked)?;
            Self { of_run: asked.clone(), with_body: asked }
        } else {
            Self { of_run: if run_has_body { Method::POST } else { Method::GET }, with_body: Method::POST }
        })
    }

    /// Of rows that are a URL and nothing else.
    pub fn of_run(&self) -> &Method {
        &self.of_run
    }

    /// Of a row that names none.
    pub fn of_row(&self, extra: Option<&RowExtra>) -> &Method {
        if extra.is_some_and(|extra| extra.body.is_some()) { &self.with_body } else { &self.of_run }
    }

    /// The method of a row by its name, which may be none that can be sent.
    pub fn name<'a>(&'a self, row: &'a Row) -> &'a str {
        let extra = row.extra.as_deref();
        let own = extra.and_then(|extra| extra.method.as_deref());
        own.unwrap_or_else(|| self.of_row(extra).as_str())
    }
}

/// Whether asking twice does no more than asking once (RFC 9110 section 9.2.2), by the name of the method.
pub fn is_idempotent(name: &str) -> bool {
    matches!(name, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
}

/// Whether it is a method of RFC 9110 or RFC 5789 but for capitals: servers take it for another one.
pub fn lacks_capitals(name: &str) -> bool {
    const STANDARD: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
    name.bytes().any(|byte| byte.is_ascii_lowercase())
        && STANDARD.iter().any(|standard| standard.eq_ignore_ascii_case(name))
}

/// # Errors
/// Why it is no method that can be sent, for a person.
pub fn parse(text: &str) -> Result<Method, Reason> {
    match Method::from_bytes(text.as_bytes()) {
        Ok(Method::CONNECT) => Err("CONNECT asks for a tunnel, which has no result".into()),
        Ok(method) => Ok(method),
        Err(_) => Err(Reason::new("this is not an HTTP method").with(shown(text.as_bytes()))),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn those_methods_are_idempotent_that_http_says_are() {
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
    fn a_body_makes_a_post_where_neither_the_row_nor_the_run_names_a_method() {
        let body = || Some(Bytes::from_static(b"x"));
        let empty = || Some(Bytes::new());
        for (expected, asked, run_has_body, own, body) in [
            ("GET", None, false, None, None),
            ("POST", None, true, None, None),
            ("POST", None, false, None, body()),
            ("POST", None, false, None, empty()),
            ("PUT", None, false, Some("PUT"), body()),
            ("GET", Some("GET"), false, None, body()),
            ("PATCH", Some("PATCH"), true, None, body()),
            ("DELETE", Some("PATCH"), true, Some("DELETE"), body()),
        ] {
            let methods = Methods::new(asked, run_has_body).expect("methods");
            let extra = RowExtra { method: own.map(Into::into), body: body.map(Into::into), ..RowExtra::default() };
            let row = Row { extra: Some(Box::new(extra)), ..Row::new(0, "http://a/") };
            assert_eq!(expected, methods.name(&row));
        }
    }
}
