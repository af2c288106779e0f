//! The room that the columns of a batch have: as much as those of the batch before took.

use std::mem;
use std::sync::Arc;

use arrow_array::builder::{ArrayBuilder as _, GenericByteBuilder, PrimitiveBuilder};
use arrow_array::types::{ArrowPrimitiveType, ByteArrayType};
use arrow_array::{Array as _, ArrayRef};

/// Rows after which a batch goes to the sink.
pub const BATCH_ROWS: usize = 1024;

/// The column so far, which begins again with room for as much.
pub(super) fn take_numbers<T: ArrowPrimitiveType>(column: &mut PrimitiveBuilder<T>) -> ArrayRef {
    let taken = column.finish();
    *column = PrimitiveBuilder::with_capacity(taken.len()).with_data_type(taken.data_type().clone());
    Arc::new(taken)
}

/// As [`take_numbers`]; an eighth more, since it would be copied for a byte too many.
pub(super) fn take_bytes<T: ByteArrayType>(column: &mut GenericByteBuilder<T>) -> ArrayRef {
    let next = GenericByteBuilder::with_capacity(column.len(), column.values_slice().len() / 8 * 9);
    Arc::new(mem::replace(column, next).finish())
}
