//! Verifies a job: every file and saved body against its checksum, every row once, the rows that are done, the totals, and the Delta log. And
//! repairs it: rows that are lost are marked as not done, so that the job fetches them again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use headgate_core::error::{JobError, JobErrorKind};
use headgate_core::files::storage::{OpenStorage, Storage};
use headgate_core::grouped::grouped;
use headgate_core::message;
use headgate_core::options::SaveFormat;
use headgate_table::parts::name::PartKind;
use headgate_table::parts::read::{part_advice, read_columns};
use roaring::RoaringTreemap;
use serde::Serialize;

use super::commit::{Commit, PartRecord};
use super::delta::DeltaLog;
use super::directory::JobDirectory;
use super::done_rows::DoneRows;
use super::heartbeat::RunDescription;
use super::lock::{self, Holder};
use super::log::CommitLog;
use super::manifest::Manifest;
use super::open::done_rows_of;
use super::records::{OUTCOME_COLUMNS, outcomes, rows};
use super::results::{Listed, ResultFile};
use super::saved_bodies::{SAVED_COLUMNS, SavedBodies};
use super::status;

/// How often a job is verified, if another process changes it meanwhile.
const MAX_READS: u32 = 5;
/// The number of problems of a kind that are listed; further ones are counted.
const MAX_LISTED: usize = 100;

/// What was verified, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    pub output: String,
    /// The number of the commit.
    pub commit: u64,
    pub files: u64,
    pub rows: u64,
    pub bytes: u64,
    pub running: bool,
    /// The most important first, at most 100 of a kind.
    pub problems: Vec<Problem>,
    /// The number of problems, including those that are not listed.
    pub problem_count: u64,
    /// The number of rows that were marked as not done. `None`: nothing was repaired.
    pub repaired_rows: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub kind: ProblemKind,
    /// What is wrong.
    pub message: String,
    /// What can be done.
    pub advice: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// A file is missing, or its content is not what was committed.
    DamagedFile,
    /// Rows are done, and in no file.
    LostRows,
    /// The saved body of a row is missing, or is not what was saved.
    SavedBody,
    RowsTwice,
    /// Rows are in a file, and not done.
    UncountedRows,
    Totals,
    UnnamedFile,
    DeltaLog,
}

impl ProblemKind {
    fn advice(self) -> &'static str {
        match self {
            Self::DamagedFile | Self::LostRows => {
                "restore it from a copy, or mark its rows as not done with headgate verify --repair, and fetch them with the same headgate fetch"
            }
            Self::SavedBody => {
                "restore it from a copy, or fetch its row in another directory: --repair changes no saved bodies"
            }
            Self::UncountedRows => "headgate verify --repair marks them as done",
            Self::RowsTwice | Self::Totals => {
                "restore the directory from a copy, or start over with --if-exists overwrite"
            }
            Self::UnnamedFile => "headgate clean removes it",
            Self::DeltaLog => "headgate clean writes it, and so does the next run",
        }
    }
}

/// Verifies the job in a directory. Nothing is changed.
///
/// # Errors
/// `Output`: there is no job, its log or a file can't be read, or the job replaces files faster than they are read.
pub fn verify(path: &Path, storage: &dyn OpenStorage) -> Result<Verified, JobError> {
    let storage = storage.open(status::open(path)?.directory().clone());
    let log = CommitLog::new(storage.clone());
    let mut reads = 1;
    loop {
        let newest = log.newest_number()?;
        let found = Found::read(&storage, path);
        // Changes by another process look like damage.
        let is_sound = found.as_ref().is_ok_and(|found| found.problems.is_empty());
        if is_sound || log.newest_number()? == newest {
            return Ok(found?.verified(path, lock::holder(storage.directory()) != Holder::None));
        }
        if reads == MAX_READS {
            return Err(JobError::storage(format!(
                "{}: the job has replaced files each of the {MAX_READS} times that they were read: verify it when it has ended",
                path.display()
            )));
        }
        reads += 1;
    }
}

