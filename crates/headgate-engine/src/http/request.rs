//! From a row and the run's defaults to a request that can be sent, or to the reason why not.
//!
//! Most rows of a run differ in their path alone: then the headers are one block of bytes, made once for each site. Where a
//! row has headers of its own, they are merged as the request is written, and not before: until then it is known which
//! are the run's and which the row's, and another host can be sent fewer of them.

use std::borrow::Cow;
use std::rc::Rc;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING, UPGRADE,
    USER_AGENT,
};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::http::authorization::authorization;
use crate::http::idempotency_key::{IDEMPOTENCY_KEY, KeySalt};
use crate::http::method::{self, Methods};
use crate::http::site::{Found, Site, SiteMaker, Sites};
use crate::message;
use crate::model::error::{ErrorKind, Failure, JobError};
use crate::model::message::OptionName;
use crate::model::options::RequestOptions;
use crate::model::origin::Origin;
use crate::model::reason::{Reason, shown};
use crate::model::row::Row;

/// Headers that are not for others to set.
const OURS: [HeaderName; 4] = [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, UPGRADE];

/// A body up to this size is sent in one write with its head.
const JOINED_BODY_BYTES: usize = 32 * 1024;

/// Headers that a row may bring, or a run: servers take far fewer.
const MAX_OWN_HEADERS: usize = 1000;

/// A request that can be sent.
#[derive(Debug)]
struct Prepared {
    site: Rc<Site>,
    method: Method,
    path: PathAndQuery,
    /// Where it is sent with others than the site's.
    own_headers: Option<Box<OwnHeaders>>,
    /// Neither the run nor the row says what the body is.
    is_untyped: bool,
    /// What its key follows from, if it is to have one.
    key: Option<(KeySalt, u64)>,
    body: Bytes,
}

/// What a row adds to the headers of its run, or has in place of them.
#[derive(Debug, Clone)]
struct OwnHeaders {
    defaults: Rc<Defaults>,
    /// From the URL; the run's own `authorization` comes before it.
    authorization: Option<HeaderValue>,
    /// In the row's order; they replace what there is of their names.
    row: Vec<(HeaderName, HeaderValue)>,
}

impl OwnHeaders {
    fn write(&self, origin: &Origin, wire: &mut Vec<u8>) {
        let mut headers = self.defaults.headers_to(origin);
        if let Some(authorization) = &self.authorization {
            headers.entry(AUTHORIZATION).or_insert_with(|| authorization.clone());
        }
        replace_headers(&mut headers, &self.row);
        write_lines(&headers, wire);
    }

    fn names(&self, wanted: &HeaderName) -> bool {
        self.row.iter().any(|(name, _)| name == wanted)
    }
}

impl Prepared {
    /// Appends everything before the body, as it goes on the wire (RFC 9112 section 3).
    fn write_head(&self, wire: &mut Vec<u8>) {
        write_begin(&self.method, wire);
        wire.extend_from_slice(self.path.as_str().as_bytes());
        wire.extend_from_slice(AFTER_PATH);
        match &self.own_headers {
            None => wire.extend_from_slice(&self.site.headers),
            Some(own) => own.write(&self.site.route.key.origin, wire),
        }
        if let Some((salt, row)) = &self.key {
            salt.write_line(*row, wire);
        }
        write_end(&self.method, &self.body, self.is_untyped, wire);
    }
}

/// What stands between the path and the headers.
const AFTER_PATH: &[u8] = b" HTTP/1.1\r\n";

fn write_begin(method: &Method, wire: &mut Vec<u8>) {
    wire.extend_from_slice(method.as_str().as_bytes());
    wire.push(b' ');
}

fn write_end(method: &Method, body: &[u8], is_untyped: bool, wire: &mut Vec<u8>) {
    if is_untyped && *method == Method::POST && !body.is_empty() {
        wire.extend_from_slice(b"content-type: ");
        wire.extend_from_slice(guessed_type(body).as_bytes());
        wire.extend_from_slice(b"\r\n");
    }
    // The length of no body is told where a body would have a meaning (RFC 9110 section 8.6).
    if !body.is_empty() || matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
        wire.extend_from_slice(b"content-length: ");
        wire.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"\r\n");
}

/// What a body is that nobody has named: a form, as curl says of all, unless it begins as no form does.
fn guessed_type(body: &[u8]) -> &'static str {
    match body.trim_ascii_start().first() {
        Some(b'{' | b'[') => "application/json",
        _ => "application/x-www-form-urlencoded",
    }
}

/// What a run's requests have in common, checked once.
#[derive(Debug, Clone)]
pub struct Defaults {
    pub methods: Methods,
    headers: HeaderMap,
    body: Bytes,
    /// What the keys of rows follow from, if each is to have one.
    keys: Option<KeySalt>,
}

