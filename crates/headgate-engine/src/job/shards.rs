//! Writes saved bodies into archives for `WebDataset`: `00000.tar` and so on, with two members for each row: its body, and
//! `key.json` with the other columns of the result.
//!
//! A body is saved as a file first and then copied into the open archive. An archive can't be continued after a crash, so rows
//! are committed when their archive is complete.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array as _, ArrayRef, RecordBatch, StringArray};
use headgate_core::error::JobError;
use headgate_core::files::SHARED;
use headgate_core::files::storage::Storage;
use headgate_http::save::paths::{SavePaths, row_key};
use headgate_table::parts::ndjson::encode::LineEncoder;
use tar::{Builder, EntryType, Header};

/// The first columns in the JSON of a row. Columns that are selected from the response and kept from the input follow.
const DESCRIBING: [&str; 5] = ["row", "url", "status", "received_bytes", "sha256"];
const BUFFER_BYTES: usize = 256 * 1024;
const DIGITS: usize = 5;
const FILE_MODE: u32 = 0o644;

pub(super) struct Shards {
    places: SavePaths,
    max_bytes: u64,
    next_number: u64,
    /// Whether `next_number` is beyond the existing archives.
    has_listed: bool,
    open: Option<Shard>,
    /// The columns and the encoder of the JSON, once the columns are known.
    describing: Option<(Vec<usize>, LineEncoder)>,
}

struct Shard {
    name: String,
    path: PathBuf,
    members: Builder<BufWriter<File>>,
    /// The size of the bodies and their JSON.
    bytes: u64,
}

