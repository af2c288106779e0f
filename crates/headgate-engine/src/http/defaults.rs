//! What a run's requests have in common: methods, headers, a body.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, RANGE,
    TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderName, HeaderValue};

use crate::http::authorization::authorization;
use crate::http::header_lines::{HeaderLine, checked, contains, replaced};
use crate::http::idempotency_key::{IDEMPOTENCY_KEY, KeySalt};
use crate::http::method::Methods;
use crate::http::sent_body::SentBody;
use crate::message;
use crate::model::credentials::credential_names;
use crate::model::error::JobError;
use crate::model::message::OptionName;
use crate::model::options::{BodyCoding, RequestOptions};
use crate::model::origin::Origin;
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
    pub(super) body: SentBody,
    /// How bodies of rows are compressed, where nobody says that they are already.
    pub(super) coding: Option<BodyCoding>,
    /// Names of headers that are for the origin alone that a row names.
    pub(super) secrets: Vec<HeaderName>,
    /// What the keys of rows follow from, if each is to have one.
    pub(super) keys: Option<KeySalt>,
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
        let pairs = options.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let own = checked(pairs).map_err(|message| JobError::usage(message!(OptionName::Headers, ": {message}")))?;
        if options.range.is_some() && contains(&own, &RANGE) {
            return Err(JobError::usage(message!(
                OptionName::Range,
                " and ",
                OptionName::Headers,
                " both set Range: leave one of them out"
            )));
        }
        let mut headers = replaced(&headers, &own);
        if let Some(authorization) = authorization(options)? {
            headers.push(HeaderLine::new(AUTHORIZATION, authorization));
        }
        let coding = options.compress_body.filter(|_| !contains(&headers, &CONTENT_ENCODING));
        let body = SentBody::new(options.body.clone().unwrap_or_default().into(), coding);
        let secrets = credential_names(options).filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok());
        Ok(Self { methods, headers, body, coding, secrets: secrets.collect(), keys: None })
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
        let methods = self.methods.clone();
        Self { methods, headers, body: SentBody::default(), coding: None, secrets: Vec::new(), keys: None }
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

    pub(super) fn headers_to(&self, origin: &Origin) -> Vec<HeaderLine> {
        let mut headers = self.headers.clone();
        if let Some(host) = headers.iter_mut().find(|line| line.name == HOST && line.value.is_empty())
            && let Ok(authority) = HeaderValue::try_from(origin.authority())
        {
            host.value = authority;
        }
        headers
    }

    pub(super) fn lines_to(&self, origin: &Origin) -> Vec<u8> {
        let mut lines = Vec::new();
        self.headers_to(origin).iter().for_each(|line| line.write(&mut lines));
        lines
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
