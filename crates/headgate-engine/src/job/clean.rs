//! Removes the files of a job that no commit names: those that an interrupted run has left, and replaced ones that were kept
//! for readers.

use std::path::Path;

use headgate_core::error::JobError;
use headgate_core::files::storage::OpenStorage;
use headgate_table::parts::name::PartName;
use serde::Serialize;

use super::directory::{JobDirectory, left_over};
use super::heartbeat::RunDescription;
use super::lock;
use super::results::{Listed, Results, check_added, part_like_files};
use super::status;

/// The files that were removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cleaned {
    pub output: String,
    pub files: Vec<CleanedFile>,
    /// The size of all of them.
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CleanedFile {
    pub path: String,
    pub bytes: u64,
}

/// Completes the newest commit of the job in a directory, and removes part files and temporary files that it does not name.
/// Other files stay. With `dry_run`, nothing is changed, and the files are returned that would be removed.
///
/// # Errors
/// `Output`: there is no job, another process writes to it, or it is damaged; then nothing is removed.
pub fn clean(path: &Path, dry_run: bool, storage: &dyn OpenStorage) -> Result<Cleaned, JobError> {
    let found = status::open(path)?;
    let run = RunDescription::of_job("clean", &status::manifest(&found)?);
    let mut directory = None;
    if dry_run {
        lock::check_free(found.directory())?;
    } else {
        directory = Some(JobDirectory::open_locked(path, false, run, storage)?);
    }
    let storage = directory.as_ref().map_or(found, |directory| directory.storage().clone());
    let listed = Listed::read(&storage)?;
    if listed.newest.number == 0 {
        // Files without commits may be all that is left of a job.
        Results::read_locked(&storage)?;
    }
    check_added(storage.as_ref(), &listed.newest, &listed.locate(storage.as_ref())?)?;
    let is_named = |name: &str| {
        let is_placeholder = PartName::parse(name).is_some_and(|name| name.is_placeholder());
        listed.parts.has(name) || is_placeholder && listed.parts.len() == 0
    };
    let mut unnamed = part_like_files(storage.as_ref())?;
    unnamed.retain(|name, _| !is_named(name));
    if let Some(directory) = &mut directory {
        directory.complete(&listed.newest, &listed.parts)?;
    }
    let left_over = left_over(storage.as_ref(), &listed.newest)?;
    if let Some(directory) = &directory {
        directory.remove_parts(unnamed.keys())?;
        directory.clear_tmp()?;
    }
    let unnamed = unnamed.into_iter().map(|(name, bytes)| (storage.path().join(name), bytes));
    let files = unnamed.chain(left_over).map(|(path, bytes)| CleanedFile { path: path.display().to_string(), bytes });
    let files: Vec<CleanedFile> = files.collect();
    let bytes = files.iter().map(|file| file.bytes).sum();
    Ok(Cleaned { output: path.display().to_string(), files, bytes })
}
