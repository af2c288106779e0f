//! The directory of a job: whose it is, who writes to it now, and how its parts and commits come to be there.
//!
//! ```text
//! OUT/part-00000001.parquet …    rows that were answered; complete at every moment
//! OUT/failed-00000001.parquet …  rows that failed
//! OUT/_headgate/job.json         what was asked
//! OUT/_headgate/log/             the commits
//! OUT/_headgate/lock             held by the process that writes
//! OUT/_headgate/tmp/             parts and saved bodies being written
//! OUT/_headgate/names/           there if bodies are saved: marks of their names, where the files themselves don't tell
//! ```
//!
//! The order of a commit: parts are written in `tmp` and synced; then the commit is, in one step; then what it removes is
//! removed and what it adds is renamed into place. Who reads while that happens may miss the newest rows, and never sees a
//! row twice. A commit whose last steps are missing is redone when the job is opened. So that a job which is said to be
//! finished is so for every reader, the commit that says it changes no parts.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::commit::{Commit, PartRecord};
use super::lock::{self, Lock};
use super::log::CommitLog;
use super::manifest::Manifest;
use super::place::check_new;
use super::record;
use super::results::{OWN_DIRECTORY, Results, part_files, unplaced};
use super::saved::{place_saved, remove_saved, remove_saved_unplaced, save_places};
use super::storage::{Storage, remove_if_there, write_file};
use crate::message;
use crate::model::error::{JobError, cause};
use crate::model::message::{Message, OptionName};
use crate::model::options::SaveFormat;
use crate::parts::read::ways_on;

/// A job's directory that this process alone writes to, until it is dropped.
#[derive(Debug)]
pub struct JobDirectory {
    root: PathBuf,
    /// The same, open from before the first file is written.
    opened: File,
    log: CommitLog,
    storage: Arc<dyn Storage>,
    _lock: Lock,
}

