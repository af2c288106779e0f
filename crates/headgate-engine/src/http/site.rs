//! The hosts that a run's rows go to, as one worker sees them: how to get there, and which headers go there.
//!
//! Each row is looked up once, by its URL up to the path. Sites belong to one run, so that no header of one run can reach
//! another's requests; what they lead to ([`Route`]) belongs to the worker, and what is known of the host to the engine.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::HeaderValue;
use http::uri::PathAndQuery;

use crate::http::dial::transport::RouteKey;
#[cfg(test)]
use crate::http::dial::transport::TransportConfig;
use crate::http::dial::transport::Transports;
use crate::http::pool::{Pool, Route};
use crate::http::target::{self, Target};
use crate::model::limits::LimitBy;
use crate::model::origin::Origin;
use crate::model::reason::Reason;
use crate::schedule::hosts::{Host, HostTable};

/// Sites that the workers of a run remember, all together; with its route and the names of its host, each takes about 1 KiB
/// of memory. One that was forgotten is made again.
const SITES_OF_RUN: usize = 65_536;
/// The bounds of what one worker remembers.
const SITES_OF_WORKER: (usize, usize) = (4096, 32_768);

/// Where rows go, and with what.
#[derive(Debug)]
pub struct Site {
    /// The text of URLs that lead here, up to the path.
    prefix: Box<str>,
    pub route: Rc<Route>,
    /// Its host as limits know it.
    pub limit_key: Box<str>,
    /// The run's headers as they go there, where a row has none of its own: lines with their CR LF.
    pub headers: Box<[u8]>,
    /// The run's credentials are among them, if it has any.
    pub gets_credentials: bool,
}

/// What sites are made with.
#[derive(Debug, Clone)]
pub struct SiteMaker {
    /// The worker's.
    pub pool: Rc<RefCell<Pool>>,
    /// The engine's.
    pub hosts: Arc<Mutex<HostTable>>,
    /// How the run's connections are made.
    pub transports: Transports,
    /// What limits take for one host.
    pub limit_by: LimitBy,
    /// Workers that make sites for the run.
    pub workers: usize,
}

impl SiteMaker {
    #[cfg(test)]
    pub fn for_tests() -> Self {
        use crate::http::idle_limits::IdleLimits;

        Self {
            pool: Rc::new(RefCell::new(Pool::new(IdleLimits::default()))),
            hosts: Arc::new(Mutex::new(HostTable::new(1))),
            transports: TransportConfig::for_tests().into(),
            limit_by: LimitBy::default(),
            workers: SITES_OF_RUN / SITES_OF_WORKER.0,
        }
    }

    fn route(&self, origin: Origin) -> Rc<Route> {
        self.pool.borrow_mut().route(self.route_key(origin), |origin| self.host(origin))
    }

    fn route_key(&self, origin: Origin) -> RouteKey {
        RouteKey { transport: self.transports.to(&origin).clone(), origin }
    }

    /// The same, whose connections are made without the run's client certificate.
    #[must_use]
    pub fn without_certificate(&self) -> Self {
        Self { transports: self.transports.without_certificate(), ..self.clone() }
    }

    fn host(&self, origin: &Origin) -> Arc<Host> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner).get(origin, Instant::now())
    }
}

/// What a URL leads to.
#[derive(Debug)]
pub struct Found {
    pub site: Rc<Site>,
    pub path: PathAndQuery,
    /// From `user:password@` in the URL.
    pub authorization: Option<HeaderValue>,
}

/// The sites that were met last.
#[derive(Debug)]
pub struct Sites {
    maker: SiteMaker,
    /// Sites that are remembered, at most.
    max: usize,
    by_prefix: HashMap<Box<str>, Rc<Site>>,
    /// Those that were met before half of the others: what is not met again meanwhile is forgotten. A list in order of use
    /// would be written to for each row, all over the memory.
    older: HashMap<Box<str>, Rc<Site>>,
    /// Most rows go where the one before went.
    last: Option<Rc<Site>>,
}

impl Sites {
    pub fn new(maker: SiteMaker) -> Self {
        let max = (SITES_OF_RUN / maker.workers.max(1)).clamp(SITES_OF_WORKER.0, SITES_OF_WORKER.1);
        Self { maker, max, by_prefix: HashMap::new(), older: HashMap::new(), last: None }
    }

    pub fn route_key(&self, origin: Origin) -> RouteKey {
        self.maker.route_key(origin)
    }

