//! Results on their way into parts, and parts into commits.

mod merge;

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{BooleanArray, RecordBatch};
use headgate_core::error::{JobError, cause};
use headgate_core::options::{SaveFormat, SinkOptions};
use headgate_core::origin::Origin;
use headgate_table::parts::checksum::FinishedPart;
use headgate_table::parts::name::{PartKind, PartName};
use headgate_table::parts::time::now_text;
use headgate_table::parts::writer::PartWriter;
use headgate_table::source::compared::InputThen;
use headgate_table::source::content::Tracked;
use headgate_table::source::fingerprint::Fingerprint;

use super::commit::{Commit, PartRecord, RunRecord, Totals};
use super::commit_schedule;
use super::directory::JobDirectory;
use super::done_rows::DoneRows;
use super::log::CHECKPOINT_EVERY;
use super::part_format::PartFormat;
use super::parts::PartList;
use super::records::{kinds, select};
use super::results::Results;
use super::saved::save_places;
use super::shards::Shards;
use super::watched::Watched;
use crate::queue::responders::Responders;

/// Rows of a `failed-*` part at the most: a retry holds 16 bytes of memory for each, and commits them together.
const MAX_FAILED_ROWS: u64 = 262_144;
/// Parts that a checkpoint may list: what is written must be read again. They are those of a year, with a commit a minute.
const MAX_LISTED_PARTS: u64 = 1_000_000;

/// Tells the time by which commits are due.
pub type MonotonicClock = Box<dyn Fn() -> Instant + Send>;

/// Writes the parts of a job, at most one of each kind at a time, and commits them.
pub(super) struct JobWriter {
    pub(super) directory: JobDirectory,
    part_format: PartFormat,
    max_bytes: u64,
    /// The longest time between commits, where the user gave one.
    commit_every: Option<Duration>,
    clock: MonotonicClock,
    started: Instant,
    /// How many of this run there were.
    commits: u64,
    answered: Series,
    failed: Series,
    /// Finished since the last commit, and synced.
    finished: Vec<PartRecord>,
    /// When the first row came that is not committed.
    uncommitted_since: Option<Instant>,
    /// As of what was written; those of `last` are as of what was committed.
    totals: Totals,
    /// Rows whose outcomes were written by this run.
    run_rows: u64,
    last: Commit,
    /// Those that count by it.
    parts: PartList,
    /// Commits until the next checkpoint.
    until_checkpoint: u64,
    watched: Arc<Watched>,
    responders: Arc<Responders>,
    input: Option<TrackedInput>,
    /// How bodies are saved beside the parts, if they are.
    saves: Option<SaveFormat>,
    shards: Option<Shards>,
}

/// An input that is known again by what was read of it.
pub struct TrackedInput {
    pub fingerprint: Fingerprint,
    /// Where they are known.
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

/// What a commit says beside the parts that were written.
#[derive(Default)]
pub(super) struct Change {
    pub(super) removes: Vec<PartRecord>,
    /// Rows of the input, once they are known.
    pub(super) input_rows: Option<u64>,
    pub(super) run_ended: bool,
    /// Every row is done, small parts are merged, and every part is in its place.
    pub(super) finished: bool,
}

/// Where a job stands: its newest commit, and the parts that count by it.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) last: Commit,
    pub(super) parts: PartList,
    /// Commits until the next checkpoint.
    pub(super) until_checkpoint: u64,
}

impl Standing {
    /// Of a job that has no commit yet.
    pub(super) fn zero() -> Self {
        Self { last: Commit::zero(), parts: PartList::default(), until_checkpoint: CHECKPOINT_EVERY }
    }
}

impl From<Results> for Standing {
    fn from(results: Results) -> Self {
        let Results { newest, parts, damaged_commit, since_checkpoint, .. } = results;
        // After the next one, a damaged commit is needed no more.
        let at_once = damaged_commit.is_some();
        let until_checkpoint = if at_once { 1 } else { CHECKPOINT_EVERY.saturating_sub(since_checkpoint) };
        Self { last: newest, parts, until_checkpoint }
    }
}

