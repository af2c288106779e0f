//! Reads the first rows of a Parquet file.

use std::fs::File;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, RecordBatch, StructArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::DataType;
use headgate_table::parts::time::in_utc;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaData;

use super::table::Preview;
use super::text;

/// The approximate size of the rows that are decoded at once, as plain values.
const BATCH_BYTES: u64 = 8 * 1024 * 1024;
const MAX_BATCH_ROWS: u64 = 1024;

/// Adds at most `rows` rows to `preview`, and returns the number of rows in the file.
pub(super) fn read(file: File, rows: usize, preview: &mut Preview) -> Result<u64, String> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| error.to_string())?;
    let total = builder.metadata().file_metadata().num_rows().max(0) as u64;
    let columns: Vec<usize> = builder.schema().fields().iter().map(|field| preview.column(field.name())).collect();
    if rows > 0 {
        let batch_rows = batch_rows(builder.metadata());
        let reader = builder.with_batch_size(batch_rows.min(rows)).with_limit(rows).build();
        for batch in reader.map_err(|error| error.to_string())? {
            push(&batch.map_err(|error| error.to_string())?, &columns, preview)?;
        }
    }
    Ok(total)
}

/// Returns the number of rows that fit into a batch, based on the row group with the largest rows.
fn batch_rows(metadata: &ParquetMetaData) -> usize {
    let row_bytes = metadata
        .row_groups()
        .iter()
        .map(|group| group.total_byte_size().max(1) as u64 / group.num_rows().max(1) as u64)
        .max()
        .unwrap_or_default();
    (BATCH_BYTES / row_bytes.max(1)).clamp(1, MAX_BATCH_ROWS) as usize
}

fn push(batch: &RecordBatch, columns: &[usize], preview: &mut Preview) -> Result<(), String> {
    let options = FormatOptions::default();
    let arrays =
        batch.columns().iter().map(in_utc).collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    let values: Vec<_> = arrays.iter().map(|array| PreviewValues::of(array, &options)).collect();
    for row in 0..batch.num_rows() {
        preview.rows.push(Vec::new());
        for ((column, values), array) in columns.iter().zip(&values).zip(&arrays) {
            let value = if array.is_null(row) { None } else { Some(values.text(row)) };
            preview.set(*column, value);
        }
    }
    Ok(())
}

enum PreviewValues<'a> {
    Bytes(&'a dyn Array),
    Headers(&'a dyn Array),
    Other(ArrayFormatter<'a>),
    /// A column of a type that arrow can't write as text, such as unions or lists of points in time.
    Opaque(&'a DataType),
}

impl<'a> PreviewValues<'a> {
    fn of(array: &'a dyn Array, options: &FormatOptions<'a>) -> Self {
        match array.data_type() {
            DataType::Binary => PreviewValues::Bytes(array),
            DataType::List(item) if is_header(item.data_type()) => PreviewValues::Headers(array),
            other => ArrayFormatter::try_new(array, options).map_or(PreviewValues::Opaque(other), PreviewValues::Other),
        }
    }

    fn text(&self, row: usize) -> String {
        match self {
            PreviewValues::Bytes(array) => text::bytes(array.as_binary::<i32>().value(row)),
            PreviewValues::Headers(array) => headers(array.as_list::<i32>().value(row).as_struct()),
            PreviewValues::Other(formatter) => {
                // Formatting fails for a value out of its type's range, such as a point in time beyond the calendar.
                let value = formatter.value(row).try_to_string().unwrap_or_else(|error| format!("<{error}>"));
                text::text(&value)
            }
            PreviewValues::Opaque(data_type) => text::text(&format!("<{data_type}>")),
        }
    }
}

fn is_header(item: &DataType) -> bool {
    match item {
        DataType::Struct(fields) => fields
            .iter()
            .map(|field| (field.name().as_str(), field.data_type()))
            .eq([("name", &DataType::Utf8), ("value", &DataType::Binary)]),
        _ => false,
    }
}

fn headers(pairs: &StructArray) -> String {
    let (names, values) = (pairs.column(0).as_string::<i32>(), pairs.column(1).as_binary::<i32>());
    text::headers((0..pairs.len()).map(|index| (names.value(index), text::bytes(values.value(index)))))
}
