//! The directory of a job: checks its owner, locks it for one writer, and applies commits to it.
//!
//! ```text
//! OUT/part-00000001.parquet …    rows that succeeded; complete at every moment
//! OUT/failed-00000001.parquet …  rows that failed
//! OUT/_delta_log/                describes the commits for readers of Delta tables
//! OUT/_headgate/job.json         the options and the input of the job
//! OUT/_headgate/log/             the commits
//! OUT/_headgate/lock             locked by the process that writes
//! OUT/_headgate/heartbeat.json   exists while the job runs: how far it is
//! OUT/_headgate/series.ndjson    what the job did over time, for its report
//! OUT/_headgate/tmp/             parts and saved bodies being written
//! OUT/_headgate/names/           exists if bodies are saved: marks their names as used, where the files themselves don't show it
//! ```
//!
//! The order of a commit: parts are written in `tmp` and synced. Then the commit itself is written, in one step. Then the parts
//! that it adds are renamed into place, the Delta log gets its version, and the parts that the commit removes are removed. So
//! the Delta log names only files that are in their places and belong to a commit, whatever is interrupted: at worst it is one
//! commit late. A process that reads all files meanwhile may miss the newest rows, or read rows twice that are being replaced,
//! and never reads too few of them. A commit whose last steps are missing is completed when the job is opened. The commit that
//! marks a job as finished changes no parts, so every reader of a finished job finds all rows.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headgate_core::clock;
use headgate_core::error::JobError;
use headgate_core::file_name::OWN_DIRECTORY;
use headgate_core::files::storage::{Disk, OpenStorage, Storage, if_found};
use headgate_core::files::{Directory, SHARED};
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::{Format, SaveFormat};
use headgate_table::parts::name::{PartKind, PartName};
use headgate_table::parts::read::recovery_advice;
use rustix::fs::{Mode, Stat};
use rustix::process::geteuid;

use super::commit::Commit;
use super::delta::DeltaLog;
use super::heartbeat::{self, Heartbeat, HeartbeatThread, RunDescription};
use super::lock::{self, Lock};
use super::log::CommitLog;
use super::manifest::Manifest;
use super::output_name::check_new;
use super::part_format::PartFormat;
use super::parts::PartList;
use super::record;
use super::replaced::ReplacedFiles;
use super::results::{Results, part_files, part_like_files, unplaced_path};
use super::saved::{place_saved, remove_saved, remove_saved_unplaced, save_places};
use super::series;

/// A job's directory, locked for this process until it is dropped.
#[derive(Debug)]
pub(super) struct JobDirectory {
    /// Opened before the first file is written.
    storage: Arc<dyn Storage>,
    log: CommitLog,
    /// Ends before the lock is released.
    heartbeat_thread: HeartbeatThread,
    /// `None`: the job has not begun, or Delta can't describe its results.
    delta: Option<DeltaLog>,
    _lock: Lock,
}

impl JobDirectory {
    /// Locks the directory, and creates it if it is missing. No other file in it is changed.
    pub(super) fn open_locked(
        root: &Path,
        fresh: bool,
        run: RunDescription,
        storage: &dyn OpenStorage,
    ) -> Result<Self, JobError> {
        if find_usable(root, fresh)?.is_none() {
            create_with_parents(root, storage).map_err(|error| {
                let shown = root.display();
                JobError::of_file("can't create the directory", shown, &error)
            })?;
        }
        let directory = Directory::open(root).map_err(|error| unusable(root, &error))?;
        directory.create_directory(&root.join(OWN_DIRECTORY)).map_err(|error| unusable(root, &error))?;
        let directory = trusted(directory)?;
        let lock = lock::acquire(&directory)?;
        let heartbeat_thread = HeartbeatThread::start(&directory, run);
        let storage = storage.open(directory);
        Ok(Self { log: CommitLog::new(storage.clone()), delta: None, storage, heartbeat_thread, _lock: lock })
    }

    pub(super) fn root(&self) -> &Path {
        self.storage.path()
    }

