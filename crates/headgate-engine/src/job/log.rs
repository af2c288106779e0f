//! The commits of a job, one file each, numbered, never changed: `_headgate/log/00000000000000000001.json`.
//!
//! A commit has the changes since the commit before it. At intervals, a commit is a checkpoint, which lists all parts; the
//! commits before it are then removed. So the log has a bounded number of files, and a process that opens the job reads only
//! the commits since the newest checkpoint.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headgate_core::error::{JobError, cause};
use headgate_core::file_name::OWN_DIRECTORY;
use headgate_core::files::has_no_links;
use headgate_core::files::storage::Storage;
use headgate_core::message;
use headgate_core::message::Message;
use headgate_table::parts::read::recovery_advice;

use super::commit::{Commit, PartRecord};
use super::parts::PartList;
use super::record;
use super::tried_rows::TriedRows;

/// One commit in this many is a checkpoint. Each commit has a bitmap of at most half a megabyte, and is read when the job is
/// opened.
pub(super) const CHECKPOINT_EVERY: u64 = 32;
/// How often the log is read, if it is changed while it is read.
const MAX_READS: u32 = 8;

/// The commits in a directory.
#[derive(Debug, Clone)]
pub(super) struct CommitLog {
    storage: Arc<dyn Storage>,
    path: PathBuf,
}

/// The contents of a log.
#[derive(Debug)]
pub(super) struct LogContents {
    pub(super) newest: Commit,
    /// The current parts.
    pub(super) parts: Result<PartList, Gap>,
    /// Commits since the newest checkpoint.
    pub(super) since_checkpoint: u64,
}

/// The commits do not list the current parts, because one of them is damaged or missing.
#[derive(Debug)]
pub(super) struct Gap {
    pub(super) commit: PathBuf,
    /// The error, which names the commit.
    pub(super) error: JobError,
    /// The parts that the other commits list, by name.
    pub(super) known: BTreeMap<String, PartRecord>,
}

