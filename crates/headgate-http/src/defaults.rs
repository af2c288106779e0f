//! The common parts of a run's requests: methods, headers, body.

use std::sync::Arc;

use headgate_core::authorization::{authorization, sources};
use headgate_core::credentials::{credential_options_of, is_credential, unbound};
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::options::{BodyEncoding, RequestOptions};
use headgate_core::origin::Origin;
use headgate_core::origin_set::OriginSet;
use headgate_core::row::{Row, RowExtra};
use headgate_core::secret::Secret;
use headgate_core::target::origin_set;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_TYPE, COOKIE, HOST, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
    TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderName, HeaderValue};

use crate::header_lines::{HeaderLine, checked, contains, parse_name, replaced};
use crate::idempotency_key::{IDEMPOTENCY_KEY, KeySalt};
use crate::method::Methods;
use crate::origin_credentials::{CredentialTable, OriginCredentials};
use crate::sent_body::SentBody;

/// Headers that only headgate sets.
pub const RESERVED_HEADERS: [HeaderName; 4] = [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, UPGRADE];

/// The content encodings that responses may have.
const ACCEPTED_ENCODINGS: &str = "gzip, deflate, br, zstd";

/// The name of a header with its new value; `None`: it is not sent.
pub type HeaderChange = (Box<str>, Option<Secret<Box<[u8]>>>);

/// The common parts of a run's requests, checked once.
#[derive(Debug, Clone)]
pub struct Defaults {
    pub methods: Methods,
    headers: Vec<HeaderLine>,
    /// The headers that are sent after a redirect to another origin.
    harmless: Vec<HeaderLine>,
    /// The `authorization` header, if another option than `headers` gives it.
    authorization: Option<HeaderValue>,
    /// That option.
    authorization_by: Option<OptionName>,
    /// Names of headers that are credentials, beside the well-known ones.
    secret_headers: Vec<String>,
    /// The origins that get credentials.
    credentials_for: OriginSet,
    /// Requests to these have credentials, whatever their rows have.
    pub(super) has_credentials: bool,
    /// The same, of options other than `headers`.
    has_other_credentials: bool,
    /// What responses have shown about the credentials at these origins.
    pub(super) origins: Arc<CredentialTable>,
    pub(super) body: SentBody,
    /// The content encoding of bodies of rows that don't have one.
    pub(super) encoding: Option<BodyEncoding>,
    /// The salt of the rows' idempotency keys, if rows get keys.
    pub(super) keys: Option<KeySalt>,
}