/// Verifies the job in a directory, and makes a commit without the files that are damaged: exactly the rows in other files are
/// done then.
///
/// # Errors
/// As [`verify`]; another process writes to the job; its input can't be read a second time; or saved bodies of rows that are lost
/// can't be told from those of other rows.
pub fn repair(path: &Path, storage: &dyn OpenStorage) -> Result<Verified, JobError> {
    let manifest = status::manifest(&status::open(path)?)?;
    let run = RunDescription::of_job("verify", &manifest);
    let mut directory = JobDirectory::open_locked(path, false, run, storage)?;
    let found = Found::read(directory.storage(), path)?;
    let can_help = found.problems.iter().any(|problem| {
        matches!(problem.kind, ProblemKind::DamagedFile | ProblemKind::LostRows | ProblemKind::UncountedRows)
    });
    if !can_help {
        if !found.problems.iter().any(|problem| problem.kind == ProblemKind::DeltaLog) {
            return Ok(found.verified(path, false));
        }
        directory.complete(&found.listed.newest, &found.listed.parts)?;
        return Ok(Found::read(directory.storage(), path)?.verified(path, false));
    }
    let (next, lost) = found.repaired()?;
    if lost > 0
        && let Some(why) = refusal(&manifest, &found.damaged)
    {
        return Err(JobError::output(format!("{}: {why}, so nothing was repaired", path.display())));
    }
    let Found { listed: Listed { newest, mut parts, .. }, damaged, .. } = found;
    // The newest commit may be incomplete, and the damaged files can't be moved to their places.
    let is_damaged = |part: &PartRecord| damaged.iter().any(|damaged| damaged.name == part.name);
    let intact = Commit { adds: newest.adds.iter().filter(|part| !is_damaged(part)).cloned().collect(), ..newest };
    directory.complete(&intact, &parts)?;
    let contradicts = |problem| JobError::internal(format!("a commit: {problem}"));
    parts.apply(&next).map_err(contradicts)?;
    let mut next = Commit { parts_sum: parts.sum(), parts: Some(parts.iter().cloned().collect()), ..next };
    (next.totals.parts, next.totals.bytes) = (parts.len(), parts.bytes());
    directory.commit(&next, &parts, None)?;
    directory.complete(&next, &parts)?;
    let now = Found::read(directory.storage(), path)?;
    Ok(Verified { repaired_rows: Some(lost), ..now.verified(path, false) })
}

/// Returns why the rows of damaged files can't be fetched a second time, if they can't.
fn refusal(manifest: &Manifest, damaged: &[PartRecord]) -> Option<String> {
    if manifest.input.fingerprint.is_none() {
        return Some(format!("the job read {}, which can't be read a second time", manifest.input.name));
    }
    // Failed rows have no saved bodies. Those of other rows would keep their names from being used once more.
    let may_have_saved = damaged.is_empty() || damaged.iter().any(|part| part.kind() == PartKind::Succeeded);
    (may_have_saved && manifest.save_format().is_some())
        .then(|| "bodies of lost rows were saved as files, and only a damaged file names them".into())
}

/// Returns the error of a file that can't be read. It is not taken for damage, because a repair would remove the file.
fn unread(error: JobError) -> JobError {
    match error.kind {
        JobErrorKind::Storage => JobError::storage(message!(
            error.message,
            ": the file may be intact, so nothing was changed; verify the job once more when it can be read"
        )),
        _ => error,
    }
}

/// What is in the directory of a job.
struct Found {
    listed: Listed,
    /// The rows in intact files.
    rows: RoaringTreemap,
    done: DoneRows,
    succeeded: u64,
    failed: u64,
    errors: BTreeMap<String, u64>,
    damaged: Vec<PartRecord>,
    problems: Vec<Problem>,
    problem_count: u64,
}

