//! The bytes of a text input, decompressed and without a byte-order mark, and what messages need to know of it.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::compressed::{Compression, Counted};
use super::{READ_BYTES, SourceSize};
use crate::error::JobError;

pub(super) type Reader = Box<dyn Read + Send>;

#[derive(Debug)]
pub(super) struct Input {
    pub(super) name: String,
    compression: Compression,
    bytes: Option<u64>,
    bytes_read: Arc<AtomicU64>,
}

impl Input {
    /// # Errors
    /// The file cannot be opened or not even begun to be read.
    pub(super) fn open(path: &str, compression: Compression) -> Result<(Self, Reader), JobError> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened.map_err(|error| JobError::input(format!("{path}: cannot be opened: {error}")))?;
        let input = Self {
            name: path.to_owned(),
            compression,
            bytes: metadata.is_file().then_some(metadata.len()),
            bytes_read: Arc::default(),
        };
        let counted = Counted::new(file, READ_BYTES, input.bytes_read.clone());
        let reader = compression.decode(counted).map_err(|error| input.failed(&error, 0))?;
        Ok((input, Box::new(WithoutMark::new(reader))))
    }

    /// Something to read from that is no file.
    pub(super) fn stream(name: &str, reader: impl Read + Send + 'static) -> (Self, Reader) {
        let bytes_read = Arc::default();
        let counted = Counted::new(reader, READ_BYTES, Arc::clone(&bytes_read));
        let input = Self { name: name.to_owned(), compression: Compression::None, bytes: None, bytes_read };
        (input, Box::new(WithoutMark::new(counted)))
    }

    pub(super) fn size(&self) -> SourceSize {
        SourceSize { rows: None, bytes: self.bytes, bytes_read: self.bytes_read.load(Ordering::Relaxed) }
    }

    /// The error of a job whose input cannot be read further than `rows` rows.
    pub(super) fn failed(&self, error: &io::Error, rows: u64) -> JobError {
        let Self { name, .. } = self;
        if error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<Utf16>) {
            return JobError::input(format!("{name}: {Utf16}"));
        }
        let at = self.bytes_read.load(Ordering::Relaxed);
        let place = format!("at byte {at}, after {rows} rows");
        let compression = self.compression.name();
        JobError::input(match (self.compression, error.kind()) {
            (Compression::Gzip | Compression::Zstd, io::ErrorKind::UnexpectedEof) => format!(
                "{name}: cut short: its {compression} data ends in the middle, {place}; get the whole file and start over with --fresh"
            ),
            // What the decoders say of bad data has several kinds; what the operating system says has a number.
            (Compression::Gzip | Compression::Zstd, _) if error.raw_os_error().is_none() => format!(
                "{name}: damaged: its {compression} data cannot be decoded further ({error}), {place}; get a sound copy and start over with --fresh"
            ),
            _ => format!("{name}: cannot be read further ({error}), {place}"),
        })
    }
}

/// Drops a UTF-8 byte-order mark from the start, and refuses UTF-16, whose lines would all be nonsense.
struct WithoutMark<R> {
    reader: R,
    started: bool,
    /// What was read to look for a mark, last byte first.
    start: Vec<u8>,
}

const MARK: &[u8] = b"\xEF\xBB\xBF";

impl<R> WithoutMark<R> {
    fn new(reader: R) -> Self {
        Self { reader, started: false, start: Vec::new() }
    }
}

impl<R: Read> Read for WithoutMark<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.started {
            (&mut self.reader).take(MARK.len() as u64).read_to_end(&mut self.start)?;
            self.started = true;
            if self.start.starts_with(b"\xFF\xFE") || self.start.starts_with(b"\xFE\xFF") {
                return Err(io::Error::new(io::ErrorKind::InvalidData, Utf16));
            }
            if self.start == MARK {
                self.start.clear();
            }
            self.start.reverse();
        }
        if self.start.is_empty() {
            return self.reader.read(buffer);
        }
        let mut read = 0;
        while let Some(slot) = buffer.get_mut(read)
            && let Some(byte) = self.start.pop()
        {
            *slot = byte;
            read += 1;
        }
        Ok(read)
    }
}

#[derive(Debug)]
struct Utf16;

impl fmt::Display for Utf16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is UTF-16: save it as UTF-8 (iconv -f UTF-16 -t UTF-8)")
    }
}

impl Error for Utf16 {}
