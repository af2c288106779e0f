//! The interface of writers of one output file.

use std::io;
use std::path::Path;

use arrow_array::RecordBatch;
use headgate_core::files::Directory;

use super::checksum::FinishedPart;

/// Writes one part in one format.
pub trait PartWriter: Send {
    fn write(&mut self, records: &RecordBatch) -> io::Result<()>;

    /// The size of the file, were it finished now; about.
    fn bytes(&self) -> u64;

    /// Adds all rows of a finished part of the same format and columns, in little memory however large it is. The
    /// answer is how many they are.
    ///
    /// # Errors
    /// `InvalidData`: the part is not the one that was committed; nothing of it was added.
    fn append(&mut self, directory: &Directory, part: &Path, crc32: u32) -> io::Result<u64>;

    /// Writes what is still buffered. The file is complete, but not yet on the disk for certain.
    fn finish(self: Box<Self>) -> io::Result<FinishedPart>;
}
