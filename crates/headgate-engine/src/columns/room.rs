//! The room that the columns of a batch have: as much as those of the batch before took.

use std::mem;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, GenericByteBuilder, PrimitiveBuilder};
use arrow_array::types::{ArrowPrimitiveType, ByteArrayType};
use arrow_array::{Array as _, ArrayRef};

/// Rows after which a batch goes to the sink.
pub const BATCH_ROWS: usize = 1024;

/// A column that begins again with room for as much as it had.
pub(super) trait Refill: ArrayBuilder {
    /// The column so far; it is empty afterwards.
    fn take(&mut self) -> ArrayRef;
}

impl<T: ArrowPrimitiveType> Refill for PrimitiveBuilder<T> {
    fn take(&mut self) -> ArrayRef {
        let taken = self.finish();
        *self = Self::with_capacity(taken.len()).with_data_type(taken.data_type().clone());
        Arc::new(taken)
    }
}

/// With an eighth more room, since the column would be copied for a byte too many.
impl<T: ByteArrayType> Refill for GenericByteBuilder<T> {
    fn take(&mut self) -> ArrayRef {
        let next = Self::with_capacity(self.len(), self.values_slice().len() / 8 * 9);
        Arc::new(mem::replace(self, next).finish())
    }
}
