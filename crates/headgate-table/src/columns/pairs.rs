//! A column that has a list of pairs for each row: headers, or redirects. arrow's `ListBuilder<StructBuilder>` looks up the type of
//! its parts at every value, which made it the slowest column.

use std::mem;
use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, Fields};

use super::refill::Refill;
use super::schema::item;

pub(super) struct PairsBuilder<A, B> {
    /// The offset at which the pairs of each row begin, and the end of the last row's.
    offsets: Vec<i32>,
    present: NullBufferBuilder,
    pub(super) first: A,
    pub(super) second: B,
}

impl<A: Default, B: Default> Default for PairsBuilder<A, B> {
    fn default() -> Self {
        Self { offsets: vec![0], present: NullBufferBuilder::new(0), first: A::default(), second: B::default() }
    }
}

impl<A: Refill, B: Refill> PairsBuilder<A, B> {
    /// Ends a row with the pairs that were appended to both columns.
    pub(super) fn end_row(&mut self, is_present: bool) {
        self.offsets.push(self.first.len() as i32);
        self.present.append(is_present);
    }

    /// Returns the rows so far; the column is empty afterwards.
    pub(super) fn finish_batch(&mut self, fields: Fields) -> Result<ArrayRef, ArrowError> {
        let mut offsets = Vec::with_capacity(self.offsets.len());
        offsets.push(0);
        let offsets = mem::replace(&mut self.offsets, offsets);
        let columns = vec![self.first.finish_batch(), self.second.finish_batch()];
        let pairs = StructArray::try_new(fields.clone(), columns, None)?;
        let offsets = OffsetBuffer::new(offsets.into());
        let lists = ListArray::try_new(item(fields), offsets, Arc::new(pairs), self.present.finish())?;
        Ok(Arc::new(lists))
    }
}
