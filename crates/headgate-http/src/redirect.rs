//! Follows redirects (RFC 9110 section 15.4, Fetch standard "HTTP-redirect fetch").
//!
//! Pure: a response and the row's redirect chain go in, the extended chain comes out. A row that has left the scheme, host or
//! port of its URL stays *foreign*, even if a later redirect returns there. Of the user's headers, a foreign row sends only
//! harmless ones (see `request.rs`).

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::SystemTime;

use headgate_core::cookie_jar::{CookieUrl, SharedCookieJar};
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::headers::Headers;
use headgate_core::message::OptionName;
use headgate_core::options::{RedirectPolicy, RequestOptions, ResponseOptions};
use headgate_core::origin::Origin;
use headgate_core::reason::{Reason, shown};
use headgate_core::redirect_chain::{Hop, RedirectChain};
use headgate_core::row::{MAX_URL_BYTES, Row, RowBody};
use headgate_core::target;
use headgate_core::url_user::without_user;
use http::{HeaderValue, Method};
use url::Url;

use crate::cookies;

/// The most bytes of kept redirect URLs of a row: all rows in flight hold them in memory.
const MAX_KEPT_BYTES: usize = 128 * 1024;

/// The redirects that a run follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Redirects {
    policy: RedirectPolicy,
    max: u32,
    keep: bool,
    /// Cookies are kept for each row.
    cookies: bool,
    /// The cookie jar of the client, where its responses store their cookies; `None`: it keeps no cookies.
    jar: Option<SharedCookieJar>,
    /// The run's requests have a body, unless a row overrides it.
    has_body: bool,
    /// `None`: a redirect may lead to any origin.
    restriction: Option<Arc<Restriction>>,
}

/// A request whose redirects may lead only to some origins.
#[derive(Debug, PartialEq, Eq)]
struct Restriction {
    from: Origin,
    method: Box<str>,
    has_body: bool,
    policy: RedirectPolicy,
}

impl Redirects {
    pub fn new(options: &RequestOptions) -> Self {
        let ResponseOptions { redirects, max_redirects, keep_redirects, redirect_cookies, .. } = &options.response;
        Self {
            policy: *redirects,
            max: *max_redirects,
            keep: *keep_redirects,
            cookies: *redirect_cookies && options.cookies.is_none(),
            jar: options.cookies.clone(),
            has_body: options.body_bytes() > 0,
            restriction: None,
        }
    }

    /// Returns a policy that follows no redirect.
    pub fn none() -> Self {
        Self { policy: RedirectPolicy::None, max: 0, ..Self::of_robots() }
    }

    /// Returns the policy for robots.txt (RFC 9309 section 2.3.1.2).
    pub fn of_robots() -> Self {
        let policy = RedirectPolicy::Follow;
        Self { policy, max: 5, keep: false, cookies: false, jar: None, has_body: false, restriction: None }
    }

    /// Returns the policy for the redirects of this row, whose request has the method `method`.
    #[must_use]
    pub fn of(&self, row: &Row, method: &str) -> Self {
        let policy = self.policy_of(row);
        let has_body = self.sends_body(row);
        let is_restricted = policy == RedirectPolicy::SameOrigin || has_body;
        let from = if is_restricted { target::parse(row.target()).ok() } else { None };
        let restriction =
            from.map(|from| Arc::new(Restriction { from: from.origin, method: method.into(), has_body, policy }));
        let max = row.own().and_then(|own| own.max_redirects).unwrap_or(self.max);
        Self { policy, max, restriction, ..self.clone() }
    }

    fn policy_of(&self, row: &Row) -> RedirectPolicy {
        row.own().and_then(|own| own.redirects).unwrap_or(self.policy)
    }

    fn sends_body(&self, row: &Row) -> bool {
        let has_lost_body = row.chain().is_some_and(|chain| chain.method.is_some());
        let own = row.extra.as_ref().and_then(|extra| extra.body.as_ref());
        !has_lost_body && own.map_or(self.has_body, |body| !matches!(body, RowBody::Bytes(bytes) if bytes.is_empty()))
    }

    /// Returns whether a response to this row with this status may be a redirect that is followed.
    pub fn may_follow(&self, row: &Row, status: u16) -> bool {
        is_redirect(status) && self.policy_of(row) != RedirectPolicy::None
    }

    /// Returns whether this response is a redirect that is followed.
    pub fn follows(&self, status: u16, headers: &Headers) -> bool {
        is_redirect(status)
            && self.policy != RedirectPolicy::None
            && locations(headers)
                .next()
                .is_some_and(|location| self.restriction.as_ref().is_none_or(|it| it.allows(status, location)))
    }