impl CommitLog {
    /// Returns the log of the job in this output directory.
    pub(super) fn new(storage: Arc<dyn Storage>) -> Self {
        Self { path: storage.path().join(OWN_DIRECTORY).join("log"), storage }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the contents of the log, or `None` if there is no commit yet. Another process may write to the log meanwhile.
    ///
    /// # Errors
    /// `Output`: the newest commit can't be read.
    pub(super) fn read(&self) -> Result<Option<LogContents>, JobError> {
        for _ in 1..MAX_READS {
            let newest = self.newest_number()?;
            let logged = self.read_from(newest);
            let is_sound = matches!(&logged, Ok(None | Some(LogContents { parts: Ok(_), .. })));
            // Commits that were listed may have been removed since, after a checkpoint.
            if is_sound || self.newest_number()? == newest {
                return logged;
            }
        }
        self.read_from(self.newest_number()?)
    }

    fn read_from(&self, newest: u64) -> Result<Option<LogContents>, JobError> {
        if newest == 0 {
            return Ok(None);
        }
        let newest = self.commit(newest)?;
        let mut changes: Vec<Commit> = Vec::new();
        let mut problem = None;
        let mut base = newest.parts.clone();
        let mut number = newest.number;
        while base.is_none() && number > 1 {
            number -= 1;
            match self.commit(number) {
                Ok(commit) => {
                    base.clone_from(&commit.parts);
                    changes.push(Commit { above: String::new(), tried: TriedRows::default(), ..commit });
                }
                Err(error) if problem.is_none() || self.storage.exists(&self.path_of(number)).unwrap_or(true) => {
                    problem.get_or_insert((number, error));
                }
                // Commits before a missing one may have been removed, too.
                Err(_) => break,
            }
        }
        let since_checkpoint = newest.number - number;
        changes.reverse();
        let parts = match problem {
            None => self.parts_of(&newest, base, &changes).map_err(|problem| (newest.number, problem)),
            Some(problem) => Err(problem),
        };
        let parts = parts.map_err(|(number, problem)| {
            let commits = changes.iter().chain([&newest]);
            let records = commits.flat_map(|commit| commit.adds.iter().chain(commit.parts.iter().flatten()));
            Gap {
                commit: self.path_of(number),
                error: problem,
                known: records.map(|part| (part.name.clone(), part.clone())).collect(),
            }
        });
        Ok(Some(LogContents { newest: Commit { parts: None, ..newest }, parts, since_checkpoint }))
    }

    /// Returns the current parts after these commits, the first of which is a checkpoint or the first commit of the job.
    fn parts_of(
        &self,
        newest: &Commit,
        checkpoint: Option<Vec<PartRecord>>,
        changes: &[Commit],
    ) -> Result<PartList, JobError> {
        let is_checkpoint = |commit: &&Commit| commit.parts.is_some();
        let mut parts = PartList::new(checkpoint.unwrap_or_default())
            .map_err(|problem| self.contradicts(changes.iter().find(is_checkpoint).unwrap_or(newest), &problem))?;
        for commit in changes.iter().chain([newest]).filter(|commit| !is_checkpoint(commit)) {
            parts.apply(commit).map_err(|problem| self.contradicts(commit, &problem))?;
        }
        if is_checkpoint(&newest) && !parts.follows(newest) {
            return Err(self.contradicts(newest, "it lists other parts than it leaves"));
        }
        if parts.is_that_of(newest) {
            return Ok(parts);
        }
        Err(self.contradicts(newest, "its parts don't match the commits before it"))
    }

    fn contradicts(&self, commit: &Commit, problem: &str) -> JobError {
        self.damaged(commit.number, message!("doesn't fit the other commits ({problem}); ", recovery_advice()))
    }

    /// Makes a commit durable. It is written in `tmp` first, so that it exists completely or not at all. Its number must be new.
    pub(super) fn append(&self, commit: &Commit, tmp: &Path) -> Result<(), JobError> {
        let (written, placed) = (tmp.join("commit.json"), self.path_of(commit.number));
        let bytes = record::encode(commit).map_err(|error| JobError::internal(format!("a commit: {error}")))?;
        if bytes.len() as u64 > record::MAX_BYTES {
            let problem = format!("{}: a commit of {} bytes can't be read", placed.display(), bytes.len());
            return Err(JobError::internal(problem));
        }
        let appended = self
            .storage
            .write(&written, &bytes)
            .and_then(|()| rename_new(self.storage.as_ref(), &written, &placed))
            .and_then(|()| self.storage.sync_directory(&self.path));
        appended.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => JobError::output(format!(
                "{} already exists: another process is writing to this job, so this one stops",
                placed.display()
            )),
            _ => JobError::of_file("can't write", placed.display(), &error),
        })
    }

    /// Removes the commits before a durable checkpoint. Commits that reappear after a loss of power have no effect.
    pub(super) fn remove_before(&self, checkpoint: u64) -> Result<(), JobError> {
        for number in self.numbers()?.into_iter().filter(|number| *number < checkpoint) {
            let path = self.path_of(number);
            self.storage
                .remove_if_exists(&path)
                .map_err(|error| JobError::of_file("can't remove", path.display(), &error))?;
        }
        Ok(())
    }

    fn commit(&self, number: u64) -> Result<Commit, JobError> {
        let bytes = record::read(self.storage.as_ref(), &self.path_of(number)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.damaged(number, message!("is missing; ", recovery_advice())),
            _ => self.damaged(number, format!("can't be read: {}", cause(&error))),
        })?;
        let commit: Commit =
            record::decode(&bytes).map_err(|problem| problem.in_file(self.path_of(number).display()))?;
        if commit.number == number {
            Ok(commit)
        } else {
            Err(self.damaged(number, message!("is a copy of another commit; ", recovery_advice())))
        }
    }

    /// Returns the number of the newest commit, or 0 if there is none.
    pub(super) fn newest_number(&self) -> Result<u64, JobError> {
        Ok(self.numbers()?.into_iter().max().unwrap_or_default())
    }

    fn numbers(&self) -> Result<Vec<u64>, JobError> {
        let unreadable = |error: io::Error| JobError::of_file("can't read", self.path.display(), &error);
        let mut numbers = Vec::new();
        for name in self.storage.names(&self.path).map_err(unreadable)? {
            let name = name.map_err(unreadable)?;
            let number = name.to_str().and_then(|name| name.strip_suffix(".json")?.parse().ok());
            numbers.extend(number.filter(|number| self.path_of(*number).file_name() == Some(&name)));
        }
        Ok(numbers)
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}.json"))
    }

    fn damaged(&self, number: u64, problem: impl Into<Message>) -> JobError {
        let path = self.path_of(number);
        JobError::storage(problem).in_file(path.display())
    }
}

/// Moves a file to a new name; an existing file is not replaced. The caller has the job's lock.
pub(super) fn rename_new(storage: &dyn Storage, from: &Path, to: &Path) -> io::Result<()> {
    match storage.rename_new(from, to) {
        // With the lock, checking first is enough.
        Err(error) if has_no_links(&error) => {
            if storage.exists(to)? {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            storage.rename(from, to)
        }
        renamed => renamed,
    }
}