impl Defaults {
    /// # Errors
    /// `Usage`, naming the option: a method or a header that can't be sent.
    pub fn new(options: &RequestOptions) -> Result<Self, JobError> {
        let methods = Methods::new(options.method.as_deref(), options.body.is_some())
            .map_err(|message| JobError::usage(message!(OptionName::Method, ": {message}")))?;
        let user_agent = HeaderValue::from_str(&options.user_agent).map_err(|_| {
            JobError::usage(message!(OptionName::UserAgent, ": has a character that can't be sent in a header"))
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static(""));
        headers.insert(USER_AGENT, user_agent);
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, deflate, br, zstd"));
        for (name, _) in &options.headers {
            if OURS.iter().any(|ours| ours.as_str().eq_ignore_ascii_case(name)) {
                return Err(JobError::usage(message!(
                    OptionName::Headers,
                    ": `{name}` is set by headgate, which decides on bodies and connections"
                )));
            }
        }
        let pairs = options.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let own =
            checked_headers(pairs).map_err(|message| JobError::usage(message!(OptionName::Headers, ": {message}")))?;
        replace_headers(&mut headers, &own);
        if let Some(authorization) = authorization(options)? {
            headers.insert(AUTHORIZATION, authorization);
        }
        Ok(Self { methods, headers, body: options.body.clone().unwrap_or_default().into(), keys: None })
    }

    /// Gives each row a key of its own, unless it brings one.
    ///
    /// # Errors
    /// `Usage`: all rows would have the same key from a header of the run, and be one request to a server.
    pub fn with_keys(self, salt: KeySalt) -> Result<Self, JobError> {
        if self.headers.contains_key(IDEMPOTENCY_KEY) {
            return Err(JobError::usage(message!(
                OptionName::IdempotencyKey,
                " makes a key for each row, and ",
                OptionName::Headers,
                " gives the same one to all: leave one of them out"
            )));
        }
        Ok(Self { keys: Some(salt), ..self })
    }

    /// Whether a server can tell by a key that it was asked a row before.
    pub fn has_idempotency_key(&self, row: &Row) -> bool {
        let own = |(name, _): &(Box<str>, _)| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY.as_str());
        self.keys.is_some()
            || self.headers.contains_key(IDEMPOTENCY_KEY)
            || row.extra.as_ref().is_some_and(|extra| extra.headers.iter().any(own))
    }
}

/// Makes requests of a run's rows. One for each worker, because it remembers the hosts that they go to.
#[derive(Debug)]
pub struct Preparer {
    defaults: Rc<Defaults>,
    /// Where a row is a URL and nothing else: what goes before the path, and what goes behind the headers.
    plain: (Box<[u8]>, Box<[u8]>),
    sites: Sites,
}

impl Preparer {
    pub fn new(defaults: Defaults, sites: SiteMaker) -> Self {
        let (mut begin, mut end) = (Vec::new(), Vec::new());
        let method = defaults.methods.of_run();
        write_begin(method, &mut begin);
        write_end(method, &defaults.body, defaults.is_untyped(), &mut end);
        if defaults.body.len() <= JOINED_BODY_BYTES {
            end.extend_from_slice(&defaults.body);
        }
        Self { defaults: Rc::new(defaults), plain: (begin.into(), end.into()), sites: Sites::new(sites) }
    }

    /// See [`Defaults::has_idempotency_key`].
    pub fn has_idempotency_key(&self, row: &Row) -> bool {
        self.defaults.has_idempotency_key(row)
    }

    /// Puts a row's request together in `wire`, but for a body that is too long for that: where it goes, and that body. Mostly
    /// copies what lies there, and takes no memory.
    ///
    /// # Errors
    /// `invalid_request`: the row's defect, or what of it can't be sent.
    pub fn write(&mut self, row: &Row, wire: &mut Vec<u8>) -> Result<(Rc<Site>, Bytes), Failure> {
        wire.clear();
        let is_plain = row.extra.as_ref().is_none_or(|extra| extra.asks_like_the_run());
        if is_plain
            && self.defaults.body.len() <= JOINED_BODY_BYTES
            && let Some((site, path)) = self.sites.known(&row.url)
        {
            let (begin, end) = &self.plain;
            for piece in [begin, path.as_bytes(), AFTER_PATH, &site.headers] {
                wire.extend_from_slice(piece);
            }
            if let Some(salt) = &self.defaults.keys {
                salt.write_line(row.ordinal, wire);
            }
            wire.extend_from_slice(end);
            return Ok((site.clone(), Bytes::new()));
        }
        let prepared = self.prepare(row)?;
        prepared.write_head(wire);
        let Prepared { site, mut body, .. } = prepared;
        if body.len() <= JOINED_BODY_BYTES {
            wire.extend_from_slice(&std::mem::take(&mut body));
        }
        Ok((site, body))
    }

