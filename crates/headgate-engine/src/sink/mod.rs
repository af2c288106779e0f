//! Where outcomes go. A sink runs on a thread of its own and writes whole batches; what it has not taken yet
//! holds back the workers.

mod checksum;
mod copy;
mod ndjson;
mod none;
mod pages;
mod parquet;
mod part;
mod read;
mod stream;
mod time;

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::SchemaRef;

use crate::columns::builder::OutcomeBatch;
use crate::model::error::JobError;
use crate::model::options::{Format, Output, SinkOptions};

pub(crate) use self::ndjson::{LineEncoder, NdjsonPart};
pub(crate) use self::parquet::ParquetPart;
pub(crate) use self::part::{FinishedPart, PartKind, PartName, PartWriter};
pub use self::read::{PartFile, PartRows, schema_of_parts};
pub(crate) use self::read::{WAYS_ON, describe_part, open_committed, read_part};
pub(crate) use self::time::{in_utc, now_text};

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
    fn finish(&mut self, ending: &Ending) -> Result<(), JobError>;
}

/// How a run came to its end.
pub struct Ending<'a> {
    /// Rows of the input, if its end was reached.
    pub input_rows: Option<u64>,
    /// Whether the job was asked to stop: work that can wait for the next run is then left.
    pub stopped: &'a dyn Fn() -> bool,
}

/// Tells the time by which commits are due.
pub type Clock = Box<dyn Fn() -> Instant + Send>;

/// Opens the sink of a job whose outcomes pass through; one with a directory is opened by [`crate::job`].
///
/// # Errors
/// `Usage`: a format that does not go with the output, or input columns that cannot be kept.
pub fn open(options: &SinkOptions, schema: &SchemaRef) -> Result<Box<dyn Sink>, JobError> {
    check_names(schema)?;
    match (&options.output, options.format) {
        (_, Format::None) => Ok(Box::new(none::NoneSink)),
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
        (Output::Directory(_), _) => Err(JobError::internal("a directory was opened as a pipe")),
    }
}

/// A kept column beside a result column of the same name would make files that no reader takes.
pub(crate) fn check_names(schema: &SchemaRef) -> Result<(), JobError> {
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