    /// Where a URL leads; `headers` makes the headers for a host that was not met yet, and says whether credentials are among them.
    ///
    /// # Errors
    /// Why the text is no URL that can be fetched, for a person.
    pub fn find(&mut self, url: &str, headers: impl FnOnce(&Origin) -> (Box<[u8]>, bool)) -> Result<Found, Reason> {
        if let Some((site, path)) = self.known(url)
            && let Ok(path) = PathAndQuery::try_from(path)
        {
            return Ok(Found { site: site.clone(), path, authorization: None });
        }
        let Target { origin, path, authorization } = target::parse(url)?;
        // What has a user's name in it is no other's way to the same host.
        let end = if authorization.is_none() { target::authority_end(url) } else { None };
        let prefix: Box<str> = url[..end.unwrap_or_default()].into();
        let (headers, gets_credentials) = headers(&origin);
        let limit_key = origin.key(self.maker.limit_by);
        let site = Rc::new(Site {
            prefix: prefix.clone(),
            route: self.maker.route(origin),
            limit_key,
            headers,
            gets_credentials,
        });
        if end.is_some() {
            self.remember(prefix, site.clone());
            self.last = Some(site.clone());
        }
        Ok(Found { site, path, authorization })
    }

    /// The host of a URL, as limits know it; `None`: it is no URL that can be fetched. A host that was not met yet is not
    /// remembered for it.
    pub fn limit_key(&mut self, url: &str) -> Option<Cow<'_, str>> {
        if self.known(url).is_some() {
            return self.last.as_ref().map(|site| Cow::Borrowed(&*site.limit_key));
        }
        let Target { origin, .. } = target::parse(url).ok()?;
        Some(Cow::Owned(origin.key(self.maker.limit_by).into()))
    }

    /// What the engine knows of the host of a URL; `None`: it is no URL that can be fetched.
    pub fn host(&mut self, url: &str) -> Option<Arc<Host>> {
        if let Some((site, _)) = self.known(url) {
            return Some(site.route.host.clone());
        }
        target::parse(url).ok().map(|target| self.maker.host(&target.origin))
    }

    /// Returns the route to a host.
    pub fn route(&self, origin: Origin) -> Rc<Route> {
        self.maker.route(origin)
    }

    fn remember(&mut self, prefix: Box<str>, site: Rc<Site>) {
        if self.by_prefix.len() >= self.max / 2 {
            self.older = std::mem::take(&mut self.by_prefix);
        }
        self.by_prefix.insert(prefix, site);
    }

    /// Where a URL leads whose host was met before, and its path, if that is sent as it stands.
    pub fn known<'u>(&mut self, url: &'u str) -> Option<(&Rc<Site>, &'u str)> {
        let of_last = self.last.as_ref().and_then(|last| url.strip_prefix(&*last.prefix));
        // What follows the beginning of a longer name is no path.
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
            self.remember(prefix, site.clone());
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

    fn find(sites: &mut Sites, url: &str) -> Found {
        sites.find(url, |origin| (origin.authority().into_bytes().into(), true)).expect("a URL")
    }

    #[test]
    fn a_url_leads_to_the_site_of_its_host_however_many_are_met_in_turn() {
        let mut sites = sites();
        // The first is the beginning of the second; the last two are forgiven for what they are, and have no host in common.
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
    fn a_host_that_was_met_is_not_parsed_again_and_its_route_is_one_and_the_same() {
        let mut sites = sites();
        let first = find(&mut sites, "http://a/1");
        find(&mut sites, "http://b/2");
        let again = find(&mut sites, "http://a/3");
        assert!(Rc::ptr_eq(&first.site, &again.site));
        let otherwise = find(&mut sites, "http://A/4");
        assert!(!Rc::ptr_eq(&first.site, &otherwise.site));
        assert!(Rc::ptr_eq(&first.site.route, &otherwise.site.route));
    }

    #[test]
    fn a_site_that_is_met_again_and_again_is_remembered_and_the_number_is_bounded() {
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
    fn who_has_a_name_in_the_url_does_not_lend_it_to_the_next() {
        let mut sites = sites();
        assert!(find(&mut sites, "http://me:secret@a/").authorization.is_some());
        assert!(find(&mut sites, "http://a/").authorization.is_none());
        assert!(find(&mut sites, "http://me:secret@a/").authorization.is_some());
    }
}
