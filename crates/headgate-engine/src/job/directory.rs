//! The directory of a job: checks its owner, locks it for one writer, and applies commits to it.
//!
//! ```text
//! OUT/part-00000001.parquet …    rows that succeeded; complete at every moment
//! OUT/failed-00000001.parquet …  rows that failed
//! OUT/_headgate/job.json         the options and the input of the job
//! OUT/_headgate/log/             the commits
//! OUT/_headgate/lock             locked by the process that writes
//! OUT/_headgate/tmp/             parts and saved bodies being written
//! OUT/_headgate/names/           exists if bodies are saved: marks their names as used, where the files themselves don't show it
//! ```
//!
//! The order of a commit: parts are written in `tmp` and synced. Then the commit itself is written, in one step. Then the parts
//! that it removes are removed, and those that it adds are renamed into place. A process that reads meanwhile may miss the
//! newest rows, and never sees a row twice. A commit whose last steps are missing is completed when the job is opened. The
//! commit that marks a job as finished changes no parts, so every reader of a finished job finds all rows.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headgate_core::error::{JobError, cause};
use headgate_core::file_name::OWN_DIRECTORY;
use headgate_core::files::{Directory, SHARED};
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::SaveFormat;
use headgate_table::parts::read::recovery_advice;
use rustix::fs::{FileType, Mode};
use rustix::process::geteuid;

use super::commit::Commit;
use super::lock::{self, Lock};
use super::log::CommitLog;
use super::manifest::Manifest;
use super::place::check_new;
use super::record;
use super::results::{Results, part_files, unplaced_path};
use super::saved::{place_saved, remove_saved, remove_saved_unplaced, save_places};
use super::storage::{Storage, remove_if_exists, write_file};

/// A job's directory, locked for this process until it is dropped.
#[derive(Debug)]
pub struct JobDirectory {
    /// Opened before the first file is written.
    directory: Directory,
    log: CommitLog,
    storage: Arc<dyn Storage>,
    _lock: Lock,
}

impl JobDirectory {
    /// Locks the directory, and creates it if it is missing. No other file in it is changed.
    pub(super) fn open_locked(root: &Path, fresh: bool, storage: Arc<dyn Storage>) -> Result<Self, JobError> {
        if !is_usable(root, fresh)? {
            create_with_parents(root, storage.as_ref()).map_err(|error| {
                let shown = root.display();
                JobError::output(format!("can't create the directory {shown}: {}", cause(&error)))
            })?;
        }
        let directory = Directory::open(root).map_err(|error| unusable(root, &error))?;
        directory.create_directory(&root.join(OWN_DIRECTORY)).map_err(|error| unusable(root, &error))?;
        check_owner(&directory)?;
        let lock = lock::acquire(&directory)?;
        Ok(Self { log: CommitLog::new(directory.clone()), directory, storage, _lock: lock })
    }

    /// Returns the output directory, open.
    pub(super) fn opened(&self) -> &Directory {
        &self.directory
    }

    pub(super) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Returns the manifest of the job in this directory, if there is one.
    pub(super) fn manifest(&self) -> Result<Option<Manifest>, JobError> {
        stored_manifest(&self.directory)
    }

