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

use headgate_core::error::{JobError, cause};
use headgate_core::file_name::OWN_DIRECTORY;
use headgate_core::files::{Directory, SHARED};
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::SaveFormat;
use headgate_table::parts::read::ways_on;
use rustix::fs::{FileType, Mode};
use rustix::process::geteuid;

use super::commit::Commit;
use super::lock::{self, Lock};
use super::log::CommitLog;
use super::manifest::Manifest;
use super::place::check_new;
use super::record;
use super::results::{Results, part_files, unplaced};
use super::saved::{place_saved, remove_saved, remove_saved_unplaced, save_places};
use super::storage::{Storage, remove_if_there, write_file};

/// A job's directory that this process alone writes to, until it is dropped.
#[derive(Debug)]
pub struct JobDirectory {
    /// Open from before the first file is written.
    directory: Directory,
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

    /// What was asked of the job that is there; `None`: there is none.
    pub(super) fn manifest(&self) -> Result<Option<Manifest>, JobError> {
        Ok(stored_manifest(&self.directory)?.map(Manifest::without_user))
    }

    /// Begins a job, removing what an earlier one left. A crash in between is made good by the next start.
    pub(super) fn begin(&self, manifest: &Manifest) -> Result<(), JobError> {
        let parts = part_files(&self.directory)?;
        let began = || -> io::Result<()> {
            let (tmp, log) = (self.tmp(), self.log.path());
            for path in [&tmp, log] {
                // A link out of here is not followed, but replaced.
                if self.directory.exists(path)? && !self.directory.is_directory(path) {
                    self.storage.remove(&self.directory, path)?;
                }
                self.directory.create_directory(path)?;
            }
            let names = save_places(&self.directory, SaveFormat::Files).names().to_owned();
            let saved = match self.manifest().ok().flatten() {
                Some(then) if then.clearing => then.clearing_saved,
                Some(then) => then.saves().is_some(),
                // It is gone or can't be read: then this tells.
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
            if manifest.saves().is_some() {
                self.directory.create_directory(&names)?;
            }
            (manifest.clearing, manifest.clearing_saved) = (false, false);
            self.write_manifest(&manifest)
        };
        began().map_err(|error| self.unusable(&error))
    }

    /// Writes down where the input is now, if it was moved, which origins get credentials, and no user that an older headgate has written down with it.
    pub(super) fn renew(&self, manifest: &Manifest) -> Result<(), JobError> {
        if stored_manifest(&self.directory)?
            .is_some_and(|then| then.input == manifest.input && then.credentials_for == manifest.credentials_for)
        {
            return Ok(());
        }
        self.write_manifest(manifest).map_err(|error| self.unusable(&error))
    }

    /// Whether it holds rows of an earlier job, in their places or not.
    ///
    /// # Errors
    /// `Output`: it can't be read.
    pub(super) fn holds_rows(&self) -> Result<bool, JobError> {
        match self.log.read() {
            Ok(Some(logged)) => Ok(logged.newest.done > 0),
            // Nobody knows what is in them.
            _ => Ok(!part_files(&self.directory)?.is_empty()),
        }
    }

    /// Brings the directory to where the newest commit says it is. If what was committed is not all there, nothing is changed.
    pub(super) fn recover(&self) -> Result<Results, JobError> {
        let results = Results::claimed(&self.directory)?;
        self.settle(results.newest.number).map_err(|error| self.unusable(&error))?;
        let saves = self.manifest()?.and_then(|manifest| manifest.saves());
        self.apply(&results.newest, saves)?;
        if results.since_checkpoint == 0 {
            self.log.remove_before(results.newest.number, self.storage.as_ref())?;
        }
        self.clear(&self.tmp()).map_err(|error| self.unusable(&error))?;
        Ok(results)
    }

    /// Makes durable what the steps that follow build on: the process that began may have been killed before it did.
    fn settle(&self, newest: u64) -> io::Result<()> {
        self.directory.create_directory(&self.tmp())?;
        self.directory.create_directory(self.log.path())?;
        self.sync(&self.own())?;
        if newest > 0 { self.sync(self.log.path()) } else { Ok(()) }
    }

    /// A new file for the part, where no reader looks.
    pub(super) fn create_part(&self, name: &str) -> io::Result<File> {
        self.storage.create(&self.directory, &unplaced(&self.directory, name), SHARED)
    }

    /// Makes a part durable that a commit is to name.
    pub(super) fn sync_part(&self, file: &File, name: &str) -> io::Result<()> {
        self.storage.sync_file(file, &unplaced(&self.directory, name))
    }

    /// Removes a part that no commit will name. What stays behind is swept when the job is opened again.
    pub(super) fn discard(&self, name: &str) {
        let _ = self.storage.remove(&self.directory, &unplaced(&self.directory, name));
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Makes the parts that the commit adds count, and those that it removes count no more: all of it or nothing, also if the machine
    /// stops in between.
    pub(super) fn commit(&self, commit: &Commit, saves: Option<SaveFormat>) -> Result<(), JobError> {
        self.directory.check_path().map_err(|error| self.unusable(&error))?;
        if saves.is_some() {
            // The files of this commit, and the places of those before: one step for all of them.
            self.storage.sync_file_system(&self.directory).map_err(|error| self.unusable(&error))?;
        }
        self.sync(&self.tmp()).map_err(|error| self.unusable(&error))?;
        self.log.append(commit, self.storage.as_ref(), &self.tmp())?;
        self.apply(commit, saves)?;
        if commit.parts.is_some() { self.log.remove_before(commit.number, self.storage.as_ref()) } else { Ok(()) }
    }

    /// The steps that follow a commit, as far as they were not taken yet. What is removed goes first, so that no row is there twice.
    fn apply(&self, commit: &Commit, saves: Option<SaveFormat>) -> Result<(), JobError> {
        if let Some(format) = saves {
            place_saved(&self.directory, commit, format, self.storage.as_ref())?;
        }
        let applied = || -> io::Result<()> {
            for name in &commit.removes {
                remove_if_there(self.storage.as_ref(), &self.directory, &self.path_of(name))?;
            }
            if !commit.removes.is_empty() {
                // Or a loss of power could bring back what was removed, beside what replaces it.
                self.sync(self.root())?;
            }
            for part in &commit.adds {
                let (written, placed) = (unplaced(&self.directory, &part.name), self.path_of(&part.name));
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

    /// Removes what is in one of our directories; of `tmp`: what no commit names.
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

/// What was asked of the job in a directory; `None`: there is none.
pub(super) fn read_manifest(root: &Path) -> Result<Option<Manifest>, JobError> {
    match Directory::open(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(JobError::output(format!("can't read {}: {}", root.display(), cause(&error)))),
        Ok(directory) => Ok(stored_manifest(&directory)?.map(Manifest::without_user)),
    }
}

fn stored_manifest(directory: &Directory) -> Result<Option<Manifest>, JobError> {
    let path = directory.path().join(OWN_DIRECTORY).join("job.json");
    check_owner(directory)?;
    match record::read(directory, &path) {
        Ok(bytes) => record::decode(&bytes).map(Some).map_err(|trouble| of_file(&path, trouble)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(JobError::output(format!("can't read {}: {}", path.display(), cause(&error)))),
    }
}

/// Refuses a control directory that another user may have made or may change, because its files say what a job removes. The
/// owner of the output directory itself is not checked: it may be a volume that was set up for this process.
///
/// # Errors
/// `Output`: it belongs neither to this user nor to the owner of the output directory, every user may write to it, or it is no
/// directory.
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
        Ok(_) => {
            let directory = Directory::open(root).map_err(|error| unusable(root, &error))?;
            refuse_foreign(&directory, fresh).map(|()| true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => check_new(root).map(|()| false),
        Err(error) => Err(unusable(root, &error)),
    }
}

/// Refuses a directory with somebody else's files. Ours has a `job.json`, or is empty but for a start that was cut short.
fn refuse_foreign(directory: &Directory, fresh: bool) -> Result<(), JobError> {
    check_owner(directory)?;
    let root = directory.path();
    let own = root.join(OWN_DIRECTORY);
    if fresh && let Ok(bytes) = record::read(directory, &own.join("job.json")) {
        // What is to be removed must be ours, at least.
        return match record::version(&bytes) {
            Ok(_) => Ok(()),
            Err(trouble) => Err(of_file(&own.join("job.json"), trouble)),
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
                    || holds_others(directory, &own, &["lock", "tmp", "log"])?
                    || holds_others(directory, &own.join("log"), &[])?)
            {
                Some(message!("{manifest} is missing; ", ways_on()))
            } else if has_parts {
                Some(message!(
                    "{shown} holds results, but not the directory {OWN_DIRECTORY} that belongs to them: restore it from a copy, choose another ",
                    OptionName::Output,
                    ", or empty {shown} yourself"
                ))
            } else if holds_others(directory, root, &[OWN_DIRECTORY])? {
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
fn holds_others(directory: &Directory, path: &Path, names: &[&str]) -> io::Result<bool> {
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

/// Makes a directory and those above it, durable by name.
fn create_with_parents(path: &Path, storage: &dyn Storage) -> io::Result<()> {
    let is_there = |path: &Path| path.as_os_str().is_empty() || path.exists();
    let missing: Vec<_> = path.ancestors().take_while(|path| !is_there(path)).collect();
    fs::create_dir_all(path)?;
    for made in missing {
        let parent = made.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        storage.sync_directory(&Directory::open(parent)?, parent)?;
    }
    Ok(())
}

fn of_file(path: &Path, trouble: Message) -> JobError {
    let shown = path.display();
    JobError::output(message!("{shown} ", trouble))
}

fn unusable(root: &Path, error: &io::Error) -> JobError {
    JobError::output(format!("can't write to {}: {}", root.display(), cause(error)))
}