impl Found {
    fn read(storage: &Arc<dyn Storage>, path: &Path) -> Result<Self, JobError> {
        let manifest = status::manifest(storage)?;
        let listed = Listed::read(storage)?;
        let done = done_rows_of(&listed.newest)?;
        let mut found = Self {
            rows: RoaringTreemap::new(),
            done,
            succeeded: 0,
            failed: 0,
            errors: BTreeMap::new(),
            damaged: Vec::new(),
            problems: Vec::new(),
            problem_count: 0,
            listed,
        };
        let schema = Arc::new(manifest.schema.clone());
        let records: Vec<PartRecord> = found.listed.parts.iter().cloned().collect();
        for record in records {
            let file = found.listed.file(storage.as_ref(), &record);
            let save_format = manifest.save_format();
            if let Err(error) = file.and_then(|file| found.add(storage.as_ref(), &file, &schema, save_format)) {
                if error.kind != JobErrorKind::Damage {
                    return Err(unread(error));
                }
                // The problem has advice of its own, which includes a repair.
                let (message, advice) = (error.to_string(), format!("; {}", part_advice()));
                found.report(ProblemKind::DamagedFile, message.strip_suffix(&advice).unwrap_or(&message).to_owned());
                found.damaged.push(record);
            }
        }
        found.compare();
        let unnamed: Vec<String> = found.listed.unnamed().cloned().collect();
        for name in unnamed {
            let shown = path.join(name).display().to_string();
            found.report(ProblemKind::UnnamedFile, format!("{shown} is there, but no commit names it"));
        }
        found.check_delta(&manifest, storage);
        found.problems.sort_by_key(|problem| problem.kind);
        Ok(found)
    }

    /// Adds the rows of a file, if it is intact.
    fn add(
        &mut self,
        storage: &dyn Storage,
        file: &ResultFile,
        schema: &SchemaRef,
        save_format: Option<SaveFormat>,
    ) -> Result<(), JobError> {
        let (mut rows_of_file, mut duplicates) = (RoaringTreemap::new(), 0);
        let (mut errors, mut count) = (Vec::new(), 0);
        let is_failed = file.record.kind() == PartKind::Failed;
        // Those of an interrupted commit may not be in their places.
        let mut bodies =
            save_format.filter(|_| file.is_in_place && !is_failed).map(|format| SavedBodies::new(storage, format));
        let columns = [OUTCOME_COLUMNS.as_slice(), &SAVED_COLUMNS].concat();
        for batch in read_columns(storage, &file.path, file.record.crc32, schema, &columns)? {
            let batch = batch?;
            storage.check_interrupt().map_err(|error| JobError::of_file("can't read", file.path.display(), &error))?;
            for row in rows(&batch)? {
                duplicates += u64::from(!rows_of_file.insert(row as u64));
            }
            count += batch.num_rows() as u64;
            if let Some(bodies) = &mut bodies {
                bodies.check(&batch, |problem| self.report(ProblemKind::SavedBody, problem))?;
            }
            if is_failed {
                errors.extend(outcomes(&batch));
            }
        }
        duplicates += rows_of_file.intersection_len(&self.rows);
        self.rows |= rows_of_file;
        if is_failed {
            self.failed += count;
        } else {
            self.succeeded += count;
        }
        for kind in errors {
            *self.errors.entry(kind).or_default() += 1;
        }
        let shown = file.path.display();
        if duplicates > 0 {
            self.report(ProblemKind::RowsTwice, format!("{} rows of {shown} are there twice", grouped(duplicates)));
        }
        if count != file.record.rows {
            let committed = grouped(file.record.rows);
            self.report(ProblemKind::Totals, format!("{shown} has {} rows, not {committed}", grouped(count)));
        }
        Ok(())
    }

