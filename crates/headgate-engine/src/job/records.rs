//! Reads columns of result batches.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int64Type};
use arrow_array::{Array as _, ArrayRef, BooleanArray, Int16Array, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::filter::filter_record_batch;
use headgate_core::error::JobError;
use headgate_core::failed_by::status_key;

/// The columns of an outcome that a retry reads.
pub(super) const OUTCOME_COLUMNS: [&str; 6] = ["row", "status", "error", "attempts", "error_message", "error_detail"];

pub(super) fn rows(records: &RecordBatch) -> Result<Vec<i64>, JobError> {
    let rows = records.column_by_name("row").and_then(|column| column.as_primitive_opt::<Int64Type>());
    rows.map(|rows| rows.values().to_vec()).ok_or_else(|| JobError::internal("results have no column of rows"))
}

pub(super) fn attempts_of(records: &RecordBatch) -> Result<&Int16Array, JobError> {
    let column = records.column_by_name("attempts").and_then(|column| column.as_primitive_opt::<Int16Type>());
    column.ok_or_else(|| JobError::internal("results have no column of attempts"))
}

/// Returns the records with earlier attempts added to those of each row.
pub(super) fn with_attempts(records: &RecordBatch, earlier: &[u16]) -> Result<RecordBatch, JobError> {
    let now = attempts_of(records)?.values().iter();
    let sum = |(now, earlier): (&i16, &u16)| now.saturating_add(i16::try_from(*earlier).unwrap_or(i16::MAX));
    let sums: ArrayRef = Arc::new(now.zip(earlier).map(sum).collect::<Int16Array>());
    with_column(records, "attempts", &sums)
}

/// Returns the records with another column in place of the one of this name.
pub(super) fn with_column(records: &RecordBatch, name: &str, column: &ArrayRef) -> Result<RecordBatch, JobError> {
    let schema = records.schema();
    let columns = schema.fields().iter().zip(records.columns());
    let columns = columns.map(|(field, before)| if field.name() == name { column } else { before }.clone());
    RecordBatch::try_new(schema.clone(), columns.collect())
        .map_err(|error| JobError::internal(format!("the column {name} can't be replaced: {error}")))
}

pub(super) fn select(records: &RecordBatch, mask: &BooleanArray) -> Result<RecordBatch, JobError> {
    if mask.true_count() == records.num_rows() {
        return Ok(records.clone());
    }
    filter_record_batch(records, mask)
        .map_err(|error: ArrowError| JobError::internal(format!("a batch of results can't be split: {error}")))
}

/// Returns the outcome of each row: its error kind, or its status as `status:503`.
pub(super) fn outcomes(records: &RecordBatch) -> Vec<String> {
    let error = records.column_by_name("error").map(AsArray::as_string::<i32>);
    let status = records.column_by_name("status").map(AsArray::as_primitive::<Int16Type>);
    let kind = |row: usize| match (error, status) {
        (Some(error), _) if error.is_valid(row) => error.value(row).to_owned(),
        (_, Some(status)) if status.is_valid(row) => status_key(status.value(row) as u16),
        _ => "unknown".to_owned(),
    };
    (0..records.num_rows()).map(kind).collect()
}
