//! `_headgate/job.json`: the options and the input of a job, so that only the same job is resumed.
//!
//! Options that decide which rows there are, what each requests and what is kept of it belong to the job. Those that decide
//! how the work is done (concurrency, timeouts, sizes) may change from run to run. Values of headers and bodies may be secrets
//! and are not stored: only their names, and salted hashes that show whether the values are the same.

use std::path::{Path, PathBuf};

use arrow_schema::Schema;
use headgate_core::defaults::DEFAULT_USER_AGENT;
use headgate_core::error::JobError;
use headgate_core::live::Settings;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::network_options::NetworkOptions;
use headgate_core::options::{
    Format, JobOptions, RequestOptions, ResponseOptions, SaveFormat, SelectionOptions, SourceOptions,
};
use headgate_http::idempotency_key::KeySalt;
use headgate_table::source::absolute;
use headgate_table::source::fingerprint::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::header_record::HeaderRecord;
use super::template_hashes::{TemplateHashes, difference_of_hashes};
use super::value_hash::ValueHasher;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub headgate_version: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// The salt for the keys of rows, which is the same in each run.
    #[serde(with = "salt_text")]
    pub key_salt: KeySalt,
    /// The random salt of the hashes of values that may be secrets.
    #[serde(with = "salt_text")]
    pub hash_salt: KeySalt,
    /// Origins that get credentials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials_for: Vec<String>,
    /// The given options that a retry inherits, of the last run that was no retry.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub inherited: Settings,
    /// The files of an earlier job are being removed. The next run completes that before anything else.
    pub clearing: bool,
    /// The earlier job saved bodies: their files are removed with its parts.
    pub clearing_saved: bool,
    pub input: InputRecord,
    pub spec: JobSpec,
    /// The columns of the results.
    pub schema: Schema,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct InputRecord {
    /// The name that the user gave. Several names are shortened to a readable length.
    pub name: String,
    /// The absolute path, so that a later command finds the input from any working directory.
    pub path: Option<PathBuf>,
    /// The absolute paths of the inputs that are read after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_paths: Vec<PathBuf>,
    /// `None`: the input can't be read again.
    pub fingerprint: Option<Fingerprint>,
    /// The number of rows, if it is known without reading the input.
    pub rows: Option<u64>,
}

/// The options that belong to the job, under their names. Values that may be secret are replaced by hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobSpec {
    pub format: Format,
    #[serde(flatten)]
    pub source: SourceOptions,
    /// `None`: `POST` for a row with a body, otherwise `GET`.
    pub method: Option<String>,
    pub fail_on: String,
    /// `None`: the default of the version that runs.
    pub user_agent: Option<String>,
    #[serde(flatten)]
    pub headers: HeaderRecord,
    /// A hash that shows whether the body is the same; `None`: there is no body.
    pub data_hash: Option<String>,
    #[serde(flatten)]
    pub templates: TemplateHashes,
    #[serde(flatten)]
    pub response: ResponseOptions,
    #[serde(flatten)]
    pub selection: SelectionOptions,
    #[serde(flatten)]
    pub network: NetworkOptions,
}

