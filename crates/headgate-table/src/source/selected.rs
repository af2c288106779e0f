//! Some rows of an input, by their ordinals, for a retry.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::vec;

use arrow_schema::Fields;
use headgate_core::error::JobError;
use headgate_core::message::Message;
use headgate_core::row::{MAX_BATCH_ROWS, Row, RowBatch};
use headgate_core::source_size::SourceSize;
use roaring::{RoaringTreemap, treemap};

use super::batches::passed;
use super::fingerprint::Fingerprint;
use super::{Reopener, Source};

/// A gap of at most this many rows is read: a skip may cost as much as reading a batch.
pub const MAX_READ_GAP: u64 = MAX_BATCH_ROWS as u64;

/// The rows of one set of ordinals after another; each set begins after the one before.
pub struct Selected {
    source: Box<dyn Source>,
    /// The input's name, for messages.
    input: String,
    /// The remaining ordinals, ascending.
    wanted: Peekable<treemap::IntoIter>,
    /// The number of rows of this set.
    count: u64,
    /// The rest of the batch that was read last.
    read: vec::IntoIter<Row>,
    /// The ordinal after that batch.
    next: u64,
}

impl Selected {
    /// Returns no rows yet of a source that has not been read from.
    pub fn new(source: Box<dyn Source>, input: &str) -> Self {
        let wanted = RoaringTreemap::new().into_iter().peekable();
        Self { source, input: input.to_owned(), wanted, count: 0, read: Vec::new().into_iter(), next: 0 }
    }

    /// Returns the ordinal of the first row that can still be read: a set that begins before it needs the input to be
    /// opened anew.
    pub fn position(&self) -> u64 {
        self.read.as_slice().first().map_or(self.next, |row| row.ordinal)
    }

    /// Replaces the set; rows that were not handed on are dropped.
    ///
    /// # Errors
    /// `Internal`: the set begins before [`Selected::position`].
    pub fn select(&mut self, ordinals: RoaringTreemap) -> Result<(), JobError> {
        if let Some(first) = ordinals.min().filter(|first| *first < self.position()) {
            return Err(passed(first, self.position()));
        }
        self.count = ordinals.len();
        self.wanted = ordinals.into_iter().peekable();
        Ok(())
    }

    /// Reads the batch that has this row, or one before it.
    fn read_towards(&mut self, wanted: u64) -> Result<(), JobError> {
        if wanted.saturating_sub(self.next) > MAX_READ_GAP {
            self.source.skip_to(wanted)?;
            self.next = wanted;
        }
        let Some(batch) = self.source.next_batch()? else { return Err(self.missing(wanted)) };
        self.next = batch.last().map_or(self.next, |row| row.ordinal + 1);
        self.read = batch.into_iter();
        Ok(())
    }

    fn missing(&self, wanted: u64) -> JobError {
        let rows = self.source.size().rows.map_or_else(String::new, |rows| format!(", it has {rows} rows"));
        JobError::input(format!(
            "{}: row {wanted} no longer exists{rows}: the file was truncated or changed since the job started; restore the original file",
            self.input
        ))
    }
}

impl Source for Selected {
    /// Returns the next rows, as [`Source::next_batch`] does; they are not consecutive. The gaps between them determine
    /// where a batch ends.
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError> {
        let mut batch = RowBatch::new();
        while batch.is_empty() {
            let Some(mut wanted) = self.wanted.peek().copied() else { return Ok(None) };
            if self.read.as_slice().is_empty() {
                self.read_towards(wanted)?;
            }
            for row in self.read.by_ref() {
                match row.ordinal.cmp(&wanted) {
                    Ordering::Less => continue,
                    Ordering::Equal => batch.push(row),
                    Ordering::Greater => return Err(self.missing(wanted)),
                }
                self.wanted.next();
                match self.wanted.peek() {
                    Some(next) => wanted = *next,
                    // The rows after it stay for the next set.
                    None => break,
                }
            }
        }
        Ok(Some(batch))
    }

    /// Skips to the first row of the set that is not before this ordinal. The input itself is skipped at the next read.
    fn skip_to(&mut self, ordinal: u64) -> Result<(), JobError> {
        while self.wanted.next_if(|wanted| *wanted < ordinal).is_some() {}
        Ok(())
    }

    /// Returns the size of the set as the number of rows. How many bytes of the input they will take is not known.
    fn size(&self) -> SourceSize {
        SourceSize { rows: Some(self.count), bytes: None, bytes_read: self.source.size().bytes_read }
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        self.source.fingerprint()
    }

    fn reopener(&self) -> Option<Reopener> {
        self.source.reopener()
    }

    fn note(&self) -> Option<Message> {
        self.source.note()
    }

    fn kept_fields(&self) -> Fields {
        self.source.kept_fields()
    }
}
