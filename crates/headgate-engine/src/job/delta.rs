//! The Delta log of a job, by which Spark, Trino, polars, `DuckDB` and others read its results as they were at one commit:
//! `_delta_log/00000000000000000001.json`.
//!
//! A version of the table has the number of its commit, and version 0 is the job before its first commit. The log follows the
//! commits, which decide what the results are: a version is written when the files that it adds are in their places, and before
//! those that it removes are removed. If a job is killed in between, the next start of the job writes the version. If the log then
//! does not lead a reader to the parts of the newest commit, because it was removed, damaged, or written to by another program, it
//! is rewritten and begins with that commit.
//!
//! Every 32nd version is a checkpoint, and versions from before the last 256 are removed. So the log has at most some 300
//! files, and a reader reads at most 32 of them. Without checkpoints, which only exist as Parquet for readers of version 1, no
//! version could be removed, and the log of a long job would grow without bound.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use headgate_core::error::JobError;
use headgate_core::file_name::DELTA_DIRECTORY;
use headgate_core::files::SHARED;
use headgate_core::files::storage::{Storage, if_found};
use headgate_core::message::Message;
use headgate_core::options::Format;
use headgate_table::parts::delta::{self, DeltaFile, DeltaTable, TableState, Undescribed};
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
const CHECKPOINT: &str = "checkpoint.parquet";
/// The maximum number of files in an earlier version beyond those of the newest one.
const MAX_MORE_FILES: u64 = 1_000_000;
const MAX_LAST_CHECKPOINT_BYTES: u64 = 4096;

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
        names.sort_by_key(|name| (name != LAST_CHECKPOINT, is_version(name), name.clone()));
        names.iter().try_for_each(|name| {
            if storage.is_directory(&path.join(name)) {
                storage.remove_directory(&path.join(name))
            } else {
                storage.remove_if_exists(&path.join(name))
            }
        })?;
        storage.sync_directory(&path)
    }

    /// Returns whether a reader of the log finds exactly the parts of this commit, at its version.
    pub(super) fn describes(&self, commit: &Commit, parts: &PartList) -> bool {
        self.files_at(commit.number, parts.len() + MAX_MORE_FILES).is_some_and(|files| {
            files.len() as u64 == parts.len() && parts.iter().all(|part| files.get(&part.name) == Some(&part.bytes))
        })
    }

    /// Returns whether there is no file of a log.
    pub(super) fn is_missing(&self) -> bool {
        self.numbered_names().is_ok_and(|names| names.is_empty())
    }

    /// Returns whether the version of this commit is there.
    pub(super) fn has_version_of(&self, commit: &Commit) -> bool {
        self.has(commit.number).unwrap_or(false)
    }

    /// Returns whether the version of this commit will be there at once, if the job runs.
    pub(super) fn is_behind(&self, commit: &Commit) -> bool {
        commit.number > 0 && self.lacks_only(commit).unwrap_or(false)
    }

    /// Returns the files of the newest version, as a reader finds them: it begins with the newest checkpoint, or with version 0.
    /// `None`: this is not the newest version, or a reader can't read it, or needs too many others for it.
    fn files_at(&self, newest: u64, max: u64) -> Option<BTreeMap<String, u64>> {
        let names = self.numbered_names().ok()?;
        let numbers = |ending: &'static str| {
            names.iter().filter(move |(_, name)| name.ends_with(ending)).map(|(number, _)| *number)
        };
        let is_newest = numbers(".json").max() == Some(newest);
        let checkpoint = numbers(CHECKPOINT).max();
        let is_near = newest.checked_sub(checkpoint.unwrap_or(0)).is_some_and(|versions| versions < CHECKPOINT_EVERY);
        let last = if_found(self.last_checkpoint()).ok()?;
        if !is_newest || !is_near || last.is_some_and(|last| !numbers(CHECKPOINT).any(|number| number == last)) {
            return None;
        }
        let mut state = TableState::new(max);
        if let Some(checkpoint) = checkpoint {
            state.apply_checkpoint(self.storage.read(&self.checkpoint_path(checkpoint)).ok()?)?;
        }
        for number in checkpoint.map_or(0, |checkpoint| checkpoint + 1)..=newest {
            state.apply_version(self.storage.read(&self.version_path(number)).ok()?)?;
        }
        state.into_files()
    }

    /// Returns the number of the checkpoint with which readers begin.
    fn last_checkpoint(&self) -> io::Result<u64> {
        let mut text = String::new();
        let file = self.storage.read(&self.path.join(LAST_CHECKPOINT))?;
        file.take(MAX_LAST_CHECKPOINT_BYTES).read_to_string(&mut text)?;
        let last: Value = serde_json::from_str(&text)?;
        last["version"].as_u64().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns the names that begin with the number of a version, with this number.
    fn numbered_names(&self) -> io::Result<Vec<(u64, String)>> {
        let mut found = Vec::new();
        for name in self.storage.names(&self.path)? {
            let Ok(name) = name?.into_string() else { continue };
            let number = name.split_once('.').and_then(|(number, _)| number.parse().ok());
            found.extend(number.map(|number| (number, name)));
        }
        found.sort();
        Ok(found)
    }

    /// Begins the log of a job without commits.
    pub(super) fn begin(&self, tmp: &Path) -> io::Result<()> {
        self.storage.create_directory(&self.path)?;
        self.write(0, self.first_actions(&Commit::zero(), "CREATE TABLE"), tmp)?;
        self.storage.sync_directory(&self.path)
    }

    /// Writes the version of a new commit, which leaves these parts.
    ///
    /// # Errors
    /// `Output`: the log can't be written.
    pub(super) fn update(&self, commit: &Commit, parts: &PartList, tmp: &Path) -> Result<(), JobError> {
        let lacks_only = self.lacks_only(commit);
        let updated = lacks_only.and_then(|lacks_only| {
            if lacks_only { self.append(commit, parts, tmp) } else { self.rebuild(commit, parts, tmp) }
        });
        updated.map_err(|error| self.cannot_write(commit, &error))
    }

    /// Makes the log describe the newest commit of an earlier run, which has these parts.
    ///
    /// # Errors
    /// As [`DeltaLog::update`].
    pub(super) fn complete(&self, commit: &Commit, parts: &PartList, tmp: &Path) -> Result<(), JobError> {
        if commit.number == 0 {
            // The job begins once more.
            return Ok(());
        }
        let completed = || -> io::Result<()> {
            if self.lacks_only(commit)? {
                self.append(commit, parts, tmp)?;
            }
            if self.describes(commit, parts) {
                // The process that wrote it may have been killed before it was durable.
                self.storage.sync_directory(&self.path)
            } else {
                self.rebuild(commit, parts, tmp)
            }
        };
        completed().map_err(|error| self.cannot_write(commit, &error))
    }

    /// Returns whether the newest version is that of the commit before this one.
    fn lacks_only(&self, commit: &Commit) -> io::Result<bool> {
        // A link is not followed.
        let is_there = self.storage.is_directory(&self.path);
        Ok(is_there && self.has(commit.number - 1)? && !self.has(commit.number)?)
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

    /// Rewrites the log with the current parts. The version comes last: without its checkpoint, no reader could begin with it.
    fn rebuild(&self, commit: &Commit, parts: &PartList, tmp: &Path) -> io::Result<()> {
        Self::clear(self.storage.as_ref())?;
        self.storage.create_directory(&self.path)?;
        self.storage.sync_directory(self.storage.path())?;
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
        self.storage.rename(&written, &self.checkpoint_path(number))?;
        // Before readers are told to begin with it.
        self.storage.sync_directory(&self.path)?;
        let last = json!({"version": number, "size": size}).to_string();
        let written = self.write_tmp(tmp, |to| to.write_all(last.as_bytes()))?;
        self.storage.rename(&written, &self.path.join(LAST_CHECKPOINT))?;
        self.storage.sync_directory(&self.path)?;
        self.remove_old(number)
    }

    /// Removes the versions that are too old, except those that a reader needs who begins with an older checkpoint.
    fn remove_old(&self, newest: u64) -> io::Result<()> {
        let names = self.numbered_names()?;
        let is_old_checkpoint =
            |(number, name): &&(u64, String)| name.ends_with(CHECKPOINT) && number + KEPT_VERSIONS <= newest;
        let Some(first_kept) = names.iter().filter(is_old_checkpoint).map(|(number, _)| *number).max() else {
            return Ok(());
        };
        let old = names.iter().filter(|(number, _)| *number < first_kept);
        old.into_iter().try_for_each(|(_, name)| self.storage.remove_if_exists(&self.path.join(name)))
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

    fn cannot_write(&self, commit: &Commit, error: &io::Error) -> JobError {
        JobError::of_file("can't write", self.version_path(commit.number).display(), error)
    }

    fn version_path(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}.json"))
    }

    fn checkpoint_path(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}.{CHECKPOINT}"))
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
        "operationParameters": {"headgateCommit": commit.number.to_string()},
    }})
}
