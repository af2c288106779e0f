//! `CookieJar`: the cookies of a client, or of one response.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headgate_core::clock;
use headgate_core::cookie_jar::{self, Cookie, CookieUrl, InvalidCookie, JarBounds, SharedCookieJar};
use headgate_core::target;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A cookie jar. May be used from any thread.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct CookieJar(SharedCookieJar);

/// The attributes of `headgate.client._cookies.NativeCookie`.
#[derive(FromPyObject, IntoPyObject)]
struct NativeCookie(String, String, String, String, bool, bool, bool, Option<i64>);

impl CookieJar {
    pub fn shared(&self) -> SharedCookieJar {
        self.0.clone()
    }
}

#[pymethods]
impl CookieJar {
    #[new]
    fn new() -> Self {
        Self(SharedCookieJar::new(cookie_jar::CookieJar::new(JarBounds::OF_CLIENT)))
    }

    /// Adds a cookie. One that has expired removes its predecessor.
    fn set(&self, cookie: NativeCookie) -> PyResult<()> {
        let NativeCookie(name, value, domain, path, is_host_only, is_secure, is_http_only, expires) = cookie;
        let mut cookie = Cookie::new(&name, &value, &domain, &path).map_err(|invalid| {
            PyValueError::new_err(match invalid {
                InvalidCookie::Name => format!("can't have the name {name:?}"),
                InvalidCookie::Value => {
                    format!("can't have this value of {name:?}: it is too long or has a character that can't be sent")
                }
                InvalidCookie::Domain => format!("can't be for the domain {domain:?}: write a hostname or an address"),
                InvalidCookie::Path => format!("can't be for the path {path:?}: it begins with a slash"),
            })
        })?;
        cookie.is_host_only |= is_host_only;
        cookie.is_secure |= is_secure;
        cookie.is_http_only = is_http_only;
        cookie.expires = expires.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_secs(at.max(0).cast_unsigned())));
        self.0.change(|jar| jar.insert(cookie, clock::system_now()));
        Ok(())
    }

    /// Stores the cookies that a response from this URL sets.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are copies")]
    fn store(&self, url: &str, set_cookies: Vec<Vec<u8>>) {
        if let Ok(from) = target::parse(url) {
            let url = CookieUrl::new(&from.origin, from.path.path());
            self.0.store(set_cookies.iter().map(|value| &**value), &url);
        }
    }

    /// Returns the cookies that have not expired; with a URL, only those that are sent there.
    #[pyo3(signature = (url=None))]
    fn cookies(&self, url: Option<&str>) -> Vec<NativeCookie> {
        let now = clock::system_now();
        self.0.change(|jar| match url {
            None => jar.all(now).into_iter().map(native).collect(),
            Some(url) => target::parse(url).map_or_else(
                |_| Vec::new(),
                |to| {
                    let url = CookieUrl::new(&to.origin, to.path.path());
                    jar.cookies_for(&url, now).into_iter().map(native).collect()
                },
            ),
        })
    }

    /// Removes the cookies with this name, domain and path; `None` is any. Returns how many there were.
    fn remove(&self, name: Option<&str>, domain: Option<&str>, path: Option<&str>) -> usize {
        let is = |wanted: Option<&str>, text: &str| wanted.is_none_or(|wanted| wanted == text);
        self.0.change(|jar| {
            jar.remove(|cookie| is(name, &cookie.name) && is(domain, &cookie.domain) && is(path, &cookie.path))
        })
    }

    /// Returns another jar with the same cookies.
    fn copy(&self) -> Self {
        Self(SharedCookieJar::new(self.0.change(|jar| jar.clone())))
    }
}

fn native(cookie: &Cookie) -> NativeCookie {
    let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed());
    NativeCookie(
        cookie.name.to_string(),
        cookie.value.to_string(),
        cookie.domain.to_string(),
        cookie.path.to_string(),
        cookie.is_host_only,
        cookie.is_secure,
        cookie.is_http_only,
        cookie.expires.map(seconds),
    )
}
