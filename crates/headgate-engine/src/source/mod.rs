//! Where rows come from. A source is pulled, batch by batch, on a thread of its own, and only when there is
//! room: however long the input, a source holds one batch and its read buffer.
//!
//! One form of input, one file: `text`, `delimited`, `ndjson`, `parquet`, `pattern`. A form yields one
//! row after another (`batches::Rows`); cutting them into batches, `head` and the order of rows and errors
//! are the same for all and live in `batches`. Several files are a form, too, made of those of the files: `several`.

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
pub(crate) mod only_origin;
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
pub(crate) use self::form::scheme_of;
pub(crate) use self::listed::absolute;
pub(crate) use self::within::first_that_holds;
use crate::model::error::JobError;
use crate::model::message::Message;
use crate::model::row::RowBatch;
use crate::model::source_size::SourceSize;

/// Bytes asked of the operating system at a time.
const READ_BYTES: usize = 256 * 1024;
/// A line of NDJSON or a record of CSV longer than this is a defect of its row.
const MAX_RECORD_BYTES: usize = 16 * 1024 * 1024;

/// An input that is open, to be read once more beside its first reader: the same file, even if its name now leads to another,
/// and no more of it than there was when it was opened.
#[derive(Clone)]
pub struct Again {
    /// The input, for messages.
    pub name: String,
    open: Arc<OpenAgain>,
}

/// Checks an input, which has this fingerprint, before anything is read of it.
pub type Check = Box<dyn Fn(Option<Fingerprint>) -> Result<(), JobError> + Send>;

type OpenAgain = dyn Fn() -> Result<Box<dyn Source>, JobError> + Send + Sync;

impl Again {
    /// Its rows from the first one on.
    ///
    /// # Errors
    /// `Input`: it can't be read any more, or was changed.
    pub fn open(&self) -> Result<Box<dyn Source>, JobError> {
        (self.open)()
    }
}

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Again").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A stream of rows in ordinals 0, 1, 2, …
pub trait Source: Send {
    /// The next rows, or `None` at the end of the input. Blocks. A batch holds at most
    /// [`crate::model::row::MAX_BATCH_ROWS`] rows and little more than [`crate::model::row::MAX_BATCH_BYTES`].
    /// An empty one says that the call after it waits until all rows that were handed on are done.
    ///
    /// # Errors
    /// The input can't be read further: the message names the file and the place. Rows before the place have
    /// been returned by earlier calls.
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError>;

    /// Passes over rows, so that the next batch begins at this ordinal, or the input is at its end. Forward only.
    ///
    /// Of text all bytes up to there are read: a caller that may have to stop meanwhile passes over them in steps, of a million rows at
    /// the most.
    ///
    /// # Errors
    /// As [`Source::next_batch`]. `Internal`: the row was passed already, or this source can't pass over any.
    fn skip_to(&mut self, ordinal: u64) -> Result<(), JobError> {
        Err(JobError::internal(format!("this source can't skip rows to row {ordinal}")))
    }

    /// Reads the first rows, which the next call hands on, of an input that can be read a second time: so an input that
    /// can't be read at all is found out before anything is sent, and before the results of an earlier job are replaced.
    /// Returns whether there may be any rows.
    ///
    /// # Errors
    /// As [`Source::next_batch`].
    fn peek(&mut self) -> Result<bool, JobError> {
        Ok(true)
    }

    /// Has the first call that reads or passes over rows check the input first. Such calls fail as long as the check does.
    fn check_first(&mut self, _check: Check) {}

    /// How long the input is, as far as it is known without reading it.
    fn size(&self) -> SourceSize {
        SourceSize::default()
    }

    /// What the input is known by, as it was when it was opened. `None`: it can't be read a second time.
    fn fingerprint(&self) -> Option<Fingerprint> {
        None
    }

    /// Compares what is read with what was read of it `then`, and remembers all of it, under this name of the input. Before
    /// anything is read. `None`: there is nothing to compare.
    ///
    /// A row that differs is an error of [`Source::next_batch`] or [`Source::skip_to`], which does not hand on the rows
    /// that were read with it.
    ///
    /// # Errors
    /// `Input`: it has other columns than then.
    fn track(&mut self, _name: &str, _then: Option<&Content>, _unread: Unread) -> Result<Option<Tracked>, JobError> {
        Ok(None)
    }

    /// The input to be read once more beside this source. `None`: it can't be.
    fn again(&self) -> Option<Again> {
        None
    }

    /// What the user should know of the input, as far as it was read: that it was written to meanwhile.
    fn note(&self) -> Option<Message> {
        None
    }

    /// The columns to carry into the result: what the bytes in `RowExtra::kept` decode to. Empty: none.
    fn kept_fields(&self) -> Fields {
        Fields::empty()
    }
}
