//! `_headgate/job.json`: what a job was asked, so that only the same job goes on where it stopped.
//!
//! Options that decide which rows there are and what is asked and kept for each belong to the job; those that say how
//! the work is done (concurrency, time limits, sizes) may change from run to run. Values of headers and bodies may be
//! secrets and are not stored: only names, and a salted hash that tells whether they are the same.

use std::path::{Path, PathBuf};

use arrow_schema::Schema;
use aws_lc_rs::digest::{Context, SHA256};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};

use crate::model::error::JobError;
use crate::model::options::{DEFAULT_USER_AGENT, Format, JobOptions, RequestOptions};
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

/// The options that belong to the job, under the names of their flags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    pub format: String,
    pub url_column: String,
    pub method_column: String,
    pub headers_column: String,
    pub body_column: String,
    pub keep: Vec<String>,
    pub head: Option<u64>,
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
            format!(
                "{shown} holds another job: {differences}; to go on with it, ask as before; to start over, --fresh; or choose another -o"
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
            format!("the failed rows of {shown} cannot be asked again as they were: {differences}{way_on}")
        })
    }

    fn same_or(
        &self,
        options: &JobOptions,
        fingerprint: Option<&Fingerprint>,
        refusal: impl FnOnce(&str) -> String,
    ) -> Result<(), JobError> {
        match self.differences(options, fingerprint).as_slice() {
            [] => Ok(()),
            differences => Err(JobError::output(refusal(&differences.join("; ")))),
        }
    }

    fn differences(&self, options: &JobOptions, fingerprint: Option<&Fingerprint>) -> Vec<String> {
        let input = &options.source.input;
        let mut differences: Vec<String> = match (&self.input.fingerprint, fingerprint) {
            (Some(then), Some(now)) => {
                let phrases = then.differences(now, input);
                let differ = || format!("the input {input} is another one ({})", phrases.join("; "));
                (!phrases.is_empty()).then(differ).into_iter().collect()
            }
            _ => vec![format!("its input was {}, now it is {input}", self.input.name)],
        };
        let (then, now) = (&self.spec, JobSpec::new(options, &self.started_at));
        let mut compare = |flag: &str, then: String, now: String| {
            if then != now {
                differences.push(format!("{flag} was {then}, now it is {now}"));
            }
        };
        compare("--format", then.format.clone(), now.format);
        compare("--url-column", then.url_column.clone(), now.url_column);
        compare("--method-column", then.method_column.clone(), now.method_column);
        compare("--headers-column", then.headers_column.clone(), now.headers_column);
        compare("--body-column", then.body_column.clone(), now.body_column);
        compare("--keep", list(&then.keep), list(&now.keep));
        compare("--head", then.head.map_or(none(), |n| n.to_string()), now.head.map_or(none(), |n| n.to_string()));
        compare("--method", then.method.clone(), now.method);
        compare("--fail-on", then.fail_on.clone(), now.fail_on);
        let user_agent = |name: &Option<String>| name.clone().unwrap_or_else(|| "the default".into());
        compare("--user-agent", user_agent(&then.user_agent), user_agent(&now.user_agent));
        compare("--header", list(&then.headers), list(&now.headers));
        if then.headers == now.headers && then.headers_hash != now.headers_hash {
            differences.push(format!("a value of --header ({}) is another one", list(&then.headers)));
        }
        match (&then.data_hash, now.data_hash) {
            (Some(then), Some(now)) if *then != now => differences.push("--data is another body".into()),
            (Some(_), None) => differences.push("--data was given, now it is not".into()),
            (None, Some(_)) => differences.push("--data was not given, now it is".into()),
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
            url_column: source.url_column.clone(),
            method_column: source.method_column.clone(),
            headers_column: source.headers_column.clone(),
            body_column: source.body_column.clone(),
            keep: source.keep.clone(),
            head: source.head,
            method: request.method.clone(),
            fail_on: request.fail_on.to_string(),
            user_agent: (user_agent != DEFAULT_USER_AGENT).then(|| user_agent.clone()),
            headers_hash: (!headers.is_empty()).then(|| salted_hash(salt, pairs)),
            headers: names,
            data_hash: body.as_ref().map(|body| salted_hash(salt, [body.as_slice()])),
        }
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

fn list(names: &[String]) -> String {
    if names.is_empty() { none() } else { names.join(", ") }
}

fn none() -> String {
    "not given".into()
}
