//! What a run's requests have in common: methods, headers, a body.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_TYPE, HOST, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
    TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderName, HeaderValue};

use crate::http::authorization::authorization;
use crate::http::header_lines::{HeaderLine, checked, contains, replaced};
use crate::http::idempotency_key::{IDEMPOTENCY_KEY, KeySalt};
use crate::http::method::Methods;
use crate::http::sent_body::SentBody;
use crate::http::target::origin_set;
use crate::message;
use crate::model::credentials::{credential_options_of, is_credential, unbound};
use crate::model::error::JobError;
use crate::model::message::OptionName;
use crate::model::options::{BodyCoding, RequestOptions};
use crate::model::origin::Origin;
use crate::model::origin_set::OriginSet;
use crate::model::row::Row;

/// Headers that are not for others to set.
pub(crate) const OURS: [HeaderName; 4] = [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, UPGRADE];

/// What we can decode.
const OUR_CODINGS: &str = "gzip, deflate, br, zstd";

/// What a run's requests have in common, checked once.
#[derive(Debug, Clone)]
pub struct Defaults {
    pub methods: Methods,
    headers: Vec<HeaderLine>,
    /// Of these, the ones that follow a row wherever redirects lead.
    harmless: Vec<HeaderLine>,
    /// Names that are credentials beside those that say so.
    secret_headers: Vec<String>,
    /// Where credentials go.
    credentials_for: OriginSet,
    pub(super) body: SentBody,
    /// How bodies of rows are compressed, where nobody says that they are already.
    pub(super) coding: Option<BodyCoding>,
    /// What the keys of rows follow from, if each is to have one.
    pub(super) keys: Option<KeySalt>,
}

impl Defaults {
    /// # Errors
    /// `Usage`, naming the option: a method or a header that can't be sent, or credentials that are for no origin.
    pub fn new(options: &RequestOptions) -> Result<Self, JobError> {
        let credentials_for = credentials_for(options)?;
        let methods = Methods::new(options.method.as_deref(), options.body.is_some())
            .map_err(|message| JobError::usage(message!(OptionName::Method, ": {message}")))?;
        let user_agent = HeaderValue::from_str(&options.user_agent).map_err(|_| {
            JobError::usage(message!(OptionName::UserAgent, ": has a character that can't be sent in a header"))
        })?;
        let mut headers = vec![
            HeaderLine::new(HOST, HeaderValue::from_static("")),
            HeaderLine::new(USER_AGENT, user_agent),
            HeaderLine::new(ACCEPT, HeaderValue::from_static("*/*")),
        ];
        if let Some(range) = &options.range {
            headers.extend(range_of(range)?);
        } else {
            headers.push(HeaderLine::new(ACCEPT_ENCODING, HeaderValue::from_static(OUR_CODINGS)));
        }
        for (name, _) in &options.headers {
            if OURS.iter().any(|ours| ours.as_str().eq_ignore_ascii_case(name)) {
                return Err(JobError::usage(message!(
                    OptionName::Headers,
                    ": `{name}` is set by headgate, which decides on bodies and connections"
                )));
            }
        }
        let pairs = options.headers.iter().map(|(name, value)| (name.as_str(), value.expose().as_bytes()));
        let own = checked(pairs).map_err(|message| JobError::usage(message!(OptionName::Headers, ": {message}")))?;
        if options.range.is_some() && contains(&own, &RANGE) {
            return Err(JobError::usage(message!(
                OptionName::Range,
                " and ",
                OptionName::Headers,
                " both set Range: leave one of them out"
            )));
        }
        let followers: Vec<_> = own.iter().filter(|line| is_harmless(&line.name)).cloned().collect();
        let mut harmless = replaced(&headers, &followers);
        harmless.retain(|line| !is_credential(line.name.as_str(), &options.secret_headers));
        let mut headers = replaced(&headers, &own);
        if let Some(authorization) = authorization(options)? {
            headers.push(HeaderLine::new(AUTHORIZATION, authorization));
        }
        let coding = options.compress_body.filter(|_| !contains(&headers, &CONTENT_ENCODING));
        let body = SentBody::new(options.body.clone().unwrap_or_default().into(), coding);
        let secret_headers = options.secret_headers.clone();
        Ok(Self { methods, headers, harmless, secret_headers, credentials_for, body, coding, keys: None })
    }

    /// Whether a header is a credential by its name.
    pub(super) fn is_credential(&self, name: &HeaderName) -> bool {
        is_credential(name.as_str(), &self.secret_headers)
    }

