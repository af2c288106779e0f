//! Reads a Parquet part, row group by row group.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use headgate_core::row::rows_of_a_batch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::reader::ChunkReader;

use super::file::ReadFile;
use crate::parts::read_error::ReadError;

pub(in crate::parts) struct ParquetBatches {
    file: ReadFile,
    metadata: ArrowReaderMetadata,
    projection: ProjectionMask,
    next_group: usize,
    group: Option<ParquetRecordBatchReader>,
}

/// Returns the columns that were written.
pub(in crate::parts) fn schema(file: &File) -> Result<SchemaRef, String> {
    caught(|| Ok(Schema::new(load(file)?.schema().fields().clone()).into()))
}

pub(in crate::parts) fn rows(file: &File) -> Result<u64, String> {
    caught(|| Ok(load(file)?.metadata().file_metadata().num_rows().max(0) as u64))
}

impl ParquetBatches {
    pub(in crate::parts) fn new(file: File, schema: &SchemaRef) -> Result<Self, ReadError> {
        let file = ReadFile::new(file);
        let with_schema = ArrowReaderOptions::new().with_schema(schema.clone());
        let stored = caught(|| load(&file)).map_err(|problem| file.explain(problem))?;
        let metadata = ArrowReaderMetadata::try_new(stored.metadata().clone(), with_schema)
            .map_err(|error| format!("it has other columns than the job: {error}"))?;
        Ok(Self { file, metadata, projection: ProjectionMask::all(), next_group: 0, group: None })
    }

    /// Reads these columns only.
    pub(in crate::parts) fn project(&mut self, columns: &[&str]) {
        self.projection = ProjectionMask::columns(self.metadata.parquet_schema(), columns.iter().copied());
    }

    /// Returns the next batch, or `None` at the end. It must not be called again after an error.
    pub(in crate::parts) fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        let batch = caught(|| {
            loop {
                if let Some(batch) = self.group.as_mut().and_then(Iterator::next) {
                    return batch.map(Some).map_err(|error| error.to_string());
                }
                if self.next_group == self.metadata.metadata().num_row_groups() {
                    return Ok(None);
                }
                self.group = Some(self.open_group(self.next_group)?);
                self.next_group += 1;
            }
        });
        batch.map_err(|problem| self.file.explain(problem))
    }

    fn open_group(&self, index: usize) -> Result<ParquetRecordBatchReader, String> {
        let group = self.metadata.metadata().row_group(index);
        let size = |number: i64| u64::try_from(number).unwrap_or_default();
        ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone())
            .with_projection(self.projection.clone())
            .with_row_groups(vec![index])
            .with_batch_size(rows_of_a_batch(size(group.total_byte_size()), size(group.num_rows())))
            .build()
            .map_err(|error| error.to_string())
    }
}

fn load(file: &impl ChunkReader) -> Result<ArrowReaderMetadata, String> {
    ArrowReaderMetadata::load(file, ArrowReaderOptions::new()).map_err(|error| error.to_string())
}

/// Runs `read` and turns a panic into an error. The parquet crate panics on some damaged files, which must not end the
/// process: it may be a Python process.
fn caught<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("it can't be decoded".into()))
}
