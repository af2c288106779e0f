//! Writes results into parts, and commits the parts.

mod merge;

use std::io;
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{BooleanArray, RecordBatch};
use headgate_core::error::JobError;
use headgate_core::options::{SaveFormat, SinkOptions};
use headgate_core::origin::Origin;
use headgate_core::schedule::budget::Budgets;
use headgate_core::virtual_clock;
use headgate_table::parts::checksum::FinishedPart;
use headgate_table::parts::name::{PartKind, PartName};
use headgate_table::parts::time::now_text;
use headgate_table::parts::writer::PartWriter;
use headgate_table::sink::Shortage;
use headgate_table::source::compared::InputThen;
use headgate_table::source::content::Tracked;
use headgate_table::source::fingerprint::Fingerprint;

use super::commit::{Commit, PartRecord, RunRecord, Totals};
use super::commit_schedule;
use super::control::ControlFiles;
use super::directory::JobDirectory;
use super::done_rows::DoneRows;
use super::free_space;
use super::log::CHECKPOINT_EVERY;
use super::part_format::PartFormat;
use super::parts::PartList;
use super::records::{outcomes, select, with_attempts};
use super::replaced::ReplacedFiles;
use super::reservations::Reservations;
use super::results::Results;
use super::saved::save_places;
use super::shards::Shards;
use super::tried_rows::TriedRows;
use super::watched::JobProgress;
use crate::queue::responders::Responders;

/// The maximum number of rows of a `failed-*` part: a retry needs 16 bytes of memory for each row, and commits them together.
const MAX_FAILED_ROWS: u64 = 262_144;
/// The maximum number of parts that a checkpoint may list, because each record must be readable. A year with a commit a minute
/// has half as many, or as many if each commit has failed rows, too.
const MAX_LISTED_PARTS: u64 = 1_000_000;

/// How often a job that waits for readers checks whether it is stopping.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The clock that decides when commits are due.
pub type MonotonicClock = Box<dyn Fn() -> Instant + Send>;

/// Writes the parts of a job, at most one of each kind at a time, and commits them.
pub(super) struct JobWriter {
    pub(super) directory: JobDirectory,
    part_format: PartFormat,
    max_bytes: u64,
    min_free: Option<u64>,
    /// The maximum time between commits, if the user set one.
    commit_every: Option<Duration>,
    clock: MonotonicClock,
    started: Instant,
    /// The number of commits of this run.
    commits: u64,
    succeeded: Series,
    failed: Series,
    /// The parts that were finished and synced since the last commit.
    finished: Vec<PartRecord>,
    /// When the first uncommitted row was written.
    uncommitted_since: Option<Instant>,
    /// The totals of the written rows; those of `last` are the totals of the committed rows.
    totals: Totals,
    /// Rows with attempts that are in no written outcome.
    tried: TriedRows,
    /// The number of rows that this run has written.
    run_rows: u64,
    last: Commit,
    /// The current parts.
    parts: PartList,
    replaced: ReplacedFiles,
    /// Commits until the next checkpoint.
    until_checkpoint: u64,
    progress: Arc<JobProgress>,
    responders: Arc<Responders>,
    reservations: Reservations,
    input: Option<TrackedInput>,
    /// How bodies are saved beside the parts, if they are.
    save_format: Option<SaveFormat>,
    shards: Option<Shards>,
}

/// An input that a later run can recognize by its content.
pub(crate) struct TrackedInput {
    pub fingerprint: Fingerprint,
    /// The number of rows, if it is known.
    pub rows: Option<u64>,
    pub read: Tracked,
}

/// The parts of one kind.
struct Series {
    next_number: u64,
    open: Option<OpenPart>,
}

struct OpenPart {
    name: String,
    writer: Box<dyn PartWriter>,
    rows: u64,
}

/// The contents of a commit other than the written parts.
#[expect(clippy::struct_excessive_bools, reason = "facts, each by itself")]
#[derive(Default)]
pub(super) struct CommitChange {
    pub(super) removes: Vec<PartRecord>,
    /// The number of rows of the input, once it is known.
    pub(super) input_rows: Option<u64>,
    pub(super) run_ended: bool,
    /// Why the run stopped by itself, if it did.
    pub(super) stopped_by: Option<String>,
    pub(super) by_failures: bool,
    /// Every row is done, small parts are merged, and every part is in its place.
    pub(super) finished: bool,
    /// The written parts have exactly the rows of the removed ones.
    pub(super) merges: bool,
}

