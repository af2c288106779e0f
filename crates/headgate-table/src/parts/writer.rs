//! The trait of the writers of part files.

use std::io;
use std::path::Path;

use arrow_array::RecordBatch;
use headgate_core::files::storage::Storage;

use super::checksum::FinishedPart;

/// Writes one part in one format.
pub trait PartWriter: Send {
    fn write(&mut self, records: &RecordBatch) -> io::Result<()>;

    /// Returns the approximate size of the file if it were finished now.
    fn bytes(&self) -> u64;

    /// Returns how many of these bytes are not in the file yet.
    fn buffered_bytes(&self) -> u64;

    /// Adds all rows of a finished part of the same format and columns, in little memory however large it is. Returns
    /// the number of rows.
    ///
    /// # Errors
    /// `InvalidData`: the part is not the one that was committed; none of its rows was added.
    fn append(&mut self, storage: &dyn Storage, part: &Path, crc32: u32) -> io::Result<u64>;

    /// Writes the buffered rows and completes the file, which need not be on the disk yet.
    fn finish(self: Box<Self>) -> io::Result<FinishedPart>;
}
