//! What a commit remembers of a part, so that damage is found: its length and its CRC-32.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, Write};
use std::path::Path;

use crc32fast::Hasher;

use super::cause;
use super::ndjson::BUFFER_BYTES;
use super::part::FinishedPart;

/// A file that counts and sums up what is written to it, so that it need not be read again.
pub(super) struct Checksummed {
    file: File,
    bytes: u64,
    crc32: Hasher,
}

impl Checksummed {
    /// `file` is empty.
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

/// The file, at its start, if it is as it was committed.
///
/// # Errors
/// `InvalidData`: it is not.
pub(crate) fn open_verified(path: &Path, crc32: u32) -> io::Result<File> {
    let shown = path.display();
    let unreadable = |error: io::Error| io::Error::new(error.kind(), format!("cannot read {shown}: {}", cause(&error)));
    let file = File::open(path).map_err(unreadable)?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, &file);
    let mut found = Hasher::new();
    loop {
        let bytes = reader.fill_buf().map_err(unreadable)?;
        if bytes.is_empty() {
            break;
        }
        found.update(bytes);
        let length = bytes.len();
        reader.consume(length);
    }
    if found.finalize() != crc32 {
        let damaged = format!("{shown} is damaged: its checksum is not the committed one");
        return Err(io::Error::new(io::ErrorKind::InvalidData, damaged));
    }
    (&file).rewind().map_err(unreadable)?;
    Ok(file)
}
