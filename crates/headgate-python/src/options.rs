//! The options of `headgate._options`, read by attribute, as the engine's.

use std::path::PathBuf;
use std::time::Duration;

use headgate_engine::job::retry;
use headgate_engine::model::error::JobError;
use headgate_engine::model::options::{
    Dns, EngineOptions, Format, JobOptions, Output, RequestOptions, RunOptions, SinkOptions, SourceOptions,
};
use pyo3::prelude::*;

/// How the work is done: what `FetchOptions` and `RetryOptions` have in common.
#[derive(FromPyObject)]
struct WorkOptions {
    concurrency: usize,
    threads: Option<usize>,
    timeout_s: f64,
    connect_timeout_s: f64,
    headers: Vec<(String, String)>,
    data: Option<Vec<u8>>,
    max_body_bytes: u64,
    cacert: Option<PathBuf>,
    insecure: bool,
    dns: Option<String>,
    grace_s: f64,
    part_bytes: u64,
}

/// What is asked, and where it goes.
#[derive(FromPyObject)]
struct AskedOptions {
    input: String,
    output: Option<PathBuf>,
    format: String,
    fresh: bool,
    resume: bool,
    url_column: String,
    method_column: String,
    headers_column: String,
    body_column: String,
    keep: Vec<String>,
    head: Option<u64>,
    method: String,
    fail_on: String,
    user_agent: String,
    window: u64,
    commit_every_s: f64,
}

#[derive(FromPyObject)]
struct AgainOptions {
    output: PathBuf,
    only: Vec<String>,
}

/// `headgate._options.FetchOptions`.
pub struct FetchOptions {
    asked: AskedOptions,
    work: WorkOptions,
}

/// `headgate._options.RetryOptions`.
pub struct RetryOptions {
    again: AgainOptions,
    work: WorkOptions,
}

impl<'py> FromPyObject<'_, 'py> for FetchOptions {
    type Error = PyErr;

    fn extract(options: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self { asked: options.extract()?, work: options.extract()? })
    }
}

impl<'py> FromPyObject<'_, 'py> for RetryOptions {
    type Error = PyErr;

    fn extract(options: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self { again: options.extract()?, work: options.extract()? })
    }
}

impl TryFrom<FetchOptions> for JobOptions {
    type Error = JobError;

    fn try_from(FetchOptions { asked, work }: FetchOptions) -> Result<Self, JobError> {
        let options = JobOptions::try_from(work)?;
        let output = match asked.output {
            None => Output::Nowhere,
            Some(path) if path.as_os_str() == "-" => Output::Stdout,
            Some(path) => Output::Directory(path),
        };
        Ok(Self {
            source: SourceOptions {
                input: asked.input,
                url_column: asked.url_column,
                method_column: asked.method_column,
                headers_column: asked.headers_column,
                body_column: asked.body_column,
                keep: asked.keep,
                head: asked.head,
            },
            sink: SinkOptions {
                output,
                format: format(&asked.format)?,
                fresh: asked.fresh,
                resume: asked.resume,
                commit_every: seconds("--commit-every-s", asked.commit_every_s)?,
                ..options.sink
            },
            request: RequestOptions {
                method: asked.method,
                user_agent: asked.user_agent,
                fail_on: asked.fail_on.parse()?,
                ..options.request
            },
            run: RunOptions { window: asked.window, ..options.run },
            engine: options.engine,
        })
    }
}

impl TryFrom<RetryOptions> for retry::RetryOptions {
    type Error = JobError;

    fn try_from(RetryOptions { again, work }: RetryOptions) -> Result<Self, JobError> {
        let only = again.only.iter().map(|only| only.parse()).collect::<Result<_, _>>()?;
        Ok(Self { output: again.output, only, job: work.try_into()? })
    }
}

impl TryFrom<WorkOptions> for JobOptions {
    type Error = JobError;

    fn try_from(work: WorkOptions) -> Result<Self, JobError> {
        Ok(Self {
            sink: SinkOptions { part_bytes: work.part_bytes, ..SinkOptions::default() },
            request: RequestOptions {
                headers: work.headers,
                body: work.data,
                timeout: seconds("--timeout-s", work.timeout_s)?,
                connect_timeout: seconds("--connect-timeout-s", work.connect_timeout_s)?,
                max_body_bytes: work.max_body_bytes,
                cacert: work.cacert,
                insecure: work.insecure,
                ..RequestOptions::default()
            },
            run: RunOptions {
                concurrency: work.concurrency,
                grace: seconds("--grace-s", work.grace_s)?,
                ..RunOptions::default()
            },
            engine: EngineOptions {
                threads: work.threads,
                dns: work.dns.map_or(Ok(Dns::Configured), |dns| name_server(&dns))?,
                ..EngineOptions::default()
            },
            ..Self::default()
        })
    }
}

fn name_server(text: &str) -> Result<Dns, JobError> {
    text.parse().map_err(|error| JobError::usage(format!("--dns {error}")))
}

fn format(name: &str) -> Result<Format, JobError> {
    match name {
        "parquet" => Ok(Format::Parquet),
        "ndjson" => Ok(Format::Ndjson),
        "none" => Ok(Format::None),
        other => Err(JobError::usage(format!("--format {other}: it is one of parquet, ndjson, none"))),
    }
}

/// A year is the longest time that any option makes sense with, and far from what a clock can hold.
const MAX_SECONDS: f64 = 365.0 * 86_400.0;

fn seconds(option: &str, value: f64) -> Result<Duration, JobError> {
    if (0.0..=MAX_SECONDS).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err(JobError::usage(format!("{option} {value}: must be between 0 and {MAX_SECONDS} seconds")))
    }
}
