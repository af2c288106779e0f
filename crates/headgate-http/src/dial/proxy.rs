//! The proxies of a run, and the choice of one for each connection.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use headgate_core::authorization::basic;
use headgate_core::origin::{HostName, Origin};
use http::HeaderValue;
use url::Url;

use crate::dial::no_proxy::NoProxy;
use crate::dial::overrides::host_name;

/// The allowed lengths of a user name or a password for SOCKS (RFC 1929 section 2).
const SOCKS_LENGTHS: std::ops::RangeInclusive<usize> = 1..=255;

/// The protocol of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
    /// The proxy resolves hostnames.
    Socks5h,
    /// We resolve hostnames, as curl does for `socks5://`.
    Socks5,
}

/// One proxy. Its `Display` and `Debug` have no credentials.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Proxy {
    pub(super) scheme: Scheme,
    pub(super) origin: Origin,
    pub(super) credentials: Option<Credentials>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
    /// The value of the `proxy-authorization` header.
    pub(super) basic: HeaderValue,
}

impl Proxy {
    /// Parses a URL; without a scheme, it is an HTTP proxy.
    ///
    /// # Errors
    /// A readable reason why the URL is not valid, without parts that may be secret.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let (scheme, default_port) = match &*scheme.to_ascii_lowercase() {
            "http" => (Scheme::Http, 80),
            "https" => (Scheme::Https, 443),
            "socks5h" => (Scheme::Socks5h, 1080),
            "socks5" => (Scheme::Socks5, 1080),
            scheme => {
                // What stands before `://` may be a part of a password, but then it contains a colon.
                let scheme =
                    if scheme.contains([':', '@']) { "a scheme".into() } else { format!("the scheme {scheme}://") };
                let known = "http://, https://, socks5h:// and socks5://";
                return Err(format!("has {scheme} that is not supported: {known} are"));
            }
        };
        // In the WHATWG standard, `socks5` is no special scheme, and its hosts are opaque. So the URL is parsed as `ws`.
        let url = Url::parse(&format!("ws://{rest}")).map_err(|error| format!("is not a URL: {error}"))?;
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err("has more than a host and a port".into());
        }
        let name = host_name(url.host_str().unwrap_or_default())?;
        // `port()` omits the default port of `ws`. With `wss`, it returns that port.
        let with_port = || Url::parse(&format!("wss://{rest}")).ok()?.port();
        let port = url.port().or_else(with_port).unwrap_or(default_port);
        if port == 0 {
            return Err("has port 0, which can't be connected to".into());
        }
        let origin = Origin { https: scheme == Scheme::Https, name, port };
        Ok(Self { scheme, origin, credentials: Credentials::of(&url, scheme)? })
    }

    pub(super) fn is_http(&self) -> bool {
        matches!(self.scheme, Scheme::Http | Scheme::Https)
    }
}

impl Credentials {
    fn of(url: &Url, scheme: Scheme) -> Result<Option<Self>, String> {
        if url.username().is_empty() && url.password().is_none() {
            return Ok(None);
        }
        let decoded = |text| percent_encoding::percent_decode_str(text).decode_utf8();
        let (Ok(user), Ok(password)) = (decoded(url.username()), decoded(url.password().unwrap_or_default())) else {
            return Err("has a name or a password that is not UTF-8".into());
        };
        let is_socks = matches!(scheme, Scheme::Socks5h | Scheme::Socks5);
        if is_socks && ![&user, &password].iter().all(|text| SOCKS_LENGTHS.contains(&text.len())) {
            return Err("has a name or a password that SOCKS can't send: both have 1 to 255 bytes".into());
        }
        let basic = basic(format!("{user}:{password}").as_bytes());
        Ok(Some(Self { user: user.into(), password: password.into(), basic }))
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Socks5h => "socks5h",
            Scheme::Socks5 => "socks5",
        };
        write!(f, "{scheme}://{}", host_and_port(&self.origin))
    }
}

