//! Results on their way into parts, and parts into commits.

use std::fs::File;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int16Type;
use arrow_array::{Array as _, RecordBatch};
use arrow_schema::SchemaRef;

use super::commit::{Commit, PartRecord, RunRecord, Totals};
use super::directory::JobDirectory;
use super::progress::Progress;
use super::watched::Watched;
use crate::error::JobError;
use crate::options::{Format, SinkOptions};
use crate::sink::{
    Clock, FinishedPart, LineEncoder, NdjsonPart, ParquetPart, PartKind, PartName, PartWriter, cause, now_text,
};

/// Rows of a `failed-*` part at the most: a retry holds 16 bytes of memory for each, and commits them together.
const MAX_FAILED_ROWS: u64 = 262_144;
/// A part of less than this share of the size of a full one is small: 32 MiB of 128.
const SMALL_SHARE: u64 = 4;

/// Writes the parts of a job, at most one of each kind at a time, and commits them.
pub(super) struct JobWriter {
    pub(super) directory: JobDirectory,
    form: Form,
    max_bytes: u64,
    commit_every: Duration,
    clock: Clock,
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
    watched: Arc<Watched>,
}

/// How results are written.
pub(super) enum Form {
    Parquet(SchemaRef),
    Ndjson(Arc<LineEncoder>),
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
    /// Every row is done, and small parts are put together.
    pub(super) finished: bool,
}