    /// Begins a job, and removes the files of an earlier one. After a crash in between, the next start continues with that.
    pub(super) fn begin(&self, manifest: &Manifest) -> Result<(), JobError> {
        let parts = part_files(&self.directory)?;
        let began = || -> io::Result<()> {
            let (tmp, log) = (self.tmp(), self.log.path());
            for path in [&tmp, log] {
                // A link is replaced and not followed.
                if self.directory.exists(path)? && !self.directory.is_directory(path) {
                    self.storage.remove(&self.directory, path)?;
                }
                self.directory.create_directory(path)?;
            }
            let names = save_places(&self.directory, SaveFormat::Files).names().to_owned();
            let saved = match self.manifest().ok().flatten() {
                Some(then) if then.clearing => then.clearing_saved,
                Some(then) => then.save_format().is_some(),
                // The manifest is missing or can't be read.
                None => self.directory.is_directory(&names),
            };
            let mut manifest = manifest.clone();
            (manifest.clearing, manifest.clearing_saved) = (true, saved);
            self.write_manifest(&manifest)?;
            for part in parts.keys() {
                if saved {
                    remove_saved(&self.directory, part, self.storage.as_ref())?;
                }
                self.storage.remove(&self.directory, &self.path_of(part))?;
            }
            if saved {
                remove_saved_unplaced(&self.directory, &tmp, self.storage.as_ref())?;
                remove_names(&self.directory, &names)?;
            }
            self.sync(self.root())?;
            for path in [log, &tmp] {
                self.clear(path)?;
                self.sync(path)?;
            }
            if manifest.save_format().is_some() {
                self.directory.create_directory(&names)?;
            }
            (manifest.clearing, manifest.clearing_saved) = (false, false);
            self.write_manifest(&manifest)
        };
        began().map_err(|error| self.unusable(&error))
    }

    /// Updates the stored manifest if the input was moved or other origins get credentials.
    pub(super) fn update_manifest(&self, manifest: &Manifest) -> Result<(), JobError> {
        if stored_manifest(&self.directory)?
            .is_some_and(|then| then.input == manifest.input && then.credentials_for == manifest.credentials_for)
        {
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
            _ => Ok(!part_files(&self.directory)?.is_empty()),
        }
    }

    /// Completes the last steps of the newest commit. If a committed part is missing or damaged, nothing is changed.
    pub(super) fn recover(&self) -> Result<Results, JobError> {
        let results = Results::read_locked(&self.directory)?;
        self.sync_begun(results.newest.number).map_err(|error| self.unusable(&error))?;
        let save_format = self.manifest()?.and_then(|manifest| manifest.save_format());
        self.apply(&results.newest, save_format)?;
        if results.since_checkpoint == 0 {
            self.log.remove_before(results.newest.number, self.storage.as_ref())?;
        }
        self.clear(&self.tmp()).map_err(|error| self.unusable(&error))?;
        Ok(results)
    }

    /// Makes the directories durable that the following steps need: the process that began the job may have been killed before.
    fn sync_begun(&self, newest: u64) -> io::Result<()> {
        self.directory.create_directory(&self.tmp())?;
        self.directory.create_directory(self.log.path())?;
        self.sync(&self.own())?;
        if newest > 0 { self.sync(self.log.path()) } else { Ok(()) }
    }

    /// Creates a file for a part, where no reader looks for it.
    pub(super) fn create_part(&self, name: &str) -> io::Result<File> {
        self.storage.create(&self.directory, &unplaced_path(&self.directory, name), SHARED)
    }

    /// Makes a part durable, before a commit names it.
    pub(super) fn sync_part(&self, file: &File, name: &str) -> io::Result<()> {
        self.storage.sync_file(file, &unplaced_path(&self.directory, name))
    }

