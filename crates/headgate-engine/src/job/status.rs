//! Reports the progress of a job. Nothing is changed, and a running job is not disturbed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use headgate_core::error::JobError;
use headgate_core::files::storage::Storage;
use headgate_core::live::Settings;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_table::parts::name::PartKind;
use headgate_table::parts::read::PartFile;
use serde::Serialize;

use super::commit::RunRecord;
use super::control::{Control, ControlFiles};
use super::directory::{open_if_exists, stored_manifest};
use super::lock::{self, Holder};
use super::manifest::Manifest;
use super::reservations::BudgetUse;
use super::results::{Contents, ResultFile, Results};

/// A job as of its newest commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    pub output: String,
    /// The input as the user named it.
    pub input: String,
    pub format: &'static str,
    /// The number of rows of the input, if it is known.
    pub rows: Option<u64>,
    /// The number of rows of a trial, which continues with a larger `max_rows`; `None`: the job reads all rows.
    pub max_rows: Option<u64>,
    pub done: u64,
    /// All rows below the watermark are done.
    pub watermark: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// Rows that failed, by kind of error, or by status as `status:503`.
    pub errors: BTreeMap<String, u64>,
    /// Requests of all runs, as far as they count for the budget. After a crash, those that were reserved are included.
    pub requests: u64,
    pub max_requests: Option<u64>,
    /// What rows have cost, in all runs. `None`: they have no costs.
    pub cost: Option<u64>,
    pub max_cost: Option<u64>,
    pub parts: u64,
    pub bytes: u64,
    /// Current parts that are not in their places yet: during a commit, or since a kill in its last steps.
    pub parts_to_place: u64,
    pub finished: bool,
    /// Whether the same command resumes the job.
    pub resumable: bool,
    /// Whether a process writes to the job now, and the id of that process.
    pub running: bool,
    pub pid: Option<u32>,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// The time of the newest commit.
    pub committed_at: Option<String>,
    /// A note for the user on the directory.
    pub note: Option<String>,
    #[serde(flatten)]
    pub settings: JobSettings,
    /// The number of runs that made a commit, and the last of these runs.
    pub run_count: u64,
    pub runs: Vec<RunRecord>,
}

/// The settings that were changed while the job ran. They apply until the job ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobSettings {
    pub set: Settings,
    /// Whether the job starts no requests until it is unpaused.
    pub paused: bool,
}

/// Returns the status of the job in a directory, and checks that its results are the committed ones: by names and lengths and,
/// if the job does not run and has at most 1 GiB of results, by contents.
///
/// # Errors
/// `Output`: there is no job, or it is damaged.
pub fn status(path: &Path) -> Result<Status, JobError> {
    of(path, Contents::IfSmall)
}

/// Returns the status as [`status`] does, and checks all contents, whatever their size.
///
/// # Errors
/// As [`status`].
pub fn checked_status(path: &Path) -> Result<Status, JobError> {
    of(path, Contents::All)
}

fn of(path: &Path, contents: Contents) -> Result<Status, JobError> {
    let storage = open(path)?;
    // The lock is read first: a run that ends in between is reported as running.
    let holder = lock::holder(storage.directory());
    let manifest = manifest(&storage)?;
    let results = Results::read(&storage, contents)?;
    let (control, problem) = match ControlFiles::new(storage).read() {
        Ok(control) => (control, None),
        Err(problem) => (Control::default(), Some(problem.into_message().to_string())),
    };
    let note = results.note().or(problem);
    let used = |budget: &BudgetUse| if holder == Holder::None { budget.reserved } else { budget.used };
    let Results { newest: commit, files, .. } = results;
    Ok(Status {
        note,
        output: path.display().to_string(),
        rows: commit.range.end.or(commit.input.as_ref().and_then(|input| input.rows)).or(manifest.input.rows),
        max_rows: commit.trial_rows(),
        input: manifest.input.name,
        format: manifest.spec.format.name(),
        done: commit.done,
        watermark: commit.watermark,
        succeeded: commit.totals.succeeded,
        failed: commit.totals.failed,
        errors: commit.totals.errors,
        requests: used(&commit.requests),
        max_requests: commit.requests.max,
        cost: Some(used(&commit.cost)).filter(|cost| *cost > 0 || commit.cost.max.is_some()),
        max_cost: commit.cost.max,
        parts: commit.totals.parts,
        bytes: commit.totals.bytes,
        parts_to_place: files.iter().filter(|file| !file.is_in_place).count() as u64,
        finished: commit.finished,
        resumable: manifest.input.fingerprint.is_some(),
        running: holder != Holder::None,
        pid: match holder {
            Holder::Process(pid) => pid,
            Holder::None => None,
        },
        started_at: manifest.started_at,
        committed_at: commit.runs.last().map(|run| run.committed_at.clone()),
        settings: JobSettings { set: control.set, paused: control.paused },
        run_count: commit.earlier_runs + commit.runs.len() as u64,
        runs: commit.runs,
    })
}

/// The parts of a job in the order of reading, with their schema and number of rows.
#[derive(Debug, Clone)]
pub struct Parts {
    pub files: Vec<PartFile>,
    pub schema: SchemaRef,
    /// The number of rows in all parts.
    pub rows: u64,
}

/// Returns the committed parts: those of succeeded rows first, then those of failed rows. Their contents are not checked, as a
/// reader checks them.
///
/// # Errors
/// As [`status`].
pub fn parts(path: &Path) -> Result<Parts, JobError> {
    parts_with(path, Contents::None, false)
}

/// Returns the parts as [`parts`] does, or only those of failed rows. Their contents are checked as in [`status`], for a caller
/// that does not read all of them.
///
/// # Errors
/// As [`status`].
pub(crate) fn checked_parts(path: &Path, only_failed: bool) -> Result<Parts, JobError> {
    parts_with(path, Contents::IfSmall, only_failed)
}

fn parts_with(path: &Path, contents: Contents, only_failed: bool) -> Result<Parts, JobError> {
    let storage = open(path)?;
    let manifest = manifest(&storage)?;
    let mut files = Results::read(&storage, contents)?.files;
    files.retain(|file| !only_failed || file.record.kind() == PartKind::Failed);
    let rows = files.iter().map(|file| file.record.rows).sum();
    let file = |ResultFile { path, record, .. }| PartFile { path, committed: Some((storage.clone(), record.crc32)) };
    Ok(Parts { files: files.into_iter().map(file).collect(), rows, schema: Arc::new(manifest.schema) })
}

/// Opens the directory of a job to read it.
///
/// # Errors
/// `Output`: there is no such directory, or it can't be read.
pub(super) fn open(path: &Path) -> Result<Arc<dyn Storage>, JobError> {
    open_if_exists(path)?.ok_or_else(|| JobError::output(format!("{}: no such directory", path.display())))
}

/// Returns the manifest of the job in a directory.
///
/// # Errors
/// `Output`: there is no job, or an earlier one is being replaced.
pub(super) fn manifest(storage: &Arc<dyn Storage>) -> Result<Manifest, JobError> {
    let shown = storage.path().display();
    match stored_manifest(storage.as_ref())? {
        None => Err(JobError::output(message!(
            "{shown} contains no job: name the directory that headgate fetch wrote to with ",
            OptionName::Output
        ))),
        Some(manifest) if manifest.clearing => {
            Err(JobError::output(format!("the job in {shown} was being started over: run headgate fetch again")))
        }
        Some(manifest) => Ok(manifest),
    }
}
