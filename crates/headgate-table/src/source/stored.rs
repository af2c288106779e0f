//! The types that the columns of a Parquet file are read and kept as, so that the results have the types of the input.
//!
//! Arrow has types that Parquet lacks, and a file's metadata states what they were. If they were written so once more, most
//! readers would see bare numbers. So a date of 64 bits is read as what it is stored as: a date of 32 bits, or if it is a
//! bare number, a point in time. Seconds, for which Parquet has no unit, are kept as milliseconds.

use std::slice;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use parquet::basic::{LogicalType, Type as PhysicalType};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};

use crate::columns::kept::with_leaves;

/// Returns the columns as they are read, without dictionaries and without dates of 64 bits; [`with_views`] changes text and
/// bytes.
pub(super) fn fields(stored: &Schema, parquet: &SchemaDescriptor) -> Fields {
    // In the order of the leaves of the columns, depth first.
    let mut leaves = parquet.columns().iter();
    stored.fields().iter().map(|field| with_leaves(field, &mut |leaf| as_stored(leaf, &mut leaves))).collect()
}

fn as_stored(leaf: &Field, leaves: &mut slice::Iter<ColumnDescPtr>) -> Field {
    let column = leaves.next();
    let data_type = match leaf.data_type() {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        DataType::Date64 if column.is_some_and(|column| column.physical_type() == PhysicalType::INT32) => {
            DataType::Date32
        }
        DataType::Date64 => DataType::Timestamp(TimeUnit::Millisecond, None),
        other => other.clone(),
    };
    let mut leaf = leaf.clone().with_data_type(data_type);
    if column.is_some_and(
        |column| matches!(column.logical_type_ref(), Some(LogicalType::Time(time)) if time.is_adjusted_to_u_t_c),
    ) {
        // The writer needs this to distinguish a time of day in UTC from a local one.
        leaf.metadata_mut().insert("adjusted_to_utc", "");
    }
    leaf
}

/// Returns the columns with top-level text and bytes as views.
pub(super) fn with_views(fields: &Fields, schema: &Schema) -> SchemaRef {
    let fields: Fields = fields
        .iter()
        .map(|field| match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
            DataType::Binary | DataType::LargeBinary => {
                Arc::new(field.as_ref().clone().with_data_type(DataType::BinaryView))
            }
            _ => field.clone(),
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Returns the columns as they are kept, of those as they are read.
pub(super) fn kept(fields: &Fields) -> Fields {
    fields.iter().map(|field| with_leaves(field, &mut in_a_unit_of_parquet).with_nullable(true)).collect()
}

fn in_a_unit_of_parquet(leaf: &Field) -> Field {
    let data_type = match leaf.data_type() {
        DataType::Timestamp(TimeUnit::Second, zone) => DataType::Timestamp(TimeUnit::Millisecond, zone.clone()),
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        other => other.clone(),
    };
    leaf.clone().with_data_type(data_type)
}