    /// The name of the host that a row goes to, as limits know it. `None`: it leads to none.
    pub fn limit_key(&mut self, row: &Row) -> Option<Cow<'_, str>> {
        self.sites.limit_key(&row.url)
    }

    /// Whether sending a row's request twice has the effect of sending it once.
    pub fn is_idempotent(&self, row: &Row) -> bool {
        method::is_idempotent(self.defaults.methods.name(row))
    }

    fn prepare(&mut self, row: &Row) -> Result<Prepared, Failure> {
        self.try_prepare(row).map_err(|reason| Failure::new(ErrorKind::InvalidRequest, reason))
    }

    fn try_prepare(&mut self, row: &Row) -> Result<Prepared, Reason> {
        let extra = row.extra.as_deref();
        if let Some(defect) = extra.and_then(|extra| extra.defect.as_ref()) {
            return Err(defect.clone());
        }
        let Found { site, path, authorization } =
            self.sites.find(&row.url, |origin| self.defaults.lines_to(origin).into())?;
        let own_method = extra.and_then(|extra| extra.method.as_deref()).map(method::parse).transpose()?;
        let own_headers = extra.map_or(&[][..], |extra| &extra.headers);
        let own_headers = if own_headers.is_empty() && authorization.is_none() {
            None
        } else {
            let row = checked_headers(own_headers.iter().map(|(name, value)| (&**name, &**value)))?;
            Some(Box::new(OwnHeaders { defaults: self.defaults.clone(), authorization, row }))
        };
        let brings_key = own_headers.as_ref().is_some_and(|own| own.names(&IDEMPOTENCY_KEY));
        let own_body = extra.and_then(|extra| extra.body.clone());
        Ok(Prepared {
            site,
            method: own_method.unwrap_or_else(|| self.defaults.methods.of_row(extra).clone()),
            path,
            is_untyped: self.defaults.is_untyped() && !own_headers.as_ref().is_some_and(|own| own.names(&CONTENT_TYPE)),
            own_headers,
            key: self.defaults.keys.filter(|_| !brings_key).map(|salt| (salt, row.ordinal)),
            body: own_body.unwrap_or_else(|| self.defaults.body.clone()),
        })
    }
}

impl Defaults {
    /// Nothing says what bodies are.
    fn is_untyped(&self) -> bool {
        !self.headers.contains_key(CONTENT_TYPE)
    }

    fn headers_to(&self, origin: &Origin) -> HeaderMap {
        let mut headers = self.headers.clone();
        if headers[HOST].is_empty()
            && let Ok(host) = HeaderValue::try_from(origin.authority())
        {
            headers.insert(HOST, host);
        }
        headers
    }

    fn lines_to(&self, origin: &Origin) -> Vec<u8> {
        let mut lines = Vec::new();
        write_lines(&self.headers_to(origin), &mut lines);
        lines
    }
}

fn write_lines(headers: &HeaderMap, wire: &mut Vec<u8>) {
    for (name, value) in headers {
        for piece in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            wire.extend_from_slice(piece);
        }
    }
}

/// What of these pairs is sent, as far as all of them can be.
fn checked_headers<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Result<Vec<(HeaderName, HeaderValue)>, Reason> {
    let mut checked = Vec::new();
    for (name, value) in pairs {
        if checked.len() == MAX_OWN_HEADERS {
            return Err(format!("it has more than {MAX_OWN_HEADERS} headers").into());
        }
        let given = name.as_bytes();
        let name = HeaderName::from_bytes(given)
            .map_err(|_| Reason::new("a header has a name that can't be sent").with(shown(given)))?;
        let value = HeaderValue::from_bytes(value).map_err(|_| {
            Reason::new("a header has a character that can't be sent, such as a line break").with(shown(given))
        })?;
        // How the body is delimited and how long the connection lives is decided here: a header that contradicts it would
        // let a request be smuggled. Tables of recorded requests have them, so they are left out and not refused.
        if !OURS.contains(&name) {
            checked.push((name, value));
        }
    }
    Ok(checked)
}

/// `own` replace what `headers` has of their names; repeats among them are kept.
fn replace_headers(headers: &mut HeaderMap, own: &[(HeaderName, HeaderValue)]) {
    for (index, (name, value)) in own.iter().enumerate() {
        if own[..index].iter().any(|(earlier, _)| earlier == name) {
            headers.append(name, value.clone());
        } else {
            headers.insert(name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests;
