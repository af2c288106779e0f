//! The rows of one file, whatever its form.

use std::sync::Arc;

use headgate_core::error::JobError;
use headgate_core::options::SourceOptions;

use super::batches::Rows;
use super::delimited::Delimited;
use super::form::Form;
use super::input::OpenInput;
use super::ndjson::Ndjson;
use super::opened::Opened;
use super::parquet::Parquet;
use super::partition::Partition;
use super::text::Text;

/// Opens the rows of a file, from the first one on.
///
/// # Errors
/// `Input`: the file can't be read, or lacks a column.
pub(super) fn open(
    opened: Arc<Opened>,
    options: &SourceOptions,
    partition: Partition,
) -> Result<Box<dyn Rows>, JobError> {
    Ok(match opened.form {
        Form::Parquet => Box::new(Parquet::open(opened, options, partition)?),
        Form::Delimited(delimiter, _) => {
            Box::new(Delimited::open(OpenInput::open(opened)?, options, delimiter, partition)?)
        }
        Form::Ndjson(_) => Box::new(Ndjson::open(OpenInput::open(opened)?, options, &partition)?),
        Form::Text(_) | Form::Stdin | Form::Pattern => Box::new(Text::open(OpenInput::open(opened)?, options)?),
    })
}
