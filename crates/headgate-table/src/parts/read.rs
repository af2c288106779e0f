//! Reads parts back, with the columns and types that were written. A batch is as large as those of the engine,
//! or has one row if a row is larger.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Fields, Schema, SchemaRef};
use headgate_core::error::{JobError, cause};
use headgate_core::files::open_regular;
use headgate_core::files::storage::Storage;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use memchr::memchr_iter;
use serde_json::value::RawValue;

use super::checksum::{open_summed, open_verified, verified};
use super::name::UNPLACED;
use super::ndjson::decode::LineDecoder;
use super::ndjson::keys::base64_name;
use super::ndjson::read::NdjsonBatches;
use super::parquet::read::{self as parquet, ParquetBatches};
use super::read_error::ReadError;
use crate::columns::schema::schema;

/// The maximum length of the line whose keys are read.
const MAX_FIRST_LINE_BYTES: u64 = 256 * 1024 * 1024;

/// Returns the advice for a file of results that was damaged after it was written.
pub fn part_advice() -> Message {
    message!(
        "restore it from a copy; or headgate verify --repair marks its rows as not done, and the same headgate fetch fetches them"
    )
}

/// Returns the advice for a file of a job's state that was damaged after it was written.
pub fn recovery_advice() -> Message {
    message!(
        "restore it from a copy, or start over with headgate fetch: with ",
        OptionName::IfExists.set("overwrite"),
        ", or with another ",
        OptionName::Output
    )
}

/// The rows of one part, batch by batch. The iterator ends after an error.
pub struct PartBatches {
    path: PathBuf,
    /// The number of rows read so far.
    rows: u64,
    batches: FormatBatches,
}

enum FormatBatches {
    Parquet(ParquetBatches),
    Ndjson(Box<NdjsonBatches>),
    Ended,
}

/// Returns the rows of a part that has the columns of `schema`, and the content that was committed.
///
/// # Errors
/// `Output`: the part is missing, damaged, or has other columns.
pub fn read_part(storage: &dyn Storage, path: &Path, crc32: u32, schema: &SchemaRef) -> Result<PartBatches, JobError> {
    batches(open_committed(storage, path, crc32)?, path, schema)
}

/// Returns the rows of a part as [`read_part`] does. The batches have the named columns. NDJSON has all columns.
///
/// # Errors
/// The errors of [`read_part`].
pub fn read_columns(
    storage: &dyn Storage,
    path: &Path,
    crc32: u32,
    schema: &SchemaRef,
    columns: &[&str],
) -> Result<PartBatches, JobError> {
    let mut part = read_part(storage, path, crc32, schema)?;
    part.project(columns);
    Ok(part)
}

/// Returns the rows of a part as [`read_columns`] does, without a comparison of its content with a checksum, which would read
/// all columns.
///
/// # Errors
/// `Output`: the part is missing, damaged, or has other columns.
pub fn read_unchecked(path: &Path, schema: &SchemaRef, columns: &[&str]) -> Result<PartBatches, JobError> {
    let mut part = batches(open(path)?, path, schema)?;
    part.project(columns);
    Ok(part)
}

pub(super) fn batches(file: File, path: &Path, schema: &SchemaRef) -> Result<PartBatches, JobError> {
    if is_parquet(path) {
        return parquet_batches(file, path, schema);
    }
    let batches = FormatBatches::Ndjson(Box::new(NdjsonBatches::new(file, LineDecoder::new(schema)?)));
    Ok(PartBatches { path: path.to_owned(), rows: 0, batches })
}

/// Returns the number of rows, the number of bytes and the CRC-32 of a part, as a commit stores them.
///
/// # Errors
/// The file can't be read, or is not a part.
pub fn describe_part(storage: &dyn Storage, path: &Path) -> io::Result<(u64, u64, u32)> {
    let (mut bytes, mut lines) = (0, 0);
    let (file, crc32) = open_summed(storage, path, |piece| {
        bytes += piece.len() as u64;
        lines += memchr_iter(b'\n', piece).count() as u64;
    })?;
    let rows = if is_parquet(path) { parquet::rows(&file).map_err(io::Error::other)? } else { lines };
    Ok((rows, bytes, crc32))
}

/// Returns the columns of a Parquet part.
///
/// # Errors
/// `Output`: the part is missing or damaged.
pub(crate) fn part_schema(path: &Path) -> Result<SchemaRef, JobError> {
    parquet::schema(&open(path)?).map_err(|problem| damaged(path, &problem))
}

/// Returns the columns of parts of one job, which are those of the first Parquet part. NDJSON does not store the types of
/// columns. So without a Parquet part, these are the columns that every result has, except those that the first line omits.
///
/// # Errors
/// The errors of [`part_schema`].
pub fn schema_of_parts(paths: &[PathBuf]) -> Result<SchemaRef, JobError> {
    match paths.iter().find(|path| is_parquet(path)) {
        Some(path) => part_schema(path),
        None => Ok(without_omitted(schema(&Fields::empty()), paths)),
    }
}

