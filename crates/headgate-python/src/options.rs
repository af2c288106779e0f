//! `headgate._options.FetchOptions`, read by attribute, as the engine's options.

use std::path::PathBuf;
use std::time::Duration;

use headgate_engine::error::JobError;
use headgate_engine::options::{
    DEFAULT_BODY_MEMORY_BYTES, Format, JobOptions, Output, RequestOptions, RunOptions, SinkOptions, SourceOptions,
};
use pyo3::prelude::*;

#[derive(FromPyObject)]
pub struct FetchOptions {
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
    concurrency: usize,
    threads: Option<usize>,
    timeout_s: f64,
    connect_timeout_s: f64,
    method: String,
    headers: Vec<(String, String)>,
    data: Option<Vec<u8>>,
    max_body_bytes: u64,
    fail_on: String,
    user_agent: String,
    cacert: Option<PathBuf>,
    insecure: bool,
    grace_s: f64,
    window: u64,
    part_bytes: u64,
    commit_every_s: f64,
}

impl TryFrom<FetchOptions> for JobOptions {
    type Error = JobError;

    fn try_from(options: FetchOptions) -> Result<Self, JobError> {
        let output = match options.output {
            None => Output::Nowhere,
            Some(path) if path.as_os_str() == "-" => Output::Stdout,
            Some(path) => Output::Directory(path),
        };
        Ok(Self {
            source: SourceOptions {
                input: options.input,
                url_column: options.url_column,
                method_column: options.method_column,
                headers_column: options.headers_column,
                body_column: options.body_column,
                keep: options.keep,
                head: options.head,
            },
            sink: SinkOptions {
                output,
                format: format(&options.format)?,
                part_bytes: options.part_bytes,
                commit_every: seconds("--commit-every-s", options.commit_every_s)?,
                fresh: options.fresh,
                resume: options.resume,
            },
            request: RequestOptions {
                method: options.method,
                headers: options.headers,
                body: options.data,
                user_agent: options.user_agent,
                timeout: seconds("--timeout-s", options.timeout_s)?,
                connect_timeout: seconds("--connect-timeout-s", options.connect_timeout_s)?,
                max_body_bytes: options.max_body_bytes,
                body_memory_bytes: DEFAULT_BODY_MEMORY_BYTES,
                fail_on: options.fail_on.parse()?,
                cacert: options.cacert,
                insecure: options.insecure,
            },
            run: RunOptions {
                concurrency: options.concurrency,
                threads: options.threads,
                grace: seconds("--grace-s", options.grace_s)?,
                window: options.window,
            },
        })
    }
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