impl Shards {
    /// Creates archives of about `max_bytes` bytes each. An archive of twice that size accepts no more rows. `next_number` is the
    /// lowest number that may be used.
    pub(super) fn new(places: SavePaths, max_bytes: u64, next_number: u64) -> Self {
        let (open, describing) = (None, None);
        Self { places, max_bytes, next_number, has_listed: false, open, describing }
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Returns whether the open archive should be closed.
    pub(super) fn is_full(&self) -> bool {
        self.open.as_ref().is_some_and(|shard| shard.bytes >= self.max_bytes)
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Moves the bodies of these rows into archives, and returns the rows with the new paths.
    ///
    /// # Errors
    /// `Output`: a body can't be read, or an archive can't be written.
    pub(super) fn add(&mut self, records: &RecordBatch) -> Result<RecordBatch, JobError> {
        let Ok(at) = records.schema_ref().index_of("path") else { return Ok(records.clone()) };
        let Some(paths) = records.column(at).as_string_opt::<i32>() else { return Ok(records.clone()) };
        let described = self.describe(records)?;
        let mut described = described.split_inclusive(|byte| *byte == b'\n');
        let mut archived = Vec::with_capacity(paths.len());
        for row in 0..paths.len() {
            let json = described.next().unwrap_or_default();
            archived.push(if paths.is_valid(row) { Some(self.append(paths.value(row), json)?) } else { None });
        }
        let mut columns = records.columns().to_vec();
        columns[at] = Arc::new(StringArray::from(archived)) as ArrayRef;
        RecordBatch::try_new(records.schema(), columns)
            .map_err(|error| JobError::internal(format!("the columns of a job: {error}")))
    }

    /// Returns a line of JSON for each row.
    fn describe(&mut self, records: &RecordBatch) -> Result<Vec<u8>, JobError> {
        if self.describing.is_none() {
            let schema = records.schema();
            let own = DESCRIBING.iter().filter_map(|name| schema.index_of(name).ok());
            let others = schema.index_of("sha256").map_or(schema.fields().len(), |at| at + 1)..schema.fields().len();
            let columns: Vec<usize> = own.chain(others).collect();
            let of_them = schema.project(&columns).map_err(internal)?;
            self.describing = Some((columns, LineEncoder::new(&Arc::new(of_them))?));
        }
        let Some((columns, encoder)) = &self.describing else { return Ok(Vec::new()) };
        let (records, mut lines) = (records.project(columns).map_err(internal)?, Vec::new());
        encoder.write(&records, &mut lines).map_err(internal)?;
        Ok(lines)
    }

    /// Moves the body that was saved under this name into the open archive, and returns its new path.
    fn append(&mut self, member: &str, json: &[u8]) -> Result<String, JobError> {
        if self.open.as_ref().is_some_and(|shard| shard.bytes >= self.max_bytes.saturating_mul(2)) {
            self.close()?;
        }
        let claimed = self.places.claimed(member);
        let cannot_read = |error: io::Error| JobError::of_file("can't read", claimed.display(), &error);
        let body = self.places.storage().append(&claimed).map_err(cannot_read)?;
        let bytes = body.metadata().map_err(cannot_read)?.len();
        let shard = self.open()?;
        let mut append = || -> io::Result<()> {
            shard.members.append_data(&mut header(bytes), member, &body)?;
            let described = format!("{}.json", row_key(member));
            shard.members.append_data(&mut header(json.len() as u64), described, json)
        };
        append().map_err(|error| cannot_write(&shard.path, &error))?;
        shard.bytes += bytes + json.len() as u64;
        let name = format!("{}/{member}", shard.name);
        // The empty file keeps the name claimed, and frees the space of the body.
        body.set_len(0).map_err(cannot_read)?;
        Ok(name)
    }

    fn open(&mut self) -> Result<&mut Shard, JobError> {
        if self.open.is_none() {
            if !self.has_listed {
                let storage = self.places.storage().as_ref();
                let number = number_beyond_existing(storage).map_err(|error| cannot_write(storage.path(), &error))?;
                (self.next_number, self.has_listed) = (self.next_number.max(number), true);
            }
            let name = name_of(self.next_number);
            self.next_number += 1;
            let path = self.places.written(&name);
            let file = self.places.storage().create(&path, SHARED).map_err(|error| cannot_write(&path, &error))?;
            let members = Builder::new(BufWriter::with_capacity(BUFFER_BYTES, file));
            self.open = Some(Shard { name, path, members, bytes: 0 });
        }
        self.open.as_mut().ok_or_else(|| JobError::internal("an archive that was opened is not open"))
    }

    /// Completes the open archive.
    ///
    /// # Errors
    /// `Output`: the archive can't be written.
    pub(super) fn close(&mut self) -> Result<(), JobError> {
        let Some(Shard { path, members, .. }) = self.open.take() else { return Ok(()) };
        let closed = members.into_inner().and_then(|mut file| file.flush());
        closed.map_err(|error| cannot_write(&path, &error))
    }

    /// Discards the open archive.
    pub(super) fn discard(&mut self) {
        if let Some(Shard { path, members, .. }) = self.open.take() {
            drop(members);
            let _ = self.places.storage().remove(&path);
        }
    }
}

/// Returns the header of a member. It does not depend on the time or the user, so the same bodies give the same archive.
fn header(bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(bytes);
    header.set_mode(FILE_MODE);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn name_of(number: u64) -> String {
    format!("{number:0DIGITS$}.tar")
}

/// Returns whether this is the name of an archive of ours.
pub(super) fn is_archive(name: &str) -> bool {
    name.strip_suffix(".tar").and_then(|digits| digits.parse().ok()).is_some_and(|number| name_of(number) == name)
}

/// Returns the first number beyond the existing archives.
fn number_beyond_existing(storage: &dyn Storage) -> io::Result<u64> {
    let mut next = 0;
    for entry in storage.list(storage.path())? {
        let (name, _) = entry?;
        let number = name.to_str().and_then(|name| name.strip_suffix(".tar")?.parse::<u64>().ok());
        next = next.max(number.map_or(0, |number| number.saturating_add(1)));
    }
    Ok(next)
}

fn internal(error: impl std::fmt::Display) -> JobError {
    JobError::internal(format!("what describes a row: {error}"))
}

fn cannot_write(path: &Path, error: &io::Error) -> JobError {
    JobError::of_file("can't write", path.display(), error)
}