    /// Removes a part that no commit will name. If that fails, the file is removed when the job is opened again.
    pub(super) fn discard(&self, name: &str) {
        let _ = self.storage.remove(&self.directory, &unplaced_path(&self.directory, name));
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a commit, and applies it: completely or not at all, even if the machine stops in between.
    pub(super) fn commit(&self, commit: &Commit, save_format: Option<SaveFormat>) -> Result<(), JobError> {
        self.directory.check_path().map_err(|error| self.unusable(&error))?;
        if save_format.is_some() {
            // One step makes the files of this commit durable, and the places of earlier ones.
            self.storage.sync_file_system(&self.directory).map_err(|error| self.unusable(&error))?;
        }
        self.sync(&self.tmp()).map_err(|error| self.unusable(&error))?;
        self.log.append(commit, self.storage.as_ref(), &self.tmp())?;
        self.apply(commit, save_format)?;
        if commit.parts.is_some() { self.log.remove_before(commit.number, self.storage.as_ref()) } else { Ok(()) }
    }

    /// Takes the steps that follow a commit, as far as they are missing. Parts are removed first, so that no row exists twice.
    fn apply(&self, commit: &Commit, save_format: Option<SaveFormat>) -> Result<(), JobError> {
        if let Some(format) = save_format {
            place_saved(&self.directory, commit, format, self.storage.as_ref())?;
        }
        let applied = || -> io::Result<()> {
            for name in &commit.removes {
                remove_if_exists(self.storage.as_ref(), &self.directory, &self.path_of(name))?;
            }
            if !commit.removes.is_empty() {
                // Otherwise, a loss of power could bring back removed parts beside those that replace them.
                self.sync(self.root())?;
            }
            for part in &commit.adds {
                let (written, placed) = (unplaced_path(&self.directory, &part.name), self.path_of(&part.name));
                match self.storage.rename(&self.directory, &written, &placed) {
                    // It was renamed before.
                    Err(error)
                        if error.kind() == io::ErrorKind::NotFound
                            && self.directory.is_file_of(&placed, part.bytes) => {}
                    result => result?,
                }
            }
            self.sync(self.root())
        };
        applied().map_err(|error| self.unusable(&error))
    }

    /// Removes the contents of one of our directories. In `tmp`, these are files that no commit names.
    fn clear(&self, directory: &Path) -> io::Result<()> {
        for entry in self.directory.entries(directory)? {
            let (name, kind) = entry?;
            let path = directory.join(name);
            if kind == FileType::Directory {
                self.directory.remove_directory(&path)?;
            } else {
                self.storage.remove(&self.directory, &path)?;
            }
        }
        Ok(())
    }

    fn write_manifest(&self, manifest: &Manifest) -> io::Result<()> {
        let (written, placed) = (self.tmp().join("job.json"), self.own().join("job.json"));
        write_file(self.storage.as_ref(), &self.directory, &written, &record::encode(manifest)?)?;
        self.storage.rename(&self.directory, &written, &placed)?;
        self.sync(&self.own())?;
        self.sync(self.root())
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.storage.sync_directory(&self.directory, path)
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

/// Returns the manifest of the job in a directory, if there is one.
pub(super) fn read_manifest(root: &Path) -> Result<Option<Manifest>, JobError> {
    match Directory::open(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(JobError::output(format!("can't read {}: {}", root.display(), cause(&error)))),
        Ok(directory) => stored_manifest(&directory),
    }
}

fn stored_manifest(directory: &Directory) -> Result<Option<Manifest>, JobError> {
    let path = directory.path().join(OWN_DIRECTORY).join("job.json");
    check_owner(directory)?;
    match record::read(directory, &path) {
        Ok(bytes) => record::decode(&bytes).map(Some).map_err(|problem| of_file(&path, problem)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(JobError::output(format!("can't read {}: {}", path.display(), cause(&error)))),
    }
}

/// Refuses a control directory that another user may have created or can change, because its files say what a job removes. The
/// owner of the output directory itself is not checked: it may be a volume that was set up for this process.
///
/// # Errors
/// `Output`: the control directory belongs neither to this user nor to the owner of the output directory, every user may write
/// to it, or it is not a directory.
fn check_owner(directory: &Directory) -> Result<(), JobError> {
    let own = directory.path().join(OWN_DIRECTORY);
    let shown = own.display();
    let looked = directory.look(&own).and_then(|found| Ok((found, directory.stat()?)));
    let (found, root) = match looked {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        looked => looked.map_err(|error| JobError::output(format!("can't read {shown}: {}", cause(&error))))?,
    };
    let user = geteuid().as_raw();
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return Err(JobError::output(message!("{shown} is not a directory: choose another ", OptionName::Output)));
    }
    if ![user, root.st_uid].contains(&found.st_uid) {
        let owner = found.st_uid;
        return Err(JobError::output(message!(
            "{shown} belongs to user {owner}, who is neither this user ({user}) nor the owner of the output directory: choose another ",
            OptionName::Output
        )));
    }
    if Mode::from_raw_mode(found.st_mode).contains(Mode::WOTH) {
        return Err(JobError::output(format!(
            "every user may write to {shown}: take that away if you trust what is in it (chmod o-w {shown})"
        )));
    }
    Ok(())
}

/// Returns `true` if the directory exists and a job may use it, and `false` if it is missing and may be created.
///
/// # Errors
/// `Usage`: the name can't be that of a directory. `Output`: it is not a directory, or has files of another program.
pub(super) fn is_usable(root: &Path, fresh: bool) -> Result<bool, JobError> {
    if root.as_os_str().is_empty() {
        return Err(JobError::usage(message!("the output directory has no name: give one with ", OptionName::Output)));
    }
    match fs::metadata(root) {
        Ok(metadata) if !metadata.is_dir() => {
            let shown = root.display();
            Err(JobError::output(message!("{shown} is not a directory: choose another ", OptionName::Output)))
        }
        Ok(_) => {
            let directory = Directory::open(root).map_err(|error| unusable(root, &error))?;
            refuse_foreign(&directory, fresh).map(|()| true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => check_new(root).map(|()| false),
        Err(error) => Err(unusable(root, &error)),
    }
}

/// Refuses a directory with files of another program. One of ours has a `job.json`, or only files of an interrupted start.
fn refuse_foreign(directory: &Directory, fresh: bool) -> Result<(), JobError> {
    check_owner(directory)?;
    let root = directory.path();
    let own = root.join(OWN_DIRECTORY);
    if fresh && let Ok(bytes) = record::read(directory, &own.join("job.json")) {
        // Only files of ours may be removed.
        return match record::version(&bytes) {
            Ok(_) => Ok(()),
            Err(problem) => Err(of_file(&own.join("job.json"), problem)),
        };
    }
    let parts = part_files(directory)?;
    let looked = || -> io::Result<Option<Message>> {
        let is_ours = directory.exists(&own)?;
        if is_ours && (fresh || directory.exists(&own.join("job.json"))?) {
            return Ok(None);
        }
        let (shown, manifest) = (root.display(), own.join("job.json"));
        let manifest = manifest.display();
        let has_parts = !parts.is_empty();
        Ok(
            if is_ours
                && (has_parts
                    || has_other_entries(directory, &own, &["lock", "tmp", "log"])?
                    || has_other_entries(directory, &own.join("log"), &[])?)
            {
                Some(message!("{manifest} is missing; ", recovery_advice()))
            } else if has_parts {
                Some(message!(
                    "{shown} holds results, but not the directory {OWN_DIRECTORY} that belongs to them: restore it from a copy, choose another ",
                    OptionName::Output,
                    ", or empty {shown} yourself"
                ))
            } else if has_other_entries(directory, root, &[OWN_DIRECTORY])? {
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

/// Returns whether a directory has entries other than these names. A missing directory has none.
fn has_other_entries(directory: &Directory, path: &Path, names: &[&str]) -> io::Result<bool> {
    let entries = match directory.entries(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        let (name, _) = entry?;
        if !names.iter().any(|known| *known == name) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn remove_names(directory: &Directory, path: &Path) -> io::Result<()> {
    match directory.remove_directory(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Creates a directory and its missing parents, and makes their names durable.
fn create_with_parents(path: &Path, storage: &dyn Storage) -> io::Result<()> {
    let exists = |path: &Path| path.as_os_str().is_empty() || path.exists();
    let missing: Vec<_> = path.ancestors().take_while(|path| !exists(path)).collect();
    fs::create_dir_all(path)?;
    for created in missing {
        let parent = created.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        storage.sync_directory(&Directory::open(parent)?, parent)?;
    }
    Ok(())
}

fn of_file(path: &Path, problem: Message) -> JobError {
    let shown = path.display();
    JobError::output(message!("{shown} ", problem))
}

fn unusable(root: &Path, error: &io::Error) -> JobError {
    JobError::output(format!("can't write to {}: {}", root.display(), cause(error)))
}
