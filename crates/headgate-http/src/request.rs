//! Builds the request of a row from the row and the run's defaults.
//!
//! Most rows of a run differ only in their path: then the headers are one block of bytes, built once for each site. Headers of
//! a row are merged with the run's only when the request is written. Until then both are separate, so that fewer of them can
//! be sent to another host.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use headgate_core::cookie_jar::SharedCookieJar;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::origin::Origin;
use headgate_core::reason::Reason;
use headgate_core::row::Row;
use headgate_core::url_user::without_user;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, HOST};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method};

use crate::cookies;
use crate::defaults::{Defaults, HeaderScope, RESERVED_HEADERS, is_body_header, is_harmless};
use crate::dial::transport::RouteKey;
use crate::header_lines::{HeaderLine, checked, contains, parse_name, replaced};
use crate::idempotency_key::{IDEMPOTENCY_KEY, KeySalt};
use crate::live_defaults::LiveDefaults;
use crate::method;
use crate::origin_credentials::OriginCredentials;
use crate::pool::Route;
use crate::sent_body::{BodyRest, SentBody, end_head};
use crate::site::{Site, SiteMaker, SiteMatch, Sites};

/// A body of at most this size is written together with its head.
const JOINED_BODY_BYTES: usize = 32 * 1024;

/// A request that can be sent.
#[derive(Debug)]
struct PreparedRequest {
    site: Rc<Site>,
    contents: RequestContents,
}

/// A request, except for the headers of the run that all requests to its origin have.
#[derive(Debug)]
pub(crate) struct RequestContents {
    pub method: Method,
    path: PathAndQuery,
    /// The headers, if they differ from those of the site.
    own_headers: Option<Box<OwnHeaders>>,
    /// Neither the run nor the row has a header with the body's media type.
    is_untyped: bool,
    /// The salt and the row of the idempotency key, if the request gets one.
    key: Option<(KeySalt, u64)>,
    pub body: SentBody,
}

/// The headers of a row that differ from those of its run.
#[derive(Debug, Clone)]
struct OwnHeaders {
    defaults: Arc<Defaults>,
    /// The credentials of the URL, unless the run or the row has an `authorization` header.
    authorization: Option<HeaderValue>,
    /// The row's own headers, in its order; they replace headers of the run with the same names.
    row: Vec<HeaderLine>,
    /// Headers of the run that are not sent.
    removed: Vec<HeaderName>,
    scope: HeaderScope,
    /// A redirect has removed the body.
    is_bodiless: bool,
    /// Cookies that servers have set.
    cookies: Option<HeaderValue>,
}

impl OwnHeaders {
    fn lines(&self, origin: &Origin) -> Vec<HeaderLine> {
        let mut of_run = self.defaults.headers_to(origin, self.scope);
        of_run.retain(|line| line.name == HOST || !self.removed.contains(&line.name));
        let mut lines = replaced(&of_run, &self.row);
        lines.retain(|line| !(self.is_bodiless && is_body_header(&line.name)));
        if let Some(authorization) = self.authorization.as_ref().filter(|_| !contains(&lines, &AUTHORIZATION)) {
            lines.push(HeaderLine::new(AUTHORIZATION, authorization.clone()));
        }
        if let Some(set) = &self.cookies {
            cookies::add(&mut lines, set);
        }
        lines
    }
}

/// Where a request goes.
pub(crate) struct Destination {
    pub path: PathAndQuery,
    /// The header for `user:password@` in the URL.
    pub authorization: Option<HeaderValue>,
    /// The origin gets the credentials of the run.
    pub gets_credentials: bool,
    /// Cookies that servers have set.
    pub cookies: Option<HeaderValue>,
}

impl PreparedRequest {
    /// Appends the head of the request (RFC 9112 section 3).
    fn write_head(&self, wire: &mut Vec<u8>) {
        self.contents.write_head(&self.site.route.key.origin, &self.site.headers, wire);
    }
}