impl JobDirectory {
    /// Takes the directory, which is made if it is not there. Nothing in it is changed.
    pub(super) fn claim(root: &Path, fresh: bool, storage: Arc<dyn Storage>) -> Result<Self, JobError> {
        if !is_usable(root, fresh)? {
            create_with_parents(root, storage.as_ref()).map_err(|error| {
                let shown = root.display();
                JobError::output(format!("can't create the directory {shown}: {}", cause(&error)))
            })?;
        }
        let own = root.join(OWN_DIRECTORY);
        create_dir(&own).map_err(|error| unusable(root, &error))?;
        let lock = lock::acquire(&own.join("lock"))?;
        let opened = File::open(root).map_err(|error| unusable(root, &error))?;
        Ok(Self { root: root.to_owned(), opened, log: CommitLog::new(own.join("log")), storage, _lock: lock })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// What was asked of the job that is there; `None`: there is none.
    pub(super) fn manifest(&self) -> Result<Option<Manifest>, JobError> {
        read_manifest(&self.root)
    }

    /// Begins a job, removing what an earlier one left. A crash in between is made good by the next start.
    pub(super) fn begin(&self, manifest: &Manifest) -> Result<(), JobError> {
        let parts = part_files(&self.root)?;
        let began = || -> io::Result<()> {
            let (tmp, log) = (self.tmp(), self.log.path());
            for directory in [&tmp, log] {
                // A link out of here is not followed, but replaced.
                if fs::symlink_metadata(directory).is_ok_and(|metadata| !metadata.is_dir()) {
                    self.storage.remove(directory)?;
                }
                create_dir(directory)?;
            }
            let names = save_places(&self.root, SaveFormat::Files).names().to_owned();
            let saved = match self.manifest().ok().flatten() {
                Some(then) if then.clearing => then.clearing_saved,
                Some(then) => then.saves().is_some(),
                // It is gone or can't be read: then this tells.
                None => fs::symlink_metadata(&names).is_ok_and(|metadata| metadata.is_dir()),
            };
            let mut manifest = manifest.clone();
            (manifest.clearing, manifest.clearing_saved) = (true, saved);
            self.write_manifest(&manifest)?;
            for part in parts.keys() {
                if saved {
                    remove_saved(&self.root, part, self.storage.as_ref())?;
                }
                self.storage.remove(&self.root.join(part))?;
            }
            if saved {
                remove_saved_unplaced(&self.root, &tmp, self.storage.as_ref())?;
                remove_names(&names)?;
            }
            self.storage.sync_directory(&self.root)?;
            for directory in [log, &tmp] {
                self.clear(directory)?;
                self.storage.sync_directory(directory)?;
            }
            if manifest.saves().is_some() {
                create_dir(&names)?;
            }
            (manifest.clearing, manifest.clearing_saved) = (false, false);
            self.write_manifest(&manifest)
        };
        began().map_err(|error| unusable(&self.root, &error))
    }

    /// Writes down where the input is now, if it was moved, which origins get credentials, and no user that an older headgate has written down with it.
    pub(super) fn renew(&self, manifest: &Manifest) -> Result<(), JobError> {
        if stored_manifest(&self.root)?
            .is_some_and(|then| then.input == manifest.input && then.credentials_for == manifest.credentials_for)
        {
            return Ok(());
        }
        self.write_manifest(manifest).map_err(|error| unusable(&self.root, &error))
    }

    /// Whether it holds rows of an earlier job, in their places or not.
    ///
    /// # Errors
    /// `Output`: it can't be read.
    pub(super) fn holds_rows(&self) -> Result<bool, JobError> {
        match self.log.read() {
            Ok(Some(logged)) => Ok(logged.newest.done > 0),
            // Nobody knows what is in them.
            _ => Ok(!part_files(&self.root)?.is_empty()),
        }
    }

    /// Brings the directory to where the newest commit says it is. If what was committed is not all there, nothing is changed.
    pub(super) fn recover(&self) -> Result<Results, JobError> {
        let results = Results::claimed(&self.root)?;
        self.settle(results.newest.number).map_err(|error| unusable(&self.root, &error))?;
        let saves = self.manifest()?.and_then(|manifest| manifest.saves());
        self.apply(&results.newest, saves)?;
        if results.since_checkpoint == 0 {
            self.log.remove_before(results.newest.number, self.storage.as_ref())?;
        }
        self.clear(&self.tmp()).map_err(|error| unusable(&self.root, &error))?;
        Ok(results)
    }

    /// Makes durable what the steps that follow build on: the process that began may have been killed before it did.
    fn settle(&self, newest: u64) -> io::Result<()> {
        create_dir(&self.tmp())?;
        create_dir(self.log.path())?;
        self.storage.sync_directory(&self.own())?;
        if newest > 0 { self.storage.sync_directory(self.log.path()) } else { Ok(()) }
    }

    /// A new file for the part, where no reader looks.
    pub(super) fn create_part(&self, name: &str) -> io::Result<File> {
        self.storage.create(&unplaced(&self.root, name))
    }

    /// Makes a part durable that a commit is to name.
    pub(super) fn sync_part(&self, file: &File, name: &str) -> io::Result<()> {
        self.storage.sync_file(file, &unplaced(&self.root, name))
    }

    /// Removes a part that no commit will name. What stays behind is swept when the job is opened again.
    pub(super) fn discard(&self, name: &str) {
        let _ = self.storage.remove(&unplaced(&self.root, name));
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Makes the parts that the commit adds count, and those that it removes count no more: all of it or nothing, also if the machine
    /// stops in between.
    pub(super) fn commit(&self, commit: &Commit, saves: Option<SaveFormat>) -> Result<(), JobError> {
        if saves.is_some() {
            // The files of this commit, and the places of those before: one step for all of them.
            let synced = self.storage.sync_file_system(&self.opened, &self.root);
            synced.map_err(|error| unusable(&self.root, &error))?;
        }
        self.storage.sync_directory(&self.tmp()).map_err(|error| unusable(&self.root, &error))?;
        self.log.append(commit, self.storage.as_ref(), &self.tmp())?;
        self.apply(commit, saves)?;
        if commit.parts.is_some() { self.log.remove_before(commit.number, self.storage.as_ref()) } else { Ok(()) }
    }

    /// The steps that follow a commit, as far as they were not taken yet. What is removed goes first, so that no row is there twice.
    fn apply(&self, commit: &Commit, saves: Option<SaveFormat>) -> Result<(), JobError> {
        if let Some(format) = saves {
            place_saved(&self.root, commit, format, self.storage.as_ref())?;
        }
        let applied = || -> io::Result<()> {
            for name in &commit.removes {
                remove_if_there(self.storage.as_ref(), &self.root.join(name))?;
            }
            if !commit.removes.is_empty() {
                // Or a loss of power could bring back what was removed, beside what replaces it.
                self.storage.sync_directory(&self.root)?;
            }
            for part in &commit.adds {
                let placed = self.root.join(&part.name);
                match self.storage.rename(&unplaced(&self.root, &part.name), &placed) {
                    // It was renamed before.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && is_whole(&placed, part) => {}
                    result => result?,
                }
            }
            self.storage.sync_directory(&self.root)
        };
        applied().map_err(|error| unusable(&self.root, &error))
    }

    /// Removes what is in one of our directories; of `tmp`: what no commit names.
    fn clear(&self, directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                self.storage.remove(&entry.path())?;
            }
        }
        Ok(())
    }

