//! The format and the columns of a job's results.

use std::fs::File;
use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use headgate_core::error::JobError;
use headgate_core::options::Format;
use headgate_table::parts::ndjson::encode::LineEncoder;
use headgate_table::parts::ndjson::write::NdjsonPart;
use headgate_table::parts::parquet::write::ParquetPart;
use headgate_table::parts::writer::PartWriter;

pub(super) struct PartFormat {
    schema: SchemaRef,
    /// `None`: Parquet.
    lines: Option<Arc<LineEncoder>>,
}

impl PartFormat {
    /// # Errors
    /// `Usage`: the format does not support an input column to keep.
    pub(super) fn new(format: Format, schema: &SchemaRef) -> Result<Self, JobError> {
        let lines = match format {
            Format::Ndjson => Some(NdjsonPart::checked_encoder(schema)?),
            Format::Parquet | Format::None => {
                ParquetPart::checked_schema(schema)?;
                None
            }
        };
        Ok(Self { schema: schema.clone(), lines })
    }

    pub(super) fn format(&self) -> Format {
        if self.lines.is_some() { Format::Ndjson } else { Format::Parquet }
    }

    pub(super) fn writer(&self, file: File) -> io::Result<Box<dyn PartWriter>> {
        Ok(match &self.lines {
            None => Box::new(ParquetPart::new(file, &self.schema)?),
            Some(encoder) => Box::new(NdjsonPart::new(file, encoder.clone())),
        })
    }

    /// Returns the records without columns that the job did not have when it began.
    pub(super) fn fit(&self, records: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        if records.num_columns() == self.schema.fields().len() {
            return Ok(records.clone());
        }
        let columns = self.schema.fields().iter().map(|field| records.schema_ref().index_of(field.name()));
        records.project(&columns.collect::<Result<Vec<_>, _>>()?)
    }
}