/// The committed state of a job: its newest commit, and the current parts.
#[derive(Debug)]
pub(super) struct CommittedState {
    pub(super) last: Commit,
    pub(super) parts: PartList,
    /// Commits until the next checkpoint.
    pub(super) until_checkpoint: u64,
}

impl CommittedState {
    /// Returns the state of a job without commits.
    pub(super) fn zero() -> Self {
        Self { last: Commit::zero(), parts: PartList::default(), until_checkpoint: CHECKPOINT_EVERY }
    }
}

impl From<Results> for CommittedState {
    fn from(results: Results) -> Self {
        let Results { newest, parts, damaged_commit, since_checkpoint, .. } = results;
        // After the next checkpoint, a damaged commit is no longer needed.
        let is_due = damaged_commit.is_some();
        let until_checkpoint = if is_due { 1 } else { CHECKPOINT_EVERY.saturating_sub(since_checkpoint) };
        Self { last: newest, parts, until_checkpoint }
    }
}

impl JobWriter {
    pub(super) fn new(
        directory: JobDirectory,
        part_format: PartFormat,
        options: &SinkOptions,
        committed: CommittedState,
        command: &str,
        clock: MonotonicClock,
    ) -> Result<Self, JobError> {
        let CommittedState { mut last, parts, until_checkpoint } = committed;
        let started_at = now_text().map_err(|error| JobError::internal(format!("the time: {error}")))?;
        let committed_at = started_at.clone();
        let run = RunRecord {
            command: command.into(),
            started_at,
            committed_at,
            rows: 0,
            ended: false,
            stopped_by: None,
            by_failures: false,
        };
        last.begin_run(run);
        let started = clock();
        let replaced = ReplacedFiles::new(options.keep_replaced, &last.replaced, started);
        let writer = Self {
            directory,
            part_format,
            max_bytes: options.part_size,
            min_free: options.min_free,
            commit_every: options.commit_interval,
            started,
            clock,
            commits: 0,
            succeeded: Series::new(last.next_part),
            failed: Series::new(last.next_failed),
            finished: Vec::new(),
            uncommitted_since: None,
            totals: last.totals.clone(),
            tried: last.tried.clone(),
            run_rows: 0,
            progress: Arc::new(JobProgress::new(last.clone())),
            responders: Arc::new(Responders::new(last.responders())),
            reservations: Reservations::new(&last.requests, &last.cost, started),
            last,
            parts,
            replaced,
            until_checkpoint,
            input: None,
            save_format: None,
            shards: None,
        };
        writer.shortage(0).map_or(Ok(writer), |shortage| Err(shortage.error))
    }

    /// Returns the shortage if there is too little space for `more` bytes beside the buffered ones.
    pub(super) fn shortage(&self, more: u64) -> Option<Shortage> {
        let open = [&self.succeeded, &self.failed].into_iter().filter_map(|series| series.open.as_ref());
        let buffered: u64 = open.map(|part| part.writer.buffered_bytes()).sum();
        free_space::shortage(self.directory.storage().as_ref(), self.min_free, buffered.saturating_add(more))
    }

    /// Makes later commits include the files of saved bodies.
    pub(super) fn save_bodies(&mut self, format: SaveFormat) {
        self.save_format = Some(format);
        let (places, next_number) = (save_places(self.directory.storage(), format), self.last.next_archive);
        self.shards = (format == SaveFormat::Tar).then(|| Shards::new(places, self.max_bytes, next_number));
    }

    /// Makes later commits describe what was read of this input.
    pub(super) fn track(&mut self, input: TrackedInput) {
        self.input = Some(input);
    }

    /// Returns the records with the attempts that earlier runs have made at their rows.
    pub(super) fn with_earlier_attempts(
        &mut self,
        records: &RecordBatch,
        rows: &[i64],
    ) -> Result<RecordBatch, JobError> {
        if self.tried.is_empty() {
            return Ok(records.clone());
        }
        let tried: Vec<_> = rows.iter().map(|row| self.tried.remove(*row as u64).unwrap_or_default()).collect();
        with_attempts(records, &tried)
    }

    /// Remembers attempts at rows that are left undone.
    pub(super) fn leave_undone(&mut self, undone: &[(u64, u16)]) {
        for (row, attempts) in undone {
            self.tried.add(*row, *attempts);
        }
    }

    /// Makes later commits have the options that were set meanwhile, which a retry inherits.
    pub(super) fn keep_settings(&mut self) {
        let control = ControlFiles::new(self.directory.storage().clone()).read();
        self.last.set = control.unwrap_or_default().set;
    }

    pub(super) fn last_commit(&self) -> &Commit {
        &self.last
    }