    pub(super) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub(super) fn heartbeat(&self) -> &Arc<Heartbeat> {
        self.heartbeat_thread.heartbeat()
    }

    /// Returns the manifest of the job in this directory, if there is one.
    pub(super) fn manifest(&self) -> Result<Option<Manifest>, JobError> {
        stored_manifest(self.storage.as_ref())
    }

    /// Begins a job, and removes the files of an earlier one. After a crash in between, the next start continues with that.
    pub(super) fn begin(&mut self, manifest: &Manifest) -> Result<(), JobError> {
        let parts = part_like_files(self.storage.as_ref())?;
        let delta = DeltaLog::of(manifest, &self.storage);
        let format = PartFormat::new(manifest.spec.format, &Arc::new(manifest.schema.clone()))?;
        let began = || -> io::Result<()> {
            let (tmp, log) = (self.tmp(), self.log.path());
            for path in [&tmp, log] {
                // A link is replaced and not followed.
                if self.storage.exists(path)? && !self.storage.is_directory(path) {
                    self.storage.remove(path)?;
                }
                self.storage.create_directory(path)?;
            }
            let names = save_places(&self.storage, SaveFormat::Files).names().to_owned();
            let saved = match self.manifest().ok().flatten() {
                Some(then) if then.clearing => then.clearing_saved,
                Some(then) => then.save_format().is_some(),
                // The manifest is missing or can't be read.
                None => self.storage.is_directory(&names),
            };
            let mut manifest = manifest.clone();
            (manifest.clearing, manifest.clearing_saved) = (true, saved);
            self.write_manifest(&manifest)?;
            // First, so that a reader of the table finds no version any more, instead of one whose files are gone.
            DeltaLog::clear(self.storage.as_ref())?;
            for part in parts.keys() {
                if saved {
                    remove_saved(self.storage.as_ref(), part)?;
                }
                self.storage.remove(&self.path_of(part))?;
            }
            if saved {
                remove_saved_unplaced(self.storage.as_ref(), &tmp)?;
                if_found(self.storage.remove_directory(&names))?;
            }
            self.sync(self.root())?;
            for path in [log, &tmp] {
                self.storage.clear(path)?;
                self.sync(path)?;
            }
            if manifest.save_format().is_some() {
                self.storage.create_directory(&names)?;
            }
            if manifest.spec.format == Format::Parquet {
                self.place_placeholder(&format)?;
            }
            if let Some(delta) = &delta {
                delta.begin(&tmp)?;
            }
            (manifest.clearing, manifest.clearing_saved) = (false, false);
            self.write_manifest(&manifest)
        };
        began().map_err(|error| self.unusable(&error))?;
        self.delta = delta;
        Ok(())
    }

    /// Creates a file with the columns and without rows, unless it exists, so that readers of the results always find a file.
    fn place_placeholder(&self, format: &PartFormat) -> io::Result<()> {
        let name = PartName::placeholder().to_string();
        if self.storage.exists(&self.path_of(&name))? {
            return Ok(());
        }
        let written = unplaced_path(self.root(), &name);
        let file = self.storage.create(&written, SHARED)?;
        let finished = format.writer(file)?.finish()?;
        self.storage.sync_file(&finished.file, &written)?;
        self.storage.rename(&written, &self.path_of(&name))
    }

    /// Updates the stored manifest if the input was moved, other origins get credentials, or a retry inherits other options.
    pub(super) fn update_manifest(&self, manifest: &Manifest) -> Result<(), JobError> {
        if stored_manifest(self.storage.as_ref())?.is_some_and(|then| then == *manifest) {
            return Ok(());
        }
        self.write_manifest(manifest).map_err(|error| self.unusable(&error))
    }

    /// Returns whether the directory has rows of an earlier job, including those of parts that are not in their places.
    ///
    /// # Errors
    /// `Output`: the directory can't be read.
    pub(super) fn has_rows(&self) -> Result<bool, JobError> {
        match self.log.read() {
            Ok(Some(logged)) => Ok(logged.newest.done > 0),
            // Without a readable log, any part may have rows.
            _ => Ok(!part_files(self.storage.as_ref())?.is_empty()),
        }
    }

