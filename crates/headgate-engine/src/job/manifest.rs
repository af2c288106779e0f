//! `_headgate/job.json`: what a job was asked, so that only the same job goes on where it stopped.
//!
//! Options that decide which rows there are and what is asked and kept for each belong to the job; those that say how
//! the work is done (concurrency, time limits, sizes) may change from run to run. Values of headers and bodies may be
//! secrets and are not stored: only names, and a salted hash that tells whether they are the same.

use std::path::{Path, PathBuf};

use arrow_schema::{Schema, SchemaRef};
use aws_lc_rs::digest::{Context, SHA256};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::columns::schema::as_begun;
use crate::message;
use crate::model::error::JobError;
use crate::model::message::{Message, OptionName};
use crate::model::options::{DEFAULT_USER_AGENT, Format, JobOptions, RequestOptions, SourceOptions};
use crate::source::fingerprint::Fingerprint;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub headgate_version: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// What an earlier job left is being removed: that goes on before all else.
    pub clearing: bool,
    pub input: InputRecord,
    #[serde(rename = "asked")]
    pub spec: JobSpec,
    /// The columns of the results.
    pub schema: Schema,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputRecord {
    /// As it was given.
    pub name: String,
    /// From the root, so that a later command finds it wherever it is run.
    pub path: Option<PathBuf>,
    /// `None`: it cannot be read again.
    pub fingerprint: Option<Fingerprint>,
    /// Where they are known without reading it.
    pub rows: Option<u64>,
}

/// The options that belong to the job, under their names; of what may be secret, only whether it is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    pub format: String,
    #[serde(flatten)]
    pub source: SourceOptions,
    pub method: String,
    pub fail_on: String,
    /// `None`: that of whatever version runs.
    pub user_agent: Option<String>,
    /// Names of headers, in lower case.
    pub headers: Vec<String>,
    /// Tells whether the headers with their values are the same.
    pub headers_hash: Option<String>,
    /// Tells whether the body is the same; `None`: there is none.
    pub data_hash: Option<String>,
}

impl Manifest {
    /// What `options` ask for, as a job that begins now.
    pub(super) fn new(
        options: &JobOptions,
        fingerprint: Option<Fingerprint>,
        rows: Option<u64>,
        schema: &Schema,
        started_at: String,
    ) -> Self {
        let input = &options.source.input;
        let is_file = fingerprint.is_some() && Path::new(input).exists();
        Self {
            headgate_version: env!("CARGO_PKG_VERSION").into(),
            clearing: false,
            input: InputRecord {
                name: input.clone(),
                path: if is_file { std::path::absolute(input).ok() } else { None },
                fingerprint,
                rows,
            },
            spec: JobSpec::new(options, &started_at),
            schema: schema.clone(),
            started_at,
        }
    }

    /// The same job, whose input may have been moved.
    pub(super) fn with_input_at(mut self, input: &str) -> Self {
        if self.input.path.is_some() {
            input.clone_into(&mut self.input.name);
            self.input.path = std::path::absolute(input).ok();
        }
        self
    }

    /// The columns of its results, which have been these since it began.
    pub(super) fn columns(&self, now: &SchemaRef) -> SchemaRef {
        as_begun(now, &self.schema)
    }

    pub(crate) fn format(&self) -> Format {
        if self.spec.format == "ndjson" { Format::Ndjson } else { Format::Parquet }
    }

