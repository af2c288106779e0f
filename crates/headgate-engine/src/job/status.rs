//! Reports the progress of a job. Nothing is changed, and a running job is not disturbed.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use headgate_core::error::JobError;
use headgate_core::file_name::OWN_DIRECTORY;
use headgate_core::files::storage::Storage;
use headgate_core::live::Settings;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::options::Format;
use headgate_table::parts::name::{PartKind, PartName};
use headgate_table::parts::read::{PartFile, describe_part};
use serde::Serialize;

use super::commit::{Commit, PartRecord, RunRecord};
use super::control::{Control, ControlFiles};
use super::delta::DeltaLog;
use super::directory::{open_if_exists, stored_manifest};
use super::heartbeat::{Beat, RunDescription};
use super::lock::{self, Holder};
use super::manifest::Manifest;
use super::process::activity_of;
pub use super::process::{Activity, JobProcess};
use super::reservations::BudgetUse;
use super::results::{Contents, MAX_READS, READ_INTERVAL, ResultFile, Results};

/// The maximum number of parts that are opened before their rows are read.
const MAX_OPEN_PARTS: usize = 512;

/// How long a process that starts a job may take to lock it and to write its first heartbeat: it does nothing in between.
const LONGEST_START: Duration = Duration::from_secs(1);
/// A process that runs writes a heartbeat within this time, however busy its machine is.
const LONGEST_PAUSE: Duration = Duration::from_millis(2200);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often a directory is read if another job begins in it meanwhile.
const MAX_JOBS_READ: u32 = 3;

/// A job as of its newest commit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    pub output: String,
    /// The input as the user named it.
    pub input: String,
    pub format: String,
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
    pub state: Activity,
    #[serde(flatten)]
    pub process: JobProcess,
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
    let storage = open(path)?;
    let (process, stored) = read(&storage)?;
    let (control, problem) = match ControlFiles::new(storage).read() {
        Ok(control) => (control, None),
        Err(problem) => (Control::default(), Some(problem.into_message().to_string())),
    };
    let used = |budget: &BudgetUse| if process.running { budget.used } else { budget.reserved };
    let Stored { input, format, input_rows, started_at, resumable, commit, parts_to_place, note } = stored;
    let known = commit.range.end.or(commit.input.as_ref().and_then(|input| input.rows)).or(input_rows);
    let without_process = if commit.finished { Activity::Finished } else { Activity::Stopped };
    Ok(Status {
        note: note.or(problem),
        output: path.display().to_string(),
        rows: known.or_else(|| process.rows_known().filter(|_| commit.max_rows.is_none())),
        max_rows: commit.trial_rows(),
        input,
        format,
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
        parts_to_place,
        finished: commit.finished,
        resumable,
        state: process.activity.map_or(without_process, |activity| activity.with_pause(control.paused)),
        process,
        started_at,
        committed_at: commit.runs.last().map(|run| run.committed_at.clone()),
        settings: JobSettings { set: control.set, paused: control.paused },
        run_count: commit.earlier_runs + commit.runs.len() as u64,
        runs: commit.runs,
    })
}

/// What is stored of a job, or will be.
struct Stored {
    input: String,
    format: String,
    input_rows: Option<u64>,
    started_at: String,
    resumable: bool,
    commit: Commit,
    parts_to_place: u64,
    note: Option<String>,
}

impl Stored {
    fn read(storage: &Arc<dyn Storage>, manifest: Manifest) -> Result<Self, JobError> {
        let results = Results::read(storage, Contents::IfSmall)?;
        let note = results.note();
        let Results { newest: commit, files, .. } = results;
        Ok(Self {
            input: manifest.input.name,
            format: manifest.spec.format.name().to_owned(),
            input_rows: manifest.input.rows,
            started_at: manifest.started_at,
            resumable: manifest.input.fingerprint.is_some(),
            commit,
            parts_to_place: files.iter().filter(|file| !file.is_in_place).count() as u64,
            note,
        })
    }

    /// Returns that of a run whose job is not stored yet.
    fn of_new(beat: &Beat) -> Self {
        let RunDescription { input, format, job_started_at, .. } = beat.run.clone();
        Self {
            input,
            format,
            input_rows: None,
            started_at: job_started_at.unwrap_or_else(|| beat.at.clone()),
            resumable: false,
            commit: Commit::zero(),
            parts_to_place: 0,
            note: None,
        }
    }
}

