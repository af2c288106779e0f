//! A source whose first rows were read already: so a file that can't be read at all is found out before anything is
//! sent, and before the results of an earlier job are replaced.

use arrow_schema::Fields;

use crate::model::error::JobError;
use crate::model::message::Message;
use crate::model::row::RowBatch;
use crate::model::source_size::SourceSize;
use crate::source::batches::passed;
use crate::source::fingerprint::Fingerprint;
use crate::source::{Again, Source};

pub struct Peeked {
    source: Box<dyn Source>,
    first: Option<RowBatch>,
    has_no_rows: bool,
}

impl Peeked {
    /// Reads the first rows of what can be read again; what is read from a pipe is waited for only once the job runs.
    ///
    /// # Errors
    /// `Input`: not one row can be read.
    pub fn new(mut source: Box<dyn Source>) -> Result<Self, JobError> {
        let is_at_hand = source.fingerprint().is_some();
        let first = if is_at_hand { source.next_batch()? } else { None };
        Ok(Self { source, has_no_rows: is_at_hand && first.is_none(), first })
    }

    /// Whether it is known to be without any.
    pub fn has_no_rows(&self) -> bool {
        self.has_no_rows
    }
}

impl Source for Peeked {
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.source.next_batch(),
        }
    }

    fn skip_to(&mut self, ordinal: u64) -> Result<(), JobError> {
        let Some(first) = &mut self.first else { return self.source.skip_to(ordinal) };
        if let Some(next) = first.first().map(|row| row.ordinal)
            && ordinal < next
        {
            return Err(passed(ordinal, next));
        }
        first.drain(..first.partition_point(|row| row.ordinal < ordinal));
        if first.is_empty() {
            self.first = None;
            return self.source.skip_to(ordinal);
        }
        Ok(())
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