impl Defaults {
    /// Returns the common parts of the requests of a run, whose options have been checked.
    ///
    /// # Errors
    /// `Usage`, naming the option: a method or a header can't be sent, or credentials are for no origin.
    pub fn new(options: &RequestOptions) -> Result<Self, JobError> {
        let credentials_for = credentials_for(options)?;
        let methods = Methods::new(options.method.as_deref(), options.body.is_some())
            .map_err(|message| JobError::usage(message!(OptionName::Method, ": {message}")))?;
        let user_agent = HeaderValue::from_str(&options.user_agent).map_err(|_| {
            JobError::usage(message!(OptionName::UserAgent, ": has a character that can't be sent in a header"))
        })?;
        let mut headers = vec![
            default_host(),
            HeaderLine::new(USER_AGENT, user_agent),
            HeaderLine::new(ACCEPT, HeaderValue::from_static("*/*")),
        ];
        if let Some(range) = &options.response.range {
            headers.extend(range_of(range)?);
        } else {
            headers.push(HeaderLine::new(ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED_ENCODINGS)));
        }
        let pairs = options.headers.iter().map(|(name, value)| (name.as_str(), value.expose().as_bytes()));
        let own = checked(pairs).map_err(|message| JobError::usage(message!(OptionName::Headers, ": {message}")))?;
        let headers = replaced(&headers, &own);
        let encoding = options.compress_body.filter(|_| !contains(&headers, &CONTENT_ENCODING));
        let body = SentBody::new(options.body.clone().unwrap_or_default().into(), encoding);
        let mut defaults = Self {
            methods,
            headers: Vec::new(),
            harmless: Vec::new(),
            authorization: authorization(options)?,
            authorization_by: sources(options).find(|option| *option != OptionName::Headers),
            secret_headers: options.secret_headers.clone(),
            credentials_for,
            has_credentials: false,
            has_other_credentials: credential_options_of(options).any(|option| option != OptionName::Headers),
            origins: Arc::default(),
            body,
            encoding,
            keys: None,
        };
        defaults.set_headers(headers);
        Ok(defaults)
    }

    /// Sets the headers, to which `authorization` is added.
    fn set_headers(&mut self, headers: Vec<HeaderLine>) {
        let is_kept = |line: &&HeaderLine| {
            let is_harmless = [HOST, ACCEPT_ENCODING].contains(&line.name) || is_harmless(&line.name);
            is_harmless && !self.is_credential(&line.name)
        };
        self.harmless = headers.iter().filter(is_kept).cloned().collect();
        if let Some(host) = self.harmless.iter_mut().find(|line| line.name == HOST) {
            // A `host` of the user is only for its own origin.
            *host = HeaderLine::new(HOST, HeaderValue::from_static(""));
        }
        self.has_credentials = self.has_other_credentials || headers.iter().any(|line| self.is_credential(&line.name));
        self.headers = headers;
        self.headers.extend(self.authorization.clone().map(|value| HeaderLine::new(AUTHORIZATION, value)));
    }

    /// Returns the headers that can change, and whether each is a credential: all but `host` and those of other options.
    pub(crate) fn changeable(&self) -> impl Iterator<Item = (&HeaderLine, bool)> {
        let is_of_option = |line: &&HeaderLine| line.name == AUTHORIZATION && self.authorization.is_some();
        let is_default_host = |line: &&HeaderLine| line.name == HOST && line.value.is_empty();
        let lines = self.headers.iter().filter(move |line| !is_default_host(line) && !is_of_option(line));
        lines.map(|line| (line, self.is_credential(&line.name)))
    }

    /// Returns the defaults with changed headers: each name has a new value, or none.
    ///
    /// # Errors
    /// `Usage`: a header can't be sent, is a credential without an origin, or is set by another option.
    pub(crate) fn with_changes(&self, changes: &[HeaderChange]) -> Result<Self, JobError> {
        let wrong = |message| JobError::usage(message!(OptionName::Headers, ": {message}"));
        let set = changes.iter().filter_map(|(name, value)| Some((&**name, value.as_ref()?.expose().as_ref())));
        let own = checked(set).map_err(wrong)?;
        for line in &own {
            if RESERVED_HEADERS.contains(&line.name) {
                let (name, why) = (&line.name, "which headgate sets: it decides on bodies and connections");
                return Err(JobError::usage(message!(OptionName::Headers, " can't set `{name}`, {why}")));
            }
            if let Some(option) = self.authorization_by.filter(|_| line.name == AUTHORIZATION) {
                return Err(JobError::usage(message!(option, " and ", OptionName::Headers, " both set authorization")));
            }
            if self.is_credential(&line.name) && self.credentials_for.is_empty() {
                return Err(unbound(OptionName::Headers));
            }
        }
        let removed = changes.iter().filter(|(_, value)| value.is_none());
        let removed = removed.map(|(name, _)| parse_name(name)).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let mut headers = self.headers.clone();
        let is_of_option = |line: &HeaderLine| line.name == AUTHORIZATION && self.authorization.is_some();
        headers.retain(|line| !is_of_option(line) && (line.name == HOST || !removed.contains(&line.name)));
        if removed.contains(&HOST) {
            headers.iter_mut().filter(|line| line.name == HOST).for_each(|line| *line = default_host());
        }
        let mut defaults = self.clone();
        defaults.set_headers(replaced(&headers, &own));
        Ok(defaults)
    }

    /// Returns whether a header is a credential by its name.
    pub(super) fn is_credential(&self, name: &HeaderName) -> bool {
        self.is_credential_name(name.as_str())
    }

    /// Returns whether a header is a credential by its name, in any case.
    pub(super) fn is_credential_name(&self, name: &str) -> bool {
        is_credential(name, &self.secret_headers)
    }

    /// Returns defaults with an idempotency key for each row that has none of its own.
    #[must_use]
    pub fn with_keys(self, salt: KeySalt) -> Self {
        Self { keys: Some(salt), ..self }
    }

    /// Returns the defaults for requests of robots.txt: of the run's headers, only the user agent. Other headers may be
    /// credentials, which another host must not see, or request a range, or only a changed file.
    #[must_use]
    pub fn of_robots(&self) -> Self {
        let mut headers = self.headers.clone();
        headers.retain(|line| line.name == USER_AGENT);
        headers.insert(0, default_host());
        headers.push(HeaderLine::new(ACCEPT, HeaderValue::from_static("*/*")));
        headers.push(HeaderLine::new(ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED_ENCODINGS)));
        Self {
            methods: self.methods.clone(),
            harmless: headers.clone(),
            headers,
            authorization: None,
            authorization_by: None,
            secret_headers: Vec::new(),
            credentials_for: OriginSet::default(),
            has_credentials: false,
            has_other_credentials: false,
            origins: Arc::default(),
            body: SentBody::default(),
            encoding: None,
            keys: None,
        }
    }

    /// Returns the user agent of the run.
    pub fn user_agent(&self) -> &[u8] {
        let line = self.headers.iter().find(|line| line.name == USER_AGENT);
        line.map_or(&[], |line| line.value.as_bytes())
    }

    /// Returns whether the requests of a row have an idempotency key.
    pub fn has_idempotency_key(&self, row: &Row) -> bool {
        let is_key = |name: &str| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY.as_str());
        let has_own = |extra: &RowExtra| extra.headers.iter().any(|(name, _)| is_key(name));
        row.extra.as_deref().is_some_and(has_own)
            || !row.own().is_some_and(|own| own.is_without_header(IDEMPOTENCY_KEY.as_str()))
                && (self.keys.is_some() || contains(&self.headers, &IDEMPOTENCY_KEY))
    }

    /// Returns whether the run has cookies of its own.
    pub(super) fn has_cookies(&self) -> bool {
        contains(&self.headers, &COOKIE)
    }

    /// Returns whether no header of the run gives the media type of bodies.
    pub(super) fn is_untyped(&self) -> bool {
        !contains(&self.headers, &CONTENT_TYPE)
    }

    /// Returns the run's headers for an origin and a row that has headers of its own, or was redirected.
    pub(super) fn headers_to(&self, origin: &Origin, scope: HeaderScope) -> Vec<HeaderLine> {
        let mut headers = if scope == HeaderScope::Harmless { self.harmless.clone() } else { self.headers.clone() };
        headers.retain(|line| scope != HeaderScope::AllButCredentials || !self.is_credential(&line.name));
        if let Some(host) = headers.iter_mut().find(|line| line.name == HOST && line.value.is_empty())
            && let Ok(authority) = HeaderValue::try_from(origin.authority())
        {
            host.value = authority;
        }
        headers
    }

    /// Returns the lines of [`Defaults::headers_to`] for a row that was not redirected, and the state of the credentials at the
    /// origin, if it gets any. It copies no header: an input with many hosts needs them for each.
    pub(super) fn lines_to(&self, origin: &Origin) -> (Box<[u8]>, Option<Arc<OriginCredentials>>) {
        let gets_credentials = self.credentials_for.contains(origin);
        let authority = origin.authority();
        let length = |line: &HeaderLine| line.name.as_str().len() + line.value.len() + ": \r\n".len();
        let mut lines = Vec::with_capacity(authority.len() + self.headers.iter().map(length).sum::<usize>());
        for line in self.headers.iter().filter(|line| gets_credentials || !self.is_credential(&line.name)) {
            if line.name == HOST && line.value.is_empty() {
                line.write_with(authority.as_bytes(), &mut lines);
            } else {
                line.write(&mut lines);
            }
        }
        (lines.into(), gets_credentials.then(|| self.origins.of(origin)))
    }
}