/// Returns the host with its port, also if it is the default port of the scheme.
pub(super) fn host_and_port(origin: &Origin) -> String {
    match &origin.name {
        HostName::V6(address) => format!("[{address}]:{}", origin.port),
        name => format!("{name}:{}", origin.port),
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

/// The proxies of a run.
#[derive(Debug, Default)]
pub(super) struct Proxies {
    source: ProxySource,
    next_index: AtomicUsize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum ProxySource {
    #[default]
    None,
    /// Proxies that are used in turn.
    List(Vec<Proxy>),
    Environment(Box<EnvironmentProxies>),
}

/// The proxies that environment variables name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EnvironmentProxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    not_for: NoProxy,
}

impl ProxySource {
    /// Reads the same variables as curl. `http_proxy` counts in lower case only: the client of a CGI program can set
    /// `HTTP_PROXY` with a header.
    ///
    /// # Errors
    /// A readable reason why a variable has no valid proxy, without parts that may be secret.
    pub(super) fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| Some((*name, variable(name).filter(|text| !text.is_empty())?)))
        };
        let proxy = |names: &[&'static str]| match first(names).or_else(|| first(&["all_proxy", "ALL_PROXY"])) {
            Some((name, text)) => Proxy::parse(&text).map(Some).map_err(|why| format!("the value of {name} {why}")),
            None => Ok(None),
        };
        let not_for = first(&["no_proxy", "NO_PROXY"]).map(|(_, text)| text).unwrap_or_default();
        Ok(Self::Environment(Box::new(EnvironmentProxies {
            http: proxy(&["http_proxy"])?,
            https: proxy(&["https_proxy", "HTTPS_PROXY"])?,
            not_for: NoProxy::new(&not_for),
        })))
    }
}

impl PartialEq for Proxies {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Proxies {
    pub(super) fn new(source: ProxySource) -> Self {
        Self { source, next_index: AtomicUsize::new(0) }
    }

    /// Returns whether one of them has the scheme `https`.
    pub(super) fn has_https_proxy(&self) -> bool {
        let is_https = |proxy: &Proxy| proxy.scheme == Scheme::Https;
        match &self.source {
            ProxySource::None => false,
            ProxySource::List(proxies) => proxies.iter().any(is_https),
            ProxySource::Environment(named) => [&named.http, &named.https].into_iter().flatten().any(is_https),
        }
    }

    /// Returns the proxy for the next connection to a host, or `None` for a direct connection.
    pub(super) fn take_next(&self, origin: &Origin) -> Option<&Proxy> {
        match &self.source {
            ProxySource::None => None,
            ProxySource::List(proxies) => {
                proxies.get(self.next_index.fetch_add(1, Ordering::Relaxed) % proxies.len().max(1))
            }
            ProxySource::Environment(named) => named.proxy_for(origin),
        }
    }

    /// Returns whether connections to this host go through a proxy.
    pub(super) fn has_proxy_for(&self, origin: &Origin) -> bool {
        match &self.source {
            ProxySource::None => false,
            ProxySource::List(proxies) => !proxies.is_empty(),
            ProxySource::Environment(named) => named.proxy_for(origin).is_some(),
        }
    }