    /// Returns the numbers of the first parts of a new job, of rows that succeeded and of rows that failed. Files of an earlier job
    /// don't have them: its readers may open those by their names, and must not find others.
    ///
    /// # Errors
    /// `Output`: the directory can't be read.
    pub(super) fn first_numbers(&self) -> Result<(u64, u64), JobError> {
        let newest = self.log.read().ok().flatten().map_or_else(Commit::zero, |logged| logged.newest);
        let (mut first, mut first_failed) = (newest.next_part, newest.next_failed);
        let found = part_like_files(self.storage.as_ref())?;
        for PartName { kind, number, .. } in found.keys().filter_map(|name| PartName::parse(name)) {
            let first = if kind == PartKind::Succeeded { &mut first } else { &mut first_failed };
            // No job has made so many parts.
            if number < u64::MAX / 2 {
                *first = (*first).max(number + 1);
            }
        }
        Ok((first, first_failed))
    }

    /// Completes the last steps of the newest commit, and removes the files that were replaced longer ago than `keep_replaced`. The
    /// returned commit has those that are left. If a committed part is missing or damaged, nothing is changed.
    pub(super) fn recover(&mut self, keep_replaced: Duration) -> Result<Results, JobError> {
        let mut results = Results::read_locked(&self.storage)?;
        self.complete(&results.newest, &results.parts)?;
        let now = clock::now();
        let mut replaced = ReplacedFiles::new(keep_replaced, &results.newest.replaced, now);
        self.remove_parts(replaced.take_due(now, 0).iter())?;
        results.newest.replaced = replaced.to_record();
        // The run may have removed them after its last commit.
        let is_there = |name: &String| self.storage.exists(&self.path_of(name)).unwrap_or(true);
        results.newest.replaced.retain(|file| is_there(&file.name));
        if results.since_checkpoint == 0 {
            self.log.remove_before(results.newest.number)?;
        }
        self.clear_tmp()?;
        Ok(results)
    }

    /// Takes the last steps of the newest commit, as far as they are missing.
    pub(super) fn complete(&mut self, newest: &Commit, parts: &PartList) -> Result<(), JobError> {
        self.sync_begun(newest.number).map_err(|error| self.unusable(&error))?;
        let manifest = self.manifest()?;
        let save_format = manifest.as_ref().and_then(Manifest::save_format);
        self.delta = manifest.as_ref().and_then(|manifest| DeltaLog::of(manifest, &self.storage));
        if let Some(manifest) = manifest.filter(|manifest| newest.number > 0 && manifest.spec.format == Format::Parquet)
            && parts.len() == 0
        {
            // A repair has removed all parts.
            let format = PartFormat::new(Format::Parquet, &Arc::new(manifest.schema))?;
            self.place_placeholder(&format).map_err(|error| self.unusable(&error))?;
        }
        self.apply(newest, parts, save_format, DeltaLog::complete)
    }

    pub(super) fn clear_tmp(&self) -> Result<(), JobError> {
        self.storage.clear(&self.tmp()).map_err(|error| self.unusable(&error))
    }

    /// Makes the directories durable that the following steps need: the process that began the job may have been killed before.
    fn sync_begun(&self, newest: u64) -> io::Result<()> {
        self.storage.create_directory(&self.tmp())?;
        self.storage.create_directory(self.log.path())?;
        self.sync(&self.own())?;
        if newest > 0 { self.sync(self.log.path()) } else { Ok(()) }
    }

    /// Creates a file for a part, where no reader looks for it.
    pub(super) fn create_part(&self, name: &str) -> io::Result<File> {
        self.storage.create(&unplaced_path(self.root(), name), SHARED)
    }

    /// Makes a part durable, before a commit names it.
    pub(super) fn sync_part(&self, file: &File, name: &str) -> io::Result<()> {
        self.storage.sync_file(file, &unplaced_path(self.root(), name))
    }