impl RequestContents {
    /// Returns the contents of a row's request.
    ///
    /// # Errors
    /// Returns a message for the user if no request can be made of the row.
    pub(crate) fn new(defaults: &Arc<Defaults>, row: &Row, to: Destination) -> Result<Self, Reason> {
        let Destination { path, authorization, gets_credentials, cookies } = to;
        let (extra, chain) = (row.extra.as_deref(), row.chain());
        let is_foreign = chain.is_some_and(|chain| chain.is_foreign);
        let is_without_credentials = row.own().is_some_and(|own| own.without_credentials);
        let scope = match gets_credentials && !is_without_credentials {
            _ if is_foreign => HeaderScope::Harmless,
            true => HeaderScope::All,
            false => HeaderScope::AllButCredentials,
        };
        let own_method =
            chain.and_then(|chain| chain.method.as_deref()).or(extra.and_then(|extra| extra.method.as_deref()));
        let own_method = own_method.map(method::parse).transpose()?;
        let own = extra.into_iter().flat_map(|extra| &extra.headers).map(|(name, value)| (&**name, &**value));
        let credentials = extra.into_iter().flat_map(|extra| &extra.credentials).filter(|_| scope == HeaderScope::All);
        let credentials = credentials.map(|(name, value)| (&**name, &**value.expose()));
        let mut own = without_reserved(checked(own.chain(credentials))?);
        if is_foreign {
            own.retain(|line| is_harmless(&line.name) && !defaults.is_credential(&line.name));
        }
        let without_headers = row.own().into_iter().flat_map(|own| &own.without_headers);
        let removed = without_headers.map(|name| parse_name(name)).collect::<Result<Vec<_>, Reason>>()?;
        let is_set = |name: &HeaderName| contains(&own, name) || removed.contains(name);
        let has_lost_body = chain.is_some_and(|chain| chain.method.is_some());
        let own_body = extra.and_then(|extra| extra.body.clone()).filter(|_| !has_lost_body);
        let encoding = defaults.encoding.filter(|_| !is_set(&CONTENT_ENCODING));
        let body = match own_body {
            _ if has_lost_body => SentBody::default(),
            Some(body) => SentBody::of_row(body, encoding, extra.and_then(|extra| extra.body_type.as_deref()))?,
            None => defaults.body.clone(),
        };
        let is_bodiless = has_lost_body || is_foreign && body.bytes.is_empty() && body.upload.is_none();
        let has_key = is_set(&IDEMPOTENCY_KEY);
        let is_untyped = defaults.is_untyped() && !is_set(&CONTENT_TYPE);
        let authorization = authorization.filter(|_| !removed.contains(&AUTHORIZATION));
        let is_own = !own.is_empty()
            || !removed.is_empty()
            || authorization.is_some()
            || chain.is_some()
            || is_without_credentials
            || cookies.is_some();
        let own_headers = is_own.then(|| {
            Box::new(OwnHeaders {
                defaults: defaults.clone(),
                authorization,
                row: own,
                cookies: cookies.filter(|_| !removed.contains(&COOKIE)),
                removed,
                scope,
                is_bodiless,
            })
        });
        Ok(Self {
            method: own_method.unwrap_or_else(|| defaults.methods.of_row(extra).clone()),
            path,
            is_untyped,
            own_headers,
            key: defaults.keys.filter(|_| !has_key).map(|salt| (salt, row.ordinal)),
            body,
        })
    }

    /// Appends the head of the request to `origin`, whose requests have `headers` unless their rows have others.
    pub(crate) fn write_head(&self, origin: &Origin, headers: &[u8], wire: &mut Vec<u8>) {
        write_begin(&self.method, wire);
        wire.extend_from_slice(self.path.as_str().as_bytes());
        wire.extend_from_slice(AFTER_PATH);
        match &self.own_headers {
            None => wire.extend_from_slice(headers),
            Some(own) => own.lines(origin).iter().for_each(|line| line.write(wire)),
        }
        if let Some((salt, row)) = &self.key {
            salt.write_line(*row, wire);
        }
        write_end(&self.method, &self.body, self.is_untyped, wire);
    }
}

/// The text between the path and the headers.
const AFTER_PATH: &[u8] = b" HTTP/1.1\r\n";

fn write_begin(method: &Method, wire: &mut Vec<u8>) {
    wire.extend_from_slice(method.as_str().as_bytes());
    wire.push(b' ');
}

fn write_end(method: &Method, body: &SentBody, is_untyped: bool, wire: &mut Vec<u8>) {
    body.headers(method, is_untyped).for_each(|line| line.write(wire));
    if body.upload.is_some() {
        // The caller ends the head once the length of the body is known.
        return;
    }
    let body = &body.bytes;
    // Without a body, its length is sent only with methods that define a meaning for a body (RFC 9110 section 8.6).
    if !body.is_empty() || matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
        end_head(Some(body.len() as u64), wire);
    } else {
        wire.extend_from_slice(b"\r\n");
    }
}

