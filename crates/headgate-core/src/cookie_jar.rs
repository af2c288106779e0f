//! A cookie jar by RFC 6265bis: which cookies a server may set, and which are sent to a URL.
//!
//! A redirect chain has a jar of its own, which ends with its row. A client may have one for all of its requests; workers share
//! it behind a lock that is held while a header is made or stored, and never while anything waits. The public suffixes, for which
//! no server can set a cookie, are those of the `psl` crate. Cookies are kept by registrable domain, so that a request looks
//! only at those of its own.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use url::Host;

use crate::clock;
use crate::origin::{HostName, Origin};
use crate::public_suffix::{is_public_suffix, registrable};
use crate::secret::MASK;
use crate::set_cookie::{MAX_ATTRIBUTE_BYTES, MaxAge, SetCookie};

/// The most bytes of the name and the value of a cookie (RFC 6265bis section 5.7).
const MAX_PAIR_BYTES: usize = 4096;
/// The most bytes of a path.
const MAX_PATH_BYTES: usize = MAX_ATTRIBUTE_BYTES;
/// The most bytes of a `Set-Cookie` header: those of a pair, and three attributes of the maximum length.
const MAX_SET_COOKIE_BYTES: usize = MAX_PAIR_BYTES + 3 * MAX_PATH_BYTES;
/// The most bytes of the cookies of one request: no widespread server accepts more.
const MAX_HEADER_BYTES: usize = 32 * 1024;
/// The longest time that a cookie of a server is kept (RFC 6265bis section 5.5).
const MAX_AGE: Duration = Duration::from_hours(400 * 24);
/// A domain with more cookies than this is evicted from before others (RFC 6265bis section 5.7).
const FEW_COOKIES: usize = 50;

/// A cookie with this prefix is for one host, with TLS (RFC 6265bis section 4.1.3).
const HOST_PREFIX: &str = "__Host-";
/// A cookie with this prefix is only sent with TLS.
const SECURE_PREFIX: &str = "__Secure-";

/// A cookie.
#[derive(Clone, PartialEq, Eq)]
pub struct Cookie {
    pub name: Box<str>,
    pub value: Box<str>,
    /// The host that has set it, or the domain that it is for; without a leading dot.
    pub domain: Box<str>,
    /// It is for that very host, and not for those below it.
    pub is_host_only: bool,
    pub path: Box<str>,
    pub is_secure: bool,
    pub is_http_only: bool,
    /// `None`: it is kept as long as its jar.
    pub expires: Option<SystemTime>,
    /// The number of the jar's last use that it was a part of.
    last_use: u64,
}

/// A cookie that can't be added to a jar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidCookie {
    Name,
    Value,
    Domain,
    Path,
}

/// The URL of a request, as cookies distinguish URLs.
#[derive(Debug)]
pub struct CookieUrl<'a> {
    host: Cow<'a, str>,
    /// The host is a name, and no address.
    is_name: bool,
    is_https: bool,
    path: &'a str,
}

/// The most cookies of a jar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JarBounds {
    /// The most cookies of one registrable domain.
    per_domain: usize,
    total: usize,
}

impl JarBounds {
    /// The bounds of a redirect chain: what RFC 6265bis section 6.1 requires for one domain.
    pub const OF_CHAIN: Self = Self { per_domain: 50, total: 50 };
    /// The bounds of a client, which are about those of browsers: at most 16 MB.
    pub const OF_CLIENT: Self = Self { per_domain: 180, total: 3000 };
}

/// The cookies that servers have set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieJar {
    /// The cookies of each registrable domain, in the order of their creation.
    by_domain: HashMap<Box<str>, Vec<Cookie>>,
    bounds: JarBounds,
    uses: u64,
}

impl Default for CookieJar {
    fn default() -> Self {
        Self::new(JarBounds::OF_CHAIN)
    }
}

impl fmt::Debug for Cookie {
    /// Masks the value, which may be a credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={MASK} for {}{}", self.name, self.domain, self.path)
    }
}

