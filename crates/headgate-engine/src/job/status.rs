//! How far a job is, for whoever looks: nothing is changed, and a job that runs is not disturbed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use serde::Serialize;

use super::commit::{Commit, RunRecord};
use super::directory::{OWN_DIRECTORY, newest_commit, part_files, read_manifest};
use super::lock::{self, Holder};
use super::manifest::Manifest;
use crate::error::JobError;
use crate::options::Format;
use crate::sink::{PartName, cause};

/// A job as of its newest commit.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    pub output: String,
    /// As it was given.
    pub input: String,
    pub format: String,
    /// Rows of the input, where they are known.
    pub rows: Option<u64>,
    pub done: u64,
    /// All rows below it are done.
    pub watermark: u64,
    pub answered: u64,
    pub failed: u64,
    /// Rows that failed, by kind of error, or by status as `status:503`.
    pub errors: BTreeMap<String, u64>,
    pub parts: u64,
    pub bytes: u64,
    pub finished: bool,
    /// Whether the same command goes on with it.
    pub resumable: bool,
    /// Whether a process writes to it now, and which.
    pub running: bool,
    pub pid: Option<u32>,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// When the newest commit was made.
    pub committed_at: Option<String>,
    /// Runs that made a commit, and the last of them.
    pub run_count: u64,
    pub runs: Vec<RunRecord>,
}

/// Reads how far the job in a directory is.
///
/// # Errors
/// `Output`: there is no job, or it is damaged.
pub fn status(path: &Path) -> Result<Status, JobError> {
    // The lock first: a run that ends in between is then said to run, which it did when it was asked for.
    let holder = lock::look(&path.join(OWN_DIRECTORY).join("lock"));
    let manifest = manifest(path)?;
    let commit = newest_commit(path)?.unwrap_or_else(Commit::zero);
    Ok(Status {
        output: path.display().to_string(),
        rows: commit.range.end.or(manifest.input.rows),
        input: manifest.input.name,
        format: manifest.asked.format,
        done: commit.done,
        watermark: commit.watermark,
        answered: commit.totals.answered,
        failed: commit.totals.failed,
        errors: commit.totals.errors,
        parts: commit.totals.parts,
        bytes: commit.totals.bytes,
        finished: commit.finished,
        resumable: manifest.input.fingerprint.is_some(),
        running: holder != Holder::Nobody,
        pid: match holder {
            Holder::Process(pid) => pid,
            Holder::Nobody => None,
        },
        started_at: manifest.started_at,
        committed_at: commit.runs.last().map(|run| run.committed_at.clone()),
        run_count: commit.earlier_runs + commit.runs.len() as u64,
        runs: commit.runs,
    })
}

/// The parts of a job, in the order of reading, and what they hold.
#[derive(Debug, Clone)]
pub struct Parts {
    pub paths: Vec<PathBuf>,
    pub schema: SchemaRef,
    pub format: Format,
}

/// The parts that can be read now: answered rows first, then those that were given up.
///
/// # Errors
/// As [`status`].
pub fn parts(path: &Path) -> Result<Parts, JobError> {
    let manifest = manifest(path)?;
    let unreadable = |error: io::Error| JobError::output(format!("cannot read {}: {}", path.display(), cause(&error)));
    let commit = newest_commit(path)?.unwrap_or_else(Commit::zero);
    let mut parts: BTreeMap<PartName, PathBuf> = BTreeMap::new();
    let mut add =
        |name: &str, directory: &Path| parts.extend(PartName::parse(name).map(|part| (part, directory.join(name))));
    // The last steps of the commit may be missing, after a kill or for an instant: what it says counts.
    let tmp = path.join(OWN_DIRECTORY).join("tmp");
    commit.adds.iter().for_each(|part| add(&part.name, &tmp));
    part_files(path).map_err(unreadable)?.keys().for_each(|name| add(name, path));
    for part in commit.removes.iter().filter_map(|name| PartName::parse(name)) {
        parts.remove(&part);
    }
    Ok(Parts { paths: parts.into_values().collect(), format: manifest.format(), schema: Arc::new(manifest.schema) })
}

/// What was asked of the job in a directory.
pub(super) fn manifest(path: &Path) -> Result<Manifest, JobError> {
    let missing = || {
        let shown = path.display();
        JobError::output(match path.try_exists() {
            Ok(false) => format!("{shown}: no such directory"),
            _ => format!("{shown} holds no job: name the directory that headgate fetch wrote to with -o"),
        })
    };
    let manifest = read_manifest(path)?.ok_or_else(missing)?;
    if manifest.clearing {
        let shown = path.display();
        return Err(JobError::output(format!("the job in {shown} was being started over: run headgate fetch again")));
    }
    Ok(manifest)
}