/// Builds the requests of a run's rows. Each worker has its own, because it caches the sites of the rows.
#[derive(Debug)]
pub struct Preparer {
    live: Arc<LiveDefaults>,
    /// The version of these defaults.
    version: u64,
    defaults: Arc<Defaults>,
    /// The parts of a request before the path and after the headers, for rows that consist of a URL only.
    plain: (Box<[u8]>, Box<[u8]>),
    sites: Sites,
    /// The sites of redirects to other origins: their connections use no client certificate.
    foreign_sites: Sites,
    /// The cookie jar of the client, if it keeps cookies.
    cookies: Option<SharedCookieJar>,
}

impl Preparer {
    pub fn new(live: Arc<LiveDefaults>, sites: SiteMaker) -> Self {
        let (version, defaults) = live.get();
        let (mut begin, mut end) = (Vec::new(), Vec::new());
        let method = defaults.methods.of_run();
        write_begin(method, &mut begin);
        write_end(method, &defaults.body, defaults.is_untyped(), &mut end);
        if defaults.body.bytes.len() <= JOINED_BODY_BYTES {
            end.extend_from_slice(&defaults.body.bytes);
        }
        let foreign_sites = Sites::new(sites.without_certificate());
        let mut preparer = Self {
            live,
            version,
            defaults,
            plain: (begin.into(), end.into()),
            sites: Sites::new(sites),
            foreign_sites,
            cookies: None,
        };
        preparer.sites.renew(version);
        preparer.foreign_sites.renew(version);
        preparer
    }

    /// Returns a preparer whose requests have the cookies of a jar, if there is one.
    #[must_use]
    pub fn with_cookies(self, cookies: Option<SharedCookieJar>) -> Self {
        Self { cookies, ..self }
    }

    /// Uses the run's current headers, if they have changed.
    fn renew(&mut self) {
        if self.live.version() != self.version {
            (self.version, self.defaults) = self.live.get();
            self.sites.renew(self.version);
            self.foreign_sites.renew(self.version);
        }
    }

    /// Returns the state of the run's credentials at the origin of this row; `None`: its request gets none of them, or is
    /// invalid.
    pub fn credentials_of(&mut self, row: &Row) -> Option<Arc<OriginCredentials>> {
        let is_foreign = row.chain().is_some_and(|chain| chain.is_foreign);
        if is_foreign || row.replaces_credentials() {
            return None;
        }
        let of_templates = row.extra.as_ref().is_some_and(|extra| !extra.credentials.is_empty());
        let found = self.sites.find(row.target(), |origin| self.defaults.lines_to(origin)).ok()?;
        found.site.credentials.clone().filter(|_| self.defaults.has_credentials || of_templates)
    }

    /// Returns whether the request of this row has credentials: those of the run, or its own.
    pub fn sends_credentials(&mut self, row: &Row) -> bool {
        let is_foreign = row.chain().is_some_and(|chain| chain.is_foreign);
        let is_own = |(name, _): &(Box<str>, _)| self.defaults.is_credential_name(name);
        let has_own = row.extra.as_ref().is_some_and(|extra| extra.headers.iter().any(is_own))
            || matches!(without_user(row.target()), Cow::Owned(_));
        !is_foreign && has_own || self.credentials_of(row).is_some()
    }

    /// Returns the key of the route to an origin, for rows that were not redirected there.
    pub fn route_key(&self, origin: Origin) -> RouteKey {
        self.sites.route_key(origin)
    }

    /// Returns whether the request of this row has an idempotency key.
    pub fn has_idempotency_key(&self, row: &Row) -> bool {
        self.defaults.has_idempotency_key(row)
    }