impl JobWriter {
    pub(super) fn new(
        directory: JobDirectory,
        form: Form,
        options: &SinkOptions,
        mut last: Commit,
        command: &str,
        clock: Clock,
    ) -> Result<Self, JobError> {
        let started_at = now_text().map_err(|error| JobError::internal(format!("the time: {error}")))?;
        let committed_at = started_at.clone();
        last.begin_run(RunRecord { command: command.into(), started_at, committed_at, rows: 0, ended: false });
        Ok(Self {
            directory,
            form,
            max_bytes: options.part_bytes,
            commit_every: options.commit_every,
            clock,
            answered: Series::new(last.next_part),
            failed: Series::new(last.next_failed),
            finished: Vec::new(),
            uncommitted_since: None,
            totals: last.totals.clone(),
            run_rows: 0,
            watched: Arc::new(Watched::new(last.clone())),
            last,
        })
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

    /// Rows that were answered.
    pub(super) fn write_answered(&mut self, records: &RecordBatch) -> Result<(), JobError> {
        self.totals.answered += records.num_rows() as u64;
        self.run_rows += records.num_rows() as u64;
        self.write(PartKind::Answered, records)
    }

    /// Rows that were given up.
    pub(super) fn write_failed(&mut self, records: &RecordBatch) -> Result<(), JobError> {
        self.run_rows += records.num_rows() as u64;
        self.carry_failed(records)
    }

    /// Rows that were given up by an earlier run, and are still.
    pub(super) fn carry_failed(&mut self, records: &RecordBatch) -> Result<(), JobError> {
        self.totals.failed += records.num_rows() as u64;
        for kind in kinds(records) {
            *self.totals.errors.entry(kind).or_default() += 1;
        }
        self.write(PartKind::Failed, records)
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
        let waits_since = self.uncommitted_since;
        !self.finished.is_empty()
            || waits_since.is_some_and(|since| (self.clock)().saturating_duration_since(since) >= self.commit_every)
    }

    /// Closes the open parts and makes them count, together with the progress that goes with them.
    pub(super) fn commit(&mut self, progress: &Progress, change: &Change) -> Result<(), JobError> {
        self.close(PartKind::Answered)?;
        self.close(PartKind::Failed)?;
        let mut next = self.last.clone();
        next.number += 1;
        next.headgate_version = env!("CARGO_PKG_VERSION").into();
        next.adds = mem::take(&mut self.finished);
        next.removes = change.removes.iter().map(|part| part.name.clone()).collect();
        next.next_part = self.answered.next_number;
        next.next_failed = self.failed.next_number;
        let sum = |parts: &[PartRecord]| parts.iter().map(|part| part.bytes).sum::<u64>();
        self.totals.parts = self.totals.parts + next.adds.len() as u64 - change.removes.len() as u64;
        self.totals.bytes = self.totals.bytes + sum(&next.adds) - sum(&change.removes);
        next.totals = self.totals.clone();
        next.range.end = change.input_rows.or(next.range.end);
        next.finished = change.finished;
        let noted = next.set_progress(progress).and_then(|()| now_text());
        let now = noted.map_err(|error| JobError::internal(format!("a commit: {error}")))?;
        if let Some(run) = next.runs.last_mut() {
            run.rows = self.run_rows;
            run.committed_at = now;
            run.ended = change.run_ended;
        }
        self.directory.commit(&next)?;
        self.watched.commit().clone_from(&next);
        self.last = next;
        self.uncommitted_since = None;
        Ok(())
    }

    /// The last commits of a run: of what is left and, if every row of the input is done, of small parts put together.
    pub(super) fn end(
        &mut self,
        progress: &Progress,
        input_rows: Option<u64>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), JobError> {
        let is_complete = input_rows == Some(progress.watermark());
        if is_complete && self.is_empty() {
            // A job without rows leaves a table without rows, so that `OUT/*.parquet` is always something to read.
            self.open(PartKind::Answered)?;
        }
        let last = |finished| Change { input_rows, run_ended: true, finished, removes: Vec::new() };
        self.commit(progress, &last(false))?;
        if !is_complete {
            return Ok(());
        }
        let merged = self.merge(progress, stopped);
        self.watched.begin_merge(0);
        match merged? {
            Some(removes) => self.commit(progress, &Change { removes, ..last(true) }),
            None => Ok(()),
        }
    }

    /// Puts small parts of each kind together: they are written anew, and a commit for each part that is full removes those it is
    /// made of; so there need be room for one more part, and whoever is stopped goes on from there. What is returned is to be
    /// removed by the commit that follows. `None`: it was told to stop.
    fn merge(&mut self, progress: &Progress, stopped: &dyn Fn() -> bool) -> Result<Option<Vec<PartRecord>>, JobError> {
        let is_small = |part: &PartRecord| part.bytes < self.max_bytes / SMALL_SHARE;
        // By number, and so about in the order of the input.
        let mut parts: Vec<_> = self.directory.parts()?.into_values().filter(is_small).collect();
        parts.sort_by_key(|part| PartName::parse(&part.name));
        let mut removes = Vec::new();
        for kind in [PartKind::Answered, PartKind::Failed] {
            let of_kind = |part: &&PartRecord| PartName::parse(&part.name).is_some_and(|name| name.kind == kind);
            let has_few_rows =
                |part: &&PartRecord| kind == PartKind::Answered || part.rows < MAX_FAILED_ROWS / SMALL_SHARE;
            let parts: Vec<_> = parts.iter().filter(of_kind).filter(has_few_rows).cloned().collect();
            if parts.len() < 2 {
                continue;
            }
            self.watched.begin_merge(parts.len());
            for part in parts {
                if stopped() {
                    self.give_up();
                    return Ok(None);
                }
                if self.is_full_with(kind, &part) {
                    let removes = mem::take(&mut removes);
                    self.commit(progress, &Change { removes, run_ended: true, ..Change::default() })?;
                }
                self.append(kind, &part)?;
                self.watched.merged_part();
                removes.push(part);
            }
        }
        Ok(Some(removes))
    }

    /// Whether the open part has no room for another one.
    fn is_full_with(&self, kind: PartKind, part: &PartRecord) -> bool {
        self.series(kind).open.as_ref().is_some_and(|open| {
            open.writer.bytes() >= self.max_bytes || kind == PartKind::Failed && open.rows + part.rows > MAX_FAILED_ROWS
        })
    }

    fn append(&mut self, kind: PartKind, part: &PartRecord) -> Result<(), JobError> {
        let path = self.directory.path_of(&part.name);
        let open = self.open(kind)?;
        match open.writer.append(&path, part.crc32) {
            Ok(rows) => {
                open.rows += rows;
                Ok(())
            }
            Err(error) => {
                self.give_up();
                Err(JobError::output(format!(
                    "cannot put {} together with others: {}; all rows are done, and the same command tries again",
                    path.display(),
                    cause(&error)
                )))
            }
        }
    }

    /// Whether the job has no parts yet, and none is begun.
    fn is_empty(&self) -> bool {
        self.totals.parts == 0 && self.answered.open.is_none() && self.failed.open.is_none()
    }

    fn write(&mut self, kind: PartKind, records: &RecordBatch) -> Result<(), JobError> {
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
        let Self { directory, form, answered, failed, .. } = self;
        let series = if kind == PartKind::Answered { answered } else { failed };
        if series.open.is_none() {
            let name = PartName::new(kind, series.next_number, form.format()).to_string();
            let writer = directory.create_part(&name).and_then(|file| form.writer(file));
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
    JobError::output(format!("cannot write {}: {}", directory.path_of(name).display(), cause(error)))
}

impl Series {
    fn new(next_number: u64) -> Self {
        Self { next_number, open: None }
    }
}

/// Why each row was given up: its kind of error, or its status as `status:503`.
pub(super) fn kinds(records: &RecordBatch) -> Vec<String> {
    let error = records.column_by_name("error").map(AsArray::as_string::<i32>);
    let status = records.column_by_name("status").map(AsArray::as_primitive::<Int16Type>);
    let kind = |row: usize| match (error, status) {
        (Some(error), _) if error.is_valid(row) => error.value(row).to_owned(),
        (_, Some(status)) if status.is_valid(row) => format!("status:{}", status.value(row)),
        _ => "unknown".to_owned(),
    };
    (0..records.num_rows()).map(kind).collect()
}

impl Form {
    /// # Errors
    /// `Usage`: an input column to keep cannot be held.
    pub(super) fn new(format: Format, schema: &SchemaRef) -> Result<Self, JobError> {
        Ok(match format {
            Format::Ndjson => Form::Ndjson(NdjsonPart::checked_encoder(schema)?),
            Format::Parquet | Format::None => Form::Parquet(ParquetPart::checked_schema(schema)?),
        })
    }

    fn format(&self) -> Format {
        match self {
            Form::Parquet(_) => Format::Parquet,
            Form::Ndjson(_) => Format::Ndjson,
        }
    }

    fn writer(&self, file: File) -> io::Result<Box<dyn PartWriter>> {
        Ok(match self {
            Form::Parquet(schema) => Box::new(ParquetPart::new(file, schema)?),
            Form::Ndjson(encoder) => Box::new(NdjsonPart::new(file, encoder.clone())),
        })
    }
}
