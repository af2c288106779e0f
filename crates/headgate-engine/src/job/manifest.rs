//! `_headgate/job.json`: what a job was asked, so that only the same job goes on where it stopped.
//!
//! Options that decide which rows there are and what is asked and kept for each belong to the job; those that say how
//! the work is done (concurrency, time limits, sizes) may change from run to run. Values of headers and bodies may be
//! secrets and are not stored: only names, and a salted hash that tells whether they are the same.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use arrow_schema::Schema;
use headgate_core::defaults::DEFAULT_USER_AGENT;
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::network_options::NetworkOptions;
use headgate_core::options::{
    Format, JobOptions, RequestOptions, ResponseOptions, SaveFormat, SelectionOptions, SourceOptions,
};
use headgate_core::url_user::without_user;
use headgate_http::idempotency_key::KeySalt;
use headgate_table::source::absolute;
use headgate_table::source::fingerprint::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::asked_headers::AskedHeaders;
use super::template_hashes::{TemplateHashes, difference_of_hashes};
use super::value_hash::ValueHasher;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub headgate_version: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// What keys of rows follow from. Older jobs have none.
    #[serde(default)]
    pub key_salt: Option<String>,
    /// The random salt of the hashes of values that may be secrets. Older jobs have none.
    #[serde(default)]
    pub hash_salt: Option<String>,
    /// Origins that get credentials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials_for: Vec<String>,
    /// What an earlier job left is being removed: that goes on before all else.
    pub clearing: bool,
    /// Its bodies were saved: their files go with its parts.
    #[serde(default)]
    pub clearing_saved: bool,
    pub input: InputRecord,
    #[serde(rename = "asked")]
    pub spec: JobSpec,
    /// The columns of the results.
    pub schema: Schema,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputRecord {
    /// As it was given; of several, as many as one wants to read.
    pub name: String,
    /// From the root, so that a later command finds it wherever it is run.
    pub path: Option<PathBuf>,
    /// Likewise those of what is read behind it. Older jobs have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_paths: Vec<PathBuf>,
    /// `None`: it can't be read again.
    pub fingerprint: Option<Fingerprint>,
    /// Where they are known without reading it.
    pub rows: Option<u64>,
}

/// The options that belong to the job, under their names; of what may be secret, only whether it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    pub format: Format,
    #[serde(flatten)]
    pub source: SourceOptions,
    /// `None`: what each row's body says.
    pub method: Option<String>,
    pub fail_on: String,
    /// `None`: that of whatever version runs.
    pub user_agent: Option<String>,
    #[serde(flatten)]
    pub headers: AskedHeaders,
    /// Tells whether the body is the same; `None`: there is none.
    pub data_hash: Option<String>,
    #[serde(flatten)]
    pub templates: TemplateHashes,
    /// Of this and what follows older jobs know nothing, and go on with what is usual.
    #[serde(flatten)]
    pub response: ResponseOptions,
    #[serde(flatten)]
    pub selection: SelectionOptions,
    #[serde(flatten)]
    pub network: NetworkOptions,
}

/// An input that may be the one of a job.
pub(super) struct InputNow<'a> {
    pub(super) fingerprint: Option<&'a Fingerprint>,
    /// What was read of it then is known, and is compared when it is read again: here only its form counts.
    pub(super) is_to_be_compared: bool,
}

impl InputRecord {
    fn new(input: &SourceOptions, fingerprint: Option<Fingerprint>, rows: Option<u64>) -> Self {
        let (name, path, more_paths) = (input.name().into_owned(), None, Vec::new());
        let mut record = Self { name, path, more_paths, fingerprint: None, rows };
        let is_pattern = matches!(fingerprint, Some(Fingerprint::Pattern { .. }));
        if fingerprint.is_some() && !is_pattern {
            record.set_paths(input, fingerprint.as_ref());
        }
        Self { fingerprint, ..record }
    }

    fn set_paths(&mut self, input: &SourceOptions, fingerprint: Option<&Fingerprint>) {
        let name = input.name();
        self.name = fingerprint.map_or_else(|| name.to_string(), |fingerprint| fingerprint.shown(&name));
        self.path = absolute(&input.input);
        self.more_paths = input.more_inputs.iter().filter_map(|input| absolute(input)).collect();
    }
}

