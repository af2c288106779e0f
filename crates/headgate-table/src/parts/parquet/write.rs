//! Writes parts as Parquet, with zstd. Row groups are bounded in three ways, because rows may have any size.
//!
//! The writer holds a row group in memory in encoded form, and readers hold it in plain form. So both sizes are
//! bounded, and the number of rows.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array as _, RecordBatch};
use arrow_schema::{ArrowError, DataType, FieldRef, Schema, SchemaRef};
use headgate_core::error::JobError;
use headgate_core::files::storage::Storage;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use super::body::BodyColumn;
use super::copy;
use super::pages::{self, PageKeeper};
use crate::parts::checksum::{Checksummed, FinishedPart, open_verified};
use crate::parts::read;
use crate::parts::writer::PartWriter;

/// The maximum number of rows in a row group.
const MAX_GROUP_ROWS: usize = 131_072;
/// The maximum size of a row group in encoded form, which the writer holds in memory.
const MAX_GROUP_ENCODED_BYTES: usize = 16 * 1024 * 1024;
/// The maximum size of a row group as plain values, which a reader holds in memory. Text shrinks tenfold and more.
const MAX_GROUP_PLAIN_BYTES: usize = 64 * 1024 * 1024;

/// The row groups of a part are copied as they are if they have, on average, a full group's rows divided by this number,
/// or [`LARGE_BYTES`].
const LARGE_SHARE: i64 = 4;
const LARGE_BYTES: i64 = 4 * 1024 * 1024;

/// The lowest level takes a third of the CPU time of the default one, and files are a tenth larger.
const ZSTD_LEVEL: i32 = 1;

/// The column that [`BodyColumn`] encodes.
const BODY: &str = "body";

pub struct ParquetPart {
    writer: SerializedFileWriter<Checksummed>,
    columns: ArrowRowGroupWriterFactory,
    keeper: Arc<PageKeeper>,
    schema: SchemaRef,
    /// The index of the column of bodies, if the file has one.
    body: Option<usize>,
    /// The row group that collects rows.
    group: Option<Group>,
}

struct Group {
    columns: Vec<ArrowColumnWriter>,
    bodies: Option<BodyColumn>,
    rows: usize,
    plain_bytes: usize,
}

impl ParquetPart {
    /// Returns the schema if Parquet can hold it.
    pub fn checked_schema(schema: &SchemaRef) -> Result<SchemaRef, JobError> {
        match ArrowWriter::try_new(io::sink(), schema.clone(), None) {
            Ok(_) => Ok(schema.clone()),
            Err(error) => Err(JobError::usage(format!("the input columns to keep do not fit into Parquet: {error}"))),
        }
    }

    pub fn new(file: File, schema: &SchemaRef) -> io::Result<Self> {
        let keeper = Arc::<PageKeeper>::default();
        let options =
            ArrowWriterOptions::new().with_properties(properties(schema)?).with_page_store_factory(keeper.clone());
        let (writer, columns) = ArrowWriter::try_new_with_options(Checksummed::new(file), schema.clone(), options)
            .and_then(ArrowWriter::into_serialized_writer)
            .map_err(io_error)?;
        let has_body = schema.fields().iter().any(is_body);
        let body = writer.schema_descr().columns().iter().position(|column| has_body && column.path().string() == BODY);
        Ok(Self { writer, columns, keeper, schema: schema.clone(), body, group: None })
    }

    fn gather(&mut self, records: &RecordBatch) -> Result<(), ParquetError> {
        let group = match &mut self.group {
            Some(group) => group,
            none => {
                let columns = self.columns.create_column_writers(0)?;
                let body = self.body.map(|body| self.writer.schema_descr().column(body));
                let bodies = body.map(|body| Ok::<_, ParquetError>(BodyColumn::new(body, zstd()?))).transpose()?;
                none.insert(Group { columns, bodies, rows: 0, plain_bytes: 0 })
            }
        };
        let mut columns = group.columns.iter_mut();
        for (field, values) in self.schema.fields().iter().zip(records.columns()) {
            if let Some(bodies) = group.bodies.as_mut().filter(|_| is_body(field)) {
                bodies.write(values.as_binary())?;
                columns.next();
                continue;
            }
            for (leaf, column) in compute_leaves(field, values)?.iter().zip(&mut columns) {
                column.write(leaf)?;
            }
        }
        group.rows += records.num_rows();
        group.plain_bytes += plain_bytes(records)?;
        Ok(())
    }

    /// Writes the current row group.
    fn end_group(&mut self) -> Result<(), ParquetError> {
        let Some(Group { columns, mut bodies, .. }) = self.group.take() else { return Ok(()) };
        let mut group = self.writer.next_row_group()?;
        for (index, column) in columns.into_iter().enumerate() {
            match bodies.take_if(|_| Some(index) == self.body) {
                Some(bodies) => {
                    let (pages, close) = bodies.close()?;
                    pages::write(pages, close, &mut group)?;
                }
                None => self.keeper.write(column, &mut group, index)?,
            }
        }
        group.close()?;
        self.keeper.clear();
        Ok(())
    }

