//! The hosts of a run's rows, as one worker knows them: their routes, and the headers that are sent to them.
//!
//! Each row is looked up once, by its URL up to the path. Sites belong to one run, so that no header of one run can get into
//! requests of another. Their [`Route`] belongs to the worker, and their [`Host`] to the engine.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use headgate_core::clock;
use headgate_core::limits::HostBy;
use headgate_core::origin::Origin;
use headgate_core::reason::Reason;
use headgate_core::schedule::hosts::{Host, HostTable};
use headgate_core::target::{self, Target};
use http::HeaderValue;
use http::uri::PathAndQuery;

use crate::dial::transport::RouteKey;
#[cfg(test)]
use crate::dial::transport::TransportConfig;
use crate::dial::transport::Transports;
use crate::origin_credentials::OriginCredentials;
use crate::pool::{Pool, Route};

/// The most sites that all workers of a run cache. With its route and hostname, each takes about 1 KiB of memory. An evicted
/// site is created anew when it is needed.
const SITES_OF_RUN: usize = 65_536;
/// The bounds of one worker's share of the cached sites.
const SITES_OF_WORKER: (usize, usize) = (4096, 32_768);

/// A host of a run's rows, with its route and headers.
#[derive(Debug)]
pub struct Site {
    /// The URLs of this site up to the path.
    prefix: Box<str>,
    pub route: Rc<Route>,
    /// The key of the host in limits.
    pub limit_key: Box<str>,
    /// The run's headers for this host, for rows without headers of their own: lines with their CR LF.
    pub headers: Box<[u8]>,
    /// The state of the run's credentials at this origin, if requests get them.
    pub credentials: Option<Arc<OriginCredentials>>,
    /// The version of the run's headers.
    pub version: u64,
}

/// Creates the sites of a run.
#[derive(Debug, Clone)]
pub struct SiteMaker {
    /// The pool of the worker.
    pub pool: Rc<RefCell<Pool>>,
    /// The hosts of the engine.
    pub hosts: Arc<Mutex<HostTable>>,
    /// The transport configurations of the run.
    pub transports: Transports,
    /// How limits distinguish hosts.
    pub host_by: HostBy,
    /// The number of workers of the run.
    pub workers: usize,
}

impl SiteMaker {
    #[cfg(test)]
    pub fn for_tests() -> Self {
        use crate::idle_limits::IdleLimits;

        Self {
            pool: Rc::new(RefCell::new(Pool::new(IdleLimits::default()))),
            hosts: Arc::new(Mutex::new(HostTable::new(1))),
            transports: TransportConfig::for_tests().into(),
            host_by: HostBy::default(),
            workers: SITES_OF_RUN / SITES_OF_WORKER.0,
        }
    }

    fn route(&self, origin: Origin) -> Rc<Route> {
        self.pool.borrow_mut().route(self.route_key(origin), |origin| self.host(origin))
    }

    fn route_key(&self, origin: Origin) -> RouteKey {
        RouteKey { transport: self.transports.to(&origin).clone(), origin }
    }

    /// Returns a copy whose connections use no client certificate of the run.
    #[must_use]
    pub(crate) fn without_certificate(&self) -> Self {
        Self { transports: self.transports.without_certificate(), ..self.clone() }
    }

    fn host(&self, origin: &Origin) -> Arc<Host> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).get(origin, clock::now())
    }
}

/// The site and the path of a URL.
#[derive(Debug)]
pub(crate) struct SiteMatch {
    pub site: Rc<Site>,
    pub path: PathAndQuery,
    /// The header for `user:password@` in the URL.
    pub authorization: Option<HeaderValue>,
}

/// A cache of the sites that were used last.
#[derive(Debug)]
pub(crate) struct Sites {
    maker: SiteMaker,
    /// The most sites in the cache.
    max: usize,
    by_prefix: HashMap<Box<str>, Rc<Site>>,
    /// The older half of the cache, which is dropped when `by_prefix` is full. An LRU list would write to memory for each row,
    /// with cache misses.
    older: HashMap<Box<str>, Rc<Site>>,
    /// The site of the last row: most rows have the same site as the row before.
    last: Option<Rc<Site>>,
    /// The version of the run's headers.
    version: u64,
}

impl Sites {
    pub(crate) fn new(maker: SiteMaker) -> Self {
        let max = (SITES_OF_RUN / maker.workers.max(1)).clamp(SITES_OF_WORKER.0, SITES_OF_WORKER.1);
        Self { maker, max, by_prefix: HashMap::new(), older: HashMap::new(), last: None, version: 0 }
    }

    /// Forgets all sites: the headers of the run are of another version.
    pub(crate) fn renew(&mut self, version: u64) {
        (self.by_prefix, self.older, self.last) = (HashMap::new(), HashMap::new(), None);
        self.version = version;
    }

    pub(crate) fn route_key(&self, origin: Origin) -> RouteKey {
        self.maker.route_key(origin)
    }