    /// Removes a part that no commit will name. If that fails, the file is removed when the job is opened again.
    pub(super) fn discard(&self, name: &str) {
        let _ = self.storage.remove(&unplaced_path(self.root(), name));
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a commit, which leaves these parts, and applies it: completely or not at all, even if the machine stops in between.
    pub(super) fn commit(
        &self,
        commit: &Commit,
        parts: &PartList,
        save_format: Option<SaveFormat>,
    ) -> Result<(), JobError> {
        if let Some(moved) = self.storage.directory().find_moved().map_err(|error| self.unusable(&error))? {
            let shown = moved.display();
            return Err(JobError::output(format!(
                "{shown} was renamed or replaced while the job ran: move it back, and run the same command again"
            )));
        }
        if save_format.is_some() {
            // One step makes the files of this commit durable, and the places of earlier ones.
            self.storage.sync_file_system().map_err(|error| self.unusable(&error))?;
        }
        self.sync(&self.tmp()).map_err(|error| self.unusable(&error))?;
        self.log.append(commit, &self.tmp())?;
        self.apply(commit, parts, save_format, DeltaLog::update)?;
        if commit.parts.is_some() { self.log.remove_before(commit.number) } else { Ok(()) }
    }

    /// Takes the steps that follow a commit, as far as they are missing. Parts are added first, so that no row is missing.
    fn apply(
        &self,
        commit: &Commit,
        parts: &PartList,
        save_format: Option<SaveFormat>,
        update: fn(&DeltaLog, &Commit, &PartList, &Path) -> Result<(), JobError>,
    ) -> Result<(), JobError> {
        if let Some(format) = save_format {
            place_saved(&self.storage, commit, format)?;
        }
        let placed = || -> io::Result<()> {
            for part in &commit.adds {
                let (written, placed) = (unplaced_path(self.root(), &part.name), self.path_of(&part.name));
                match self.storage.rename(&written, &placed) {
                    // It was renamed before.
                    Err(error)
                        if error.kind() == io::ErrorKind::NotFound && self.storage.is_file_of(&placed, part.bytes) => {}
                    result => result?,
                }
            }
            self.sync(self.root())
        };
        placed().map_err(|error| self.unusable(&error))?;
        if let Some(delta) = &self.delta {
            update(delta, commit, parts, &self.tmp())?;
        }
        let placeholder = self.path_of(&PartName::placeholder().to_string());
        if parts.len() > 0 && self.storage.exists(&placeholder).map_err(|error| self.unusable(&error))? {
            self.storage.remove(&placeholder).map_err(|error| self.unusable(&error))?;
        }
        let kept: HashSet<&String> = commit.replaced.iter().map(|file| &file.name).collect();
        self.remove_parts(commit.removes.iter().filter(|name| !kept.contains(name)))
    }

    /// Removes the files of parts that no longer belong to the results, as far as they exist.
    pub(super) fn remove_parts<'a>(&self, names: impl Iterator<Item = &'a String>) -> Result<(), JobError> {
        let removed = || -> io::Result<()> {
            let mut names = names.peekable();
            if names.peek().is_none() {
                return Ok(());
            }
            for name in names {
                self.storage.remove_if_exists(&self.path_of(name))?;
            }
            // Otherwise, a loss of power could bring back removed parts beside those that replace them.
            self.sync(self.root())
        };
        removed().map_err(|error| self.unusable(&error))
    }

    fn write_manifest(&self, manifest: &Manifest) -> io::Result<()> {
        let (written, placed) = (self.tmp().join("job.json"), self.own().join("job.json"));
        self.storage.write(&written, &record::encode(manifest)?)?;
        self.storage.rename(&written, &placed)?;
        self.sync(&self.own())?;
        self.sync(self.root())
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.storage.sync_directory(path)
    }

    fn unusable(&self, error: &io::Error) -> JobError {
        unusable(self.root(), error)
    }

    fn own(&self) -> PathBuf {
        self.path_of(OWN_DIRECTORY)
    }

