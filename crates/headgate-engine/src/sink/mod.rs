//! Where outcomes go. A sink runs on a thread of its own and writes whole batches; what it has not taken yet
//! holds back the workers.

mod checksum;
mod directory;
mod ndjson;
mod none;
mod parquet;
mod part;
mod parts;
mod read;
mod stream;
mod time;

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::SchemaRef;

use crate::error::JobError;
use crate::options::{Format, Output, SinkOptions};
use crate::outcome::OutcomeBatch;

pub(crate) use self::directory::OWN_DIRECTORY;
pub(crate) use self::part::PartName;
pub use self::read::{PartRows, schema_of_parts};
pub(crate) use self::time::in_utc;

/// Takes outcomes, batch by batch.
pub trait Sink: Send {
    /// Writes a batch. `Break`: the reader has gone (a closed pipe) and the job should end quietly.
    ///
    /// # Errors
    /// `Output`: the message names the file and the cause.
    fn write(&mut self, batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError>;

    /// Called at least once a second, also when nothing was written: to close a part that has grown old, to flush.
    fn tick(&mut self) -> Result<(), JobError>;

    /// Makes everything written so far final. Nothing is written after it. After an error of `write` or `tick` it
    /// still saves what that error left intact.
    fn finish(&mut self) -> Result<(), JobError>;
}

/// Tells the time by which parts grow old.
pub type Clock = Box<dyn Fn() -> Instant + Send>;

/// Opens the sink that the options ask for; `schema` is that of the batches to come.
///
/// # Errors
/// `Output`: a directory that is not ours and not empty, holds another job, or cannot be written.
/// `Usage`: a format that does not go with the output, or input columns that cannot be kept.
pub fn open(options: &SinkOptions, schema: &SchemaRef) -> Result<Box<dyn Sink>, JobError> {
    open_with_clock(options, schema, Box::new(Instant::now))
}

/// [`open`], with the time from elsewhere.
///
/// # Errors
/// As [`open`].
pub fn open_with_clock(options: &SinkOptions, schema: &SchemaRef, clock: Clock) -> Result<Box<dyn Sink>, JobError> {
    check_names(schema)?;
    match (&options.output, options.format) {
        (_, Format::None) => Ok(Box::new(none::NoneSink)),
        (Output::Directory(path), Format::Parquet | Format::Ndjson) => {
            Ok(Box::new(parts::DirectorySink::open(path, options, schema, clock)?))
        }
        (Output::Stdout, Format::Ndjson) => {
            let encoder = Arc::new(ndjson::LineEncoder::new(schema)?);
            Ok(Box::new(stream::StreamSink::standard_output(encoder)?))
        }
        (Output::Stdout, Format::Parquet) => Err(JobError::usage(
            "parquet cannot be written to standard output: use --format ndjson, or a directory for -o",
        )),
        (Output::Nowhere, Format::Parquet | Format::Ndjson) => {
            Err(JobError::usage("there is nowhere to write the results to: give a directory with -o, or --format none"))
        }
    }
}

/// A kept column beside a result column of the same name would make files that no reader takes.
fn check_names(schema: &SchemaRef) -> Result<(), JobError> {
    let mut names = HashSet::new();
    match schema.fields().iter().find(|field| !names.insert(field.name())) {
        None => Ok(()),
        Some(field) => Err(JobError::usage(format!(
            "the input column {:?} cannot be kept: the results have a column of that name",
            field.name()
        ))),
    }
}

/// The cause of an I/O error as the end of a sentence: `no space left on device`.
pub(crate) fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        // An acronym keeps its capitals.
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}
