//! The sources of rows. A source is pulled, batch by batch, by a thread of its own, and only when the queue of rows has
//! space: however long the input, a source holds one batch and its read buffer.
//!
//! Each form of input is a file: `text`, `delimited`, `ndjson`, `parquet`, `pattern`. A form yields one row after another
//! (`batches::Rows`); `batches` cuts them into batches, and applies the order of rows and errors, for all forms.
//! Several files are a form, too, made of those of the files: `several`.

mod batches;
mod cells;
mod chunk;
mod columns;
pub mod compared;
mod compressed;
pub mod content;
mod cost;
mod delimited;
mod file_rows;
pub mod fingerprint;
mod form;
mod header_column;
mod header_json;
mod input;
mod input_error;
mod json_object;
mod keep;
pub mod kept_columns;
mod lines;
mod listed;
mod ndjson;
pub mod only_origin;
pub mod open;
mod opened;
mod parquet;
mod parquet_delta;
mod parquet_footer;
mod parquet_pages;
mod partition;
mod pattern;
pub mod record_batches;
mod records;
mod refusal;
mod save_to;
pub mod selected;
mod several;
mod stored;
mod surveyed;
pub mod template;
mod text;
mod text_rows;
mod thrift;
mod upload_root;
mod values;
mod whole_lines;
mod within;

use std::fmt;
use std::sync::Arc;

use arrow_schema::Fields;

use self::content::{Content, Tracked, Unread};
use self::fingerprint::Fingerprint;
pub use self::form::scheme_of;
pub use self::listed::absolute;
pub use self::within::first_that_holds;
use headgate_core::error::JobError;
use headgate_core::message::Message;
use headgate_core::row::RowBatch;
use headgate_core::source_size::SourceSize;

/// How many rows a caller skips at a time that may have to stop meanwhile (see [`Source::skip_to`]).
pub const SKIP_STEP: u64 = 1_000_000;

/// The number of bytes that one read requests.
const READ_BYTES: usize = 256 * 1024;
/// A line of NDJSON or a record of CSV longer than this is a defect of its row.
const MAX_RECORD_BYTES: usize = 16 * 1024 * 1024;

/// An open input that can be read once more, beside its first reader: the same file, even if its name now leads to another,
/// and only as long as it was when it was opened.
#[derive(Clone)]
pub struct Reopener {
    /// The input's name, for messages.
    pub name: String,
    open: Arc<Reopen>,
}

/// Checks an input, which has this fingerprint, before anything of it is read.
pub type Check = Box<dyn Fn(Option<Fingerprint>) -> Result<(), JobError> + Send>;

type Reopen = dyn Fn() -> Result<Box<dyn Source>, JobError> + Send + Sync;

impl Reopener {
    /// Opens the input from its first row.
    ///
    /// # Errors
    /// `Input`: it can't be read any more, or was changed.
    pub fn open(&self) -> Result<Box<dyn Source>, JobError> {
        (self.open)()
    }
}

impl fmt::Debug for Reopener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reopener").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A stream of rows with the ordinals 0, 1, 2, …
pub trait Source: Send {
    /// Returns the next rows, or `None` at the end of the input. Blocks. A batch holds at most
    /// [`headgate_core::row::MAX_BATCH_ROWS`] rows and little more than [`headgate_core::row::MAX_BATCH_BYTES`]. After an
    /// empty batch, the next call waits until all rows that were handed on are done.
    ///
    /// # Errors
    /// The input can't be read further: the message names the file and the position. Earlier calls have returned the rows
    /// before it.
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError>;

    /// Skips rows, so that the next batch begins at this ordinal, or the input is at its end. Forward only.
    ///
    /// Text is read up to there: a caller that may have to stop skips at most [`SKIP_STEP`] rows in one call.
    ///
    /// # Errors
    /// As [`Source::next_batch`]. `Internal`: the row has passed already, or this source can't skip rows.
    fn skip_to(&mut self, ordinal: u64) -> Result<(), JobError> {
        Err(JobError::internal(format!("this source can't skip rows to row {ordinal}")))
    }

    /// Reads the first rows, which the next call hands on, of an input that can be read a second time. So an unreadable
    /// input is noticed before anything is sent, and before the results of an earlier job are replaced. Returns whether
    /// there may be any rows.
    ///
    /// # Errors
    /// As [`Source::next_batch`].
    fn peek(&mut self) -> Result<bool, JobError> {
        Ok(true)
    }

    /// Sets a check that runs in the first call that reads or skips rows. Such calls fail as long as the check does.
    fn check_first(&mut self, _check: Check) {}

    /// Returns the size of the input, as far as it is known without reading it.
    fn size(&self) -> SourceSize {
        SourceSize::default()
    }

    /// Returns the fingerprint of the input when it was opened, or `None` if it can't be read a second time.
    fn fingerprint(&self) -> Option<Fingerprint> {
        None
    }

    /// Compares what is read with what was read of it `then`, and remembers all of it, under this name of the input. Called
    /// before anything is read. Returns `None` if there is nothing to compare.
    ///
    /// A row that differs is an error of [`Source::next_batch`] or [`Source::skip_to`], which does not hand on the rows
    /// that were read with it.
    ///
    /// # Errors
    /// `Input`: it has other columns than then.
    fn track(&mut self, _name: &str, _then: Option<&Content>, _unread: Unread) -> Result<Option<Tracked>, JobError> {
        Ok(None)
    }

    /// Returns the input, to be read once more beside this source, or `None` if that is impossible.
    fn reopener(&self) -> Option<Reopener> {
        None
    }

    /// Returns what the user should know of the input, as far as it was read: that it was modified meanwhile.
    fn note(&self) -> Option<Message> {
        None
    }

    /// Returns the columns to carry into the result, which `RowExtra::kept` decodes to; none if it is empty.
    fn kept_fields(&self) -> Fields {
        Fields::empty()
    }
}