    fn tmp(&self) -> PathBuf {
        self.own().join("tmp")
    }
}

/// Opens an output directory to read the job in it. Returns `None` if there is no such directory.
///
/// # Errors
/// `Output`: the directory can't be read, or its control directory is not trusted ([`trusted`]).
pub(super) fn open_if_exists(root: &Path) -> Result<Option<Arc<dyn Storage>>, JobError> {
    let directory = if_found(Directory::open(root)).map_err(|error| cannot_read(root, &error))?;
    directory.map(|directory| Ok(Disk.open(trusted(directory)?))).transpose()
}

/// Returns the manifest of the job in a directory, if there is one.
pub(super) fn stored_manifest(storage: &dyn Storage) -> Result<Option<Manifest>, JobError> {
    let path = storage.path().join(OWN_DIRECTORY).join("job.json");
    let bytes = if_found(record::read(storage, &path)).map_err(|error| cannot_read(&path, &error))?;
    bytes.map(|bytes| record::decode(&bytes)).transpose().map_err(|problem| problem.in_file(path.display()))
}

/// Returns the output directory with its control directory open, if there is one: what is checked here is what is used later.
///
/// # Errors
/// As [`check_owner`].
fn trusted(directory: Directory) -> Result<Directory, JobError> {
    let root = directory.stat().map_err(|error| cannot_read(directory.path(), &error))?;
    let own = directory.path().join(OWN_DIRECTORY);
    match directory.clone().pin(OWN_DIRECTORY) {
        Ok((pinned, found)) => check_owner(&own, &found, &root).map(|()| pinned),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(directory),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(not_a_directory(&own)),
        Err(error) => Err(cannot_read(&own, &error)),
    }
}

/// Refuses a control directory that another user may have created or can change, because its files say what a job removes. The
/// owner of the output directory itself is not checked: it may be a volume that was set up for this process.
///
/// # Errors
/// `Output`: the control directory belongs neither to this user nor to the owner of the output directory, or every user may
/// write to it.
fn check_owner(own: &Path, found: &Stat, root: &Stat) -> Result<(), JobError> {
    let (shown, user, owner) = (own.display(), geteuid().as_raw(), found.st_uid);
    if ![user, root.st_uid].contains(&owner) {
        return Err(JobError::output(message!(
            "{shown} belongs to user {owner}, who is neither this user ({user}) nor the owner of the output directory: choose another ",
            OptionName::Output
        )));
    }
    if Mode::from_raw_mode(found.st_mode).contains(Mode::WOTH) {
        return Err(JobError::output(format!(
            "every user may write to {shown}: remove that permission if you trust its content (chmod o-w {shown})"
        )));
    }
    Ok(())
}