    /// Returns the site of a URL. For a new site, `headers` returns the headers, and the state of the credentials that they
    /// include.
    ///
    /// # Errors
    /// Returns a message for the user if the text is not a URL that can be fetched.
    pub(crate) fn find(
        &mut self,
        url: &str,
        headers: impl FnOnce(&Origin) -> (Box<[u8]>, Option<Arc<OriginCredentials>>),
    ) -> Result<SiteMatch, Reason> {
        if let Some((site, path)) = self.known(url)
            && let Ok(path) = PathAndQuery::try_from(path)
        {
            return Ok(SiteMatch { site: site.clone(), path, authorization: None });
        }
        let Target { origin, path, authorization } = target::parse(url)?;
        // A URL with credentials must not share its site with other URLs.
        let end = if authorization.is_none() { target::authority_end(url) } else { None };
        let prefix: Box<str> = url[..end.unwrap_or_default()].into();
        let (headers, credentials) = headers(&origin);
        let limit_key = origin.key(self.maker.host_by);
        let site = Rc::new(Site {
            prefix: prefix.clone(),
            route: self.maker.route(origin),
            limit_key,
            headers,
            credentials,
            version: self.version,
        });
        if end.is_some() {
            self.insert(prefix, site.clone());
            self.last = Some(site.clone());
        }
        Ok(SiteMatch { site, path, authorization })
    }

    /// Returns the key of a URL's host in limits; `None`: the text is not a URL that can be fetched. This adds no site to the
    /// cache.
    pub(crate) fn limit_key(&mut self, url: &str) -> Option<Cow<'_, str>> {
        if self.known(url).is_some() {
            return self.last.as_ref().map(|site| Cow::Borrowed(&*site.limit_key));
        }
        let Target { origin, .. } = target::parse(url).ok()?;
        Some(Cow::Owned(origin.key(self.maker.host_by).into()))
    }

    /// Returns the host of a URL; `None`: the text is not a URL that can be fetched.
    pub(crate) fn host(&mut self, url: &str) -> Option<Arc<Host>> {
        if let Some((site, _)) = self.known(url) {
            return Some(site.route.host.clone());
        }
        target::parse(url).ok().map(|target| self.maker.host(&target.origin))
    }

    /// Returns the route to a host.
    pub(crate) fn route(&self, origin: Origin) -> Rc<Route> {
        self.maker.route(origin)
    }

    fn insert(&mut self, prefix: Box<str>, site: Rc<Site>) {
        if self.by_prefix.len() >= self.max / 2 {
            self.older = std::mem::take(&mut self.by_prefix);
        }
        self.by_prefix.insert(prefix, site);
    }

    /// Returns the site of a URL if it is in the cache, and the path of the URL if it is sent unchanged.
    pub(crate) fn known<'u>(&mut self, url: &'u str) -> Option<(&Rc<Site>, &'u str)> {
        let of_last = self.last.as_ref().and_then(|last| url.strip_prefix(&*last.prefix));
        // The prefix may end within a longer hostname: then the rest is not a path.
        if let Some(path) = of_last.filter(|path| target::is_plain_path(path)) {
            return self.last.as_ref().map(|last| (last, path));
        }
        let (prefix, path) = url.split_at(target::authority_end(url)?);
        if !target::is_plain_path(path) {
            return None;
        }
        let known = self.by_prefix.get(prefix).cloned();
        let site = if let Some(site) = known {
            site
        } else {
            let (prefix, site) = self.older.remove_entry(prefix)?;
            self.insert(prefix, site.clone());
            site
        };
        Some((self.last.insert(site), path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites() -> Sites {
        Sites::new(SiteMaker::for_tests())
    }

    fn find(sites: &mut Sites, url: &str) -> SiteMatch {
        sites.find(url, |origin| (origin.authority().into_bytes().into(), None)).expect("a URL")
    }

    #[test]
    fn each_url_has_the_site_of_its_host_when_hosts_alternate() {
        let mut sites = sites();
        // The first is a prefix of the second; the last two are only tolerated as URLs, and have different hosts.
        let urls = [
            ("h1", "http://h1/a"),
            ("h10", "http://h10/b?c"),
            ("h1:81", "http://H1:81/./x"),
            ("h1", "https://h1/"),
            ("other.example", "http:///other.example/second"),
            ("127.0.0.1:81", "http:/127.0.0.1:81/a?u=http://h1/d"),
        ];
        for _ in 0..3 {
            for (authority, url) in urls {
                let found = find(&mut sites, url);
                let whole = target::parse(url).expect("a URL");
                assert_eq!((&whole.origin, &whole.path), (&found.site.route.key.origin, &found.path), "{url}");
                assert_eq!(authority.as_bytes(), &*found.site.headers, "{url}");
            }
        }
    }

    #[test]
    fn urls_with_the_same_prefix_share_a_site_and_all_urls_of_a_host_a_route() {
        let mut sites = sites();
        let first = find(&mut sites, "http://a/1");
        find(&mut sites, "http://b/2");
        let second = find(&mut sites, "http://a/3");
        assert!(Rc::ptr_eq(&first.site, &second.site));
        let upper_case = find(&mut sites, "http://A/4");
        assert!(!Rc::ptr_eq(&first.site, &upper_case.site));
        assert!(Rc::ptr_eq(&first.site.route, &upper_case.site.route));
    }

    #[test]
    fn a_site_that_is_used_often_stays_in_the_cache_which_is_bounded() {
        let mut sites = sites();
        let first = find(&mut sites, "http://often/");
        for number in 0..3 * sites.max {
            find(&mut sites, &format!("http://h{number}/"));
            if number % 100 == 0 {
                assert!(Rc::ptr_eq(&first.site, &find(&mut sites, "http://often/").site), "{number}");
            }
            assert!(sites.by_prefix.len() + sites.older.len() <= sites.max);
        }
    }

    #[test]
    fn credentials_in_a_url_are_not_used_for_the_next_url() {
        let mut sites = sites();
        assert!(find(&mut sites, "http://me:secret@a/").authorization.is_some());
        assert!(find(&mut sites, "http://a/").authorization.is_none());
        assert!(find(&mut sites, "http://me:secret@a/").authorization.is_some());
    }
}