impl JobWriter {
    pub(super) fn new(
        directory: JobDirectory,
        part_format: PartFormat,
        options: &SinkOptions,
        standing: Standing,
        command: &str,
        clock: MonotonicClock,
    ) -> Result<Self, JobError> {
        let Standing { mut last, parts, until_checkpoint } = standing;
        let started_at = now_text().map_err(|error| JobError::internal(format!("the time: {error}")))?;
        let committed_at = started_at.clone();
        last.begin_run(RunRecord { command: command.into(), started_at, committed_at, rows: 0, ended: false });
        Ok(Self {
            directory,
            part_format,
            max_bytes: options.part_bytes,
            commit_every: options.commit_every,
            started: clock(),
            clock,
            commits: 0,
            answered: Series::new(last.next_part),
            failed: Series::new(last.next_failed),
            finished: Vec::new(),
            uncommitted_since: None,
            totals: last.totals.clone(),
            run_rows: 0,
            watched: Arc::new(Watched::new(last.clone())),
            responders: Arc::new(Responders::new(last.responders())),
            last,
            parts,
            until_checkpoint,
            input: None,
            saves: None,
            shards: None,
        })
    }

    /// Commits have from now on the files of saved bodies.
    pub(super) fn save_bodies(&mut self, format: SaveFormat) {
        let (directory, storage) = (self.directory.opened(), self.directory.storage());
        self.saves = Some(format);
        let (places, next_number) = (save_places(directory, format), self.last.next_archive);
        self.shards =
            (format == SaveFormat::Tar).then(|| Shards::new(places, storage.clone(), self.max_bytes, next_number));
    }

    /// Commits say from now on what was read of this input.
    pub(super) fn track(&mut self, input: TrackedInput) {
        self.input = Some(input);
    }

    pub(super) fn last_commit(&self) -> &Commit {
        &self.last
    }

    /// Rows whose outcomes this run has written.
    pub(super) fn run_rows(&self) -> u64 {
        self.run_rows
    }

    pub(super) fn watched(&self) -> Arc<Watched> {
        self.watched.clone()
    }

    /// The hosts that responded most recently: each commit stores them.
    pub(super) fn responders(&self) -> Arc<Responders> {
        self.responders.clone()
    }

    /// Rows with an outcome; `failed`: which of them failed, `None`: no row did.
    pub(super) fn write(&mut self, records: &RecordBatch, failed: Option<&BooleanArray>) -> Result<(), JobError> {
        let records = self.part_format.fit(records);
        let records = records.map_err(|error| JobError::internal(format!("the columns of a job: {error}")))?;
        let Some(failed) = failed else { return self.write_answered(&records) };
        let answered = BooleanArray::new(!failed.values(), None);
        self.write_answered(&select(&records, &answered)?)?;
        self.write_failed(&select(&records, failed)?)
    }

    fn write_answered(&mut self, records: &RecordBatch) -> Result<(), JobError> {
        if let Some(shards) = &mut self.shards {
            let archived = shards.add(records);
            let archived = archived.inspect_err(|_| self.give_up())?;
            return self.write_archived(&archived);
        }
        self.write_archived(records)
    }

    /// Rows whose bodies are where they belong.
    fn write_archived(&mut self, records: &RecordBatch) -> Result<(), JobError> {
        self.totals.answered += records.num_rows() as u64;
        self.run_rows += records.num_rows() as u64;
        self.write_to(PartKind::Answered, records)
    }

    fn write_failed(&mut self, records: &RecordBatch) -> Result<(), JobError> {
        self.run_rows += records.num_rows() as u64;
        self.carry_failed(records)
    }

    /// Rows that failed in an earlier run, and still count as failed.
    pub(super) fn carry_failed(&mut self, records: &RecordBatch) -> Result<(), JobError> {
        self.totals.failed += records.num_rows() as u64;
        for kind in kinds(records) {
            *self.totals.errors.entry(kind).or_default() += 1;
        }
        self.write_to(PartKind::Failed, records)
    }

    /// Rows of a `failed-*` part that the next commit removes.
    pub(super) fn forget_failed(&mut self, records: &RecordBatch) {
        self.totals.failed = self.totals.failed.saturating_sub(records.num_rows() as u64);
        for kind in kinds(records) {
            if let Some(count) = self.totals.errors.get_mut(&kind) {
                *count = count.saturating_sub(1);
            }
        }
        self.totals.errors.retain(|_, count| *count > 0);
    }

    /// Whether it is time for a commit: a part is full, or rows have waited for long enough.
    pub(super) fn is_due(&self) -> bool {
        let is_full = !self.finished.is_empty() || self.shards.as_ref().is_some_and(Shards::is_full);
        // Rows of an archive are committed when it is complete.
        let waits_since = self.uncommitted_since.filter(|_| !self.shards.as_ref().is_some_and(Shards::is_open));
        is_full || waits_since.is_some_and(|since| self.has_waited_long_enough(since, (self.clock)()))
    }

