//! The column of headers. arrow's `ListBuilder<StructBuilder>` asks for the type of its parts at every value, which made
//! it the dearest column.

use std::mem;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder as _, BinaryBuilder, StringBuilder};
use arrow_array::{ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::ArrowError;

use super::room::take_bytes;
use super::schema::{header_fields, headers_item};
use crate::model::headers::HeadersRef;

pub(super) struct HeadersBuilder {
    /// Where the headers of each row begin, and those of the last one end.
    offsets: Vec<i32>,
    present: NullBufferBuilder,
    names: StringBuilder,
    values: BinaryBuilder,
}

impl Default for HeadersBuilder {
    fn default() -> Self {
        let (names, values) = (StringBuilder::new(), BinaryBuilder::new());
        Self { offsets: vec![0], present: NullBufferBuilder::new(0), names, values }
    }
}

impl HeadersBuilder {
    pub(super) fn push(&mut self, headers: Option<HeadersRef<'_>>) {
        if let Some(headers) = headers {
            headers.for_each(|name, value| {
                self.names.append_value(name);
                self.values.append_value(value);
            });
        }
        self.offsets.push(self.names.len() as i32);
        self.present.append(headers.is_some());
    }

    /// The rows so far; the column is empty afterwards.
    pub(super) fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        let mut offsets = Vec::with_capacity(self.offsets.len());
        offsets.push(0);
        let offsets = mem::replace(&mut self.offsets, offsets);
        let columns = vec![take_bytes(&mut self.names), take_bytes(&mut self.values)];
        let pairs = StructArray::try_new(header_fields(), columns, None)?;
        let offsets = OffsetBuffer::new(offsets.into());
        let lists = ListArray::try_new(Arc::new(headers_item()), offsets, Arc::new(pairs), self.present.finish())?;
        Ok(Arc::new(lists))
    }
}