    /// Returns the header line with the idempotency key of a row that has none of its own; `None`: the run makes no keys.
    pub fn generated_key(&self, row: &Row) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        self.defaults.keys?.write_line(row.ordinal, &mut line);
        Some(line)
    }

    /// Writes a row's request to `wire`, except a body that is too long for it or is read while it is sent. Returns the site, the
    /// rest of the body, and the cookies that servers have set. Mostly copies existing bytes, and allocates nothing.
    ///
    /// # Errors
    /// `invalid_request`: the row is defective, or can't be sent.
    pub fn write(
        &mut self,
        row: &Row,
        wire: &mut Vec<u8>,
    ) -> Result<(Rc<Site>, BodyRest, Option<HeaderValue>), Failure> {
        wire.clear();
        self.renew();
        let is_plain = row.chain().is_none()
            && (self.cookies.is_none() || !self.defaults.has_cookies())
            && row.extra.as_ref().is_none_or(|extra| extra.has_only_own_url());
        if is_plain
            && self.defaults.body.bytes.len() <= JOINED_BODY_BYTES
            && let Some((site, path)) = self.sites.known(&row.url)
        {
            let (begin, end) = &self.plain;
            for piece in [begin, path.as_bytes(), AFTER_PATH, &site.headers] {
                wire.extend_from_slice(piece);
            }
            let path = path.split('?').next().unwrap_or_default();
            let cookies = cookies::header(self.cookies.as_ref(), None, &site.route.key.origin, path);
            if let Some(cookies) = &cookies {
                HeaderLine::new(COOKIE, cookies.clone()).write(wire);
            }
            if let Some(salt) = &self.defaults.keys {
                salt.write_line(row.ordinal, wire);
            }
            wire.extend_from_slice(end);
            return Ok((site.clone(), BodyRest::Bytes(Bytes::new()), cookies));
        }
        let prepared = self.prepare(row)?;
        prepared.write_head(wire);
        let PreparedRequest { site, contents } = prepared;
        let cookies = contents.own_headers.and_then(|own| own.cookies);
        let SentBody { bytes: mut body, upload, .. } = contents.body;
        if let Some(upload) = upload {
            return Ok((site, BodyRest::Upload(upload), cookies));
        }
        if body.len() <= JOINED_BODY_BYTES {
            wire.extend_from_slice(&std::mem::take(&mut body));
        }
        Ok((site, BodyRest::Bytes(body), cookies))
    }

    /// Returns the key of a row's host in limits; `None`: the row has no valid URL.
    pub fn limit_key(&mut self, row: &Row) -> Option<Cow<'_, str>> {
        self.sites.limit_key(row.target())
    }

    /// Returns when the host of a row last responded, if the engine knows it.
    pub fn responded_at(&mut self, row: &Row) -> Option<Instant> {
        self.sites.host(row.target())?.responded_at()
    }

    /// Returns whether the host of a row's next request refuses HEAD.
    pub fn host_refuses_head(&mut self, row: &Row) -> bool {
        self.sites.host(row.target()).is_some_and(|host| host.refuses_head())
    }

    /// Returns the route to an origin; see [`Sites::route`].
    pub fn route(&self, origin: Origin) -> Rc<Route> {
        self.sites.route(origin)
    }

    /// Returns whether the method of a row is idempotent.
    pub fn is_idempotent(&self, row: &Row) -> bool {
        method::is_idempotent(self.defaults.methods.name(row))
    }

    fn prepare(&mut self, row: &Row) -> Result<PreparedRequest, Failure> {
        self.try_prepare(row).map_err(|reason| Failure::new(ErrorKind::InvalidRequest, reason))
    }

    fn try_prepare(&mut self, row: &Row) -> Result<PreparedRequest, Reason> {
        check_defect(row)?;
        let is_foreign = row.chain().is_some_and(|chain| chain.is_foreign);
        let sites = if is_foreign { &mut self.foreign_sites } else { &mut self.sites };
        let SiteMatch { site, path, authorization } =
            sites.find(row.target(), |origin| self.defaults.lines_to(origin))?;
        let (origin, gets_credentials) = (&site.route.key.origin, site.credentials.is_some());
        let cookies = cookies::header(self.cookies.as_ref(), row.chain(), origin, path.path());
        let to = Destination { path, authorization, gets_credentials, cookies };
        let contents = RequestContents::new(&self.defaults, row, to)?;
        Ok(PreparedRequest { site, contents })
    }
}

/// Checks that the source could make a request of the row.
pub(crate) fn check_defect(row: &Row) -> Result<(), Reason> {
    let defect = row.extra.as_ref().and_then(|extra| extra.defect.as_ref());
    defect.map_or(Ok(()), |defect| Err(defect.clone()))
}

/// Removes headers that only headgate sets: those that delimit the body, or close the connection. A contradicting header would
/// allow request smuggling. Tables of recorded requests have such headers, so they are removed and not refused.
fn without_reserved(mut lines: Vec<HeaderLine>) -> Vec<HeaderLine> {
    lines.retain(|line| !RESERVED_HEADERS.contains(&line.name));
    lines
}

#[cfg(test)]
mod tests;
