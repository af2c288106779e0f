//! The Delta log of a job, by which Spark, Trino, polars, `DuckDB` and others read its results as they were at one commit:
//! `_delta_log/00000000000000000001.json`.
//!
//! A version of the table has the number of its commit, and version 0 is the job before its first commit. The log follows the
//! commits, which decide what the results are: a version is written when the files that it adds are in their places, and before
//! those that it removes are removed. If a job is killed in between, the next start of the job writes the version. If the log
//! lacks more than that, was removed, or has versions of another program, it is written anew and begins with the newest commit.
//!
//! Every 32nd version is a checkpoint, and versions from before the last 256 are removed. So the log has at most some 300
//! files, and a reader reads at most 32 of them. Without checkpoints, which only exist as Parquet for readers of version 1, no
//! version could be removed, and the log of a long job would grow without bound.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use headgate_core::error::JobError;
use headgate_core::file_name::DELTA_DIRECTORY;
use headgate_core::files::SHARED;
use headgate_core::files::storage::Storage;
use headgate_core::message::Message;
use headgate_core::options::Format;
use headgate_table::parts::delta::{self, DeltaFile, DeltaTable, Undescribed};
use serde_json::{Value, json};

use super::commit::{Commit, PartRecord};
use super::log::rename_new;
use super::manifest::Manifest;
use super::parts::PartList;
use super::replaced::since_1970_ms;

const CHECKPOINT_EVERY: u64 = 32;
/// The number of versions before a checkpoint that are kept for readers that have begun with them.
const KEPT_VERSIONS: u64 = 256;
/// The program that a version of ours names.
const ENGINE: &str = concat!("headgate/", env!("CARGO_PKG_VERSION"));
const LAST_CHECKPOINT: &str = "_last_checkpoint";
/// The parameter in the first action of a version that has the checksum of the parts of its commit.
const PARTS_SUM: &str = "headgateParts";
/// The maximum length of the first action of a version.
const MAX_FIRST_ACTION_BYTES: u64 = 4096;

#[derive(Debug)]
pub(super) struct DeltaLog {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    table: DeltaTable,
}

/// Returns a note if the results are no Delta table because of a column.
pub(super) fn undescribed(manifest: &Manifest) -> Option<Message> {
    let Undescribed { column, why } = (manifest.spec.format == Format::Parquet).then(|| table(manifest).err())??;
    Some(format!("the results have no Delta log: Delta can't describe the column {column:?} ({why})").into())
}

fn table(manifest: &Manifest) -> Result<DeltaTable, Undescribed> {
    let mut id = [0; 16];
    // The salt itself must not be published.
    let salt = [b"Delta table ", &manifest.hash_salt.bytes()[..]].concat();
    id.copy_from_slice(&digest(&SHA256, &salt).as_ref()[..16]);
    (id[6], id[8]) = (id[6] & 0x0f | 0x80, id[8] & 0x3f | 0x80);
    DeltaTable::new(&manifest.schema, id)
}

impl DeltaLog {
    /// Returns the log of a job, unless Delta can't describe its results.
    pub(super) fn of(manifest: &Manifest, storage: &Arc<dyn Storage>) -> Option<Self> {
        let table = (manifest.spec.format == Format::Parquet).then(|| table(manifest).ok())??;
        Some(Self { storage: storage.clone(), path: storage.path().join(DELTA_DIRECTORY), table })
    }

    /// Removes a log. What it begins with goes first, so that no reader finds an earlier version.
    pub(super) fn clear(storage: &dyn Storage) -> io::Result<()> {
        let path = storage.path().join(DELTA_DIRECTORY);
        if !storage.is_directory(&path) {
            // A link is removed and not followed.
            return storage.remove_if_exists(&path);
        }
        let mut names: Vec<OsString> = storage.names(&path)?.collect::<io::Result<_>>()?;
        let is_version = |name: &OsString| Path::new(name).extension().is_some_and(|extension| extension == "json");
        names.sort_by_key(|name| (is_version(name), name.clone()));
        names.iter().try_for_each(|name| {
            if storage.is_directory(&path.join(name)) {
                storage.remove_directory(&path.join(name))
            } else {
                storage.remove_if_exists(&path.join(name))
            }
        })?;
        storage.sync_directory(&path)
    }

    /// Returns whether the newest version is that of a commit.
    ///
    /// # Errors
    /// The log can't be read.
    pub(super) fn is_that_of(&self, commit: &Commit) -> io::Result<bool> {
        Ok(self.has(commit.number)? && !self.has(commit.number + 1)? && self.has_sum_of(commit))
    }

    /// Begins the log of a job without commits.
    pub(super) fn begin(&self, tmp: &Path) -> io::Result<()> {
        self.storage.create_directory(&self.path)?;
        self.write(0, self.first_actions(&Commit::zero(), "CREATE TABLE"), tmp)?;
        self.storage.sync_directory(&self.path)
    }

    /// Writes the version of a commit, which leaves these parts, unless it exists.
    ///
    /// # Errors
    /// `Output`: the log can't be written.
    pub(super) fn update(&self, commit: &Commit, parts: &PartList, tmp: &Path) -> Result<(), JobError> {
        if commit.number == 0 {
            // The job begins anew.
            return Ok(());
        }
        let updated = || -> io::Result<()> {
            if self.is_that_of(commit)? {
                // The process that wrote it may have been killed before it was durable.
                self.storage.sync_directory(&self.path)
            } else if self.has(commit.number - 1)? && !self.has(commit.number)? {
                self.append(commit, parts, tmp)
            } else {
                self.rebuild(commit, parts, tmp)
            }
        };
        updated().map_err(|error| JobError::of_file("can't write", self.version_path(commit.number).display(), &error))
    }

