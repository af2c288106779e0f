//! Saved bodies in archives, as `WebDataset` reads them: `00000.tar` and so on, with two members for each row, its body and
//! `key.json` with what the result says of it.
//!
//! A body comes as a file of its own and is copied into the open archive. Archives can't be gone on with after a crash; so
//! rows are committed when theirs is complete.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array as _, ArrayRef, RecordBatch, StringArray};
use headgate_core::error::{JobError, cause};
use headgate_core::files::{Directory, SHARED};
use headgate_http::save::paths::{SavePaths, row_key};
use headgate_table::parts::ndjson::encode::LineEncoder;
use tar::{Builder, EntryType, Header};

use super::storage::Storage;

/// What the JSON of a row has first; what was made of the answer and kept of the input follows.
const DESCRIBING: [&str; 5] = ["row", "url", "status", "body_bytes", "sha256"];
const BUFFER_BYTES: usize = 256 * 1024;
const DIGITS: usize = 5;
const FILE_MODE: u32 = 0o644;

pub(super) struct Shards {
    places: SavePaths,
    storage: Arc<dyn Storage>,
    max_bytes: u64,
    next_number: u64,
    /// Whether that is behind those that are there.
    has_looked: bool,
    open: Option<Shard>,
    /// How rows are described, once their columns are known.
    describing: Option<(Vec<usize>, LineEncoder)>,
}

struct Shard {
    name: String,
    path: PathBuf,
    members: Builder<BufWriter<File>>,
    /// Of bodies.
    bytes: u64,
}

impl Shards {
    /// Of so many bytes each, or one row more; twice that at the most before the next row. No number below `next_number` is given.
    pub(super) fn new(places: SavePaths, storage: Arc<dyn Storage>, max_bytes: u64, next_number: u64) -> Self {
        let (open, describing) = (None, None);
        Self { places, storage, max_bytes, next_number, has_looked: false, open, describing }
    }

    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Whether the open archive is to be closed.
    pub(super) fn is_full(&self) -> bool {
        self.open.as_ref().is_some_and(|shard| shard.bytes >= self.max_bytes)
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Puts the bodies of these rows into archives. The rows, with where their bodies are now.
    ///
    /// # Errors
    /// `Output`: a body can't be read, or an archive written.
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

    /// A line of JSON for each row.
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

    /// Where a body is now that was saved under this name.
    fn append(&mut self, member: &str, json: &[u8]) -> Result<String, JobError> {
        if self.open.as_ref().is_some_and(|shard| shard.bytes >= self.max_bytes.saturating_mul(2)) {
            self.close()?;
        }
        let claimed = self.places.claimed(member);
        let cannot_read =
            |error: io::Error| JobError::output(format!("can't read {}: {}", claimed.display(), cause(&error)));
        let body = self.places.directory().file_to_change(&claimed).map_err(cannot_read)?;
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
        // Its name stays claimed; there need not be room for it twice.
        body.set_len(0).map_err(cannot_read)?;
        Ok(name)
    }

    fn open(&mut self) -> Result<&mut Shard, JobError> {
        if self.open.is_none() {
            if !self.has_looked {
                let directory = self.places.directory();
                let behind = number_behind(directory).map_err(|error| cannot_write(directory.path(), &error))?;
                (self.next_number, self.has_looked) = (self.next_number.max(behind), true);
            }
            let name = name_of(self.next_number);
            self.next_number += 1;
            let path = self.places.written(&name);
            let file = self
                .storage
                .create(self.places.directory(), &path, SHARED)
                .map_err(|error| cannot_write(&path, &error))?;
            let members = Builder::new(BufWriter::with_capacity(BUFFER_BYTES, file));
            self.open = Some(Shard { name, path, members, bytes: 0 });
        }
        self.open.as_mut().ok_or_else(|| JobError::internal("an archive that was opened is not open"))
    }

    /// Completes the open archive.
    ///
    /// # Errors
    /// `Output`: it can't be written.
    pub(super) fn close(&mut self) -> Result<(), JobError> {
        let Some(Shard { path, members, .. }) = self.open.take() else { return Ok(()) };
        let closed = members.into_inner().and_then(|mut file| file.flush());
        closed.map_err(|error| cannot_write(&path, &error))
    }

    /// Discards what is not committed.
    pub(super) fn give_up(&mut self) {
        if let Some(Shard { path, members, .. }) = self.open.take() {
            drop(members);
            let _ = self.places.directory().remove(&path);
        }
    }
}

/// The same for the same body, whenever and by whom it was fetched.
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

/// Whether this is a name that we give.
pub(super) fn is_archive(name: &str) -> bool {
    name.strip_suffix(".tar").and_then(|digits| digits.parse().ok()).is_some_and(|number| name_of(number) == name)
}

/// Behind those that are there.
fn number_behind(directory: &Directory) -> io::Result<u64> {
    let mut next = 0;
    for entry in directory.entries(directory.path())? {
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
    JobError::output(format!("can't write {}: {}", path.display(), cause(error)))
}
