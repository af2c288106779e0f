//! URLs that are made of columns. A value can't change the meaning of the URL around it: it is percent-encoded in the user,
//! the path, the query and the fragment. Where no encoding exists (`..` in a path, a hostname), the value is checked.

use std::net::Ipv6Addr;

use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::reason::{Reason, shown};
use headgate_core::row::MAX_URL_BYTES;

use super::cell::{Cell, RenderBuffer, text};
use super::parse::{Placeholder, Template, TemplatePiece};
use super::percent;

const SCHEME_END: &str = "://";

/// A parsed template of URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UrlTemplate {
    begin: UrlStart,
    /// The path and what follows it; begins with what ends the authority, if it is not empty.
    rest: Template,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum UrlStart {
    /// A value that is the beginning of a URL, unchanged.
    Base(Placeholder),
    Parts(Box<Authority>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Authority {
    scheme: Template,
    user: Option<Template>,
    host: Template,
    port: Option<Template>,
}

impl UrlTemplate {
    /// # Errors
    /// The text is not a template of URLs.
    pub(super) fn new(template: &Template) -> Result<Self, Message> {
        if let Some((base, rest)) = base_of(template) {
            return Ok(Self { begin: UrlStart::Base(base), rest });
        }
        let (scheme, after) = template.split_once(SCHEME_END).ok_or(NO_BEGINNING)?;
        let is_scheme = |literal: &str| literal.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match scheme.literal() {
            Some(scheme) if !is_supported(scheme) => return Err(NO_BEGINNING.into()),
            None if !scheme.literals().all(is_scheme) => return Err(NO_BEGINNING.into()),
            _ => {}
        }
        let (authority, rest) = after
            .split_at_first(|literal| literal.find(ENDS_AUTHORITY).map(|at| (at, 0)))
            .unwrap_or_else(|| (after.clone(), Template::default()));
        let (user, host) = match authority.split_once("@") {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if user.as_ref().is_some_and(|user| user.literals().any(|literal| literal != ":")) {
            return Err(message!(
                "a user and password can only be columns here: give fixed ones with ",
                OptionName::User
            ));
        }
        let (host, port) = host_and_port(host);
        if host.literal().is_some_and(is_blank) {
            return Err("the URL has no host".into());
        }
        Ok(Self { begin: UrlStart::Parts(Box::new(Authority { scheme, user, host, port })), rest })
    }

    /// # Errors
    /// Why a row with these values has no valid URL.
    pub(super) fn render(&self, cells: &[Cell<'_>]) -> Result<String, Reason> {
        let mut url = RenderBuffer::new("the URL", MAX_URL_BYTES);
        match &self.begin {
            UrlStart::Base(base) => self.push_base(base, cells, &mut url)?,
            UrlStart::Parts(authority) => authority.push(cells, &mut url)?,
        }
        let mut values = Vec::new();
        self.rest.render(cells, &mut url, |placeholder, value, url| {
            let start = url.bytes.len();
            let is_in_path = !url.bytes.iter().any(|byte| b"?#".contains(byte));
            if value.is_empty() && is_in_path && !placeholder.may_be_empty() {
                let column = &placeholder.column;
                return Err(format!("the column {column:?} is empty, which would change the path").into());
            }
            percent::push(value, url)?;
            values.push((placeholder.column.clone(), start..url.bytes.len()));
            Ok(())
        })?;
        let path_end = url.bytes.iter().position(|byte| b"?#".contains(byte)).unwrap_or(url.bytes.len());
        for (column, range) in values.iter().filter(|(_, range)| range.start <= path_end) {
            let is_slash = |byte: &u8| b"/\\".contains(byte);
            let start = url.bytes[..range.start].iter().rposition(is_slash).map_or(0, |at| at + 1);
            let end = url.bytes[range.end..path_end].iter().position(is_slash).map_or(path_end, |at| range.end + at);
            let mut segment = &url.bytes[start..end];
            // White space at the end of a URL is not part of it.
            while end == url.bytes.len()
                && let [rest @ .., b'\0'..=b' '] = segment
            {
                segment = rest;
            }
            if is_dots(segment) {
                let reason = "can't be part of a path segment that is then . or .., which would change the path";
                return Err(Reason::new(format!("the column {column:?} {reason}")).with(shown(segment)));
            }
        }
        String::from_utf8(url.bytes).map_err(|_| "the URL is not UTF-8".into())
    }

    fn push_base(&self, base: &Placeholder, cells: &[Cell<'_>], url: &mut RenderBuffer) -> Result<(), Reason> {
        let value = text(base, base.bytes(cells)?)?;
        let column = &base.column;
        let after = value.split_once(SCHEME_END).filter(|(scheme, _)| is_supported(scheme)).map(|(_, after)| after);
        let Some(after) = after else {
            return Err(Reason::new(format!(
                "the column {column:?} does not begin with a URL: it has no http:// or https://"
            ))
            .with(shown(value.as_bytes())));
        };
        let end = after.find(ENDS_AUTHORITY);
        if is_blank(&after[..end.unwrap_or(after.len())]) {
            return Err(Reason::new(format!("the column {column:?} does not begin with a URL: it has no host"))
                .with(shown(value.as_bytes())));
        }
        // Otherwise what follows would be part of the host.
        let ends_host = match self.rest.pieces().first() {
            None => true,
            Some(TemplatePiece::Literal(literal)) => literal.starts_with(ENDS_AUTHORITY),
            Some(TemplatePiece::Column(_)) => false,
        };
        if end.is_none() && !ends_host {
            return Err(Reason::new(format!(
                "the column {column:?} has no / behind the host, and what follows would change the host"
            ))
            .with(shown(value.as_bytes())));
        }
        url.push(value.as_bytes())
    }
}

const ENDS_AUTHORITY: [char; 4] = ['/', '?', '#', '\\'];

const NO_BEGINNING: &str =
    "a URL begins with http:// or https://, or with a column that has the beginning of one, as in {base}/items";

fn is_supported(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// Returns whether a text has only line breaks and tabs, which parsers of URLs remove.
fn is_blank(authority: &str) -> bool {
    authority.bytes().all(|byte| b"\t\r\n".contains(&byte))
}

/// Returns the placeholder that a template begins with, unless its value is a scheme.
fn base_of(template: &Template) -> Option<(Placeholder, Template)> {
    let (TemplatePiece::Column(base), rest) = template.pieces().split_first()? else { return None };
    let scheme = template.split_once(SCHEME_END).map(|(scheme, _)| scheme);
    let is_scheme = scheme
        .is_some_and(|scheme| scheme.literals().all(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric())));
    (!is_scheme).then(|| (base.clone(), Template::of(rest)))
}

/// Splits host and port. A colon in brackets is part of an IPv6 address.
fn host_and_port(authority: Template) -> (Template, Option<Template>) {
    let behind_bracket = authority.split_at_first(|literal| literal.find(']').map(|at| (at + 1, 0)));
    let split = match behind_bracket {
        Some((host, port)) => port.strip_prefix(":").map(|port| (host, port)),
        None => authority.split_once(":"),
    };
    match split {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    }
}

impl Authority {
    fn push(&self, cells: &[Cell<'_>], url: &mut RenderBuffer) -> Result<(), Reason> {
        let scheme = raw(&self.scheme, cells)?;
        if !is_supported(&scheme) {
            return Err(Reason::new("only URLs of http and https are supported").with(shown(scheme.as_bytes())));
        }
        url.push(scheme.as_bytes())?;
        url.push(SCHEME_END.as_bytes())?;
        if let Some(user) = &self.user {
            user.render(cells, url, |_, value, url| percent::push(value, url))?;
            url.push(b"@")?;
        }
        let host = raw(&self.host, cells)?;
        if self.host.literal().is_none() && !is_host(&host) {
            return Err(Reason::new("a host of columns is a name or an IP address, and this is neither")
                .with(shown(host.as_bytes())));
        }
        url.push(host.as_bytes())?;
        if let Some(port) = &self.port {
            let digits = raw(port, cells)?;
            if port.literal().is_none() && (digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit())) {
                return Err(
                    Reason::new("a port of columns is a number, and this is not one").with(shown(digits.as_bytes()))
                );
            }
            url.push(b":")?;
            url.push(digits.as_bytes())?;
        }
        Ok(())
    }
}

/// Renders with unencoded values, which are checked afterwards.
fn raw(template: &Template, cells: &[Cell<'_>]) -> Result<String, Reason> {
    let mut out = RenderBuffer::new("the URL", MAX_URL_BYTES);
    template.render(cells, &mut out, |placeholder, value, out| out.push(text(placeholder, value)?.as_bytes()))?;
    String::from_utf8(out.bytes).map_err(|_| "the URL is not UTF-8".into())
}

/// Returns whether a text is an address, or a hostname. The URL parser checks characters beyond ASCII (UTS 46).
fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let is_fit = |character: char| match character {
        '-' | '.' | '_' => true,
        _ if character.is_ascii() => character.is_ascii_alphanumeric(),
        _ => !character.is_control() && !character.is_whitespace(),
    };
    !host.is_empty() && host.chars().all(is_fit)
}

/// Returns whether a path segment is `.` or `..` to a parser (URL standard, "single-dot URL path segment"): also with dots
/// that are percent-encoded, and with line breaks and tabs, which are removed.
fn is_dots(segment: &[u8]) -> bool {
    let mut bytes = segment.iter().filter(|byte| !b"\t\r\n".contains(byte));
    let mut dots = 0;
    loop {
        match bytes.next() {
            None => return matches!(dots, 1 | 2),
            Some(b'.') => {}
            Some(b'%') if bytes.next() == Some(&b'2') && matches!(bytes.next(), Some(b'e' | b'E')) => {}
            Some(_) => return false,
        }
        dots += 1;
    }
}
