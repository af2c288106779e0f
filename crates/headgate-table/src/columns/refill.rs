//! Gives the columns of a batch the capacity that the previous batch used.

use std::mem;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder, GenericByteBuilder, PrimitiveBuilder};
use arrow_array::types::{ArrowPrimitiveType, ByteArrayType};
use arrow_array::{Array as _, ArrayRef};

/// The number of rows at which a batch goes to the sink.
pub(super) const BATCH_ROWS: usize = 1024;

/// A column whose next batch begins with the capacity that this one used.
pub(super) trait Refill: ArrayBuilder {
    /// Returns the column so far; it is empty afterwards.
    fn finish_batch(&mut self) -> ArrayRef;
}

impl<T: ArrowPrimitiveType> Refill for PrimitiveBuilder<T> {
    fn finish_batch(&mut self) -> ArrayRef {
        let array = self.finish();
        *self = Self::with_capacity(array.len()).with_data_type(array.data_type().clone());
        Arc::new(array)
    }
}

/// Reserves an eighth more, since a single byte too many would have the column copied.
impl<T: ByteArrayType> Refill for GenericByteBuilder<T> {
    fn finish_batch(&mut self) -> ArrayRef {
        let next = Self::with_capacity(self.len(), self.values_slice().len() / 8 * 9);
        Arc::new(mem::replace(self, next).finish())
    }
}