/// Returns the `host` header whose value is the authority of each origin.
fn default_host() -> HeaderLine {
    HeaderLine::new(HOST, HeaderValue::from_static(""))
}

/// The part of a run's headers that an origin gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderScope {
    All,
    AllButCredentials,
    /// Only harmless headers, after a redirect to another origin.
    Harmless,
}

/// Returns whether a header of the user is sent after a redirect to another origin. Such headers describe the wanted
/// representation and not the user; or they describe a body, and are sent with it.
pub(super) fn is_harmless(name: &HeaderName) -> bool {
    const HARMLESS: [HeaderName; 9] = [
        ACCEPT,
        ACCEPT_LANGUAGE,
        USER_AGENT,
        RANGE,
        IF_MATCH,
        IF_NONE_MATCH,
        IF_MODIFIED_SINCE,
        IF_UNMODIFIED_SINCE,
        IF_RANGE,
    ];
    HARMLESS.contains(name) || is_body_header(name)
}

/// Returns whether a header describes a body (Fetch standard, "request-body-header name", and digests of RFC 9530).
pub(super) fn is_body_header(name: &HeaderName) -> bool {
    name.as_str().starts_with("content-")
}

/// Returns the origins that get the credentials of a run.
fn credentials_for(options: &RequestOptions) -> Result<OriginSet, JobError> {
    let origins = origin_set(&options.credentials_for)
        .map_err(|error| JobError::usage(message!(OptionName::CredentialsFor, ": {error}")))?;
    match credential_options_of(options).next().filter(|_| options.credentials_for.is_empty()) {
        Some(credential) => Err(unbound(credential)),
        None => Ok(origins),
    }
}

/// Returns the headers that request a range of the uncompressed bytes: a range of a compressed body can't be decoded (Fetch
/// standard, "HTTP-network-or-cache fetch").
fn range_of(range: &str) -> Result<[HeaderLine; 2], JobError> {
    let value = HeaderValue::try_from(format!("bytes={range}")).map_err(|_| {
        JobError::usage(message!(OptionName::Range, ": has a character that can't be sent in a header"))
    })?;
    Ok([HeaderLine::new(ACCEPT_ENCODING, HeaderValue::from_static("identity")), HeaderLine::new(RANGE, value)])
}