impl Manifest {
    /// What `options` ask for, as a job that begins now.
    pub(super) fn new(
        options: &JobOptions,
        fingerprint: Option<Fingerprint>,
        rows: Option<u64>,
        schema: &Schema,
        started_at: String,
        key_salt: KeySalt,
        hash_salt: KeySalt,
    ) -> Self {
        Self {
            headgate_version: env!("CARGO_PKG_VERSION").into(),
            key_salt: Some(key_salt.to_string()),
            hash_salt: Some(hash_salt.to_string()),
            credentials_for: options.request.credentials_for.clone(),
            clearing: false,
            clearing_saved: false,
            input: InputRecord::new(&options.source, fingerprint, rows),
            spec: JobSpec::new(options, &ValueHasher::new(&hash_salt.bytes())),
            schema: schema.clone(),
            started_at,
        }
    }

    /// How bodies are saved, if they are.
    pub(super) fn saves(&self) -> Option<SaveFormat> {
        self.spec.source.save_to.as_ref().map(|_| self.spec.source.save_format)
    }

    fn hasher(&self) -> ValueHasher {
        let salt = self.hash_salt.as_ref().and_then(|salt| salt.parse::<KeySalt>().ok());
        salt.map_or_else(|| ValueHasher::older(&self.started_at), |salt| ValueHasher::new(&salt.bytes()))
    }

    /// The same job, whose input may have been moved, and whose credentials may be for other origins.
    pub(super) fn resumed_with(mut self, options: &JobOptions, fingerprint: Option<&Fingerprint>) -> Self {
        self.credentials_for.clone_from(&options.request.credentials_for);
        let input = &options.source;
        if self.input.path.is_some() {
            self.input.set_paths(input, fingerprint);
        }
        self
    }

    /// Older jobs have the user and password that stood in their URL.
    pub(super) fn without_user(mut self) -> Self {
        if let Cow::Owned(name) = without_user(&self.input.name) {
            self.input.name = name;
            self.spec.headers.add_authorization();
        }
        if let Some(Fingerprint::Pattern { text }) = &mut self.input.fingerprint {
            *text = without_user(text).into_owned();
        }
        self
    }

    /// What keys of its rows follow from, in each of its runs.
    pub(super) fn key_salt(&self) -> KeySalt {
        let stored = self.key_salt.as_ref().and_then(|salt| salt.parse().ok());
        stored.unwrap_or_else(|| KeySalt::of_text(&self.started_at))
    }

    /// Refuses to go on with another job than this one.
    ///
    /// # Errors
    /// `Output`, naming all that differs and the ways on.
    pub(super) fn check(&self, options: &JobOptions, input: &InputNow<'_>, directory: &Path) -> Result<(), JobError> {
        let shown = directory.display();
        self.same_or(options, input, &self.hasher(), |differences| {
            message!(
                "{shown} holds a job that can't be resumed like this: ",
                differences,
                "; to resume it, give the same options as before; to start over, use ",
                OptionName::Fresh.set(true),
                "; or choose another ",
                OptionName::Output
            )
        })
    }

    /// Refuses to ask rows again that would not be the same requests.
    ///
    /// # Errors
    /// `Output`, naming all that differs.
    pub(super) fn check_retry(
        &self,
        options: &JobOptions,
        input: &InputNow<'_>,
        directory: &Path,
    ) -> Result<(), JobError> {
        // What may be connected to is the job's, and what the retry adds.
        let request = RequestOptions { network: self.spec.network.clone(), ..options.request.clone() };
        let options = &JobOptions { request, ..options.clone() };
        let hasher = self.hasher();
        let (then, now) = (&self.spec, JobSpec::new(options, &hasher));
        let headers_are_same = then.headers.differences(&options.request, &hasher).is_empty();
        let bodies_are_same = then.data_hash == now.data_hash && then.templates == now.templates;
        let way_on = if headers_are_same && bodies_are_same {
            ""
        } else {
            "; their values aren't stored: give the same ones again"
        };
        let shown = directory.display();
        self.same_or(options, input, &hasher, |differences| {
            message!("the failed rows of {shown} can't be requested again as before: ", differences, "{way_on}")
        })
    }

