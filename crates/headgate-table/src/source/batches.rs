//! Cuts the rows of an input into batches: bounds, and rows before the error that ended them.

use std::ops::Range;

use arrow_schema::Fields;
use headgate_core::error::JobError;
use headgate_core::message::Message;
use headgate_core::row::{MAX_BATCH_BYTES, MAX_BATCH_ROWS, Row, RowBatch};
use headgate_core::source_size::SourceSize;

use super::content::{Content, Passing, Tracked, Unread};
use super::fingerprint::Fingerprint;
use super::{Check, Reopener, Source, refusal};

/// The rows of one form of input; [`Batches`] makes a [`Source`] of it.
pub(super) trait Rows: Send {
    /// Returns the next row, which gets this ordinal, or `None` at the end of the input, or of a file with a successor.
    /// With `passing`, the row's hash is added to it.
    fn next_row(&mut self, ordinal: u64, passing: Option<&mut Passing>) -> Result<Option<Row>, JobError>;

    /// Skips `count` rows, the first of which has this ordinal, and returns how many there were: fewer only at the end of
    /// the input. Called between batches.
    fn skip(&mut self, ordinal: u64, count: u64, passing: Option<&mut Passing>) -> Result<u64, JobError>;

    /// Sets how many rows of earlier files precede this file. Called before the first row.
    fn set_first_row(&mut self, _rows: u64) {}

    /// Returns a hash of the columns of the input.
    fn header(&self) -> u128 {
        0
    }

    /// Returns the smallest range around `rows` that has hashes of its own: a difference is known no more precisely.
    fn known_together(&self, rows: Range<u64>) -> Range<u64> {
        rows
    }

    fn size(&self) -> SourceSize;

    fn fingerprint(&self) -> Option<Fingerprint>;

    fn note(&self) -> Option<Message> {
        None
    }

    /// Returns whether a batch with rows should be handed on before the next row is read.
    fn ends_batch(&self) -> bool {
        false
    }

    fn kept_fields(&self) -> Fields {
        Fields::empty()
    }

    /// Keeps columns in these types, which the first of several files has. They differ only in the layout of text.
    fn keep_as(&mut self, _fields: &Fields) -> Result<(), JobError> {
        Ok(())
    }

    /// Returns whether another file follows the current one.
    fn has_next_file(&self) -> bool {
        false
    }

    /// Closes a file that has ended; the next file begins with the row of ordinal `next`.
    fn end_file(&mut self, _next: u64) {}

    /// Returns the file of this row, if there are several files.
    fn file_of(&self, _row: u64) -> Option<String> {
        None
    }

    /// Returns the bytes of kept columns of the rows since the last [`Rows::attach_kept`].
    fn kept_bytes(&self) -> usize {
        0
    }

    /// Gives each row its kept columns. The batch holds all rows since the last call.
    fn attach_kept(&mut self, _batch: &mut RowBatch) -> Result<(), JobError> {
        Ok(())
    }
}

pub(super) struct Batches {
    rows: Box<dyn Rows>,
    next_ordinal: u64,
    /// The number of rows, once the end of the input was reached.
    end: Option<u64>,
    failed: Option<JobError>,
    reopener: Option<Reopener>,
    tracking: Option<Tracking>,
    /// The check that must succeed before the first row is handed on.
    check: Option<Check>,
    /// The first rows, already read.
    peeked: Option<RowBatch>,
}

/// The hashes of the rows that have passed.
struct Tracking {
    /// The input's name, for messages.
    name: String,
    passing: Passing,
    tracked: Tracked,
}

impl Batches {
    pub(super) fn boxed(rows: Box<dyn Rows>, reopener: Option<Reopener>) -> Box<dyn Source> {
        Box::new(Self {
            rows,
            next_ordinal: 0,
            end: None,
            failed: None,
            reopener,
            tracking: None,
            check: None,
            peeked: None,
        })
    }

    fn run_check(&mut self) -> Result<(), JobError> {
        if let Some(check) = &self.check {
            check(self.fingerprint())?;
            self.check = None;
        }
        Ok(())
    }

    /// Compares the rows that have passed with those of the earlier pass, and publishes their hashes.
    fn track_passed(&mut self) -> Result<(), JobError> {
        let Some(Tracking { name, passing, tracked }) = &self.tracking else { return Ok(()) };
        if let Some(rows) = passing.difference() {
            let file = self.rows.file_of(rows.start);
            return Err(refusal::differs(file.as_ref().unwrap_or(name), &self.rows.known_together(rows)));
        }
        if self.end == Some(self.next_ordinal) && passing.missing() > 0 {
            return Err(refusal::cut(name, self.next_ordinal, self.next_ordinal + passing.missing()));
        }
        if let Some(content) = passing.content() {
            tracked.set(content);
        }
        Ok(())
    }
}

