//! How far a job is, for whoever looks: nothing is changed, and a job that runs is not disturbed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use headgate_core::error::JobError;
use headgate_core::files::Directory;
use headgate_core::live::Settings;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_table::parts::read::PartFile;
use serde::Serialize;

use super::commit::RunRecord;
use super::control::{Control, ControlFiles};
use super::directory::read_manifest;
use super::lock::{self, Holder};
use super::manifest::Manifest;
use super::results::{Contents, ResultFile, Results, opened};
use super::storage::Disk;

/// A job as of its newest commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    pub output: String,
    /// As it was given.
    pub input: String,
    pub format: &'static str,
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
    /// Parts that count and are not in their places yet: for an instant, or since a kill in the last steps of a commit.
    pub parts_to_place: u64,
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
    /// Something about its directory that its user should know.
    pub note: Option<String>,
    /// Runs that made a commit, and the last of them.
    #[serde(flatten)]
    pub meanwhile: Meanwhile,
    pub run_count: u64,
    pub runs: Vec<RunRecord>,
}

/// What was set of a job while it ran, and holds until it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Meanwhile {
    pub set: Settings,
    /// It starts nothing until it is told to go on.
    pub paused: bool,
}

/// Reads how far the job in a directory is, and whether its results are those that were committed: by their names and lengths
/// and, of a job that does not run and has at most 1 GiB of them, by their contents.
///
/// # Errors
/// `Output`: there is no job, or it is damaged.
pub fn status(path: &Path) -> Result<Status, JobError> {
    of(path, Contents::Some)
}

/// [`status`], which compares all contents, whatever their size.
///
/// # Errors
/// As [`status`].
pub fn checked_status(path: &Path) -> Result<Status, JobError> {
    of(path, Contents::All)
}

fn of(path: &Path, contents: Contents) -> Result<Status, JobError> {
    // The lock first: a run that ends in between is then said to run, which it did when it was asked for.
    let holder = Directory::open(path).map_or(Holder::None, |directory| lock::holder(&directory));
    let manifest = manifest(path)?;
    let results = Results::look(path, contents)?;
    let (control, trouble) = match ControlFiles::new(path, Arc::new(Disk)).read() {
        Ok(control) => (control, None),
        Err(trouble) => (Control::default(), Some(trouble.into_message().to_string())),
    };
    let note = results.note().or(trouble);
    let Results { newest: commit, files, .. } = results;
    Ok(Status {
        note,
        output: path.display().to_string(),
        rows: commit.range.end.or(commit.input.as_ref().and_then(|input| input.rows)).or(manifest.input.rows),
        input: manifest.input.name,
        format: manifest.spec.format.name(),
        done: commit.done,
        watermark: commit.watermark,
        answered: commit.totals.answered,
        failed: commit.totals.failed,
        errors: commit.totals.errors,
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
        meanwhile: Meanwhile { set: control.set, paused: control.paused },
        run_count: commit.earlier_runs + commit.runs.len() as u64,
        runs: commit.runs,
    })
}

/// Whether all rows of the job in a directory are done.
pub(super) fn is_finished(path: &Path) -> Result<bool, JobError> {
    Ok(Results::look(path, Contents::None)?.newest.finished)
}

/// The parts of a job, in the order of reading, and what they hold.
#[derive(Debug, Clone)]
pub struct Parts {
    pub files: Vec<PartFile>,
    pub schema: SchemaRef,
    /// In all of them.
    pub rows: u64,
}

/// The parts that can be read now: answered rows first, then those that failed. Who reads them compares their contents.
///
/// # Errors
/// As [`status`].
pub fn parts(path: &Path) -> Result<Parts, JobError> {
    parts_with(path, Contents::None, false)
}

/// [`parts`], or those of failed rows alone, whose contents were compared as those of [`status`] are: for who does not read them
/// all.
///
/// # Errors
/// As [`status`].
pub(crate) fn compared_parts(path: &Path, only_failed: bool) -> Result<Parts, JobError> {
    parts_with(path, Contents::Some, only_failed)
}

fn parts_with(path: &Path, contents: Contents, only_failed: bool) -> Result<Parts, JobError> {
    let manifest = manifest(path)?;
    let mut files = Results::look(path, contents)?.files;
    files.retain(|file| !only_failed || file.record.is_failed());
    let rows = files.iter().map(|file| file.record.rows).sum();
    let directory = opened(path)?;
    let file = |ResultFile { path, record, .. }| PartFile { path, committed: Some((directory.clone(), record.crc32)) };
    Ok(Parts { files: files.into_iter().map(file).collect(), rows, schema: Arc::new(manifest.schema) })
}

/// What was asked of the job in a directory.
pub(super) fn manifest(path: &Path) -> Result<Manifest, JobError> {
    let missing = || {
        let shown = path.display();
        JobError::output(match path.try_exists() {
            Ok(false) => message!("{shown}: no such directory"),
            _ => message!(
                "{shown} holds no job: name the directory that headgate fetch wrote to with ",
                OptionName::Output
            ),
        })
    };
    let manifest = read_manifest(path)?.ok_or_else(missing)?;
    if manifest.clearing {
        let shown = path.display();
        return Err(JobError::output(format!("the job in {shown} was being started over: run headgate fetch again")));
    }
    Ok(manifest)
}
