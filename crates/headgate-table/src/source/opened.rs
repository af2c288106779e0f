//! A file while it is read. A job reads what the file was when it was opened: bytes that are added later are ignored, and
//! the job fails if bytes are removed or changed.
//!
//! The file is checked after each read and before the bytes are handed on: its size and the time of its last change. Where
//! these differ, and at the end, both its ends are compared, too. So rows that were handed on are those of the file as it
//! was opened. An edit in the middle that leaves size and ends alone can't be distinguished from a mere touch: a note says
//! that there may be one. Cost: one `fstat` for each read, and 128 KiB read once more.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use headgate_core::error::JobError;
use headgate_core::grouped::grouped;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use parquet::file::reader::{ChunkReader, Length};

use super::fingerprint::{FileState, Fingerprint, OpenedInput};
use super::form::Form;
use super::input_error::InputError;

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) name: String,
    pub(super) form: Form,
    file: File,
    /// The file when it was opened. `None`: not a regular file, of which nothing is known beforehand.
    then: Option<OpenedInput>,
    /// The file when it was last checked.
    seen: Mutex<Option<FileState>>,
    /// Set for all readers by the first one that comes to the end.
    ends_in_half_line: Arc<OnceLock<bool>>,
}

impl Opened {
    /// # Errors
    /// `Input`: the file can't be opened or read, or is Parquet and not a regular file.
    pub(super) fn open(path: &str, form: Form) -> Result<Self, JobError> {
        let opened = || {
            // Before it is opened: opening a named pipe waits for its writer.
            if form == Form::Parquet && !fs::metadata(path)?.is_file() {
                let why = "it is not a regular file, and Parquet is read at several positions: copy it into a file";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            let file = File::open(path)?;
            let then = if file.metadata()?.is_file() { Some(OpenedInput::of(&file)?) } else { None };
            let seen = Mutex::new(then.map(|then| then.stamp));
            Ok(Self { name: path.to_owned(), form, file, then, seen, ends_in_half_line: Arc::default() })
        };
        opened().map_err(|error: io::Error| JobError::input(format!("{path}: can't be opened: {error}")))
    }

    /// Opens a file that was `then` when it was opened before.
    ///
    /// # Errors
    /// `Input`: it can't be opened, or was changed.
    pub(super) fn reopen(
        path: &str,
        form: Form,
        then: OpenedInput,
        ends_in_half_line: Arc<OnceLock<bool>>,
    ) -> Result<Self, JobError> {
        let opened = File::open(path).and_then(|file| {
            let seen = Mutex::new(None);
            let opened = Self { name: path.to_owned(), form, file, then: Some(then), seen, ends_in_half_line };
            opened.check_unchanged(true).map(|()| opened)
        });
        opened.map_err(|error| {
            InputError::changed(&error, path, "before its first row")
                .unwrap_or_else(|| JobError::input(format!("{path}: can't be opened: {error}")))
        })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn ends(&self) -> Option<OpenedInput> {
        self.then
    }

    /// Returns the fingerprint, or `None` if the file can't be read a second time.
    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        self.then.map(|then| then.fingerprint(self.form))
    }

    /// Returns the size when it was opened.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.then.map(|then| then.stamp.bytes)
    }

    /// Compares the file with what it was: at least size and time.
    ///
    /// # Errors
    /// [`InputError::Changed`], or the file can't be read.
    pub(super) fn check_unchanged(&self, at_both_ends: bool) -> io::Result<()> {
        let Some(then) = self.then else { return Ok(()) };
        let now = FileState::of(&self.file)?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        if seen == Some(now) && !at_both_ends {
            return Ok(());
        }
        let bytes = then.stamp.bytes;
        if now.bytes < bytes {
            return Err(InputError::truncated(bytes, now.bytes).into());
        }
        match then.content_differences(&self.file)?.as_slice() {
            [] => Ok(()),
            differences => {
                Err(InputError::Changed(format!("changed while it was read ({})", differences.join(", "))).into())
            }
        }
    }

    pub(super) fn has_grown(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.map(|seen| seen.bytes) > self.bytes()
    }

    /// Returns whether the last line was still being written: the result of an earlier call, or else that of `find_out`. So
    /// the rows are the same however often the file is read.
    pub(super) fn ends_in_half_line(&self, find_out: impl FnOnce() -> io::Result<bool>) -> io::Result<bool> {
        match self.ends_in_half_line.get() {
            Some(found) => Ok(*found),
            None => find_out().map(|found| *self.ends_in_half_line.get_or_init(|| found)),
        }
    }

    /// Returns the first byte that was added after its end.
    pub(super) fn first_added_byte(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let read = self.file.read_at(&mut byte, self.bytes().unwrap_or(u64::MAX))?;
        Ok((read > 0).then_some(byte[0]))
    }

    /// Returns what the user should know of changes to the file.
    pub(super) fn note(&self) -> Option<Message> {
        let (name, then) = (&self.name, self.then?.stamp);
        let now = (*self.seen.lock().unwrap_or_else(PoisonError::into_inner))?;
        if now.bytes > then.bytes {
            let (before, after) = (grouped(then.bytes), grouped(now.bytes));
            return Some(message!(
                "{name} grew while it was read, from {before} to {after} bytes: the rows are those that were there when it was opened"
            ));
        }
        (now != then).then(|| {
            message!(
                "{name} was written to while it was read: its size and its first and last 64 KiB are unchanged; if something in between was changed, rows may be from either version: start over with ",
                OptionName::IfExists.set("overwrite")
            )
        })
    }
}

/// Reads the bytes that the file had when it was opened, from its beginning. A regular file may have several readers.
pub(super) struct OpenedReader {
    opened: Arc<Opened>,
    at: u64,
}

impl OpenedReader {
    pub(super) fn new(opened: Arc<Opened>) -> Self {
        Self { opened, at: 0 }
    }
}

/// A file for the Parquet reader, which reads at several positions: simultaneous readers must not move each other's position.
#[derive(Debug, Clone)]
pub(super) struct OpenedFile(pub(super) Arc<Opened>);

impl Length for OpenedFile {
    fn len(&self) -> u64 {
        self.0.bytes().unwrap_or_default()
    }
}

impl ChunkReader for OpenedFile {
    type T = BufReader<OpenedReader>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(BufReader::new(OpenedReader { opened: self.0.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let mut bytes = vec![0; length];
        self.0.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

impl Read for OpenedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.opened.bytes().map_or(u64::MAX, |bytes| bytes.saturating_sub(self.at));
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = match self.opened.then {
            Some(_) => self.opened.file.read_at(&mut buffer[..most], self.at)?,
            None => (&self.opened.file).read(&mut buffer[..most])?,
        };
        self.at += read as u64;
        self.opened.check_unchanged(read == 0)?;
        match self.opened.bytes() {
            // The file was truncated, and has grown again since.
            Some(bytes) if read == 0 && most > 0 => Err(InputError::truncated(bytes, self.at).into()),
            _ => Ok(read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_do_not_move_each_others_position() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("urls.parquet");
        std::fs::write(&path, "0123456789").expect("written");
        let opened = Opened::open(path.to_str().expect("text"), Form::Parquet).expect("a file");
        let file = OpenedFile(Arc::new(opened));
        let mut readers = [0, 4].map(|start| file.get_read(start).expect("a reader"));
        assert_eq!(b"89"[..], file.get_bytes(8, 2).expect("bytes"));
        for (expected, reader) in ["0123456789", "456789"].into_iter().zip(&mut readers) {
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("bytes");
            assert_eq!(expected, text);
        }
        assert!(file.get_bytes(9, 2).is_err(), "there is one byte less");
    }
}