impl Source for Batches {
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError> {
        self.run_check()?;
        if let Some(first) = self.peeked.take() {
            return Ok(Some(first));
        }
        let mut batch = RowBatch::new();
        let mut bytes = 0;
        while self.failed.is_none()
            && self.end != Some(self.next_ordinal)
            && batch.len() < MAX_BATCH_ROWS
            && bytes + self.rows.kept_bytes() < MAX_BATCH_BYTES
            && (batch.is_empty() || !self.rows.ends_batch())
        {
            let passing = self.tracking.as_mut().map(|tracking| &mut tracking.passing);
            match self.rows.next_row(self.next_ordinal, passing) {
                Ok(Some(row)) => {
                    bytes += row.bytes();
                    batch.push(row);
                    self.next_ordinal += 1;
                }
                Ok(None) if !self.rows.has_next_file() => self.end = Some(self.next_ordinal),
                // A batch has kept columns of one file only.
                Ok(None) if !batch.is_empty() => break,
                Ok(None) => self.rows.end_file(self.next_ordinal),
                Err(error) => self.failed = Some(error),
            }
        }
        if self.failed.is_none() {
            self.track_passed().inspect_err(|error| self.failed = Some(error.clone()))?;
        }
        if batch.is_empty() {
            return self.failed.clone().map_or(Ok(None), Err);
        }
        self.rows.attach_kept(&mut batch)?;
        Ok(Some(batch))
    }

    fn skip_to(&mut self, ordinal: u64) -> Result<(), JobError> {
        self.run_check()?;
        let next = self.peeked.iter().flatten().next().map_or(self.next_ordinal, |row| row.ordinal);
        let to = self.end.map_or(ordinal, |end| end.min(ordinal));
        if to < next {
            return Err(passed(ordinal, next));
        }
        if let Some(first) = &mut self.peeked {
            first.drain(..first.partition_point(|row| row.ordinal < to));
            if !first.is_empty() {
                return Ok(());
            }
            self.peeked = None;
        }
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let count = to - self.next_ordinal;
        let passing = self.tracking.as_mut().map(|tracking| &mut tracking.passing);
        let skipped = self.rows.skip(self.next_ordinal, count, passing);
        let skipped = skipped.inspect_err(|error| self.failed = Some(error.clone()))?;
        self.next_ordinal += skipped;
        if skipped < count {
            self.end = Some(self.next_ordinal);
        }
        self.track_passed().inspect_err(|error| self.failed = Some(error.clone()))
    }

    fn peek(&mut self) -> Result<bool, JobError> {
        // A pipe is read only once the job runs.
        if self.fingerprint().is_none() {
            return Ok(true);
        }
        self.peeked = self.next_batch()?;
        Ok(self.peeked.is_some())
    }

    fn check_first(&mut self, check: Check) {
        self.check = Some(check);
    }

    fn track(&mut self, name: &str, then: Option<&Content>, unread: Unread) -> Result<Option<Tracked>, JobError> {
        let header = self.rows.header();
        let then = match then {
            Some(then) if then.rows() > 0 && then.header() != header => return Err(refusal::different_columns(name)),
            Some(then) if then.rows() > 0 => then.clone(),
            _ => Content::new(header),
        };
        let tracked = Tracked::new(&then);
        let tracking =
            Tracking { name: name.to_owned(), passing: Passing::new(then, unread), tracked: tracked.clone() };
        self.tracking = Some(tracking);
        Ok(Some(tracked))
    }

    fn size(&self) -> SourceSize {
        let mut size = self.rows.size();
        if let Some(end) = self.end {
            size.rows.get_or_insert(end);
        }
        size
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        self.rows.fingerprint()
    }

    fn reopener(&self) -> Option<Reopener> {
        self.reopener.clone()
    }

    fn note(&self) -> Option<Message> {
        self.rows.note()
    }

    fn kept_fields(&self) -> Fields {
        self.rows.kept_fields()
    }
}

/// Returns the error of a caller that goes back, which no source can.
pub(super) fn passed(ordinal: u64, next: u64) -> JobError {
    JobError::internal(format!(
        "row {ordinal} was requested, but the next one is row {next}: an input is read forward only"
    ))
}
