//! Where rows come from. A source is pulled, batch by batch, on a thread of its own, and only when there is
//! room: however long the input, a source holds one batch and its read buffer.

use arrow_schema::Fields;

use crate::error::JobError;
use crate::options::SourceOptions;
use crate::row::RowBatch;

/// A stream of rows in ordinals 0, 1, 2, …
pub trait Source: Send {
    /// The next rows, or `None` at the end of the input. Blocks. A batch is never empty, and holds at most
    /// [`crate::row::MAX_BATCH_ROWS`] rows and little more than [`crate::row::MAX_BATCH_BYTES`].
    ///
    /// # Errors
    /// The input cannot be read further: the message names the file and the place. Rows before the place have
    /// been returned by earlier calls.
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError>;

    /// How long the input is, as far as it is known without reading it.
    fn size(&self) -> SourceSize;

    /// The columns to carry into the result: what the bytes in `RowExtra::kept` decode to. Empty: none.
    fn kept_fields(&self) -> Fields;
}

/// What is known of the length of an input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceSize {
    /// Rows in all: known for ranges and Parquet.
    pub rows: Option<u64>,
    /// Bytes of the file as stored (compressed ones, if it is), where there is a file.
    pub bytes: Option<u64>,
    /// How many of these bytes have been read.
    pub bytes_read: u64,
}

/// Opens the source that the input's form asks for.
///
/// # Errors
/// `Input`: no such file, a directory, an unknown extension, no URL column (naming the columns there are), an
/// option that does not fit the form.
pub fn open(options: &SourceOptions) -> Result<Box<dyn Source>, JobError> {
    Err(JobError::input(format!("{}: no source yet", options.input)))
}
