//! Where a redirect leads, and what goes along (RFC 9110 section 15.4, Fetch standard "HTTP-redirect fetch").
//!
//! Pure: an answer and the row's way so far go in, the way from there comes out. Who has left the scheme, host or port that
//! the row named is *foreign* from then on: no credential is sent any more, also where a later redirect leads back.

use std::time::SystemTime;

use http::Method;
use url::Url;

use crate::http::cookies;
use crate::http::target;
use crate::model::error::{ErrorKind, Failure};
use crate::model::headers::Headers;
use crate::model::message::OptionName;
use crate::model::options::RequestOptions;
use crate::model::reason::{Reason, shown};
use crate::model::row::{MAX_URL_BYTES, Row};
use crate::model::trail::{Hop, Trail};
use crate::model::url_user::without_user;

/// Of a row, the URLs of redirects that are kept: all rows in flight have them in memory.
const MAX_KEPT_BYTES: usize = 128 * 1024;

/// What is done about redirects; by default, nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Redirects {
    /// How many are followed; 0: none, they are answers.
    max: u32,
    keep: bool,
    cookies: bool,
}

impl Redirects {
    pub fn new(options: &RequestOptions) -> Self {
        let RequestOptions { max_redirects, keep_redirects, cookies, .. } = options;
        Self { max: *max_redirects, keep: *keep_redirects, cookies: *cookies }
    }

    /// Of robots.txt (RFC 9309 section 2.3.1.2).
    pub fn of_robots() -> Self {
        Self { max: 5, keep: false, cookies: false }
    }

    /// As they are followed for this row.
    #[must_use]
    pub fn of(&self, row: &Row) -> Self {
        let own = row.own().and_then(|own| own.max_redirects);
        Self { max: own.unwrap_or(self.max), ..*self }
    }

    /// Whether an answer with this status may lead on.
    pub fn may_lead_on(&self, status: u16) -> bool {
        matches!(status, 301 | 302 | 303 | 307 | 308) && self.max > 0
    }

    /// Whether this answer does.
    pub fn lead_on(&self, status: u16, headers: &Headers) -> bool {
        self.may_lead_on(status) && headers.get_all("location").any(|location| !location.trim_ascii().is_empty())
    }

    /// Where an answer leads; `None`: nowhere, it is the row's answer. `method` is what it answers.
    ///
    /// # Errors
    /// `protocol`: that is no place where one could go. `too_many_redirects`.
    pub fn follow(
        &self,
        row: &Row,
        method: &str,
        status: u16,
        headers: &Headers,
        now: SystemTime,
    ) -> Result<Option<Box<Trail>>, Failure> {
        if !self.lead_on(status, headers) {
            return Ok(None);
        }
        let location = location(headers)?;
        let trouble = |what: &str| broken(Reason::new(what.to_owned()), location);
        let base = Url::parse(row.target()).map_err(|_| trouble("the redirect has no base"))?;
        let mut url =
            base.join(&text(location)).map_err(|error| trouble(&format!("the redirect leads to no URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(trouble("the redirect leads to a URL that is neither http nor https"));
        }
        url.set_fragment(None);
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(trouble(&format!("the redirect leads to a URL of more than {MAX_URL_BYTES} bytes")));
        }
        let there = target::parse(url.as_str())
            .map_err(|reason| trouble(&format!("the redirect leads to no URL: {reason}")))?;
        let here = target::parse(row.target()).map_err(|reason| broken(reason, location))?;
        let mut trail = row.trail().cloned().unwrap_or_default();
        trail.count += 1;
        if self.cookies {
            for set in headers.get_all("set-cookie") {
                cookies::take(&mut trail.cookies, set, &here.origin, here.path.path(), now);
            }
        }
        let shown_url = without_user(url.as_str()).into_owned();
        if self.keep {
            trail.hops.push(Hop { status, location: shown_url.as_str().into() });
        }
        if trail.count > self.max {
            let reason = Reason::new(format!("there were more than {} redirects", self.max)).with(shown_url);
            return Err(Failure::new(ErrorKind::TooManyRedirects, reason)
                .with_option(OptionName::MaxRedirects)
                .lasting());
        }
        if trail.hops.iter().map(|hop| hop.location.len()).sum::<usize>() > MAX_KEPT_BYTES {
            let reason = format!("there were redirects of more than {MAX_KEPT_BYTES} bytes together");
            let failure = Failure::new(ErrorKind::TooManyRedirects, reason);
            return Err(failure.with_option(OptionName::KeepRedirects).lasting());
        }
        trail.is_foreign |= there.origin != here.origin;
        if let Some(method) = changed_method(status, method) {
            trail.method = Some(method.as_str().into());
        }
        if there.origin == here.origin && url.username().is_empty() && url.password().is_none() {
            // The user of a URL is the user of its origin.
            let _ = url.set_username(base.username()).and_then(|()| url.set_password(base.password()));
        }
        trail.url = String::from(url).into();
        Ok(Some(Box::new(trail)))
    }
}

/// The method of the next request, where it is not that of the last one; then it has no body either.
fn changed_method(status: u16, method: &str) -> Option<Method> {
    match (status, method) {
        // Forbidden by the letter and done by all (RFC 9110 section 15.4.2).
        (301..=303, "POST") => Some(Method::GET),
        (303, method) => (!matches!(method, "GET" | "HEAD")).then_some(Method::GET),
        _ => None,
    }
}

/// What the header says, which may be there more than once if it says the same.
fn location(headers: &Headers) -> Result<&[u8], Failure> {
    let mut all = headers.get_all("location").map(<[u8]>::trim_ascii);
    let first = all.next().unwrap_or_default();
    match all.find(|other| *other != first) {
        None => Ok(first),
        Some(other) => {
            let reason = Reason::new("the redirect leads to several places");
            Err(Failure::new(
                ErrorKind::Protocol,
                reason.with(format!("{} and {}", without_credentials(first), without_credentials(other))),
            ))
        }
    }
}

/// Bytes that are no UTF-8 are those of a path, as browsers take them.
fn text(location: &[u8]) -> String {
    match std::str::from_utf8(location) {
        Ok(text) => text.to_owned(),
        Err(_) => location
            .iter()
            .map(|byte| if byte.is_ascii() { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
            .collect(),
    }
}

fn broken(reason: Reason, location: &[u8]) -> Failure {
    Failure::new(ErrorKind::Protocol, reason.with(without_credentials(location)))
}

/// As a person is shown it, without `user:password@`.
fn without_credentials(location: &[u8]) -> String {
    shown(without_user(&String::from_utf8_lossy(location)).as_bytes())
}

#[cfg(test)]
mod tests;
