//! Compares an input that was read before and has been touched since with its earlier content, before any row is handed on.
//!
//! The comparison reads once more everything that was read. The content after that is unknown: the file may have grown, or
//! may never have been read to its end. So another end of the file counts as growth.

use headgate_core::error::JobError;
use headgate_core::options::SourceOptions;
use serde::{Deserialize, Serialize};

use super::content::{Content, Unread};
use super::fingerprint::Fingerprint;
use super::{Check, Source, open, refusal};

/// An input when it was last read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputThen {
    /// While it is the same, the file was not touched.
    pub fingerprint: Fingerprint,
    /// The number of rows, where it is known.
    pub rows: Option<u64>,
    /// Hashes of the rows that were read.
    pub content: Content,
}

/// The content that may follow the rows that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// The same content as before.
    Same,
    /// More content than before.
    Grown,
    /// Any content, which is not read.
    Anything,
}

/// The comparison of an input with its earlier content.
#[derive(Debug)]
pub struct Comparison {
    pub options: SourceOptions,
    pub then: InputThen,
    pub beyond: Beyond,
}

impl Comparison {
    pub fn into_check(self) -> Check {
        Box::new(move |now| self.run(now.as_ref()))
    }

    /// Reads the input, which has the fingerprint `now`, once more.
    ///
    /// # Errors
    /// `Input`: it has other rows than before, or more or fewer of them than are allowed.
    fn run(&self, now: Option<&Fingerprint>) -> Result<(), JobError> {
        let name = &*self.options.name();
        let InputThen { content, rows, .. } = &self.then;
        let mut source = open::open(&self.options)?;
        if source.fingerprint().as_ref() != now {
            return Err(JobError::input(format!("{name}: changed while it was read: run the same command again")));
        }
        source.track(name, Some(content), Unread::Compared)?;
        source.skip_to(content.rows())?;
        match rows {
            _ if self.beyond == Beyond::Anything => Ok(()),
            Some(rows) => self.compare_end(source.as_mut(), *rows),
            None => self.compare_size(now),
        }
    }

    /// Checks that the input has at least `rows` rows, and no more if nothing may follow.
    fn compare_end(&self, source: &mut dyn Source, rows: u64) -> Result<(), JobError> {
        let name = &*self.options.name();
        source.skip_to(rows)?;
        let is_grown = source.next_batch()?.is_some();
        match source.size().rows {
            _ if is_grown && self.beyond == Beyond::Same => Err(refusal::grown(name, self.then.content.rows())),
            Some(now) if !is_grown && now < rows => Err(refusal::cut(name, now, rows)),
            _ => Ok(()),
        }
    }

    fn compare_size(&self, now: Option<&Fingerprint>) -> Result<(), JobError> {
        let name = &*self.options.name();
        let (Some(then), Some(now)) = (self.then.fingerprint.bytes(), now.and_then(Fingerprint::bytes)) else {
            return Ok(());
        };
        let rows = self.then.content.rows();
        let is_plain = !self.then.fingerprint.is_compressed();
        if is_plain && now < then {
            return Err(refusal::cut_bytes(name, now, then));
        }
        match self.beyond {
            Beyond::Same if is_plain && now > then => Err(refusal::grown(name, rows)),
            Beyond::Same if now != then => Err(refusal::different_bytes(name, rows, now, then)),
            _ => Ok(()),
        }
    }
}