impl Cookie {
    /// Returns a cookie that a user adds.
    ///
    /// # Errors
    /// A part of it can't be sent, or is too long.
    pub fn new(name: &str, value: &str, domain: &str, path: &str) -> Result<Self, InvalidCookie> {
        let is_sendable = |text: &str, separators: &str| {
            text.len() <= MAX_PAIR_BYTES && !text.contains(|c: char| c.is_control() || separators.contains(c))
        };
        if name.is_empty() || !is_sendable(name, "=; ") {
            return Err(InvalidCookie::Name);
        }
        if !is_sendable(value, ";") || value.trim() != value || name.len() + value.len() > MAX_PAIR_BYTES {
            return Err(InvalidCookie::Value);
        }
        if !path.starts_with('/') || path.len() > MAX_PATH_BYTES || !is_sendable(path, ";") {
            return Err(InvalidCookie::Path);
        }
        let given = domain.trim_start_matches('.');
        let bracketed =
            if given.contains(':') { format!("[{}]", given.trim_matches(['[', ']'])) } else { given.into() };
        let (domain, is_name) = match Host::parse(&bracketed).map_err(|_| InvalidCookie::Domain)? {
            Host::Domain(name) => (name.trim_end_matches('.').to_owned(), true),
            Host::Ipv4(address) => (address.to_string(), false),
            Host::Ipv6(address) => (address.to_string(), false),
        };
        let is_of_host = has_prefix(name, HOST_PREFIX);
        if is_of_host && path != "/" {
            return Err(InvalidCookie::Path);
        }
        Ok(Self {
            name: name.into(),
            value: value.into(),
            // No name below an address or a public suffix has the same owner.
            is_host_only: is_of_host || !is_name || is_public_suffix(&domain),
            domain: domain.into(),
            path: path.into(),
            is_secure: is_of_host || has_prefix(name, SECURE_PREFIX),
            is_http_only: false,
            expires: None,
            last_use: 0,
        })
    }

    fn is_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }

    fn replaces(&self, other: &Self) -> bool {
        (&self.name, &self.domain, &self.path) == (&other.name, &other.domain, &other.path)
    }

    /// Returns whether it is sent to a URL (section 5.8.3).
    fn is_for(&self, url: &CookieUrl<'_>) -> bool {
        let is_of_host = if self.is_host_only { *self.domain == url.host } else { url.is_within(&self.domain) };
        is_of_host && is_under(url.path, &self.path) && (url.is_https || !self.is_secure)
    }

    /// Returns whether this cookie, which was set without TLS, would replace, remove or hide one that is `Secure` ("leave
    /// Secure cookies alone", section 5.7).
    fn shadows(&self, secure: &Self) -> bool {
        secure.is_secure
            && secure.name == self.name
            && (is_below(&self.domain, &secure.domain) || is_below(&secure.domain, &self.domain))
            && is_under(&self.path, &secure.path)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.value.len() + self.domain.len() + self.path.len()
    }
}

impl<'a> CookieUrl<'a> {
    pub fn new(origin: &'a Origin, path: &'a str) -> Self {
        let (host, is_name) = match &origin.name {
            HostName::Domain(name) => (Cow::Borrowed(name.trim_end_matches('.')), true),
            HostName::V4(address) => (Cow::Owned(address.to_string()), false),
            HostName::V6(address) => (Cow::Owned(address.to_string()), false),
        };
        Self { host, is_name, is_https: origin.https, path }
    }

    /// Returns whether its host domain-matches the domain of a cookie (section 5.1.3).
    fn is_within(&self, domain: &str) -> bool {
        self.host == domain || self.is_name && is_below(&self.host, domain)
    }
}

impl CookieJar {
    pub fn new(bounds: JarBounds) -> Self {
        Self { by_domain: HashMap::new(), bounds, uses: 0 }
    }

    /// Stores or removes the cookie of a `Set-Cookie` header in a response from `url` (section 5.7).
    pub fn store(&mut self, set_cookie: &[u8], url: &CookieUrl<'_>, now: SystemTime) {
        let text = std::str::from_utf8(set_cookie).ok().filter(|text| text.len() <= MAX_SET_COOKIE_BYTES);
        let Some(set) = text.and_then(SetCookie::parse) else { return };
        let Some(new) = allowed(&set, url, now) else { return };
        let others = self.by_domain.get(key(&new.domain)).into_iter().flatten();
        if !url.is_https && others.filter(|old| !old.is_expired(now)).any(|old| new.shadows(old)) {
            return;
        }
        self.insert(new, now);
    }

