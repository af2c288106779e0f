//! The rows of a text form: what all of these have in common.

use std::io;

use arrow_schema::Fields;
use headgate_core::error::JobError;
use headgate_core::message::Message;
use headgate_core::row::{Row, RowBatch};
use headgate_core::source_size::SourceSize;

use super::batches::Rows;
use super::content::Passing;
use super::fingerprint::Fingerprint;
use super::input::OpenInput;
use super::keep::KeptText;
use super::template::bound::RequestTemplates;

/// A text form, which makes rows of its bytes, record by record.
pub(super) trait TextForm: Send {
    /// Returns the next record as the row of this ordinal, or `None` at the end of the input. Sets `hash` to that of its
    /// bytes.
    fn next_row(&mut self, ordinal: u64, kept: &mut KeptText, hash: Option<&mut u128>) -> io::Result<Option<Row>>;

    /// Skips the next record, and returns whether there is one. Sets `hash` as above.
    fn skip_row(&mut self, hash: Option<&mut u128>) -> io::Result<bool>;

    fn templates(&mut self) -> Option<&mut RequestTemplates>;

    /// Returns a hash of the columns of the input.
    fn header(&self) -> u128 {
        0
    }

    /// Returns whether a batch with rows should be handed on before waiting for the next row.
    fn ends_batch(&self) -> bool {
        false
    }
}

pub(super) struct TextRows<F> {
    input: OpenInput,
    form: F,
    kept: KeptText,
}

impl<F: TextForm> TextRows<F> {
    pub(super) fn new(input: OpenInput, form: F, kept: KeptText) -> Self {
        Self { input, form, kept }
    }
}

impl<F: TextForm> Rows for TextRows<F> {
    fn next_row(&mut self, ordinal: u64, passing: Option<&mut Passing>) -> Result<Option<Row>, JobError> {
        let mut hash = 0;
        let row = self.form.next_row(ordinal, &mut self.kept, passing.is_some().then_some(&mut hash));
        let row = row.or_else(|error| self.input.ended_by(&error, ordinal).map(|()| None))?;
        if let (Some(passing), Some(_)) = (passing, &row) {
            passing.add(hash);
        }
        Ok(row)
    }

    fn skip(&mut self, ordinal: u64, count: u64, mut passing: Option<&mut Passing>) -> Result<u64, JobError> {
        for skipped in 0..count {
            let mut hash = 0;
            let is_there = self.form.skip_row(passing.is_some().then_some(&mut hash));
            if !is_there.or_else(|error| self.input.ended_by(&error, ordinal + skipped).map(|()| false))? {
                return Ok(skipped);
            }
            if let Some(passing) = &mut passing {
                passing.add(hash);
            }
        }
        Ok(count)
    }

    fn set_first_row(&mut self, rows: u64) {
        self.form.templates().into_iter().for_each(|templates| templates.set_first_row(rows));
    }

    fn header(&self) -> u128 {
        self.form.header()
    }

    fn size(&self) -> SourceSize {
        self.input.size()
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        self.input.fingerprint()
    }

    fn note(&self) -> Option<Message> {
        self.input.note()
    }

    fn ends_batch(&self) -> bool {
        self.form.ends_batch()
    }

    fn kept_fields(&self) -> Fields {
        self.kept.fields().clone()
    }

    fn kept_bytes(&self) -> usize {
        self.kept.bytes()
    }

    fn attach_kept(&mut self, batch: &mut RowBatch) -> Result<(), JobError> {
        self.kept.attach(batch)
    }
}