    /// Returns the number of rows of the input, if a run that has read so many rows has read all of them.
    pub(super) fn input_rows(&self, rows_read: Option<u64>) -> Option<u64> {
        // The input may go on after the rows of a trial.
        rows_read.filter(|rows| self.last.max_rows != Some(*rows))
    }

    /// Returns the number of rows that this run has written.
    pub(super) fn run_rows(&self) -> u64 {
        self.run_rows
    }

    pub(super) fn progress(&self) -> Arc<JobProgress> {
        self.progress.clone()
    }

    /// Returns the hosts that responded most recently. Each commit stores them.
    pub(super) fn responders(&self) -> Arc<Responders> {
        self.responders.clone()
    }

    /// Returns the budgets of the job. Each commit stores what was used of them, and what the run may use next.
    pub(super) fn budgets(&self) -> Arc<Budgets> {
        self.reservations.budgets.clone()
    }

    /// Returns whether requests were counted since the last commit, or it holds a reservation.
    pub(super) fn has_used_budgets(&self) -> bool {
        self.reservations.differ_from(&self.last.requests, &self.last.cost)
    }

    /// Writes rows with an outcome. `failed` says which of them failed; `None`: no row did.
    pub(super) fn write(&mut self, records: &RecordBatch, failed: Option<&BooleanArray>) -> Result<(), JobError> {
        let records = self.part_format.fit(records);
        let records = records.map_err(|error| JobError::internal(format!("the columns of a job: {error}")))?;
        let Some(failed) = failed else { return self.write_succeeded(&records) };
        let succeeded = BooleanArray::new(!failed.values(), None);
        self.write_succeeded(&select(&records, &succeeded)?)?;
        self.write_failed(&select(&records, failed)?)
    }

    fn write_succeeded(&mut self, records: &RecordBatch) -> Result<(), JobError> {
        if let Some(shards) = &mut self.shards {
            let archived = shards.add(records);
            let archived = archived.inspect_err(|_| self.discard_uncommitted())?;
            return self.write_archived(&archived);
        }
        self.write_archived(records)
    }

    /// Writes succeeded rows whose bodies are in archives, if they are to be.
    fn write_archived(&mut self, records: &RecordBatch) -> Result<(), JobError> {
        self.totals.succeeded += records.num_rows() as u64;
        self.run_rows += records.num_rows() as u64;
        self.write_to(PartKind::Succeeded, records)
    }

    fn write_failed(&mut self, records: &RecordBatch) -> Result<(), JobError> {
        self.run_rows += records.num_rows() as u64;
        self.keep(PartKind::Failed, records)
    }

    /// Writes rows of a part that the next commit removes, or rows that failed now.
    pub(super) fn keep(&mut self, kind: PartKind, records: &RecordBatch) -> Result<(), JobError> {
        match kind {
            PartKind::Succeeded => self.totals.succeeded += records.num_rows() as u64,
            PartKind::Failed => {
                self.totals.failed += records.num_rows() as u64;
                for kind in outcomes(records) {
                    *self.totals.errors.entry(kind).or_default() += 1;
                }
            }
        }
        self.write_to(kind, records)
    }

    /// Subtracts the rows of a part that the next commit removes from the totals.
    pub(super) fn subtract(&mut self, kind: PartKind, records: &RecordBatch) {
        if kind == PartKind::Succeeded {
            self.totals.succeeded = self.totals.succeeded.saturating_sub(records.num_rows() as u64);
            return;
        }
        self.totals.failed = self.totals.failed.saturating_sub(records.num_rows() as u64);
        for kind in outcomes(records) {
            if let Some(count) = self.totals.errors.get_mut(&kind) {
                *count = count.saturating_sub(1);
            }
        }
        self.totals.errors.retain(|_, count| *count > 0);
    }

    /// Returns whether a commit is due: a part is full, or rows have waited for long enough.
    pub(super) fn is_due(&self) -> bool {
        let is_full = !self.finished.is_empty() || self.shards.as_ref().is_some_and(Shards::is_full);
        // The rows of an archive are committed when the archive is complete.
        let waits_since = self.uncommitted_since.filter(|_| !self.shards.as_ref().is_some_and(Shards::is_open));
        is_full || waits_since.is_some_and(|since| self.has_waited_long_enough(since, (self.clock)()))
    }

    fn has_waited_long_enough(&self, since: Instant, now: Instant) -> bool {
        now.saturating_duration_since(since) >= self.interval(since)
    }

    /// Returns how long results wait for a commit that arrive at this time.
    fn interval(&self, since: Instant) -> Duration {
        let elapsed = since.saturating_duration_since(self.started);
        commit_schedule::interval(self.commits, elapsed, self.commit_every)
    }

