//! Parts as Parquet: zstd, and row groups bounded three ways, because rows are of any size.
//!
//! A row group is held in memory until it is whole, once by us in encoded form and later by readers in plain form;
//! so both are bounded, and the rows beside them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array as _, RecordBatch};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use super::checksum::{Checksummed, open_verified};
use super::copy;
use super::part::{FinishedPart, PartWriter};
use super::read;
use crate::error::JobError;

/// Rows in a row group at the most.
pub(super) const MAX_GROUP_ROWS: usize = 131_072;
/// Bytes of a row group as encoded: what it costs us.
const MAX_GROUP_ENCODED_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a row group as plain values: what it costs a reader. Text shrinks tenfold and more.
const MAX_GROUP_PLAIN_BYTES: usize = 64 * 1024 * 1024;

/// The lowest level: a third of the CPU time of the default one, for files a tenth larger.
const ZSTD_LEVEL: i32 = 1;

pub(crate) struct ParquetPart {
    writer: Writer,
    schema: SchemaRef,
    /// Of the row group that is being gathered.
    plain_bytes: usize,
}

enum Writer {
    Encoding(Box<ArrowWriter<Checksummed>>),
    /// Whole row groups of other parts follow, as they are stored, and nothing else any more.
    Copying(Box<SerializedFileWriter<Checksummed>>),
    /// On the way from one to the other, which failed.
    Broken,
}

impl ParquetPart {
    /// The schema, if Parquet can hold it.
    pub(crate) fn checked_schema(schema: &SchemaRef) -> Result<SchemaRef, JobError> {
        match ArrowWriter::try_new(io::sink(), schema.clone(), None) {
            Ok(_) => Ok(schema.clone()),
            Err(error) => Err(JobError::usage(format!("the input columns to keep do not fit into Parquet: {error}"))),
        }
    }

    pub(crate) fn new(file: File, schema: &SchemaRef) -> io::Result<Self> {
        let options = ArrowWriterOptions::new().with_properties(properties()?);
        let file = Checksummed::new(file);
        let writer = ArrowWriter::try_new_with_options(file, Arc::clone(schema), options).map_err(io_error)?;
        Ok(Self { writer: Writer::Encoding(Box::new(writer)), schema: Arc::clone(schema), plain_bytes: 0 })
    }

    fn encoder(&mut self) -> io::Result<&mut ArrowWriter<Checksummed>> {
        match &mut self.writer {
            Writer::Encoding(writer) => Ok(writer),
            Writer::Copying(_) | Writer::Broken => Err(io::Error::other("rows cannot follow copied row groups")),
        }
    }

    /// What copies row groups; what was gathered before is a row group of its own.
    fn copier(&mut self) -> io::Result<&mut SerializedFileWriter<Checksummed>> {
        self.writer = match std::mem::replace(&mut self.writer, Writer::Broken) {
            Writer::Encoding(writer) => Writer::Copying(Box::new(writer.into_serialized_writer().map_err(io_error)?.0)),
            copying => copying,
        };
        self.plain_bytes = 0;
        match &mut self.writer {
            Writer::Copying(writer) => Ok(writer),
            Writer::Encoding(_) | Writer::Broken => Err(io::Error::other("row groups cannot be copied")),
        }
    }
}

impl PartWriter for ParquetPart {
    fn write(&mut self, records: &RecordBatch) -> io::Result<()> {
        let before = self.plain_bytes;
        let writer = self.encoder()?;
        writer.write(records).map_err(io_error)?;
        let mut gathered = match writer.in_progress_rows() {
            0 => 0,
            _ => before + plain_bytes(records)?,
        };
        if gathered >= MAX_GROUP_PLAIN_BYTES {
            writer.flush().map_err(io_error)?;
            gathered = 0;
        }
        self.plain_bytes = gathered;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        match &self.writer {
            Writer::Encoding(writer) => (writer.bytes_written() + writer.in_progress_size()) as u64,
            Writer::Copying(writer) => writer.bytes_written() as u64,
            Writer::Broken => 0,
        }
    }

    fn append(&mut self, part: &Path, crc32: u32) -> io::Result<u64> {
        let file = open_verified(part, crc32)?;
        let unreadable = |error: JobError| io::Error::new(io::ErrorKind::InvalidData, error.message);
        let groups = copy::row_groups(&file).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if matches!(self.writer, Writer::Copying(_)) || copy::are_large(&groups) {
            return copy::copy(&file, &groups, self.copier()?).map_err(io_error);
        }
        let mut rows = 0;
        for batch in read::parquet_batches(file, part, &self.schema).map_err(unreadable)? {
            let batch = batch.map_err(unreadable)?;
            rows += batch.num_rows() as u64;
            self.write(&batch)?;
        }
        Ok(rows)
    }

    fn finish(mut self: Box<Self>) -> io::Result<FinishedPart> {
        // Not `into_inner`: that hides the cause of an I/O error in a text.
        match &mut self.writer {
            Writer::Encoding(writer) => {
                writer.finish().map_err(io_error)?;
                writer.inner().finished()
            }
            Writer::Copying(writer) => {
                writer.finish().map_err(io_error)?;
                writer.inner().finished()
            }
            Writer::Broken => Err(io::Error::other("the part was given up")),
        }
    }
}

fn plain_bytes(records: &RecordBatch) -> io::Result<usize> {
    records.columns().iter().map(|column| column.to_data().get_slice_memory_size().map_err(io::Error::other)).sum()
}

fn properties() -> io::Result<WriterProperties> {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(io_error)?;
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("headgate ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(MAX_GROUP_ROWS))
        .set_max_row_group_bytes(Some(MAX_GROUP_ENCODED_BYTES));
    // Values that hardly repeat: a dictionary would be built only to be given up.
    for column in ["row", "url", "error_message", "started_at", "elapsed_us", "ttfb_us"] {
        properties = properties.set_column_dictionary_enabled(column.into(), false);
    }
    for column in ["row", "started_at", "elapsed_us", "ttfb_us"] {
        properties = properties.set_column_encoding(column.into(), Encoding::DELTA_BINARY_PACKED);
    }
    // Long values of which the smallest and the largest tell nothing.
    let header_value = ColumnPath::new(["headers", "list", "item", "value"].map(String::from).to_vec());
    for column in ["body".into(), "error_message".into(), header_value] {
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_statistics_enabled(column, EnabledStatistics::None);
    }
    Ok(properties.build())
}

/// The cause itself where the file was at fault.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        other => io::Error::other(other),
    }
}