/// Returns the columns that the first line has.
fn without_omitted(columns: SchemaRef, lines: &[PathBuf]) -> SchemaRef {
    let first = |path: &PathBuf| -> io::Result<Option<Vec<String>>> {
        let mut line = String::new();
        BufReader::new(open_regular(path)?).take(MAX_FIRST_LINE_BYTES).read_line(&mut line)?;
        let object: Option<HashMap<String, &RawValue>> = serde_json::from_str(&line).ok();
        Ok(object.map(|object| object.into_keys().collect()))
    };
    // A file that can't be read fails later, when its rows are read.
    let Some(line) = lines.iter().find_map(|path| first(path).ok().flatten()) else { return columns };
    let is_there = |field: &&FieldRef| line.contains(field.name()) || line.contains(&base64_name(field));
    Arc::new(Schema::new(columns.fields().iter().filter(is_there).cloned().collect::<Fields>()))
}

/// Returns the rows of a Parquet part, as [`read_part`] does, from an open file.
pub(super) fn parquet_batches(file: File, path: &Path, schema: &SchemaRef) -> Result<PartBatches, JobError> {
    let batches = ParquetBatches::new(file, schema).map_err(|error| unreadable(path, error, None))?;
    Ok(PartBatches { path: path.to_owned(), rows: 0, batches: FormatBatches::Parquet(batches) })
}

impl PartBatches {
    fn project(&mut self, columns: &[&str]) {
        if let FormatBatches::Parquet(batches) = &mut self.batches {
            batches.project(columns);
        }
    }
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
            Err(error) => {
                self.batches = FormatBatches::Ended;
                Some(Err(unreadable(&self.path, error, Some(self.rows))))
            }
        }
    }
}

/// A part to be read.
#[derive(Debug, Clone)]
pub struct PartFile {
    pub path: PathBuf,
    /// The files of the job, and the checksum of the commit, which is compared before any row is returned. `None`: both are
    /// unknown.
    pub committed: Option<(Arc<dyn Storage>, u32)>,
    /// The file, which may have been removed since. `None`: it is opened when it is read.
    pub held: Option<Arc<File>>,
}

/// A part without its job has no known checksum.
impl From<PathBuf> for PartFile {
    fn from(path: PathBuf) -> Self {
        Self { path, committed: None, held: None }
    }
}

impl PartFile {
    /// Opens the file, and compares its content with the checksum if that is known.
    ///
    /// # Errors
    /// `Output`: the file can't be read, or is not what was committed.
    pub fn open(&self) -> Result<File, JobError> {
        let Some((storage, crc32)) = &self.committed else { return open(&self.path) };
        match self.held.as_ref().and_then(|held| reopened(held)) {
            Some(file) => {
                verified(storage.as_ref(), file, &self.path, *crc32).map_err(|error| unlike_committed(&error))
            }
            None if !storage.exists(&self.path).unwrap_or(true) => Err(self.replaced()),
            None => open_committed(storage.as_ref(), &self.path, *crc32),
        }
    }

    fn replaced(&self) -> JobError {
        let shown = self.path.display();
        JobError::storage(message!(
            "{shown} was removed while rows were read, as a retry and the end of a job do: read them once more, or give that command ",
            OptionName::KeepReplaced
        ))
    }
}

/// The rows of several parts, one part after the other. Only one part is open at a time. The iterator ends after an error.
pub struct PartRows {
    parts: vec::IntoIter<PartFile>,
    schema: SchemaRef,
    open: Option<PartBatches>,
}

impl PartRows {
    /// Creates the iterator; all parts have the columns of `schema`.
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
    open_regular(path).map_err(|error| JobError::of_file("can't read", path.display(), &error))
}

/// Returns the file, at its start, if its content is what was committed.
///
/// # Errors
/// `Output`: the content is not what was committed, or the file can't be read.
pub fn open_committed(storage: &dyn Storage, path: &Path, crc32: u32) -> Result<File, JobError> {
    open_verified(storage, path, crc32).map_err(|error| unlike_committed(&error))
}

fn unlike_committed(error: &io::Error) -> JobError {
    let cause = cause(error);
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::NotFound => JobError::damage(message!("{cause}; ", part_advice())),
        _ => JobError::storage(cause),
    }
}

/// Opens a file that is open once more, with a position of its own, even if it has no name any more. `None`: /proc is missing.
fn reopened(file: &File) -> Option<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

/// Returns whether the file is Parquet by its name, with or without the suffix of a part that is not in its place yet.
pub fn is_parquet(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_suffix(UNPLACED).unwrap_or(name).ends_with(".parquet")
}

fn unreadable(path: &Path, error: ReadError, after_rows: Option<u64>) -> JobError {
    match error {
        ReadError::System(error) => JobError::of_file("can't read", path.display(), &error),
        ReadError::Content(problem) => {
            damaged(path, &after_rows.map_or_else(|| problem.clone(), |rows| format!("after {rows} rows: {problem}")))
        }
    }
}

/// Returns an error with the beginning of `problem`, which may quote any content of the file, at any length.
fn damaged(path: &Path, problem: &str) -> JobError {
    const MAX_CHARACTERS: usize = 300;
    let shown: String = problem
        .chars()
        .take(MAX_CHARACTERS)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    let more = if problem.chars().nth(MAX_CHARACTERS).is_some() { "…" } else { "" };
    let path = path.display();
    JobError::damage(message!("{path}: damaged: {shown}{more}; ", part_advice()))
}