    /// Commits the next reservation of the budgets, if rows wait for it or soon will. All else stays as it was committed.
    pub(super) fn reserve_if_due(&mut self, done_rows: &DoneRows) -> Result<(), JobError> {
        if !self.reservations.are_due() {
            return Ok(());
        }
        if self.last.number == 0 {
            // The first commit says what the job is. Those of results come as early as without it.
            self.commit(done_rows, &CommitChange::default())?;
            self.commits = 0;
            return Ok(());
        }
        let now = (self.clock)();
        let mut next = Commit { adds: Vec::new(), removes: Vec::new(), merges: false, ..self.last.clone() };
        next.number += 1;
        [next.requests, next.cost] = self.reservations.next(Some(self.interval(now)), now);
        self.append_commit(next, None, now)
    }

    /// Closes the open parts, and commits them together with the rows that are done.
    pub(super) fn commit(&mut self, done_rows: &DoneRows, change: &CommitChange) -> Result<(), JobError> {
        if let Some(shards) = &mut self.shards {
            shards.close()?;
        }
        self.close(PartKind::Succeeded)?;
        self.close(PartKind::Failed)?;
        let mut next = self.last.clone();
        next.number += 1;
        next.headgate_version = env!("CARGO_PKG_VERSION").into();
        next.adds = mem::take(&mut self.finished);
        next.removes = change.removes.iter().map(|part| part.name.clone()).collect();
        next.next_part = self.succeeded.next_number;
        next.next_failed = self.failed.next_number;
        next.next_archive = self.shards.as_ref().map_or(next.next_archive, Shards::next_number);
        // After a failed commit, no other follows.
        self.parts.apply(&next).map_err(|problem| JobError::internal(format!("a commit: {problem}")))?;
        next.parts_sum = self.parts.sum();
        (self.totals.parts, self.totals.bytes) = (self.parts.len(), self.parts.bytes());
        next.totals = self.totals.clone();
        next.tried = self.tried.clone();
        next.range.end = change.input_rows.or(next.range.end);
        next.finished = change.finished;
        next.merges = change.merges;
        next.responders = self.responders.recent().iter().map(Origin::url).collect();
        if let Some(TrackedInput { fingerprint, rows, read }) = &self.input {
            let content = read.up_to(done_rows.end());
            next.input = content.map(|content| InputThen { fingerprint: fingerprint.clone(), rows: *rows, content });
        }
        let at = (self.clock)();
        [next.requests, next.cost] = self.reservations.next((!change.run_ended).then(|| self.interval(at)), at);
        let noted = next.set_done_rows(done_rows).and_then(|()| now_text());
        let now = noted.map_err(|error| JobError::internal(format!("a commit: {error}")))?;
        if let Some(run) = next.runs.last_mut() {
            run.rows = self.run_rows;
            run.committed_at = now;
            run.ended = change.run_ended;
            run.stopped_by.clone_from(&change.stopped_by);
            run.by_failures = change.by_failures;
        }
        self.append_commit(next, self.save_format, at)?;
        self.commits += 1;
        self.uncommitted_since = None;
        Ok(())
    }

    /// Appends a commit to the log, and applies it.
    fn append_commit(
        &mut self,
        mut next: Commit,
        save_format: Option<SaveFormat>,
        now: Instant,
    ) -> Result<(), JobError> {
        // The last commit of a job is a checkpoint, too, so that the rest of the log need not be read.
        let is_last = next.finished && next.number > self.last.number && !self.last.finished;
        let is_due = self.until_checkpoint <= 1 || is_last;
        let is_checkpoint = is_due && self.parts.len() <= MAX_LISTED_PARTS;
        next.parts = is_checkpoint.then(|| self.parts.iter().cloned().collect());
        self.remove_replaced(next.removes.len())?;
        self.replaced.add(&next.removes, now);
        next.replaced = self.replaced.to_record();
        self.directory.commit(&next, &self.parts, save_format)?;
        self.reservations.apply([next.requests, next.cost], now);
        next.parts = None;
        self.until_checkpoint = if is_checkpoint { CHECKPOINT_EVERY } else { self.until_checkpoint.saturating_sub(1) };
        self.progress.commit().clone_from(&next);
        self.last = next;
        Ok(())
    }

    /// Removes the replaced files whose time is over, and the oldest if there is no room beside this many more.
    pub(super) fn remove_replaced(&mut self, more: usize) -> Result<(), JobError> {
        let due = self.replaced.take_due((self.clock)(), more);
        self.directory.remove_parts(due.iter())
    }

