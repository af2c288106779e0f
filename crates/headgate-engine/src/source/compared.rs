//! An input that was read before and has been touched since: it is compared with what it was, before any row is handed on.
//!
//! That takes one more passage through what was read. What follows the rows that were read then is not known; the file may
//! have grown, or it was never read to its end. So another end of the file counts as grown.

use arrow_schema::Fields;
use serde::{Deserialize, Serialize};

use super::content::{Content, Unread};
use super::fingerprint::Fingerprint;
use super::{Again, Source, open, refusal};
use crate::model::error::JobError;
use crate::model::message::Message;
use crate::model::options::SourceOptions;
use crate::model::row::RowBatch;
use crate::model::source_size::SourceSize;

/// What an input was when it was read last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputThen {
    /// As long as it is the same, nobody has touched the file.
    pub fingerprint: Fingerprint,
    /// Where they are known.
    pub rows: Option<u64>,
    /// What was read.
    pub content: Content,
}

/// What may follow the rows that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// What was there.
    Same,
    /// More than was there.
    Grown,
    /// Whatever is there now, which nobody will read.
    Anything,
}

pub struct Compared {
    source: Box<dyn Source>,
    options: SourceOptions,
    then: InputThen,
    beyond: Beyond,
    done: bool,
}

impl Compared {
    /// `source`: the same input, from which nothing has been read.
    pub fn new(source: Box<dyn Source>, options: &SourceOptions, then: InputThen, beyond: Beyond) -> Self {
        Self { source, options: options.clone(), then, beyond, done: false }
    }

    fn compare(&mut self) -> Result<(), JobError> {
        if self.done {
            return Ok(());
        }
        let name = &*self.options.name();
        let InputThen { content, rows, .. } = &self.then;
        let mut source = open::open(&self.options)?;
        if source.fingerprint() != self.source.fingerprint() {
            return Err(JobError::input(format!("{name}: changed while it was read: run the same command again")));
        }
        source.track(name, Some(content), Unread::Compared)?;
        source.skip_to(content.rows())?;
        match rows {
            _ if self.beyond == Beyond::Anything => {}
            Some(rows) => self.compare_end(source.as_mut(), *rows)?,
            None => self.compare_size()?,
        }
        self.done = true;
        Ok(())
    }

    /// Whether there are so many rows, and not more.
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

    fn compare_size(&self) -> Result<(), JobError> {
        let name = &*self.options.name();
        let (Some(then), Some(now)) =
            (self.then.fingerprint.bytes(), self.source.fingerprint().and_then(|now| now.bytes()))
        else {
            return Ok(());
        };
        let rows = self.then.content.rows();
        let is_plain = !self.then.fingerprint.is_compressed();
        if is_plain && now < then {
            return Err(refusal::cut_bytes(name, now, then));
        }
        match self.beyond {
            Beyond::Same if is_plain && now > then => Err(refusal::grown(name, rows)),
            Beyond::Same if now != then => Err(refusal::other_bytes(name, rows, now, then)),
            _ => Ok(()),
        }
    }
}

impl Source for Compared {
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError> {
        self.compare()?;
        self.source.next_batch()
    }

    fn skip_to(&mut self, ordinal: u64) -> Result<(), JobError> {
        self.compare()?;
        self.source.skip_to(ordinal)
    }

    fn size(&self) -> SourceSize {
        self.source.size()
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        self.source.fingerprint()
    }

    fn again(&self) -> Option<Again> {
        self.source.again()
    }

    fn note(&self) -> Option<Message> {
        self.source.note()
    }

    fn kept_fields(&self) -> Fields {
        self.source.kept_fields()
    }
}