    /// Returns whether the next connection may go through another proxy.
    pub(super) fn has_several(&self) -> bool {
        matches!(&self.source, ProxySource::List(proxies) if proxies.len() > 1)
    }
}

impl EnvironmentProxies {
    fn proxy_for(&self, origin: &Origin) -> Option<&Proxy> {
        let proxy = if origin.https { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| !self.not_for.covers(origin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_url_and_is_shown_without_its_credentials() {
        for (shown, credentials, text) in [
            ("http://p.example:3128", None, "http://p.example:3128"),
            ("http://p.example:3128", None, "p.example:3128/"),
            ("http://p.example:80", None, "HTTP://p.example"),
            ("https://p.example:443", None, "https://p.example"),
            ("https://p.example:80", None, "https://p.example:80"),
            ("socks5h://127.0.0.1:1080", None, "socks5h://127.0.0.1"),
            ("socks5://[::1]:9050", None, "socks5://[::1]:9050"),
            ("http://p.example:1", Some(("me", "s:e/cret")), "http://me:s%3Ae%2Fcret@p.example:1"),
            ("http://p.example:80", Some(("me", "")), "http://me@p.example:80"),
        ] {
            let proxy = Proxy::parse(text).expect(text);
            let found = proxy.credentials.as_ref().map(|found| (&*found.user, &*found.password));
            assert_eq!((shown, credentials), (&*proxy.to_string(), found), "{text}");
            assert_eq!(format!("Proxy({shown})"), format!("{proxy:?}"));
        }
    }

    #[test]
    fn an_invalid_proxy_is_refused_without_showing_its_password() {
        for (expected, text) in [
            (
                "has the scheme ftp:// that is not supported: http://, https://, socks5h:// and socks5:// are",
                "ftp://me:secret@p:1",
            ),
            ("has a scheme that is not supported: http://, https://, socks5h:// and socks5:// are", "me:sec://ret@p:1"),
            ("is not a URL: invalid port number", "http://me:secret@p:99999"),
            ("is not a URL: empty host", ""),
            ("has more than a host and a port", "http://me:secret@p:1/path"),
            ("has port 0, which can't be connected to", "http://p:0"),
            ("has a name or a password that is not UTF-8", "http://me:%ff@p:1"),
            ("has a name or a password that SOCKS can't send: both have 1 to 255 bytes", "socks5h://me@p:1"),
        ] {
            let error = Proxy::parse(text).expect_err(text);
            assert_eq!(expected, error, "{text}");
        }
    }

    fn origin(url: &str) -> Origin {
        headgate_core::target::parse(url).expect("a URL").origin
    }

    #[test]
    fn the_proxies_of_a_list_are_used_in_turn() {
        let proxies = ["a:1", "b:1", "c:1"].map(|text| Proxy::parse(text).expect("a proxy"));
        let proxies = Proxies::new(ProxySource::List(proxies.into()));
        let taken: Vec<_> =
            (0..5).filter_map(|_| proxies.take_next(&origin("http://h/"))).map(Proxy::to_string).collect();
        assert_eq!(["http://a:1", "http://b:1", "http://c:1", "http://a:1", "http://b:1"], *taken);
    }

    #[test]
    fn the_environment_is_read_as_by_curl() {
        type EnvironmentCase<'a> = (Option<&'a str>, &'a str, &'a [(&'a str, &'a str)]);
        let cases: &[EnvironmentCase<'_>] = &[
            (None, "http://h/", &[]),
            (Some("http://p:1"), "http://h/", &[("http_proxy", "http://p:1")]),
            (None, "http://h/", &[("HTTP_PROXY", "http://p:1")]),
            (None, "https://h/", &[("http_proxy", "http://p:1")]),
            (Some("http://q:1"), "https://h/", &[("https_proxy", "q:1"), ("HTTPS_PROXY", "p:1")]),
            (Some("http://p:1"), "https://h/", &[("https_proxy", ""), ("HTTPS_PROXY", "p:1")]),
            (Some("socks5h://p:1"), "https://h/", &[("ALL_PROXY", "socks5h://p:1")]),
            (Some("http://q:1"), "http://h/", &[("all_proxy", "p:1"), ("http_proxy", "q:1")]),
            (None, "http://a.h/", &[("all_proxy", "p:1"), ("NO_PROXY", "h")]),
            (Some("http://p:1"), "http://a.h/", &[("all_proxy", "p:1"), ("NO_PROXY", "h"), ("no_proxy", "i")]),
        ];
        for (expected, url, variables) in cases {
            let variable = |name: &str| {
                let found = variables.iter().find(|(other, _)| *other == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let proxies = Proxies::new(ProxySource::of_environment(variable).expect("proxies"));
            let next = proxies.take_next(&origin(url)).map(Proxy::to_string);
            assert_eq!(*expected, next.as_deref(), "{url} {variables:?}");
            assert_eq!(expected.is_some(), proxies.has_proxy_for(&origin(url)));
        }
        let broken = ProxySource::of_environment(|name| (name == "https_proxy").then(|| "ftp://me:secret@p".into()));
        let expected = "the value of https_proxy has the scheme ftp:// that is not supported: http://, https://, \
                        socks5h:// and socks5:// are";
        assert_eq!(Err(expected.to_owned()), broken);
    }
}
