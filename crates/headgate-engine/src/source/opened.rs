//! A file while it is read. The job is what the file was when it was opened: what is added later is not of it, and what is
//! taken away or changed ends it.
//!
//! The file is looked at again after each read and before anybody sees what was read: its size and the time of its last
//! change; where these are others, and at the end, also both its ends. So rows that were handed on are those of the file as it
//! was opened. What can't be told from a mere touch is an edit in the middle that leaves size and ends alone: a note says
//! that there may be one. Cost: one `fstat` for each read, and 128 KiB read once more.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};

use super::fingerprint::{Ends, Stamp};
use super::form::Form;
use crate::message;
use crate::model::error::JobError;
use crate::model::grouped::grouped;
use crate::model::message::{Message, OptionName};

#[derive(Debug)]
pub(super) struct Opened {
    pub(super) name: String,
    file: File,
    /// As it was opened. `None`: no regular file, of which nothing can be known beforehand.
    then: Option<Ends>,
    /// As it was seen last.
    seen: Mutex<Option<Stamp>>,
}

/// The content is not what it was when the file was opened.
#[derive(Debug)]
pub(super) struct Changed(String);

impl Opened {
    /// # Errors
    /// `Input`: it can't be opened or looked at.
    pub(super) fn open(path: &str, form: Form) -> Result<Self, JobError> {
        let opened = || {
            let file = File::open(path)?;
            let then = if file.metadata()?.is_file() { Some(Ends::of(&file, form)?) } else { None };
            Ok(Self { name: path.to_owned(), file, seen: Mutex::new(then.as_ref().map(Ends::stamp)), then })
        };
        opened().map_err(|error: io::Error| JobError::input(format!("{path}: can't be opened: {error}")))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn ends(&self) -> Option<&Ends> {
        self.then.as_ref()
    }

    /// Its size when it was opened.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.then.as_ref().map(|then| then.stamp().bytes)
    }

    /// Compares the file with what it was: at least size and time.
    ///
    /// # Errors
    /// [`Changed`], or the file can't be looked at.
    pub(super) fn look_again(&self, at_both_ends: bool) -> io::Result<()> {
        let Some(then) = &self.then else { return Ok(()) };
        let now = Stamp::of(&self.file)?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        if seen == Some(now) && !at_both_ends {
            return Ok(());
        }
        let bytes = then.stamp().bytes;
        if now.bytes < bytes {
            return Err(Changed::cut(bytes, now.bytes));
        }
        match then.content_differences(&self.file)?.as_slice() {
            [] => Ok(()),
            differences => {
                Err(io::Error::other(Changed(format!("changed while it was read ({})", differences.join(", ")))))
            }
        }
    }

    pub(super) fn has_grown(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.map(|seen| seen.bytes) > self.bytes()
    }

    /// What was added first behind its end.
    pub(super) fn byte_behind(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let read = self.file.read_at(&mut byte, self.bytes().unwrap_or(u64::MAX))?;
        Ok((read > 0).then_some(byte[0]))
    }

    /// What the user should know of what happened to it.
    pub(super) fn note(&self) -> Option<Message> {
        let (name, then) = (&self.name, self.then.as_ref()?.stamp());
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
                OptionName::Fresh.set(true)
            )
        })
    }
}

impl Changed {
    fn cut(then: u64, now: u64) -> io::Error {
        let (then, now) = (grouped(then), grouped(now));
        io::Error::other(Self(format!(
            "truncated while it was read: it had {then} bytes when it was opened, now {now}"
        )))
    }

    pub(super) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// The error of a job, whose input of that name could be read up to the place.
    pub(super) fn job_error(&self, name: &str, place: &str) -> JobError {
        JobError::input(message!(
            "{name}: {self}, {place}; restore the file to resume, or start over with ",
            OptionName::Fresh.set(true)
        ))
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Changed {}

/// The bytes that the file had when it was opened, from its beginning.
pub(super) struct OpenedReader {
    opened: Arc<Opened>,
    at: u64,
}

impl OpenedReader {
    pub(super) fn new(opened: Arc<Opened>) -> Self {
        Self { opened, at: 0 }
    }
}

impl Read for OpenedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.opened.bytes().map_or(u64::MAX, |bytes| bytes - self.at);
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.opened.file().read(&mut buffer[..most])?;
        self.at += read as u64;
        self.opened.look_again(read == 0)?;
        match self.opened.bytes() {
            // It was cut, and has grown again since.
            Some(bytes) if read == 0 && most > 0 => Err(Changed::cut(bytes, self.at)),
            _ => Ok(read),
        }
    }
}
