//! The commits of a job, one file each, numbered, never changed: `_headgate/log/00000000000000000001.json`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::commit::{Commit, PartRecord};
use super::record::{self, WAYS_ON};
use super::storage::{Storage, write_file};
use crate::error::JobError;
use crate::sink::cause;

/// The commits in a directory.
#[derive(Debug, Clone)]
pub(super) struct CommitLog {
    directory: PathBuf,
}

impl CommitLog {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(super) fn path(&self) -> &Path {
        &self.directory
    }

    /// The newest commit; it says all that is needed to go on. `None`: there is none yet.
    pub(super) fn newest(&self) -> Result<Option<Commit>, JobError> {
        self.numbers()?.into_iter().max().map(|number| self.read(number)).transpose()
    }

    /// The parts there should be, by name. Reads all commits, which only few need.
    pub(super) fn parts(&self) -> Result<BTreeMap<String, PartRecord>, JobError> {
        let mut numbers = self.numbers()?;
        numbers.sort_unstable();
        let mut parts = BTreeMap::new();
        for (number, expected) in numbers.into_iter().zip(1..) {
            if number != expected {
                return Err(self.damaged(expected, &format!("is missing; {WAYS_ON}")));
            }
            let commit = self.read(number)?;
            for name in &commit.removes {
                parts.remove(name);
            }
            parts.extend(commit.adds.into_iter().map(|part| (part.name.clone(), part)));
        }
        Ok(parts)
    }

    /// Makes a commit durable, written in `tmp` first: it is there whole or not at all, and no other has its number.
    pub(super) fn append(&self, commit: &Commit, storage: &dyn Storage, tmp: &Path) -> Result<(), JobError> {
        let (written, placed) = (tmp.join("commit.json"), self.path_of(commit.number));
        let bytes = record::encode(commit).map_err(|error| JobError::internal(format!("a commit: {error}")))?;
        let appended = write_file(storage, &written, &bytes)
            .and_then(|()| storage.rename_new(&written, &placed))
            .and_then(|()| storage.sync_directory(&self.directory));
        appended.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => JobError::output(format!(
                "{} is there already: somebody else writes to this job, which therefore stops",
                placed.display()
            )),
            _ => JobError::output(format!("cannot write {}: {}", placed.display(), cause(&error))),
        })
    }

    fn read(&self, number: u64) -> Result<Commit, JobError> {
        let bytes = record::read(&self.path_of(number))
            .map_err(|error| self.damaged(number, &format!("cannot be read: {}", cause(&error))))?;
        let commit: Commit = record::decode(&bytes).map_err(|trouble| self.damaged(number, &trouble))?;
        if commit.number == number {
            Ok(commit)
        } else {
            Err(self.damaged(number, &format!("is the copy of another commit; {WAYS_ON}")))
        }
    }

    fn numbers(&self) -> Result<Vec<u64>, JobError> {
        let unreadable =
            |error: io::Error| JobError::output(format!("cannot read {}: {}", self.directory.display(), cause(&error)));
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unreadable)?,
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(unreadable)?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".json")?.parse().ok());
            numbers.extend(number.filter(|number| self.path_of(*number).file_name() == Some(&name)));
        }
        Ok(numbers)
    }

    fn path_of(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{number:020}.json"))
    }

    fn damaged(&self, number: u64, trouble: &str) -> JobError {
        let path = self.path_of(number);
        JobError::output(format!("{} {trouble}", path.display()))
    }
}
