//! Parts read back: the same columns, of the same types, as were written. A batch is as large as those of the engine,
//! or one row where a row is larger.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Fields, Schema, SchemaRef};
use headgate_core::error::{JobError, cause};
use headgate_core::files::Directory;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use memchr::memchr_iter;
use serde_json::value::RawValue;

use super::checksum::{open_summed, open_verified};
use super::name::UNPLACED;
use super::ndjson::decode::LineDecoder;
use super::ndjson::keys::base64_name;
use super::ndjson::read::NdjsonBatches;
use super::parquet::read::{self as parquet, ParquetBatches};
use crate::columns::schema::schema;

/// No line of a result is longer.
const MAX_FIRST_LINE_BYTES: u64 = 256 * 1024 * 1024;

/// Returns advice for results that another program has damaged.
pub fn recovery_advice() -> Message {
    message!(
        "restore it from a copy, or start over with headgate fetch: with ",
        OptionName::Fresh.set(true),
        ", or with another ",
        OptionName::Output
    )
}

/// The rows of one part, batch by batch. It ends after an error.
pub struct PartBatches {
    path: PathBuf,
    /// Read so far.
    rows: u64,
    batches: FormatBatches,
}

enum FormatBatches {
    Parquet(ParquetBatches),
    Ndjson(Box<NdjsonBatches>),
    Ended,
}

/// Reads a part that has the columns of `schema`, and the content that was committed.
///
/// # Errors
/// `Output`: it is missing, damaged, or has other columns.
pub fn read_part(directory: &Directory, path: &Path, crc32: u32, schema: &SchemaRef) -> Result<PartBatches, JobError> {
    batches(open_committed(directory, path, crc32)?, path, schema)
}

fn batches(file: File, path: &Path, schema: &SchemaRef) -> Result<PartBatches, JobError> {
    if is_parquet(path) {
        return parquet_batches(file, path, schema);
    }
    let batches = FormatBatches::Ndjson(Box::new(NdjsonBatches::new(file, LineDecoder::new(schema)?)));
    Ok(PartBatches { path: path.to_owned(), rows: 0, batches })
}

/// Rows, bytes and CRC-32 of a part, as a commit says them.
///
/// # Errors
/// It can't be read, or is no part.
pub fn describe_part(directory: &Directory, path: &Path) -> io::Result<(u64, u64, u32)> {
    let (mut bytes, mut lines) = (0, 0);
    let (file, crc32) = open_summed(directory, path, |piece| {
        bytes += piece.len() as u64;
        lines += memchr_iter(b'\n', piece).count() as u64;
    })?;
    let rows = if is_parquet(path) { parquet::rows(&file).map_err(io::Error::other)? } else { lines };
    Ok((rows, bytes, crc32))
}

/// The columns of a Parquet part.
///
/// # Errors
/// `Output`: it is missing or damaged.
pub(crate) fn part_schema(path: &Path) -> Result<SchemaRef, JobError> {
    parquet::schema(&open(path)?).map_err(|problem| damaged(path, &problem))
}

/// The columns of parts of one job: as the first Parquet part has them. Lines do not say of what types they were made:
/// where there are only such, the columns are those that every result has, but for what the first line goes without.
///
/// # Errors
/// As [`part_schema`].
pub fn schema_of_parts(paths: &[PathBuf]) -> Result<SchemaRef, JobError> {
    match paths.iter().find(|path| is_parquet(path)) {
        Some(path) => part_schema(path),
        None => Ok(without_omitted(schema(&Fields::empty()), paths)),
    }
}

/// The columns that the first line has.
fn without_omitted(columns: SchemaRef, lines: &[PathBuf]) -> SchemaRef {
    let first = |path: &PathBuf| -> io::Result<Option<Vec<String>>> {
        let mut line = String::new();
        BufReader::new(File::open(path)?).take(MAX_FIRST_LINE_BYTES).read_line(&mut line)?;
        let object: Option<HashMap<String, &RawValue>> = serde_json::from_str(&line).ok();
        Ok(object.map(|object| object.into_keys().collect()))
    };
    // Who reads on is told of what can't be read.
    let Some(line) = lines.iter().find_map(|path| first(path).ok().flatten()) else { return columns };
    let is_there = |field: &&FieldRef| line.contains(field.name()) || line.contains(&base64_name(field));
    Arc::new(Schema::new(columns.fields().iter().filter(is_there).cloned().collect::<Fields>()))
}

