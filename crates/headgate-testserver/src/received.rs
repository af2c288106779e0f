//! A request as it was received, over HTTP/1.1 or HTTP/2, for responses that depend on more than its path.

use std::borrow::Cow;

pub(crate) const MAX_FIELDS: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Received {
    pub method: String,
    /// The target of the request line.
    pub target: String,
    /// The headers in their order.
    pub fields: Vec<(String, Vec<u8>)>,
    pub is_secure: bool,
    /// The body; empty if the response does not depend on it.
    pub body: Vec<u8>,
}

impl Received {
    /// Creates a request from the bytes of its request line and headers, which were parsed before.
    pub(crate) fn of(head: &[u8], is_secure: bool) -> Self {
        let mut fields = vec![httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut parsed = httparse::Request::new(&mut fields);
        // This can't fail, since the same bytes were parsed before.
        let _ = parsed.parse(head);
        Self {
            method: parsed.method.unwrap_or_default().to_owned(),
            target: parsed.path.unwrap_or_default().to_owned(),
            fields: parsed.headers.iter().map(|field| (field.name.to_owned(), field.value.to_vec())).collect(),
            is_secure,
            body: Vec::new(),
        }
    }

    /// Returns the value of the first header of that name. Bytes that are not UTF-8 become replacement characters.
    pub(crate) fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        let (_, value) = self.fields.iter().find(|(each, _)| each.eq_ignore_ascii_case(name))?;
        Some(String::from_utf8_lossy(value))
    }

    /// Returns the decoded names and values of the query.
    pub(crate) fn query(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        form_urlencoded::parse(self.target.split_once('?').map_or("", |(_, query)| query).as_bytes())
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        self.query().find_map(|(each, value)| (each == name).then_some(value))
    }

    /// Returns the decoded part of the path after `prefix`.
    pub(crate) fn path_after(&self, prefix: &str) -> String {
        let path = self.target.split_once('?').map_or(&*self.target, |(path, _)| path);
        let rest = path.find(prefix).map_or("", |at| &path[at + prefix.len()..]);
        percent_encoding::percent_decode_str(rest).decode_utf8_lossy().into_owned()
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn host(&self) -> Cow<'_, str> {
        self.field("host").unwrap_or_default()
    }

    /// Returns the scheme and authority by which the client addresses this server.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}", self.field("host").unwrap_or(Cow::Borrowed("localhost")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_values_and_paths_are_decoded() {
        let received = Received::of(b"GET /base64/a%2Fb?url=%2Fx%3Fy&a=1+2&url=z HTTP/1.1\r\nHost: h:1\r\n\r\n", true);
        assert_eq!(Some("/x?y"), received.parameter("url").as_deref());
        assert_eq!(Some("1 2"), received.parameter("a").as_deref());
        assert_eq!(None, received.parameter("b"));
        assert_eq!("a/b", received.path_after("/base64/"));
        assert_eq!("https://h:1", received.origin());
    }
}