    fn append(&self, commit: &Commit, parts: &PartList, tmp: &Path) -> io::Result<()> {
        let now = since_1970_ms();
        let changes_rows = !commit.merges;
        let operation = if commit.merges { "OPTIMIZE" } else { "WRITE" };
        let removes = commit.removes.iter().map(|name| delta::remove(name, now, changes_rows));
        let adds = commit.adds.iter().map(|part| delta::add(file(part), now, changes_rows));
        self.write(commit.number, iter::once(commit_info(commit, operation)).chain(removes).chain(adds), tmp)?;
        // Before files are removed, and before a later version, which needs this one.
        self.storage.sync_directory(&self.path)?;
        if commit.number.is_multiple_of(CHECKPOINT_EVERY) { self.checkpoint(commit.number, parts, tmp) } else { Ok(()) }
    }

    /// Writes the log anew, with the current parts. The version comes last: without its checkpoint, no reader could begin with it.
    fn rebuild(&self, commit: &Commit, parts: &PartList, tmp: &Path) -> io::Result<()> {
        Self::clear(self.storage.as_ref())?;
        self.storage.create_directory(&self.path)?;
        self.checkpoint(commit.number, parts, tmp)?;
        let files = parts.iter().map(|part| delta::add(file(part), since_1970_ms(), true));
        self.write(commit.number, self.first_actions(commit, "RESTORE").chain(files), tmp)?;
        self.storage.sync_directory(&self.path)
    }

    /// Returns the actions with which a log begins.
    fn first_actions(&self, commit: &Commit, operation: &str) -> impl Iterator<Item = Value> {
        iter::once(commit_info(commit, operation)).chain(self.table.definition())
    }

    fn checkpoint(&self, number: u64, parts: &PartList, tmp: &Path) -> io::Result<()> {
        let written = tmp.join("checkpoint.parquet");
        let mut to = self.storage.create(&written, SHARED)?;
        let files = parts.iter().map(|part| delta::add(file(part), since_1970_ms(), false));
        let size = delta::write_checkpoint(&mut to, self.table.definition().into_iter().chain(files))?;
        self.storage.sync_file(&to, &written)?;
        self.storage.rename(&written, &self.path.join(format!("{number:020}.checkpoint.parquet")))?;
        let last = json!({"version": number, "size": size}).to_string();
        let written = self.write_tmp(tmp, |to| to.write_all(last.as_bytes()))?;
        self.storage.rename(&written, &self.path.join(LAST_CHECKPOINT))?;
        self.storage.sync_directory(&self.path)?;
        self.remove_old(number)
    }

    /// Removes the versions that are too old, except those that a reader needs who begins with an older checkpoint.
    fn remove_old(&self, newest: u64) -> io::Result<()> {
        let names: Vec<OsString> = self.storage.names(&self.path)?.collect::<io::Result<_>>()?;
        let numbered = names.iter().filter_map(|name| {
            let (number, rest) = name.to_str()?.split_once('.')?;
            Some((number.parse::<u64>().ok()?, rest, name))
        });
        let is_old_checkpoint =
            |(number, rest): (u64, &str)| rest.starts_with("checkpoint") && number + KEPT_VERSIONS <= newest;
        let checkpoints = numbered.clone().filter(|(number, rest, _)| is_old_checkpoint((*number, rest)));
        let Some(first_kept) = checkpoints.map(|(number, ..)| number).max() else { return Ok(()) };
        let mut old: Vec<&OsString> =
            numbered.filter(|(number, ..)| *number < first_kept).map(|(_, _, name)| name).collect();
        old.sort();
        old.into_iter().try_for_each(|name| self.storage.remove_if_exists(&self.path.join(name)))
    }

    /// Writes a version, which then exists completely or not at all.
    fn write(&self, number: u64, actions: impl Iterator<Item = Value>, tmp: &Path) -> io::Result<()> {
        let written = self.write_tmp(tmp, |to| delta::write_version(to, actions))?;
        rename_new(self.storage.as_ref(), &written, &self.version_path(number))
    }

    /// Returns a durable file with what `write` has written.
    fn write_tmp(
        &self,
        tmp: &Path,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> io::Result<PathBuf> {
        let path = tmp.join("delta.json");
        let file = self.storage.create(&path, SHARED)?;
        let mut to = BufWriter::new(&file);
        write(&mut to)?;
        to.flush()?;
        drop(to);
        self.storage.sync_file(&file, &path)?;
        Ok(path)
    }

    fn has(&self, number: u64) -> io::Result<bool> {
        self.storage.exists(&self.version_path(number))
    }

    /// Returns whether the version with the number of a commit describes the parts of that commit.
    fn has_sum_of(&self, commit: &Commit) -> bool {
        let first = || -> io::Result<Value> {
            let mut line = String::new();
            let file = self.storage.read(&self.version_path(commit.number))?;
            BufReader::new(file.take(MAX_FIRST_ACTION_BYTES)).read_line(&mut line)?;
            Ok(serde_json::from_str(&line)?)
        };
        // A version that can't be read is none of ours.
        first().is_ok_and(|action| action["commitInfo"]["operationParameters"][PARTS_SUM] == *commit.parts_sum)
    }

    fn version_path(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}.json"))
    }
}

fn file(part: &PartRecord) -> DeltaFile<'_> {
    DeltaFile { name: &part.name, rows: part.rows, bytes: part.bytes }
}

fn commit_info(commit: &Commit, operation: &str) -> Value {
    json!({"commitInfo": {
        "engineInfo": ENGINE,
        "timestamp": since_1970_ms(),
        "operation": operation,
        "operationParameters": {"headgateCommit": commit.number.to_string(), PARTS_SUM: commit.parts_sum},
    }})
}
