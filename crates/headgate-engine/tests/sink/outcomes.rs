//! Outcomes as the engine creates them, and sinks for them.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::{Fields, SchemaRef};
use headgate_core::error::{ErrorKind, Failure, JobError};
use headgate_core::files::storage::{Disk, OpenStorage};
use headgate_core::headers::Headers;
use headgate_core::memory::{MemoryBudget, Reservation};
use headgate_core::options::{Format, JobOptions, Output, SinkOptions, SourceOptions};
use headgate_core::response::{Body, Response};
use headgate_core::row::{Outcome, Row};
use headgate_engine::testing::{MonotonicClock, OpenJob, Window};
use headgate_table::columns::builder::{OutcomeBatch, OutcomeBuilder};
use headgate_table::columns::result::ResultColumns;
use headgate_table::columns::schema::schema;
use headgate_table::sink;
use headgate_table::sink::{Ending, Sink};
use headgate_table::source::open::fingerprint;
use http::Version;

/// 2026-05-14T09:30:00.000042Z
pub const STARTED_AT_US: i64 = 1_778_751_000_000_042;

pub fn succeeded(ordinal: u64, body: &[u8]) -> Outcome {
    let pairs: [(&str, &[u8]); 3] = [("server", b"nginx"), ("set-cookie", b"a=1"), ("set-cookie", b"b=2")];
    let headers = Headers::from_iter(pairs);
    Outcome {
        row: Row::new(ordinal, format!("http://127.0.0.1/{ordinal}")),
        method: "GET".into(),
        attempts: 1,
        started_at_us: STARTED_AT_US,
        elapsed_us: 1500,
        remote_addr: Some(Arc::from("127.0.0.1:80")),
        response: Some(Response {
            status: 200,
            version: Version::HTTP_11,
            headers,
            memory: Reservation::default(),
            body_encoding: None,
            body_truncated: false,
            ttfb_us: 1200,
            received_bytes: body.len() as u64,
            saved: None,
            body: Some(Body { bytes: body.to_vec(), ..Body::default() }),
        }),
        selected: None,
        failure: None,
    }
}

pub fn failed(ordinal: u64) -> Outcome {
    Outcome {
        response: None,
        remote_addr: None,
        failure: Some(Failure::new(ErrorKind::Connect, "connection refused")),
        ..succeeded(ordinal, b"")
    }
}

pub fn plain_schema() -> SchemaRef {
    schema(&Fields::empty())
}

pub fn batch(outcomes: impl IntoIterator<Item = Outcome>) -> OutcomeBatch {
    let mut builder = OutcomeBuilder::new(&ResultColumns::default(), MemoryBudget::new(0)).unwrap();
    outcomes.into_iter().for_each(|outcome| {
        let failed = outcome.failure.is_some();
        builder.push(outcome.as_ref(), failed);
    });
    builder.finish_batch().unwrap()
}

pub fn options(directory: &Path, format: Format) -> SinkOptions {
    SinkOptions { output: Output::Directory(directory.to_owned()), format, ..SinkOptions::default() }
}

/// Runs a whole job with these batches, and returns its output.
pub fn write(options: &SinkOptions, batches: impl IntoIterator<Item = OutcomeBatch>) {
    let mut sink = open(options).unwrap();
    let mut rows = 0;
    for batch in batches {
        rows += batch.records.num_rows() as u64;
        assert!(sink.write(batch).unwrap().is_continue());
    }
    sink.finish(&Ending {
        input_rows: Some(rows),
        undone: &[],
        stopped: &|| false,
        stopped_by: None,
        by_failures: false,
    })
    .unwrap();
}

/// Opens the sink of a new job without kept columns.
pub fn open(options: &SinkOptions) -> Result<Box<dyn Sink>, JobError> {
    // The clock stands still, so that a slow machine commits no earlier than a fast one.
    let now = Instant::now();
    open_with(options, &plain_schema(), Box::new(move || now))
}

/// Opens a sink as [`open`] does, for a job with this output.
pub fn open_on(storage: &dyn OpenStorage, options: &SinkOptions) -> Result<Box<dyn Sink>, JobError> {
    let now = Instant::now();
    open_job(options, &plain_schema(), Box::new(move || now), storage)
}

pub fn open_with(options: &SinkOptions, schema: &SchemaRef, clock: MonotonicClock) -> Result<Box<dyn Sink>, JobError> {
    if !matches!(options.output, Output::Directory(_)) || options.format == Format::None {
        return sink::open::open(options, schema);
    }
    open_job(options, schema, clock, &Disk)
}

fn open_job(
    options: &SinkOptions,
    schema: &SchemaRef,
    clock: MonotonicClock,
    storage: &dyn OpenStorage,
) -> Result<Box<dyn Sink>, JobError> {
    let Output::Directory(path) = &options.output else { return sink::open::open(options, schema) };
    let source = SourceOptions { input: "http://127.0.0.1/[0-999999]".into(), ..SourceOptions::default() };
    let job = JobOptions { sink: options.clone(), source, ..JobOptions::default() };
    let fingerprint = fingerprint(&job.source)?;
    let open = OpenJob::open(path, &job, schema, fingerprint, None, storage)?;
    let window = Arc::new(Window::new(job.run.read_ahead, open.done_rows().watermark()));
    Ok(open.start(&job, window, clock)?.sink)
}

/// Finishes a run that did not reach the end of its input.
pub fn interrupt(sink: &mut dyn Sink) -> Result<(), JobError> {
    sink.finish(&Ending { input_rows: None, undone: &[], stopped: &|| false, stopped_by: None, by_failures: false })
}

pub fn open_error(options: &SinkOptions) -> JobError {
    refusal(open(options))
}

pub fn refusal(opened: Result<Box<dyn Sink>, JobError>) -> JobError {
    opened.err().expect("it opened")
}

/// Returns the names in the directory, sorted, including `_headgate`.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    // The Delta log and the file that is there before the first commit have tests of their own.
    names.retain(|name| !["_delta_log", "part-00000000.parquet"].contains(&&**name));
    names.sort();
    names
}