    fn write_manifest(&self, manifest: &Manifest) -> io::Result<()> {
        let (written, placed) = (self.tmp().join("job.json"), self.own().join("job.json"));
        write_file(self.storage.as_ref(), &written, &record::encode(manifest)?)?;
        self.storage.rename(&written, &placed)?;
        self.storage.sync_directory(&self.own())?;
        self.storage.sync_directory(&self.root)
    }

    fn own(&self) -> PathBuf {
        self.root.join(OWN_DIRECTORY)
    }

    fn tmp(&self) -> PathBuf {
        self.own().join("tmp")
    }
}

/// What was asked of the job in a directory; `None`: there is none.
pub(super) fn read_manifest(root: &Path) -> Result<Option<Manifest>, JobError> {
    Ok(stored_manifest(root)?.map(Manifest::without_user))
}

fn stored_manifest(root: &Path) -> Result<Option<Manifest>, JobError> {
    let path = root.join(OWN_DIRECTORY).join("job.json");
    match record::read(&path) {
        Ok(bytes) => record::decode(&bytes).map(Some).map_err(|trouble| of_file(&path, trouble)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(JobError::output(format!("can't read {}: {}", path.display(), cause(&error)))),
    }
}

/// Whether there is a directory that a job may have. If not, one may be made there.
///
/// # Errors
/// `Usage`: no directory can be meant. `Output`: it is somebody else's, or no directory.
pub(super) fn is_usable(root: &Path, fresh: bool) -> Result<bool, JobError> {
    if root.as_os_str().is_empty() {
        return Err(JobError::usage(message!("the output directory has no name: give one with ", OptionName::Output)));
    }
    match fs::metadata(root) {
        Ok(metadata) if !metadata.is_dir() => {
            let shown = root.display();
            Err(JobError::output(message!("{shown} is not a directory: choose another ", OptionName::Output)))
        }
        Ok(_) => refuse_foreign(root, fresh).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => check_new(root).map(|()| false),
        Err(error) => Err(unusable(root, &error)),
    }
}

/// Refuses a directory with somebody else's files. Ours has a `job.json`, or is empty but for a start that was cut short.
fn refuse_foreign(root: &Path, fresh: bool) -> Result<(), JobError> {
    let own = root.join(OWN_DIRECTORY);
    if fresh && let Ok(bytes) = record::read(&own.join("job.json")) {
        // What is to be removed must be ours, at least.
        return match record::version(&bytes) {
            Ok(_) => Ok(()),
            Err(trouble) => Err(of_file(&own.join("job.json"), trouble)),
        };
    }
    let parts = part_files(root)?;
    let looked = || -> io::Result<Option<Message>> {
        let is_ours = own.try_exists()?;
        if own.join("job.json").try_exists()? || is_ours && fresh {
            return Ok(None);
        }
        let (shown, manifest) = (root.display(), own.join("job.json"));
        let manifest = manifest.display();
        let has_parts = !parts.is_empty();
        Ok(
            if is_ours
                && (has_parts || holds_others(&own, &["lock", "tmp", "log"])? || holds_others(&own.join("log"), &[])?)
            {
                Some(message!("{manifest} is missing; ", ways_on()))
            } else if has_parts {
                Some(message!(
                    "{shown} holds results, but not the directory {OWN_DIRECTORY} that belongs to them: restore it from a copy, choose another ",
                    OptionName::Output,
                    ", or empty {shown} yourself"
                ))
            } else if holds_others(root, &[OWN_DIRECTORY])? {
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
        Ok(Some(trouble)) => Err(JobError::output(trouble)),
        Err(error) => Err(unusable(root, &error)),
    }
}

/// Whether a directory holds anything but these names; one that is not there holds nothing.
fn holds_others(path: &Path, names: &[&str]) -> io::Result<bool> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if !names.iter().any(|known| *known == name) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn remove_names(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn is_whole(path: &Path, part: &PartRecord) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == part.bytes)
}

/// Makes a directory and those above it, durable by name.
fn create_with_parents(path: &Path, storage: &dyn Storage) -> io::Result<()> {
    let is_there = |path: &Path| path.as_os_str().is_empty() || path.exists();
    let missing: Vec<_> = path.ancestors().take_while(|path| !is_there(path)).collect();
    fs::create_dir_all(path)?;
    for made in missing {
        let parent = made.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        storage.sync_directory(parent)?;
    }
    Ok(())
}

fn create_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

fn of_file(path: &Path, trouble: Message) -> JobError {
    let shown = path.display();
    JobError::output(message!("{shown} ", trouble))
}

fn unusable(root: &Path, error: &io::Error) -> JobError {
    JobError::output(format!("can't write to {}: {}", root.display(), cause(error)))
}