    /// Gives each row a key of its own, unless it brings one.
    ///
    /// # Errors
    /// `Usage`: all rows would have the same key from a header of the run, and be one request to a server.
    pub fn with_keys(self, salt: KeySalt) -> Result<Self, JobError> {
        if contains(&self.headers, &IDEMPOTENCY_KEY) {
            return Err(JobError::usage(message!(
                OptionName::IdempotencyKey,
                " makes a key for each row, and ",
                OptionName::Headers,
                " gives the same one to all: leave one of them out"
            )));
        }
        Ok(Self { keys: Some(salt), ..self })
    }

    /// What robots.txt is asked for with: by whom, and nothing else of what is sent with the run's own requests. They have
    /// credentials, which another host must not see, and may ask for a part of a file, or only for one that has changed.
    #[must_use]
    pub fn of_robots(&self) -> Self {
        let mut headers = self.headers.clone();
        headers.retain(|line| line.name == USER_AGENT);
        headers.insert(0, HeaderLine::new(HOST, HeaderValue::from_static("")));
        headers.push(HeaderLine::new(ACCEPT, HeaderValue::from_static("*/*")));
        headers.push(HeaderLine::new(ACCEPT_ENCODING, HeaderValue::from_static(OUR_CODINGS)));
        Self {
            methods: self.methods.clone(),
            harmless: headers.clone(),
            headers,
            secret_headers: Vec::new(),
            credentials_for: OriginSet::default(),
            body: SentBody::default(),
            coding: None,
            keys: None,
        }
    }

    /// What the run calls itself.
    pub fn user_agent(&self) -> &[u8] {
        let line = self.headers.iter().find(|line| line.name == USER_AGENT);
        line.map_or(&[], |line| line.value.as_bytes())
    }

    /// Whether a server can tell by a key that it was asked a row before.
    pub fn has_idempotency_key(&self, row: &Row) -> bool {
        let own = |(name, _): &(Box<str>, _)| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY.as_str());
        self.keys.is_some()
            || contains(&self.headers, &IDEMPOTENCY_KEY)
            || row.extra.as_ref().is_some_and(|extra| extra.headers.iter().any(own))
    }

    /// Nothing says what bodies are.
    pub(super) fn is_untyped(&self) -> bool {
        !contains(&self.headers, &CONTENT_TYPE)
    }

    /// What is sent to an origin with a row that has headers of its own, or was redirected.
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

    /// Returns the lines of [`Defaults::headers_to`] for a row that was not redirected, and whether credentials are among them. It copies no header: a list of many
    /// hosts needs them for each.
    pub(super) fn lines_to(&self, origin: &Origin) -> (Box<[u8]>, bool) {
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
        (lines.into(), gets_credentials)
    }
}

/// Which of a run's headers an origin gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderScope {
    All,
    AllButCredentials,
    /// A redirect has left the origin that the row names.
    Harmless,
}

/// Whether a header of the user is sent along wherever redirects lead: it says what is wanted, and nothing of who wants it; or
/// it speaks of a body, and goes where that goes.
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
    HARMLESS.contains(name) || is_of_body(name)
}

/// Whether a header speaks of a body (Fetch standard, "request-body-header name", and digests of RFC 9530).
pub(super) fn is_of_body(name: &HeaderName) -> bool {
    name.as_str().starts_with("content-")
}

/// Where the credentials of a run go, if it has any.
fn credentials_for(options: &RequestOptions) -> Result<OriginSet, JobError> {
    let origins = origin_set(&options.credentials_for)
        .map_err(|error| JobError::usage(message!(OptionName::CredentialsFor, ": {error}")))?;
    match credential_options_of(options).next().filter(|_| options.credentials_for.is_empty()) {
        Some(credential) => Err(unbound(credential)),
        None => Ok(origins),
    }
}

/// Asks for a range of bytes as they are: those of a compressed form would be no use (Fetch standard, "HTTP-network-or-cache
/// fetch").
fn range_of(range: &str) -> Result<[HeaderLine; 2], JobError> {
    let value = HeaderValue::try_from(format!("bytes={range}")).map_err(|_| {
        JobError::usage(message!(OptionName::Range, ": has a character that can't be sent in a header"))
    })?;
    Ok([HeaderLine::new(ACCEPT_ENCODING, HeaderValue::from_static("identity")), HeaderLine::new(RANGE, value)])
}