    fn has_waited_long_enough(&self, since: Instant, now: Instant) -> bool {
        let elapsed = since.saturating_duration_since(self.started);
        now.saturating_duration_since(since) >= commit_schedule::interval(self.commits, elapsed, self.commit_every)
    }

    /// Closes the open parts and makes them count, together with the rows that are done with them.
    pub(super) fn commit(&mut self, done_rows: &DoneRows, change: &Change) -> Result<(), JobError> {
        if let Some(shards) = &mut self.shards {
            shards.close()?;
        }
        self.close(PartKind::Answered)?;
        self.close(PartKind::Failed)?;
        let mut next = self.last.clone();
        next.number += 1;
        next.headgate_version = env!("CARGO_PKG_VERSION").into();
        next.adds = mem::take(&mut self.finished);
        next.removes = change.removes.iter().map(|part| part.name.clone()).collect();
        next.next_part = self.answered.next_number;
        next.next_failed = self.failed.next_number;
        next.next_archive = self.shards.as_ref().map_or(next.next_archive, Shards::next_number);
        // If the commit fails, none follows.
        self.parts.apply(&next).map_err(|trouble| JobError::internal(format!("a commit: {trouble}")))?;
        next.parts_sum = self.parts.sum();
        (self.totals.parts, self.totals.bytes) = (self.parts.len(), self.parts.bytes());
        next.totals = self.totals.clone();
        next.range.end = change.input_rows.or(next.range.end);
        next.finished = change.finished;
        next.responders = self.responders.recent().iter().map(Origin::url).collect();
        if let Some(TrackedInput { fingerprint, rows, read }) = &self.input {
            let content = read.up_to(done_rows.end());
            next.input = content.map(|content| InputThen { fingerprint: fingerprint.clone(), rows: *rows, content });
        }
        let noted = next.set_done_rows(done_rows).and_then(|()| now_text());
        let now = noted.map_err(|error| JobError::internal(format!("a commit: {error}")))?;
        if let Some(run) = next.runs.last_mut() {
            run.rows = self.run_rows;
            run.committed_at = now;
            run.ended = change.run_ended;
        }
        // The last one of a job, too: nobody need read the log of a finished job.
        let is_due = self.until_checkpoint <= 1 || next.finished;
        let is_checkpoint = is_due && self.parts.len() <= MAX_LISTED_PARTS;
        next.parts = is_checkpoint.then(|| self.parts.iter().cloned().collect());
        self.directory.commit(&next, self.saves)?;
        next.parts = None;
        self.until_checkpoint = if is_checkpoint { CHECKPOINT_EVERY } else { self.until_checkpoint.saturating_sub(1) };
        self.watched.commit().clone_from(&next);
        self.last = next;
        self.commits += 1;
        self.uncommitted_since = None;
        Ok(())
    }

    /// Whether the job has no parts yet, and none is begun.
    fn is_empty(&self) -> bool {
        self.totals.parts == 0 && self.answered.open.is_none() && self.failed.open.is_none()
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
            self.give_up();
            return Err(self.cannot_write(&name, &error));
        }
        let has_most_rows = kind == PartKind::Failed && part.rows >= MAX_FAILED_ROWS;
        let is_full = has_most_rows || part.writer.bytes() >= max_bytes;
        if is_full { self.close(kind) } else { Ok(()) }
    }

    fn open(&mut self, kind: PartKind) -> Result<&mut OpenPart, JobError> {
        let Self { directory, part_format, answered, failed, .. } = self;
        let series = if kind == PartKind::Answered { answered } else { failed };
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
                Ok(())
            }
            Err(error) => {
                self.give_up();
                self.directory.discard(&name);
                Err(self.cannot_write(&name, &error))
            }
        }
    }

    /// Discards what is not committed. It has no end and is no use; without it there may be room for others.
    pub(super) fn give_up(&mut self) {
        if let Some(shards) = &mut self.shards {
            shards.give_up();
        }
        for kind in [PartKind::Answered, PartKind::Failed] {
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
        if kind == PartKind::Answered { &self.answered } else { &self.failed }
    }

    fn series_mut(&mut self, kind: PartKind) -> &mut Series {
        if kind == PartKind::Answered { &mut self.answered } else { &mut self.failed }
    }

    fn cannot_write(&self, name: &str, error: &io::Error) -> JobError {
        cannot_write(&self.directory, name, error)
    }
}

fn cannot_write(directory: &JobDirectory, name: &str, error: &io::Error) -> JobError {
    JobError::output(format!("can't write {}: {}", directory.path_of(name).display(), cause(error)))
}

impl Series {
    fn new(next_number: u64) -> Self {
        Self { next_number, open: None }
    }
}
