//! Chooses the sink for an output.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::options::{Format, Output, SinkOptions};

use super::Sink;
use super::none::NoneSink;
use super::stream::StreamSink;
use crate::parts::ndjson::encode::LineEncoder;

/// Opens a sink without a directory; the sink of a job's directory is opened with the job.
///
/// # Errors
/// `Usage`: the format can't be written to the output.
pub fn open(options: &SinkOptions, schema: &SchemaRef) -> Result<Box<dyn Sink>, JobError> {
    match (&options.output, options.format) {
        (_, Format::None) => Ok(Box::new(NoneSink)),
        (Output::Stdout, Format::Ndjson) => {
            let encoder = Arc::new(LineEncoder::new(schema)?);
            Ok(Box::new(StreamSink::standard_output(encoder)?))
        }
        (Output::Stdout, Format::Parquet) => Err(JobError::usage(message!(
            "parquet can't be written to standard output: use ",
            OptionName::Format.set("ndjson"),
            ", or a directory for ",
            OptionName::Output
        ))),
        (Output::Nowhere, Format::Parquet | Format::Ndjson) => Err(JobError::usage(message!(
            "there is no output for the results: give a directory with ",
            OptionName::Output,
            ", or ",
            OptionName::Format.set("none")
        ))),
        (Output::Directory(_), _) => Err(JobError::internal("a directory was opened as a pipe")),
    }
}