    fn same_or(
        &self,
        options: &JobOptions,
        input: &InputNow<'_>,
        hasher: &ValueHasher,
        refusal: impl FnOnce(Message) -> Message,
    ) -> Result<(), JobError> {
        let differences = self.differences(options, input, hasher);
        if differences.is_empty() {
            return Ok(());
        }
        Err(JobError::output(refusal(Message::joined(differences, "; "))))
    }

    fn differences(&self, options: &JobOptions, now: &InputNow<'_>, hasher: &ValueHasher) -> Vec<Message> {
        let input = &options.source.name();
        let mut differences: Vec<Message> = match (&self.input.fingerprint, now.fingerprint) {
            (Some(then), Some(fingerprint)) => {
                let changed =
                    || (!now.is_to_be_compared && then != fingerprint).then(|| "its content has changed".into());
                let differs = |phrase: String| format!("the input {input} is another one ({phrase})").into();
                then.difference_of_form(fingerprint).or_else(changed).map(differs).into_iter().collect()
            }
            _ => vec![format!("its input was {}, now it is {input}", self.input.name).into()],
        };
        let (then, now) = (&self.spec, JobSpec::new(options, hasher));
        let (all_then, all_now) = (then.by_name(), now.by_name());
        differences.extend(OptionName::ALL.iter().filter_map(|option| {
            if matches!(option, OptionName::Headers | OptionName::Method) {
                return None;
            }
            let (then, now) = (all_then.get(option.name())?, all_now.get(option.name())?);
            let (before, after) = (shown(*option, then), shown(*option, now));
            (then != now).then(|| message!(*option, " was {before}, now it is {after}"))
        }));
        differences.extend(then.method_difference(&now));
        differences.extend(then.headers.missing_credentials(&options.request));
        differences.extend(then.headers.differences(&options.request, hasher));
        differences.extend(difference_of_hashes(
            OptionName::Data,
            then.data_hash.as_ref(),
            now.data_hash.as_ref(),
            "is a different body",
        ));
        differences.extend(then.templates.differences(&now.templates));
        differences
    }
}

impl JobSpec {
    fn new(options: &JobOptions, hasher: &ValueHasher) -> Self {
        let JobOptions { source, sink, request, selection, .. } = options;
        let RequestOptions { body, user_agent, .. } = request;
        Self {
            format: sink.format,
            source: SourceOptions { input: String::new(), more_inputs: Vec::new(), ..source.clone() },
            method: request.method.clone(),
            fail_on: request.fail_on.to_string(),
            user_agent: (user_agent != DEFAULT_USER_AGENT).then(|| user_agent.clone()),
            headers: AskedHeaders::new(request, hasher),
            data_hash: body.as_ref().map(|body| hasher.hash([body.as_slice()])),
            templates: TemplateHashes::of(&source.templates, hasher),
            response: request.response.clone(),
            selection: SelectionOptions { cost_from: None, ..selection.clone() },
            network: request.network.clone(),
        }
    }

    fn method_difference(&self, now: &Self) -> Option<Message> {
        // Older jobs have the one that followed where none was given.
        let implied = if now.data_hash.is_some() { "POST" } else { "GET" };
        let then = self.method.as_deref();
        if then == now.method.as_deref() || (now.method.is_none() && then == Some(implied)) {
            return None;
        }
        let (before, after) = (then.unwrap_or("not given"), now.method.as_deref().unwrap_or("not given"));
        Some(message!(OptionName::Method, " was {before}, now it is {after}"))
    }

    /// As they are stored.
    fn by_name(&self) -> Map<String, Value> {
        let stored = serde_json::to_value(self).expect("texts, numbers and lists of them");
        stored.as_object().cloned().unwrap_or_default()
    }
}

/// The options that belong to a job.
pub fn job_options() -> impl Iterator<Item = OptionName> {
    let spec = JobSpec::new(&JobOptions::default(), &ValueHasher::older("")).by_name();
    let is_stored = move |name: &str| spec.contains_key(name) || spec.contains_key(&format!("{name}_hash"));
    OptionName::ALL.iter().copied().filter(move |option| is_stored(option.name()))
}

/// The value of an option as one reads it.
fn shown(option: OptionName, value: &Value) -> String {
    match value {
        Value::Null if matches!(option, OptionName::UserAgent | OptionName::MaxRedirects) => "the default".into(),
        Value::Null => "not given".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "not given".into(),
        Value::Array(items) => items.iter().map(|item| shown(option, item)).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
