//! What a Delta table says of parts: <https://github.com/delta-io/delta/blob/master/PROTOCOL.md>, reader version 1 and writer
//! version 2, which every reader knows.
//!
//! A version of a table is a file of actions, one JSON object a line. A checkpoint has the actions that lead to the whole
//! state of a version, as Parquet.

mod replay;
mod schema;

use std::io::{self, Write};

use arrow_json::ReaderBuilder;
use arrow_schema::Schema;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};

pub use self::replay::TableState;
pub use self::schema::Undescribed;

/// The number of actions that are converted to Parquet at a time.
const CHECKPOINT_BATCH: usize = 8192;

/// A table, whose columns Delta can describe.
#[derive(Debug, Clone)]
pub struct DeltaTable {
    /// The id of the table: the 16 bytes of a UUID.
    id: [u8; 16],
    schema: String,
}

/// A file of a table.
#[derive(Debug, Clone, Copy)]
pub struct DeltaFile<'a> {
    pub name: &'a str,
    pub rows: u64,
    pub bytes: u64,
}

impl DeltaTable {
    /// Returns the table with these columns.
    ///
    /// # Errors
    /// Delta has no type for a column.
    pub fn new(columns: &Schema, id: [u8; 16]) -> Result<Self, Undescribed> {
        Ok(Self { id, schema: schema::describe(columns)? })
    }

    /// Returns the actions with which a table begins.
    pub fn definition(&self) -> [Value; 2] {
        let id = self.id.map(|byte| format!("{byte:02x}")).concat();
        let id = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-");
        [
            json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}),
            json!({"metaData": {
                "id": id,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": self.schema,
                "partitionColumns": [],
                "configuration": {},
            }}),
        ]
    }
}

/// Returns the action that adds a file. `changes_rows`: it has rows that no removed file has.
pub fn add(file: DeltaFile<'_>, at_ms: u64, changes_rows: bool) -> Value {
    json!({"add": {
        "path": file.name,
        "partitionValues": {},
        "size": file.bytes,
        "modificationTime": at_ms,
        "dataChange": changes_rows,
        "stats": format!("{{\"numRecords\":{}}}", file.rows),
    }})
}

/// Returns the action that removes a file.
pub fn remove(name: &str, at_ms: u64, changes_rows: bool) -> Value {
    json!({"remove": {"path": name, "deletionTimestamp": at_ms, "dataChange": changes_rows}})
}

/// Writes a version with these actions.
pub fn write_version(to: &mut impl Write, mut actions: impl Iterator<Item = Value>) -> io::Result<()> {
    actions.try_for_each(|action| writeln!(to, "{action}"))
}

/// Writes a checkpoint with these actions, and returns their number.
pub fn write_checkpoint(to: impl Write + Send, actions: impl Iterator<Item = Value>) -> io::Result<u64> {
    let schema = schema::of_checkpoint();
    let compression = Compression::ZSTD(ZstdLevel::try_new(1)?);
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(to, schema.clone(), Some(properties))?;
    let decoder = ReaderBuilder::new(schema).with_batch_size(CHECKPOINT_BATCH).build_decoder();
    let mut decoder = decoder.map_err(io::Error::other)?;
    let mut count = 0;
    for action in actions {
        decoder.decode(action.to_string().as_bytes()).map_err(io::Error::other)?;
        count += 1;
        if count % CHECKPOINT_BATCH as u64 == 0 {
            flush(&mut decoder, &mut writer)?;
        }
    }
    flush(&mut decoder, &mut writer)?;
    writer.close()?;
    Ok(count)
}

fn flush<W: Write + Send>(decoder: &mut arrow_json::reader::Decoder, writer: &mut ArrowWriter<W>) -> io::Result<()> {
    let batch = decoder.flush().map_err(io::Error::other)?;
    batch.map_or(Ok(()), |batch| Ok(writer.write(&batch)?))
}
