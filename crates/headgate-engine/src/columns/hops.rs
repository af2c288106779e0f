//! The column of redirects: most rows have none.

use std::mem;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder as _, Int16Builder, StringBuilder};
use arrow_array::{ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::ArrowError;

use super::room::{take_bytes, take_numbers};
use super::schema::{hop_fields, hops_item};
use crate::model::trail::Hop;

pub(super) struct HopsBuilder {
    /// Where those of each row begin, and those of the last one end.
    offsets: Vec<i32>,
    present: NullBufferBuilder,
    statuses: Int16Builder,
    locations: StringBuilder,
}

impl Default for HopsBuilder {
    fn default() -> Self {
        let (statuses, locations) = (Int16Builder::new(), StringBuilder::new());
        Self { offsets: vec![0], present: NullBufferBuilder::new(0), statuses, locations }
    }
}

impl HopsBuilder {
    /// A row; without redirects, it has none.
    pub(super) fn push(&mut self, hops: &[Hop]) {
        for hop in hops {
            self.statuses.append_value(hop.status as i16);
            self.locations.append_value(&hop.location);
        }
        self.offsets.push(self.locations.len() as i32);
        self.present.append(!hops.is_empty());
    }

    /// The rows so far; the column is empty afterwards.
    pub(super) fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        let mut offsets = Vec::with_capacity(self.offsets.len());
        offsets.push(0);
        let offsets = mem::replace(&mut self.offsets, offsets);
        let columns = vec![take_numbers(&mut self.statuses), take_bytes(&mut self.locations)];
        let hops = StructArray::try_new(hop_fields(), columns, None)?;
        let offsets = OffsetBuffer::new(offsets.into());
        let lists = ListArray::try_new(Arc::new(hops_item()), offsets, Arc::new(hops), self.present.finish())?;
        Ok(Arc::new(lists))
    }
}