    /// Compares the rows with those that are done, and with the totals.
    fn compare(&mut self) {
        let done = self.done.to_rows();
        let (lost, uncounted) = (&done - &self.rows, &self.rows - &done);
        let first = |rows: &RoaringTreemap| rows.min().unwrap_or_default();
        if !lost.is_empty() {
            let (count, first) = (grouped(lost.len()), first(&lost));
            self.report(
                ProblemKind::LostRows,
                format!("{count} rows are done and in no intact file, the first is row {first}"),
            );
        }
        if !uncounted.is_empty() {
            let (count, first) = (grouped(uncounted.len()), first(&uncounted));
            self.report(
                ProblemKind::UncountedRows,
                format!("{count} rows are in files and not done, the first is row {first}"),
            );
        }
        let totals = &self.listed.newest.totals;
        if !self.damaged.is_empty() {
            return;
        }
        let kinds = self.errors.keys().chain(totals.errors.keys());
        let count = |errors: &BTreeMap<String, u64>, kind: &String| errors.get(kind).copied().unwrap_or_default();
        let other = kinds.map(|kind| (kind, count(&self.errors, kind), count(&totals.errors, kind)));
        let other = other.filter(|(_, files, commit)| files != commit).min();
        let message = if (self.succeeded, self.failed) != (totals.succeeded, totals.failed) {
            format!(
                "the files have {} rows that succeeded and {} that failed, the commit has {} and {}",
                grouped(self.succeeded),
                grouped(self.failed),
                grouped(totals.succeeded),
                grouped(totals.failed)
            )
        } else if let Some((kind, files, commit)) = other {
            format!(
                "the files have {} rows that failed with {kind}, the commit has {}",
                grouped(files),
                grouped(commit)
            )
        } else {
            return;
        };
        self.report(ProblemKind::Totals, message);
    }

    fn check_delta(&mut self, manifest: &Manifest, storage: &Arc<dyn Storage>) {
        let newest = &self.listed.newest;
        let is_running = lock::holder(storage.directory()) != Holder::None;
        if is_running || newest.number == 0 {
            return;
        }
        let Some(delta) = DeltaLog::of(manifest, storage) else { return };
        if delta.is_missing() {
            let why =
                "the results have no Delta log: it was removed, or an earlier version of headgate has run the job";
            self.report(ProblemKind::DeltaLog, why.into());
        } else if !delta.describes(newest, &self.listed.parts) {
            let message = format!(
                "the Delta log does not describe the files of commit {}: the commit was interrupted, or the log was damaged or changed by another program",
                newest.number
            );
            self.report(ProblemKind::DeltaLog, message);
        }
    }

    fn report(&mut self, kind: ProblemKind, message: String) {
        self.problem_count += 1;
        if self.problems.iter().filter(|problem| problem.kind == kind).count() < MAX_LISTED {
            self.problems.push(Problem { kind, message, advice: kind.advice() });
        }
    }

    /// Returns the commit after which exactly the rows in intact files are done, and the number of rows that are not done any more.
    fn repaired(&self) -> Result<(Commit, u64), JobError> {
        // Also rows that were not done: they would be fetched a second time.
        let lost = (self.done.to_rows() - &self.rows).len();
        let mut next = self.listed.newest.clone();
        next.number += 1;
        next.adds = Vec::new();
        next.removes = self.damaged.iter().map(|part| part.name.clone()).collect();
        next.merges = false;
        next.finished = false;
        next.totals.succeeded = self.succeeded;
        next.totals.failed = self.failed;
        next.totals.errors.clone_from(&self.errors);
        let noted = next.set_done_rows(&DoneRows::from_rows(self.rows.clone()));
        noted.map_err(|error| JobError::internal(format!("a commit: {error}")))?;
        Ok((next, lost))
    }

    fn verified(self, path: &Path, running: bool) -> Verified {
        Verified {
            output: path.display().to_string(),
            commit: self.listed.newest.number,
            files: self.listed.parts.len(),
            rows: self.rows.len(),
            bytes: self.listed.parts.bytes(),
            running,
            problems: self.problems,
            problem_count: self.problem_count,
            repaired_rows: None,
        }
    }
}