    fn write_all(&mut self, records: &RecordBatch) -> Result<(), ParquetError> {
        let mut rest = records.clone();
        while rest.num_rows() > 0 {
            let gathered = self.group.as_ref().map_or(0, |group| group.rows);
            let rows = rest.num_rows().min(MAX_GROUP_ROWS - gathered);
            self.gather(&rest.slice(0, rows))?;
            rest = rest.slice(rows, rest.num_rows() - rows);
            if self.group.as_ref().is_some_and(Group::is_full) {
                self.end_group()?;
            }
        }
        Ok(())
    }
}

impl Group {
    fn encoded_bytes(&self) -> usize {
        let others: usize = self.columns.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum();
        others + self.bodies.as_ref().map_or(0, BodyColumn::encoded_bytes)
    }

    fn is_full(&self) -> bool {
        self.rows >= MAX_GROUP_ROWS
            || self.plain_bytes >= MAX_GROUP_PLAIN_BYTES
            || self.encoded_bytes() >= MAX_GROUP_ENCODED_BYTES
    }
}

impl PartWriter for ParquetPart {
    fn write(&mut self, records: &RecordBatch) -> io::Result<()> {
        self.write_all(records).map_err(io_error)
    }

    fn bytes(&self) -> u64 {
        self.writer.bytes_written() as u64 + self.buffered_bytes()
    }

    fn buffered_bytes(&self) -> u64 {
        self.group.as_ref().map_or(0, Group::encoded_bytes) as u64
    }

    fn append(&mut self, storage: &dyn Storage, part: &Path, crc32: u32) -> io::Result<u64> {
        let file = open_verified(storage, part, crc32)?;
        let unreadable = |error: JobError| io::Error::new(io::ErrorKind::InvalidData, error);
        let groups = copy::row_groups(&file).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if are_large(&groups) {
            return self.end_group().and_then(|()| copy::copy(&file, &groups, &mut self.writer)).map_err(io_error);
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
        // `into_inner` would hide the cause of an I/O error in a text.
        self.end_group().and_then(|()| self.writer.finish()).map_err(io_error)?;
        self.writer.inner().finished()
    }
}

/// Returns whether the row groups of a part are large enough on average to be copied as they are.
fn are_large(part: &ParquetMetaData) -> bool {
    let groups = part.row_groups();
    let sum = |of: fn(&RowGroupMetaData) -> i64| groups.iter().map(of).sum::<i64>();
    let count = groups.len() as i64;
    count > 0
        && (sum(RowGroupMetaData::num_rows) >= count * (MAX_GROUP_ROWS as i64 / LARGE_SHARE)
            || sum(RowGroupMetaData::compressed_size) >= count * LARGE_BYTES)
}

fn plain_bytes(records: &RecordBatch) -> Result<usize, ArrowError> {
    records.columns().iter().map(|column| column.to_data().get_slice_memory_size()).sum()
}

fn zstd() -> Result<ZstdLevel, ParquetError> {
    ZstdLevel::try_new(ZSTD_LEVEL)
}

/// Returns whether the field is the column of bodies. A column of the input may have this name if results have no bodies.
fn is_body(field: &FieldRef) -> bool {
    field.name() == BODY && field.data_type() == &DataType::Binary
}

fn properties(schema: &Schema) -> io::Result<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("headgate ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(Compression::ZSTD(zstd().map_err(io_error)?))
        .set_statistics_enabled(EnabledStatistics::Chunk);
    // Numbers rarely repeat: a dictionary costs a lookup for each, and is hardly smaller.
    let numbers = ["row", "status", "attempts", "received_bytes", "started_at", "elapsed_us", "ttfb_us"];
    let is_own = |name: &&str| {
        schema
            .field_with_name(name)
            .is_ok_and(|field| matches!(field.data_type(), DataType::Int16 | DataType::Int64 | DataType::Timestamp(..)))
    };
    for column in numbers.into_iter().filter(is_own) {
        properties = properties
            .set_column_dictionary_enabled(column.into(), false)
            .set_column_encoding(column.into(), Encoding::DELTA_BINARY_PACKED);
    }
    // This text hardly repeats: the writer would build a dictionary and then discard it.
    let header = |part: &str| ColumnPath::new(["headers", "list", "item", part].map(String::from).to_vec());
    for column in ["url".into(), "error_detail".into(), header("value")] {
        properties = properties.set_column_dictionary_enabled(column, false);
    }
    // Minimum and maximum are useless for long text, and for values that are the same in all row groups.
    let long = ["error_message".into(), "error_detail".into(), header("value")];
    for column in ["method".into(), header("name"), "http_version".into(), "remote_addr".into()].into_iter().chain(long)
    {
        properties = properties.set_column_statistics_enabled(column, EnabledStatistics::None);
    }
    Ok(properties.build())
}

/// Converts the error; an I/O error is returned as it is.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        other => io::Error::other(other),
    }
}