    /// Adds a cookie, in place of one with the same name, domain and path; one that has expired only removes that.
    pub fn insert(&mut self, mut new: Cookie, now: SystemTime) {
        self.uses += 1;
        new.last_use = self.uses;
        let domain = key(&new.domain);
        if new.is_expired(now) {
            self.remove(|old| new.replaces(old));
            return;
        }
        let cookies = match self.by_domain.get_mut(domain) {
            Some(cookies) => cookies,
            None => self.by_domain.entry(domain.into()).or_default(),
        };
        if let Some(old) = cookies.iter_mut().find(|old| new.replaces(old)) {
            // It keeps its place in the order of creation.
            *old = new;
            return;
        }
        cookies.push(new);
        if cookies.len() > self.bounds.per_domain {
            cookies.retain(|cookie| !cookie.is_expired(now));
        }
        if cookies.len() > self.bounds.per_domain {
            let rank = |index: &usize| (cookies[*index].is_secure, cookies[*index].last_use);
            (0..cookies.len()).min_by_key(rank).map(|index| cookies.remove(index));
        }
        self.enforce_total(now);
    }

    /// Evicts a cookie if there are too many of all domains together: first those that have expired, then those of domains with
    /// many, and of these the one that was not used for the longest time.
    fn enforce_total(&mut self, now: SystemTime) {
        if self.len() > self.bounds.total {
            self.remove(|cookie| cookie.is_expired(now));
        }
        if self.len() > self.bounds.total {
            let ranked = self.by_domain.values().flat_map(|cookies| {
                let is_few = cookies.len() <= FEW_COOKIES;
                cookies.iter().map(move |cookie| (is_few, !is_few && cookie.is_secure, cookie.last_use))
            });
            let evicted = ranked.min().map(|(_, _, last_use)| last_use);
            self.remove(|cookie| Some(cookie.last_use) == evicted);
        }
    }

    /// Removes cookies, and returns how many.
    pub fn remove(&mut self, mut is_removed: impl FnMut(&Cookie) -> bool) -> usize {
        let before = self.len();
        self.by_domain.retain(|_, cookies| {
            cookies.retain(|cookie| !is_removed(cookie));
            !cookies.is_empty()
        });
        before - self.len()
    }

    /// Returns the cookies that are sent to a URL, in the order in which they are sent.
    pub fn cookies_for(&self, url: &CookieUrl<'_>, now: SystemTime) -> Vec<&Cookie> {
        let cookies = self.by_domain.get(key(&url.host)).into_iter().flatten();
        let mut sent: Vec<&Cookie> = cookies.filter(|cookie| cookie.is_for(url) && !cookie.is_expired(now)).collect();
        // Longer paths first, and otherwise in the order of their creation (section 5.8.3).
        sent.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        sent
    }