    /// Returns the redirect chain extended by a response; `None`: the response is not followed, but is the row's response.
    /// `method` is the method of its request; `is_outside`: the server has a public address.
    ///
    /// # Errors
    /// `protocol`: the location can't be requested. `redirect_loop`, `too_many_redirects`.
    pub fn follow(
        &self,
        row: &Row,
        method: &str,
        (status, headers): (u16, &Headers),
        is_outside: bool,
        now: SystemTime,
    ) -> Result<Option<Box<RedirectChain>>, Failure> {
        if !self.follows(status, headers) {
            return Ok(None);
        }
        let location = location(headers)?;
        let invalid = |what: &str| invalid_location(Reason::new(what.to_owned()), location);
        let mut base = Url::parse(row.target()).map_err(|_| invalid("the redirect has no base"))?;
        let mut url = base
            .join(&text(location))
            .map_err(|error| invalid(&format!("the redirect leads to an invalid URL: {error}")))?;
        if !is_http(&url) {
            return Err(invalid("the redirect leads to a URL that is neither http nor https"));
        }
        url.set_fragment(None);
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(invalid(&format!("the redirect leads to a URL of more than {MAX_URL_BYTES} bytes")));
        }
        let to = target::parse(url.as_str())
            .map_err(|reason| invalid(&format!("the redirect leads to an invalid URL: {reason}")))?;
        let from = target::parse(row.target()).map_err(|reason| invalid_location(reason, location))?;
        let mut chain = row.chain().cloned().unwrap_or_default();
        chain.count += 1;
        chain.from_outside |= is_outside;
        if chain.visited.is_empty() {
            base.set_fragment(None);
            let cookies = row.sent_headers().and_then(|(_, cookies)| cookies);
            chain.visited.push(fingerprint(method, &base, cookies));
        }
        let (set_cookies, url_of_cookies) =
            (headers.get_all("set-cookie"), CookieUrl::new(&from.origin, from.path.path()));
        if self.cookies {
            set_cookies.for_each(|set| chain.cookies.store(set, &url_of_cookies, now));
        }
        let shown_url = without_user(url.as_str()).into_owned();
        if self.keep {
            chain.hops.push(Hop { status, location: shown_url.as_str().into() });
        }
        if to.origin == from.origin && url.username().is_empty() && url.password().is_none() {
            // The credentials of a URL are for its whole origin.
            let _ = url.set_username(base.username()).and_then(|()| url.set_password(base.password()));
        }
        chain.is_foreign |= to.origin != from.origin;
        let changed = changed_method(status, method);
        let cookies = cookies::header(self.jar.as_ref(), Some(&chain), &to.origin, to.path.path());
        let request = fingerprint(changed.as_ref().map_or(method, Method::as_str), &url, cookies.as_ref());
        if chain.visited.contains(&request) {
            let reason = Reason::new("the redirect leads back to a request that was made before").with(shown_url);
            return Err(Failure::new(ErrorKind::RedirectLoop, reason).lasting());
        }
        chain.visited.push(request);
        if let Some(method) = changed {
            chain.method = Some(method.as_str().into());
        }
        if chain.count > self.max {
            let reason = Reason::new(format!("there were more than {} redirects", self.max)).with(shown_url);
            return Err(Failure::new(ErrorKind::TooManyRedirects, reason)
                .with_option(OptionName::MaxRedirects)
                .lasting());
        }
        if chain.hops.iter().map(|hop| hop.location.len()).sum::<usize>() > MAX_KEPT_BYTES {
            let reason = format!("there were redirects of more than {MAX_KEPT_BYTES} bytes together");
            let failure = Failure::new(ErrorKind::TooManyRedirects, reason);
            return Err(failure.with_option(OptionName::KeepRedirects).lasting());
        }
        chain.url = String::from(url).into();
        Ok(Some(Box::new(chain)))
    }
}

/// Returns a hash of a request by which loops are detected: of its method, its URL and the cookies that servers have set.
fn fingerprint(method: &str, url: &Url, cookies: Option<&HeaderValue>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (method, url.as_str(), cookies.map(HeaderValue::as_bytes)).hash(&mut hasher);
    hasher.finish()
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

impl Restriction {
    /// Returns whether the request may be redirected to this location. An invalid one is allowed: [`Redirects::follow`]
    /// refuses it.
    fn allows(&self, status: u16, location: &[u8]) -> bool {
        let from = &self.from;
        let base = Url::parse(&format!("{from}/"));
        let Some(to) = base.and_then(|base| base.join(&text(location))).ok().filter(is_http) else { return true };
        let Ok(to) = target::parse(to.as_str()).map(|target| target.origin) else { return true };
        let is_upgrade = !from.https && to.https && to.name == from.name;
        let takes_body = self.has_body && changed_method(status, &self.method).is_none();
        to == *from || self.policy == RedirectPolicy::Follow && (is_upgrade || !takes_body)
    }
}

fn is_http(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

/// Returns the method of the next request if it differs from the last one; then the request has no body either.
fn changed_method(status: u16, method: &str) -> Option<Method> {
    match (status, method) {
        // RFC 9110 section 15.4.2 tolerates this, because all clients do so.
        (301..=303, "POST") => Some(Method::GET),
        (303, method) => (!matches!(method, "GET" | "HEAD")).then_some(Method::GET),
        _ => None,
    }
}

fn locations(headers: &Headers) -> impl Iterator<Item = &[u8]> {
    headers.get_all("location").map(<[u8]>::trim_ascii).filter(|location| !location.is_empty())
}

/// Returns the value of the header. It may be repeated with the same value.
fn location(headers: &Headers) -> Result<&[u8], Failure> {
    let mut all = headers.get_all("location").map(<[u8]>::trim_ascii);
    let first = all.next().unwrap_or_default();
    match all.find(|other| *other != first) {
        None => Ok(first),
        Some(other) => {
            let reason = Reason::new("the redirect has several locations");
            Err(Failure::new(
                ErrorKind::Protocol,
                reason.with(format!("{} and {}", without_credentials(first), without_credentials(other))),
            ))
        }
    }
}

/// Returns the location as text. Bytes that are not UTF-8 are percent-encoded, as browsers do in a path.
fn text(location: &[u8]) -> String {
    match std::str::from_utf8(location) {
        Ok(text) => text.to_owned(),
        Err(_) => location
            .iter()
            .map(|byte| if byte.is_ascii() { char::from(*byte).to_string() } else { format!("%{byte:02X}") })
            .collect(),
    }
}

fn invalid_location(reason: Reason, location: &[u8]) -> Failure {
    Failure::new(ErrorKind::Protocol, reason.with(without_credentials(location)))
}

/// Returns the location as it is shown to the user, without `user:password@`.
fn without_credentials(location: &[u8]) -> String {
    shown(without_user(&String::from_utf8_lossy(location)).as_bytes())
}

#[cfg(test)]
mod tests;