/// Reads a part as [`read_part`] does, from an open file.
pub(super) fn parquet_batches(file: File, path: &Path, schema: &SchemaRef) -> Result<PartBatches, JobError> {
    let batches = ParquetBatches::new(file, schema).map_err(|problem| damaged(path, &problem))?;
    Ok(PartBatches { path: path.to_owned(), rows: 0, batches: FormatBatches::Parquet(batches) })
}

impl Iterator for PartBatches {
    type Item = Result<RecordBatch, JobError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match &mut self.batches {
            FormatBatches::Parquet(batches) => batches.next_batch(),
            FormatBatches::Ndjson(batches) => batches.next_batch(),
            FormatBatches::Ended => Ok(None),
        };
        match batch {
            Ok(Some(batch)) => {
                self.rows += batch.num_rows() as u64;
                Some(Ok(batch))
            }
            Ok(None) => None,
            Err(problem) => {
                self.batches = FormatBatches::Ended;
                Some(Err(damaged(&self.path, &format!("after {} rows: {problem}", self.rows))))
            }
        }
    }
}

/// A part to be read.
#[derive(Debug, Clone)]
pub struct PartFile {
    pub path: PathBuf,
    /// The job's directory, and the checksum it was committed with, which is compared before any of its rows are given out;
    /// `None`: they are not known.
    pub committed: Option<(Directory, u32)>,
}

/// Without its job, the commits of a part are not known.
impl From<PathBuf> for PartFile {
    fn from(path: PathBuf) -> Self {
        Self { path, committed: None }
    }
}

impl PartFile {
    /// # Errors
    /// `Output`: it can't be read, or is not what was committed.
    pub fn open(&self) -> Result<File, JobError> {
        match &self.committed {
            Some((directory, crc32)) => open_committed(directory, &self.path, *crc32),
            None => open(&self.path),
        }
    }
}

/// The rows of several parts, one part after the other. Only one is open at a time. It ends after an error.
pub struct PartRows {
    parts: vec::IntoIter<PartFile>,
    schema: SchemaRef,
    open: Option<PartBatches>,
}

impl PartRows {
    /// `schema`: that of every part.
    pub fn new(parts: Vec<PartFile>, schema: SchemaRef) -> Self {
        Self { parts: parts.into_iter(), schema, open: None }
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, JobError> {
        loop {
            if let Some(batch) = self.open.as_mut().and_then(Iterator::next) {
                return batch.map(Some);
            }
            let Some(part) = self.parts.next() else { return Ok(None) };
            self.open = Some(batches(part.open()?, &part.path, &self.schema)?);
        }
    }
}

impl Iterator for PartRows {
    type Item = Result<RecordBatch, JobError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next_batch();
        if batch.is_err() {
            self.open = None;
            self.parts = Vec::new().into_iter();
        }
        batch.transpose()
    }
}

fn open(path: &Path) -> Result<File, JobError> {
    File::open(path).map_err(|error| JobError::output(format!("can't read {}: {}", path.display(), cause(&error))))
}

/// The file, at its start, if its content is what was committed.
///
/// # Errors
/// `Output`: it is not, or can't be read.
pub fn open_committed(directory: &Directory, path: &Path, crc32: u32) -> Result<File, JobError> {
    open_verified(directory, path, crc32).map_err(|error| {
        let cause = cause(&error);
        JobError::output(match error.kind() {
            io::ErrorKind::InvalidData => message!("{cause}; ", recovery_advice()),
            _ => cause.into(),
        })
    })
}

/// By its name, which one that is not in its place has, too.
pub fn is_parquet(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_suffix(UNPLACED).unwrap_or(name).ends_with(".parquet")
}

/// Returns the error for a damaged part. The problem may quote the file, so only its beginning is shown.
fn damaged(path: &Path, problem: &str) -> JobError {
    const MAX_CHARACTERS: usize = 300;
    let shown: String = problem
        .chars()
        .take(MAX_CHARACTERS)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    let more = if problem.chars().nth(MAX_CHARACTERS).is_some() { "…" } else { "" };
    let path = path.display();
    JobError::output(message!("{path}: damaged: {shown}{more}; ", recovery_advice()))
}