    /// Returns the value of the `cookie` header of a request to a URL.
    pub fn header(&self, url: &CookieUrl<'_>, now: SystemTime) -> Option<HeaderValue> {
        let mut pairs = String::new();
        for Cookie { name, value, .. } in self.cookies_for(url, now) {
            if pairs.len() + name.len() + value.len() > MAX_HEADER_BYTES {
                break;
            }
            let separator = if pairs.is_empty() { "" } else { "; " };
            for piece in [separator, name, "=", value] {
                pairs.push_str(piece);
            }
        }
        let mut value = HeaderValue::try_from(pairs).ok().filter(|value| !value.is_empty())?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Counts the cookies that are sent to a URL as used.
    fn note_use(&mut self, url: &CookieUrl<'_>) {
        self.uses += 1;
        // Each use is of one cookie, so that no two of them are equally old.
        for cookie in self.by_domain.get_mut(key(&url.host)).into_iter().flatten() {
            if cookie.is_for(url) {
                cookie.last_use = self.uses;
                self.uses += 1;
            }
        }
    }

    /// Returns all cookies that have not expired, by domain and then in the order of their creation.
    pub fn all(&self, now: SystemTime) -> Vec<&Cookie> {
        let mut domains: Vec<_> = self.by_domain.iter().collect();
        domains.sort_unstable_by_key(|(domain, _)| *domain);
        let cookies = domains.into_iter().flat_map(|(_, cookies)| cookies);
        cookies.filter(|cookie| !cookie.is_expired(now)).collect()
    }

    pub fn len(&self) -> usize {
        self.by_domain.values().map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.by_domain.is_empty()
    }

    /// Returns about how much memory its cookies need.
    pub fn bytes(&self) -> usize {
        self.by_domain.values().flatten().map(Cookie::bytes).sum()
    }
}

/// Returns the cookie as it is stored, if a server may set it with a response from this URL.
fn allowed(set: &SetCookie<'_>, url: &CookieUrl<'_>, now: SystemTime) -> Option<Cookie> {
    let domain = match set.domain.map(str::to_ascii_lowercase) {
        // A host that is a public suffix itself may set a host-only cookie (section 5.7 step 9).
        Some(domain) if is_public_suffix(&domain) => {
            if domain != url.host {
                return None;
            }
            None
        }
        Some(domain) if !url.is_within(&domain) => return None,
        domain => domain.filter(|_| url.is_name),
    };
    let path = set.path.unwrap_or_else(|| default_path(url.path));
    let is_right_for_prefix = if has_prefix(set.name, HOST_PREFIX) {
        set.is_secure && domain.is_none() && set.path == Some("/")
    } else {
        set.is_secure || !has_prefix(set.name, SECURE_PREFIX)
    };
    // A server without TLS is not authenticated and must not set cookies for the site with TLS.
    if (set.is_secure && !url.is_https)
        || !is_right_for_prefix
        || path.len() > MAX_PATH_BYTES
        || set.name.len() + set.value.len() > MAX_PAIR_BYTES
    {
        return None;
    }
    let expires = match set.max_age {
        Some(MaxAge::Expired) => Some(SystemTime::UNIX_EPOCH),
        Some(MaxAge::Lasts(age)) => Some(now + age.min(MAX_AGE)),
        None => set.expires.map(|at| at.min(now + MAX_AGE)),
    };
    Some(Cookie {
        name: set.name.into(),
        value: set.value.into(),
        is_host_only: domain.is_none(),
        domain: domain.unwrap_or_else(|| url.host.to_string()).into(),
        path: path.into(),
        is_secure: set.is_secure,
        is_http_only: set.is_http_only,
        expires,
        last_use: 0,
    })
}

/// Returns whether a name begins with a prefix, in any case: servers may compare names without regard to it.
fn has_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
}

/// Returns the key of a host in a jar.
fn key(host: &str) -> &str {
    if host.parse::<IpAddr>().is_ok() { host } else { registrable(host) }
}

fn is_below(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
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

/// The cookie jar of a client, which all of its threads share. A copy is the same jar.
#[derive(Clone)]
pub struct SharedCookieJar(Arc<Shared>);

struct Shared {
    jar: Mutex<CookieJar>,
    /// Requests need no look at the jar while it is empty.
    is_empty: AtomicBool,
}

impl SharedCookieJar {
    pub fn new(jar: CookieJar) -> Self {
        Self(Arc::new(Shared { is_empty: AtomicBool::new(jar.is_empty()), jar: Mutex::new(jar) }))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty.load(Ordering::Acquire)
    }

    /// Returns the value of the `cookie` header of a request to a URL.
    pub fn header(&self, url: &CookieUrl<'_>) -> Option<HeaderValue> {
        let (mut jar, now) = (self.lock(), clock::system_now());
        jar.note_use(url);
        jar.header(url, now)
    }

    /// Stores the cookies that a response from this URL sets.
    pub fn store<'a>(&self, set_cookies: impl Iterator<Item = &'a [u8]>, url: &CookieUrl<'_>) {
        let mut set_cookies = set_cookies.peekable();
        if set_cookies.peek().is_none() {
            return;
        }
        let now = clock::system_now();
        self.change(|jar| set_cookies.for_each(|set_cookie| jar.store(set_cookie, url, now)));
    }

    /// Changes the jar, which is locked meanwhile.
    pub fn change<T>(&self, change: impl FnOnce(&mut CookieJar) -> T) -> T {
        let mut jar = self.lock();
        let changed = change(&mut jar);
        self.0.is_empty.store(jar.is_empty(), Ordering::Release);
        changed
    }

    fn lock(&self) -> MutexGuard<'_, CookieJar> {
        self.0.jar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for SharedCookieJar {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for SharedCookieJar {
    /// Shows its address, which identifies it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedCookieJar({:p})", self.0)
    }
}

#[cfg(test)]
mod tests;