    /// Refuses to go on with another job than this one.
    ///
    /// # Errors
    /// `Output`, naming all that differs and the ways on.
    pub(super) fn check(
        &self,
        options: &JobOptions,
        fingerprint: Option<&Fingerprint>,
        directory: &Path,
    ) -> Result<(), JobError> {
        let shown = directory.display();
        self.same_or(options, fingerprint, |differences| {
            message!(
                "{shown} holds another job: ",
                differences,
                "; to go on with it, ask as before; to start over, ",
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
        fingerprint: Option<&Fingerprint>,
        directory: &Path,
    ) -> Result<(), JobError> {
        let (then, now) = (&self.spec, JobSpec::new(options, &self.started_at));
        let same_values = (&then.headers_hash, &then.data_hash) == (&now.headers_hash, &now.data_hash);
        let way_on = if same_values { "" } else { "; their values are not stored: give those of the job" };
        let shown = directory.display();
        self.same_or(options, fingerprint, |differences| {
            message!("the failed rows of {shown} cannot be asked again as they were: ", differences, "{way_on}")
        })
    }

    fn same_or(
        &self,
        options: &JobOptions,
        fingerprint: Option<&Fingerprint>,
        refusal: impl FnOnce(Message) -> Message,
    ) -> Result<(), JobError> {
        let differences = self.differences(options, fingerprint);
        if differences.is_empty() {
            return Ok(());
        }
        Err(JobError::output(refusal(Message::joined(differences, "; "))))
    }

    fn differences(&self, options: &JobOptions, fingerprint: Option<&Fingerprint>) -> Vec<Message> {
        let input = &options.source.input;
        let mut differences: Vec<Message> = match (&self.input.fingerprint, fingerprint) {
            (Some(then), Some(now)) => {
                let phrases = then.differences(now, input);
                let differ = || format!("the input {input} is another one ({})", phrases.join("; ")).into();
                (!phrases.is_empty()).then(differ).into_iter().collect()
            }
            _ => vec![format!("its input was {}, now it is {input}", self.input.name).into()],
        };
        let (then, now) = (&self.spec, JobSpec::new(options, &self.started_at));
        let (all_then, all_now) = (then.by_name(), now.by_name());
        differences.extend(OptionName::ALL.iter().filter_map(|option| {
            let (then, now) = (all_then.get(option.name())?, all_now.get(option.name())?);
            let (before, after) = (shown(*option, then), shown(*option, now));
            (then != now).then(|| message!(*option, " was {before}, now it is {after}"))
        }));
        if then.headers == now.headers && then.headers_hash != now.headers_hash {
            let names = then.headers.join(", ");
            differences.push(message!("a value of ", OptionName::Headers, " ({names}) is another one"));
        }
        let data = OptionName::Data;
        match (&then.data_hash, now.data_hash) {
            (Some(then), Some(now)) if *then != now => differences.push(message!(data, " is another body")),
            (Some(_), None) => differences.push(message!(data, " was given, now it is not")),
            (None, Some(_)) => differences.push(message!(data, " was not given, now it is")),
            _ => {}
        }
        differences
    }
}

impl JobSpec {
    fn new(options: &JobOptions, salt: &str) -> Self {
        let JobOptions { source, sink, request, .. } = options;
        let RequestOptions { headers, body, user_agent, .. } = request;
        // Names are the same in any case (RFC 9110 section 5.1).
        let names: Vec<String> = headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        let values = headers.iter().map(|(_, value)| value.as_bytes());
        let pairs = names.iter().map(String::as_bytes).zip(values).flat_map(|(name, value)| [name, value]);
        Self {
            format: if sink.format == Format::Ndjson { "ndjson" } else { "parquet" }.into(),
            source: SourceOptions { input: String::new(), ..source.clone() },
            method: request.method.clone(),
            fail_on: request.fail_on.to_string(),
            user_agent: (user_agent != DEFAULT_USER_AGENT).then(|| user_agent.clone()),
            headers_hash: (!headers.is_empty()).then(|| salted_hash(salt, pairs)),
            headers: names,
            data_hash: body.as_ref().map(|body| salted_hash(salt, [body.as_slice()])),
        }
    }

    /// As they are stored.
    fn by_name(&self) -> Map<String, Value> {
        let stored = serde_json::to_value(self).expect("texts, numbers and lists of them");
        stored.as_object().cloned().unwrap_or_default()
    }
}

/// The salt keeps apart the same secret in two jobs.
fn salted_hash<'a>(salt: &'a str, values: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut context = Context::new(&SHA256);
    for value in [salt.as_bytes()].into_iter().chain(values) {
        context.update(&(value.len() as u64).to_le_bytes());
        context.update(value);
    }
    BASE64_STANDARD.encode(context.finish().as_ref())
}

/// The options that belong to a job.
pub fn job_options() -> impl Iterator<Item = OptionName> {
    let spec = JobSpec::new(&JobOptions::default(), "").by_name();
    let is_stored = move |name: &str| spec.contains_key(name) || spec.contains_key(&format!("{name}_hash"));
    OptionName::ALL.iter().copied().filter(move |option| is_stored(option.name()))
}

/// The value of an option as one reads it.
fn shown(option: OptionName, value: &Value) -> String {
    match value {
        Value::Null if option == OptionName::UserAgent => "the default".into(),
        Value::Null => "not given".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "not given".into(),
        Value::Array(items) => items.iter().map(|item| shown(option, item)).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_stored_under_the_names_that_older_jobs_have() {
        let stored = concat!(
            r#"{"format":"ndjson","url_column":"link","method_column":"method","headers_column":"headers","#,
            r#""body_column":"body","keep":["id"],"head":3,"method":"GET","fail_on":"408,425,429,5xx","#,
            r#""user_agent":null,"headers":["x-token"],"headers_hash":"abc","data_hash":null}"#,
        );
        let spec: JobSpec = serde_json::from_str(stored).expect("the record of an older job");
        assert_eq!(("link", Some(3)), (&*spec.source.url_column, spec.source.head));
        assert_eq!(stored, serde_json::to_string(&spec).expect("JSON"));
    }
}
