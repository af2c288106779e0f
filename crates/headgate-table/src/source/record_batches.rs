//! Makes rows of a caller's record batches.

use arrow_array::{ArrayRef, RecordBatch, new_empty_array};
use arrow_schema::{DataType, Field, Fields, SchemaRef};
use headgate_core::error::JobError;
use headgate_core::options::SourceOptions;
use headgate_core::row::{Row, rows_of_a_batch};

use super::chunk::{Chunk, ReadColumns};
use super::columns::UsedColumns;
use super::keep;
use super::template::bound::{AnyNames, RequestTemplates};
use crate::columns::kept::{KeptCodec, hydrated, with_leaves};

/// A message lists at most this many columns.
const SHOWN_FIELDS: usize = 20;

/// Makes rows of the record batches of one schema.
pub struct BatchRows {
    name: String,
    schema: SchemaRef,
    used: ReadColumns,
    kept_fields: Fields,
    codec: Option<KeptCodec>,
}

/// Checks the options that can be checked without a schema.
///
/// # Errors
/// `Usage`: an invalid template.
pub fn check(options: &SourceOptions) -> Result<(), JobError> {
    RequestTemplates::new(options, &mut AnyNames).map(drop)
}

impl BatchRows {
    /// # Errors
    /// `Input`: a required column is missing (the message names the columns), or has a type that can't be used or kept.
    pub fn new(options: &SourceOptions, schema: SchemaRef) -> Result<Self, JobError> {
        let name = options.input.clone();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let columns = UsedColumns::find(options, &keep::names(options, &names), names.iter().copied())?;
        let used = ReadColumns::new(columns, None);
        let kept_fields: Fields = used.columns.kept.iter().map(|index| schema.fields()[*index].clone()).collect();
        let kept_fields = without_views(&hydrated(&kept_fields));
        let codec = keep::codec(&name, &kept_fields)?;
        let rows = Self { name, schema, used, kept_fields, codec };
        let empty: Vec<ArrayRef> =
            rows.used.roots.iter().map(|index| new_empty_array(rows.schema.field(*index).data_type())).collect();
        rows.chunk(&empty, 0)?;
        Ok(rows)
    }

    /// Returns the columns to carry into the result.
    pub fn kept_fields(&self) -> &Fields {
        &self.kept_fields
    }

    /// Returns how many rows of a batch to convert at a time.
    pub fn rows_at_a_time(batch: &RecordBatch) -> usize {
        rows_of_a_batch(batch.get_array_memory_size() as u64, batch.num_rows() as u64)
    }

    /// # Errors
    /// `Input`: the columns differ from those of earlier batches.
    pub fn check_schema(&self, schema: &SchemaRef) -> Result<(), JobError> {
        let [first, other] = [&self.schema, schema].map(|schema| {
            let fields = schema.fields().iter().map(|field| (field.name(), field.data_type()));
            fields.collect::<Vec<_>>()
        });
        if first == other {
            return Ok(());
        }
        let difference = first.iter().zip(&other).find(|(first, other)| first != other);
        let message = match difference {
            Some(((name, data_type), (other_name, other_type))) if name == other_name => {
                format!("the column {name:?} is {other_type}, and was {data_type} in the first batch")
            }
            _ => {
                let shown = |fields: &[(&String, _)]| {
                    let names = fields.iter().take(SHOWN_FIELDS).map(|(name, _)| format!("{name:?}"));
                    let more = if fields.len() > SHOWN_FIELDS { ", …" } else { "" };
                    names.collect::<Vec<_>>().join(", ") + more
                };
                format!("a batch has the columns {}, and the first one had {}", shown(&other), shown(&first))
            }
        };
        Err(JobError::input(format!(
            "{}: {message}: all batches of a call must have the same columns, of the same types",
            self.name
        )))
    }

    /// Returns the rows of a batch, of which the first gets the ordinal `first`.
    ///
    /// # Errors
    /// `Input`: values that can't be kept.
    pub fn rows(&self, first: u64, batch: &RecordBatch) -> Result<Vec<Row>, JobError> {
        let columns: Vec<ArrayRef> = self.used.roots.iter().map(|index| batch.column(*index).clone()).collect();
        let chunk = self.chunk(&columns, batch.num_rows())?;
        let templates = self.used.columns.templates.as_ref();
        let mut rows: Vec<Row> =
            (first..).zip(0..batch.num_rows()).map(|(ordinal, at)| chunk.row(ordinal, at, templates)).collect();
        if let Some(codec) = &self.codec {
            keep::attach_as((&self.name, &self.kept_fields, codec), chunk.kept.iter().cloned(), &mut rows)?;
        }
        Ok(rows)
    }

    fn chunk(&self, columns: &[ArrayRef], rows: usize) -> Result<Chunk, JobError> {
        Chunk::new(&self.used, &self.schema, columns, rows)
            .map_err(|reason| JobError::input(format!("{}: {reason}", self.name)))
    }
}

/// Replaces views by plain text and bytes, as results have them and as every reader accepts them.
fn without_views(fields: &Fields) -> Fields {
    let plain = &mut |leaf: &Field| match leaf.data_type() {
        DataType::Utf8View => leaf.clone().with_data_type(DataType::Utf8),
        DataType::BinaryView => leaf.clone().with_data_type(DataType::Binary),
        _ => leaf.clone(),
    };
    fields.iter().map(|field| with_leaves(field, plain)).collect()
}