/// The current input, which may be that of a job.
pub(super) struct InputNow<'a> {
    pub(super) fingerprint: Option<&'a Fingerprint>,
    /// The content is compared when the input is read again, so that only its format is checked here.
    pub(super) is_compared_later: bool,
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
    /// Creates the manifest of a job that begins now with these options.
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
            key_salt,
            hash_salt,
            credentials_for: options.request.credentials_for.clone(),
            inherited: options.run.given.clone(),
            clearing: false,
            clearing_saved: false,
            input: InputRecord::new(&options.source, fingerprint, rows),
            spec: JobSpec::new(options, &ValueHasher::new(&hash_salt.bytes())),
            schema: schema.clone(),
            started_at,
        }
    }

    /// Returns how bodies are saved, if they are.
    pub(super) fn save_format(&self) -> Option<SaveFormat> {
        self.spec.source.save_to.as_ref().map(|_| self.spec.source.save_format)
    }

    fn hasher(&self) -> ValueHasher {
        ValueHasher::new(&self.hash_salt.bytes())
    }

    /// Returns the manifest with the current paths of the input, origins that get credentials, and options that a retry inherits.
    pub(super) fn resumed_with(mut self, options: &JobOptions, fingerprint: Option<&Fingerprint>) -> Self {
        self.credentials_for.clone_from(&options.request.credentials_for);
        self.inherited.clone_from(&options.run.given);
        let input = &options.source;
        if self.input.path.is_some() {
            self.input.set_paths(input, fingerprint);
        }
        self
    }

    /// Returns the options that differ from their defaults, each with its value for a message; of headers, the names.
    pub(super) fn requested(&self) -> Vec<(&'static str, String)> {
        let defaults = JobSpec::new(&JobOptions::default(), &self.hasher()).by_name();
        let stored = self.spec.by_name();
        let of_job = |option: OptionName| match stored.get(option.name()) {
            _ if option == OptionName::Headers => {
                let names: Vec<_> = self.spec.headers.names().collect();
                (!names.is_empty()).then(|| names.join(", "))
            }
            Some(value) if defaults.get(option.name()) == Some(value) => None,
            Some(value) => Some(shown(option, value)),
            None => self.is_withheld(option).then(|| "not stored".into()),
        };
        let value = |option: OptionName| self.inherited.get(option.name()).cloned().or_else(|| of_job(option));
        OptionName::ALL.iter().filter_map(|option| Some((option.name(), value(*option)?))).collect()
    }

    /// Returns the options whose values are not stored, as they may be secrets, each with what a user can fill in.
    pub(super) fn withheld(&self) -> Vec<(&'static str, String)> {
        let headers = self.spec.headers.names().map(|name| (OptionName::Headers.name(), format!("{name}: ...")));
        let others = OptionName::ALL.iter().filter(|option| self.is_withheld(**option));
        headers.chain(others.map(|option| (option.name(), "...".into()))).collect()
    }

    fn is_withheld(&self, option: OptionName) -> bool {
        let hash = self.spec.by_name().remove(&format!("{}_hash", option.name()));
        option != OptionName::Headers && hash.is_some_and(|hash| !hash.is_null())
    }

    /// Checks that the options and the input are those of this job.
    ///
    /// # Errors
    /// `Output`, naming all differences and what the user can do.
    pub(super) fn check(&self, options: &JobOptions, input: &InputNow<'_>, directory: &Path) -> Result<(), JobError> {
        let shown = directory.display();
        self.check_same(options, input, &self.hasher(), |differences| {
            message!(
                "{shown} contains a job that can't be resumed with these options: ",
                differences,
                "; to resume it, give the same options as before; to start over, use ",
                OptionName::IfExists.set("overwrite"),
                "; or choose another ",
                OptionName::Output
            )
        })
    }

    /// Checks that retried rows would be the same requests.
    ///
    /// # Errors
    /// `Output`, naming all differences.
    pub(super) fn check_retry(
        &self,
        options: &JobOptions,
        input: &InputNow<'_>,
        directory: &Path,
    ) -> Result<(), JobError> {
        // A retry may add to the addresses that the job may connect to.
        let request = RequestOptions { network: self.spec.network.clone(), ..options.request.clone() };
        let options = &JobOptions { request, ..options.clone() };
        let hasher = self.hasher();
        let (then, now) = (&self.spec, JobSpec::new(options, &hasher));
        let headers_are_same = then.headers.differences(&options.request, &hasher).is_empty();
        let bodies_are_same = then.data_hash == now.data_hash && then.templates == now.templates;
        let advice = if headers_are_same && bodies_are_same {
            ""
        } else {
            "; their values aren't stored: give the same ones again"
        };
        let shown = directory.display();
        self.check_same(options, input, &hasher, |differences| {
            message!("the rows of {shown} can't be retried as before: ", differences, "{advice}")
        })
    }

    fn check_same(
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
                    || (!now.is_compared_later && then != fingerprint).then(|| "its content has changed".into());
                let differs = |phrase: String| format!("the input {input} is a different input ({phrase})").into();
                then.difference_of_form(fingerprint).or_else(changed).map(differs).into_iter().collect()
            }
            _ => vec![format!("its input was {}, now it is {input}", self.input.name).into()],
        };
        let (then, now) = (&self.spec, JobSpec::new(options, hasher));
        let (all_then, all_now) = (then.by_name(), now.by_name());
        differences.extend(OptionName::ALL.iter().filter_map(|option| {
            if *option == OptionName::Headers {
                return None;
            }
            let (then, now) = (all_then.get(option.name())?, all_now.get(option.name())?);
            let (before, after) = (shown(*option, then), shown(*option, now));
            (then != now).then(|| message!(*option, " was {before}, now it is {after}"))
        }));
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
            headers: HeaderRecord::new(request, hasher),
            data_hash: body.as_ref().map(|body| hasher.hash([body.as_slice()])),
            templates: TemplateHashes::of(&source.templates, hasher),
            response: request.response.clone(),
            selection: SelectionOptions { cost_from_response: None, ..selection.clone() },
            network: request.network.clone(),
        }
    }

    /// Returns the options as they are stored.
    fn by_name(&self) -> Map<String, Value> {
        let stored = serde_json::to_value(self).expect("texts, numbers and lists of them");
        stored.as_object().cloned().unwrap_or_default()
    }
}

/// The form of a salt in a record.
mod salt_text {
    use headgate_http::idempotency_key::KeySalt;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(salt: &KeySalt, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(salt)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KeySalt, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|()| de::Error::custom("a salt has 32 hexadecimal digits"))
    }
}

/// Returns the options that belong to a job.
pub fn job_options() -> impl Iterator<Item = OptionName> {
    let spec = JobSpec::new(&JobOptions::default(), &ValueHasher::new(&[])).by_name();
    let is_stored = move |name: &str| spec.contains_key(name) || spec.contains_key(&format!("{name}_hash"));
    OptionName::ALL.iter().copied().filter(move |option| is_stored(option.name()))
}

/// Returns the value of an option for a message.
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