/// Reads the state of a job, and what is stored of it. Another job may begin in the directory meanwhile.
fn read(storage: &Arc<dyn Storage>) -> Result<(JobProcess, Stored), JobError> {
    let mut reads = 1;
    loop {
        let Found { holder, beat, stored } = found(storage)?;
        let process = match holder {
            Holder::None => JobProcess::default(),
            Holder::Process(pid) => JobProcess::new(pid, beat.clone()),
        };
        let Some(manifest) = stored else {
            let Some((beat, _)) = beat else { return Err(absent(storage)?) };
            return Ok((process, Stored::of_new(&beat)));
        };
        let started_at = manifest.started_at.clone();
        let stored = Stored::read(storage, manifest);
        let is_same = |now: Manifest| !now.clearing && now.started_at == started_at;
        if reads == MAX_JOBS_READ || stored_manifest(storage.as_ref())?.is_some_and(is_same) {
            return Ok((process, stored?));
        }
        reads += 1;
    }
}

/// What is found in the directory of a job.
struct Found {
    holder: Holder,
    /// The last heartbeat of the process that runs the job, and its age.
    beat: Option<(Beat, Duration)>,
    /// The stored job; `None`: there is none, or one that is replaced.
    stored: Option<Manifest>,
}

/// Looks at a directory. Waits for the first heartbeat of a process that has just locked it, and for another one if a process
/// seems to hang: its machine may have been suspended until now, its clock may differ from ours, or the heartbeat may be of a
/// process that was killed and had the same id, as in a container.
fn found(storage: &Arc<dyn Storage>) -> Result<Found, JobError> {
    let began = Instant::now();
    let mut first = None;
    loop {
        // The lock is read first: a run that ends in between is reported as running.
        let holder = lock::holder(storage.directory());
        let beat = match holder {
            Holder::None => None,
            Holder::Process(pid) => {
                Beat::read(storage.directory()).filter(|beat| pid.is_none_or(|pid| pid == beat.pid))
            }
        };
        let stored = stored_manifest(storage.as_ref())?.filter(|manifest| !manifest.clearing);
        let stored = stored.filter(|manifest| beat.as_ref().is_none_or(|beat| beat.continues(manifest)));
        let beat = beat.map(|beat| {
            let is_new = *first.get_or_insert(beat.at_us) != beat.at_us;
            let age = if is_new { beat.age().min(began.elapsed()) } else { beat.age() };
            (beat, age)
        });
        // A process that starts a job creates this directory first, and locks it at once.
        let own = storage.path().join(OWN_DIRECTORY);
        let longest = match (holder, &beat) {
            (Holder::None, _) if stored.is_none() && storage.is_directory(&own) => POLL_INTERVAL,
            (Holder::Process(_), None) => LONGEST_START,
            (Holder::Process(_), Some((beat, age))) if activity_of(beat, *age) == Activity::Hung => LONGEST_PAUSE,
            (Holder::None | Holder::Process(_), _) => Duration::ZERO,
        };
        if began.elapsed() >= longest {
            return Ok(Found { holder, beat, stored });
        }
        thread::sleep(POLL_INTERVAL);
    }
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
    let schema = Arc::new(manifest.schema);
    let mut reads = 1;
    loop {
        let mut results = Results::read(&storage, contents)?.files;
        results.retain(|file| !only_failed || file.record.kind() == PartKind::Failed);
        let rows = results.iter().map(|file| file.record.rows).sum();
        // A commit may remove parts while they are opened.
        if let Some(files) = held(&storage, results, reads == MAX_READS) {
            return Ok(Parts { files, schema, rows });
        }
        reads += 1;
    }
}

/// Opens parts, so that they can be read when a later commit has removed them. `None`: one of them has been removed; with
/// `is_last`, it is opened later instead, and so are those that are too many to be open.
fn held(storage: &Arc<dyn Storage>, results: Vec<ResultFile>, is_last: bool) -> Option<Vec<PartFile>> {
    let mut open = 0;
    let file = |ResultFile { path, record, .. }| {
        let held = if open < MAX_OPEN_PARTS {
            match storage.read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && !is_last => return None,
                opened => opened.ok().map(Arc::new),
            }
        } else {
            None
        };
        open += usize::from(held.is_some());
        Some(PartFile { path, committed: Some((storage.clone(), record.crc32)), held })
    };
    results.into_iter().map(file).collect()
}

