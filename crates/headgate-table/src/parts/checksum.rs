//! The length and the CRC-32 of a part. A commit stores them, so that damage is detected.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, Write};
use std::path::Path;

use crc32fast::Hasher;
use headgate_core::error::cause;
use headgate_core::files::storage::Storage;

/// The size of the buffer for reading and writing a file.
pub(crate) const BUFFER_BYTES: usize = 256 * 1024;

/// After how many bytes an interrupt is looked for.
const CHECK_BYTES: usize = 4 * 1024 * 1024;

/// A part that is complete.
pub struct FinishedPart {
    pub file: File,
    pub bytes: u64,
    /// The checksum of the whole file.
    pub crc32: u32,
}

/// A file that counts its bytes and updates its checksum as it is written, so that it need not be read again.
pub(super) struct Checksummed {
    file: File,
    bytes: u64,
    crc32: Hasher,
}

impl Checksummed {
    /// Creates the counters of `file`, which is empty.
    pub(super) fn new(file: File) -> Self {
        Self { file, bytes: 0, crc32: Hasher::new() }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn finished(&self) -> io::Result<FinishedPart> {
        Ok(FinishedPart { file: self.file.try_clone()?, bytes: self.bytes, crc32: self.crc32.clone().finalize() })
    }
}

impl Write for Checksummed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        self.crc32.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns the file, at its start, if its content is what was committed.
///
/// # Errors
/// `InvalidData`: the content is not what was committed.
pub(crate) fn open_verified(storage: &dyn Storage, path: &Path, crc32: u32) -> io::Result<File> {
    let file = storage.read(path).map_err(|error| unreadable(path, &error))?;
    verified(storage, file, path, crc32)
}

/// Returns an open file, at its start, as [`open_verified`] does. The path is for messages.
///
/// # Errors
/// As [`open_verified`].
pub(super) fn verified(storage: &dyn Storage, file: File, path: &Path, crc32: u32) -> io::Result<File> {
    let shown = path.display();
    let (file, found) = summed(storage, file, path, |_| {})?;
    if found == crc32 {
        return Ok(file);
    }
    let damaged = format!("{shown} is damaged: its content is not what was committed");
    Err(io::Error::new(io::ErrorKind::InvalidData, damaged))
}

/// Returns the file, at its start, and its CRC-32. Passes the content that it reads to `show`, piece by piece.
///
/// # Errors
/// An error of the system, whose message names the file.
pub(super) fn open_summed(storage: &dyn Storage, path: &Path, show: impl FnMut(&[u8])) -> io::Result<(File, u32)> {
    summed(storage, storage.read(path).map_err(|error| unreadable(path, &error))?, path, show)
}

fn unreadable(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("can't read {}: {}", path.display(), cause(error)))
}

fn summed(storage: &dyn Storage, file: File, path: &Path, mut show: impl FnMut(&[u8])) -> io::Result<(File, u32)> {
    let unreadable = |error: io::Error| unreadable(path, &error);
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, &file);
    let mut sum = Hasher::new();
    let mut until_check = 0;
    loop {
        if until_check == 0 {
            storage.check_interrupt().map_err(unreadable)?;
            until_check = CHECK_BYTES;
        }
        let bytes = reader.fill_buf().map_err(unreadable)?;
        if bytes.is_empty() {
            break;
        }
        sum.update(bytes);
        show(bytes);
        let length = bytes.len();
        until_check = until_check.saturating_sub(length);
        reader.consume(length);
    }
    (&file).rewind().map_err(unreadable)?;
    Ok((file, sum.finalize()))
}