    /// Waits until the replaced files have been kept for as long as they should be, and removes them. They stay if the job is stopped.
    pub(super) fn wait_for_readers(&mut self, stopped: &dyn Fn() -> bool) -> Result<(), JobError> {
        while let Some(due) = self.replaced.next_due() {
            let now = (self.clock)();
            let left = due.saturating_duration_since(now);
            if left.is_zero() {
                self.remove_replaced(0)?;
                continue;
            }
            if stopped() {
                self.progress.leave_replaced(self.replaced.len());
                return Ok(());
            }
            self.progress.keep_until(due, now);
            // A virtual clock jumps to registered times only.
            let _registered = virtual_clock::call_at(due, || ());
            thread::sleep(left.min(STOP_CHECK_INTERVAL));
        }
        self.progress.end_keeping();
        Ok(())
    }

    /// Returns whether the job has no parts, and none is open.
    fn is_empty(&self) -> bool {
        self.totals.parts == 0 && self.succeeded.open.is_none() && self.failed.open.is_none()
    }

    fn write_to(&mut self, kind: PartKind, records: &RecordBatch) -> Result<(), JobError> {
        if records.num_rows() == 0 {
            return Ok(());
        }
        let now = (self.clock)();
        self.uncommitted_since.get_or_insert(now);
        let max_bytes = self.max_bytes;
        let part = self.open(kind)?;
        part.rows += records.num_rows() as u64;
        if let Err(error) = part.writer.write(records) {
            let name = part.name.clone();
            self.discard_uncommitted();
            return Err(self.cannot_write(&name, &error));
        }
        let has_most_rows = kind == PartKind::Failed && part.rows >= MAX_FAILED_ROWS;
        let is_full = has_most_rows || part.writer.bytes() >= max_bytes;
        self.progress.note_write((self.clock)());
        if is_full { self.close(kind) } else { Ok(()) }
    }

    fn open(&mut self, kind: PartKind) -> Result<&mut OpenPart, JobError> {
        let Self { directory, part_format, succeeded, failed, .. } = self;
        let series = if kind == PartKind::Succeeded { succeeded } else { failed };
        if series.open.is_none() {
            let name = PartName::new(kind, series.next_number, part_format.format()).to_string();
            let writer = directory.create_part(&name).and_then(|file| part_format.writer(file));
            let writer = writer.map_err(|error| cannot_write(directory, &name, &error))?;
            series.next_number += 1;
            series.open = Some(OpenPart { name, writer, rows: 0 });
        }
        series.open.as_mut().ok_or_else(|| JobError::internal("a part that was opened is not open"))
    }

    fn close(&mut self, kind: PartKind) -> Result<(), JobError> {
        let Some(OpenPart { name, writer, rows }) = self.series_mut(kind).open.take() else { return Ok(()) };
        let finished = writer.finish().and_then(|part| {
            self.directory.sync_part(&part.file, &name)?;
            Ok(part)
        });
        match finished {
            Ok(FinishedPart { bytes, crc32, .. }) => {
                self.finished.push(PartRecord { name, rows, bytes, crc32 });
                self.progress.note_write((self.clock)());
                Ok(())
            }
            Err(error) => {
                self.discard_uncommitted();
                self.directory.discard(&name);
                Err(self.cannot_write(&name, &error))
            }
        }
    }

    /// Discards the files that are not committed. They are incomplete and useless, and their disk space is freed.
    pub(super) fn discard_uncommitted(&mut self) {
        if let Some(shards) = &mut self.shards {
            shards.discard();
        }
        for kind in [PartKind::Succeeded, PartKind::Failed] {
            if let Some(OpenPart { name, writer, .. }) = self.series_mut(kind).open.take() {
                drop(writer);
                self.directory.discard(&name);
            }
        }
        for part in mem::take(&mut self.finished) {
            self.directory.discard(&part.name);
        }
    }

    fn series(&self, kind: PartKind) -> &Series {
        if kind == PartKind::Succeeded { &self.succeeded } else { &self.failed }
    }

    fn series_mut(&mut self, kind: PartKind) -> &mut Series {
        if kind == PartKind::Succeeded { &mut self.succeeded } else { &mut self.failed }
    }

    fn cannot_write(&self, name: &str, error: &io::Error) -> JobError {
        cannot_write(&self.directory, name, error)
    }
}

fn cannot_write(directory: &JobDirectory, name: &str, error: &io::Error) -> JobError {
    JobError::of_file("can't write", directory.path_of(name).display(), error)
}

impl Series {
    fn new(next_number: u64) -> Self {
        Self { next_number, open: None }
    }
}