/// The files of the newest commit, for readers of any kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Files {
    pub output: String,
    pub format: &'static str,
    /// The number of the commit, which is also the version of the Delta table; 0: there is none yet.
    pub commit: u64,
    /// Whether the results are a Delta table, too, which has this version.
    pub delta: bool,
    pub rows: u64,
    pub bytes: u64,
    pub files: Vec<CommittedFile>,
}

/// A file of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommittedFile {
    pub path: String,
    pub rows: u64,
    pub bytes: u64,
    /// Whether its rows failed.
    pub failed: bool,
    /// The checksum of all bytes of the file.
    pub crc32: u32,
}

/// Returns the files of the newest commit, in their places unless the job was killed in its last steps. Before the first commit,
/// this is a file without rows, if the format is Parquet.
///
/// # Errors
/// As [`status`].
pub fn files(path: &Path) -> Result<Files, JobError> {
    let storage = open(path)?;
    let manifest = manifest(&storage)?;
    let delta = DeltaLog::of(&manifest, &storage);
    let placeholder = storage.path().join(PartName::placeholder().to_string());
    let mut reads = 1;
    let (newest, files) = loop {
        let Results { newest, files, .. } = Results::read(&storage, Contents::None)?;
        // In a commit, parts are moved to their places at once; after a kill, when the job is resumed.
        let is_applied =
            files.iter().all(|file| file.is_in_place) && !delta.as_ref().is_some_and(|delta| delta.is_behind(&newest));
        let mut files: Vec<CommittedFile> = files.iter().map(committed_file).collect();
        if files.is_empty() && manifest.spec.format == Format::Parquet {
            files.extend(empty_file(storage.as_ref(), &placeholder));
        }
        // The first commit may have removed the file without rows since.
        let is_complete = is_applied && (!files.is_empty() || manifest.spec.format != Format::Parquet);
        if reads == MAX_READS || is_complete {
            break (newest, files);
        }
        reads += 1;
        thread::sleep(READ_INTERVAL);
    };
    Ok(Files {
        output: path.display().to_string(),
        format: manifest.spec.format.name(),
        commit: newest.number,
        delta: delta.is_some_and(|delta| delta.has_version_of(&newest)),
        rows: files.iter().map(|file| file.rows).sum(),
        bytes: files.iter().map(|file| file.bytes).sum(),
        files,
    })
}

/// Returns the file without rows that is there before the first commit.
fn empty_file(storage: &dyn Storage, path: &Path) -> Option<CommittedFile> {
    let (rows, bytes, crc32) = describe_part(storage, path).ok()?;
    Some(CommittedFile { path: path.display().to_string(), rows, bytes, failed: false, crc32 })
}

fn committed_file(file: &ResultFile) -> CommittedFile {
    let ResultFile { path, record: PartRecord { rows, bytes, crc32, .. }, .. } = file;
    let failed = file.record.kind() == PartKind::Failed;
    CommittedFile { path: path.display().to_string(), rows: *rows, bytes: *bytes, failed, crc32: *crc32 }
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
    match stored_manifest(storage.as_ref())? {
        Some(manifest) if !manifest.clearing => Ok(manifest),
        _ => Err(absent(storage)?),
    }
}

/// Returns the error for a directory that contained no job.
fn absent(storage: &Arc<dyn Storage>) -> Result<JobError, JobError> {
    let shown = storage.path().display();
    let holder = lock::holder(storage.directory());
    Ok(JobError::output(match (stored_manifest(storage.as_ref())?, holder) {
        (None, Holder::None) => message!(
            "{shown} contains no job: name the directory that headgate fetch wrote to with ",
            OptionName::Output
        ),
        (Some(manifest), Holder::None) if manifest.clearing => {
            format!("the job in {shown} was being started over: run headgate fetch again").into()
        }
        (_, holder) => {
            let pid = if let Holder::Process(pid) = holder { lock::shown(pid) } else { String::new() };
            format!("another headgate{pid} is starting a job in {shown}, and has stored nothing yet: look at it later")
                .into()
        }
    }))
}