/// Returns the directory if it exists and a job may use it, and `None` if it is missing and may be created.
///
/// # Errors
/// `Usage`: the name can't be that of a directory. `Output`: it is not a directory, or has files of another program.
pub(super) fn find_usable(root: &Path, fresh: bool) -> Result<Option<Arc<dyn Storage>>, JobError> {
    if root.as_os_str().is_empty() {
        return Err(JobError::usage(message!("the output directory has no name: give one with ", OptionName::Output)));
    }
    match fs::metadata(root) {
        Ok(metadata) if !metadata.is_dir() => Err(not_a_directory(root)),
        Ok(_) => {
            let directory = Directory::open(root).map_err(|error| unusable(root, &error))?;
            let storage = Disk.open(trusted(directory)?);
            refuse_foreign(storage.as_ref(), fresh).map(|()| Some(storage))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => check_new(root).map(|()| None),
        Err(error) => Err(unusable(root, &error)),
    }
}

/// Refuses a directory with files of another program. One of ours has a `job.json`, or only files of an interrupted start.
fn refuse_foreign(storage: &dyn Storage, fresh: bool) -> Result<(), JobError> {
    let root = storage.path();
    let own = root.join(OWN_DIRECTORY);
    if fresh && let Ok(bytes) = record::read(storage, &own.join("job.json")) {
        // Only files of ours may be removed.
        return match record::version(&bytes) {
            Ok(_) => Ok(()),
            Err(problem) => Err(problem.in_file(own.join("job.json").display())),
        };
    }
    let parts = part_files(storage)?;
    let looked = || -> io::Result<Option<Message>> {
        let is_ours = storage.exists(&own)?;
        if is_ours && (fresh || storage.exists(&own.join("job.json"))?) {
            return Ok(None);
        }
        let (shown, manifest) = (root.display(), own.join("job.json"));
        let manifest = manifest.display();
        let has_parts = !parts.is_empty();
        Ok(
            if is_ours
                && (has_parts
                    || has_other_entries(storage, &own, &["lock", "tmp", "log", heartbeat::NAME, series::NAME])?
                    || has_other_entries(storage, &own.join("log"), &[])?)
            {
                Some(message!("{manifest} is missing; ", recovery_advice()))
            } else if has_parts {
                Some(message!(
                    "{shown} contains results, but not the directory {OWN_DIRECTORY} that belongs to them: restore it from a copy, choose another ",
                    OptionName::Output,
                    ", or empty {shown} yourself"
                ))
            } else if has_other_entries(storage, root, &[OWN_DIRECTORY])? {
                Some(message!(
                    "{shown} is not empty and was not made by headgate: choose another ",
                    OptionName::Output,
                    ", or empty it yourself"
                ))
            } else {
                None
            },
        )
    };
    match looked() {
        Ok(None) => Ok(()),
        Ok(Some(problem)) => Err(JobError::output(problem)),
        Err(error) => Err(unusable(root, &error)),
    }
}

/// Returns the temporary files that an interrupted run has left, with their sizes: those that the newest commit does not add.
pub(super) fn left_over(storage: &dyn Storage, newest: &Commit) -> Result<Vec<(PathBuf, u64)>, JobError> {
    let (root, mut found) = (storage.path(), Vec::new());
    let looked = files_below(storage, &root.join(OWN_DIRECTORY).join("tmp"), &mut found);
    let is_added = |path: &Path| newest.adds.iter().any(|part| unplaced_path(root, &part.name) == path);
    found.retain(|(path, _)| !is_added(path));
    looked.map(|()| found).map_err(|error| cannot_read(root, &error))
}

fn files_below(storage: &dyn Storage, path: &Path, found: &mut Vec<(PathBuf, u64)>) -> io::Result<()> {
    for name in storage.names(path)? {
        let path = path.join(name?);
        if storage.is_directory(&path) {
            files_below(storage, &path, found)?;
        } else if let Some(metadata) = if_found(storage.metadata(&path))? {
            found.push((path, metadata.bytes));
        }
    }
    Ok(())
}

/// Returns whether a directory has entries other than these names. A missing directory has none.
fn has_other_entries(storage: &dyn Storage, path: &Path, names: &[&str]) -> io::Result<bool> {
    for name in storage.names(path)? {
        let name = name?;
        // A file that is being replaced has the suffix.
        let written = name.to_string_lossy();
        if !names.contains(&written.trim_end_matches(".new")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Creates a directory and its missing parents, and makes their names durable.
fn create_with_parents(path: &Path, storage: &dyn OpenStorage) -> io::Result<()> {
    let exists = |path: &Path| path.as_os_str().is_empty() || path.exists();
    let missing: Vec<_> = path.ancestors().take_while(|path| !exists(path)).collect();
    fs::create_dir_all(path)?;
    for created in missing {
        let parent = created.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        storage.open(Directory::open(parent)?).sync_directory(parent)?;
    }
    Ok(())
}

fn not_a_directory(path: &Path) -> JobError {
    let shown = path.display();
    JobError::output(message!("{shown} is not a directory: choose another ", OptionName::Output))
}

fn cannot_read(path: &Path, error: &io::Error) -> JobError {
    JobError::of_file("can't read", path.display(), error)
}

fn unusable(root: &Path, error: &io::Error) -> JobError {
    JobError::of_file("can't write to", root.display(), error)
}
