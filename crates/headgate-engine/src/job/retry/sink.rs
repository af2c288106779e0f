//! Writes the outcomes of retried rows, which replace the earlier outcomes of these rows.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::BooleanArray;
use arrow_schema::SchemaRef;
use headgate_core::clock;
use headgate_core::error::JobError;
use headgate_table::columns::builder::OutcomeBatch;
use headgate_table::parts::name::PartKind;
use headgate_table::parts::read::read_part;
use headgate_table::sink::{Ending, Shortage, Sink};

use super::rounds::{RoundOutcomes, Rounds};
use crate::job::commit::PartRecord;
use crate::job::done_rows::DoneRows;
use crate::job::records::{rows, select, with_attempts};
use crate::job::writer::{CommitChange, JobWriter};

/// After parts were replaced, the pause before the next time is this many times as long: at most a tenth of the time is used.
const PAUSE_FACTOR: u32 = 9;

pub(super) struct RetrySink {
    writer: JobWriter,
    done_rows: DoneRows,
    schema: SchemaRef,
    rounds: Arc<Rounds>,
    /// Whether rows that succeeded are retried as well: until a round is complete, any part may have some of its rows.
    includes_succeeded: bool,
    /// The earliest time at which parts may be replaced before all of their rows have an outcome.
    not_before: Instant,
    /// A write failed, and nothing may be committed any more.
    failed: bool,
}

impl RetrySink {
    pub(super) fn new(
        writer: JobWriter,
        done_rows: DoneRows,
        schema: SchemaRef,
        rounds: Arc<Rounds>,
        includes_succeeded: bool,
    ) -> Self {
        Self { writer, done_rows, schema, rounds, includes_succeeded, not_before: clock::now(), failed: false }
    }

    fn add(&mut self, batch: &OutcomeBatch) -> Result<(), JobError> {
        let rows = rows(&batch.records)?;
        let tried = self.rounds.record(&rows)?;
        let records = self.writer.with_earlier_attempts(&with_attempts(&batch.records, &tried)?, &rows)?;
        let records = self.rounds.with_earlier_errors(&records, batch.failed.as_ref())?;
        self.writer.write(&records, batch.failed.as_ref())?;
        self.replace_if_due()
    }

    fn replace_if_due(&mut self) -> Result<(), JobError> {
        let is_time = || self.writer.is_due() && clock::now() >= self.not_before;
        if self.rounds.is_complete() || is_time() { self.replace() } else { Ok(()) }
    }

    /// Commits the outcomes of retried rows, and replaces the parts that these rows were in. Other rows of the parts stay as they
    /// are.
    fn replace(&mut self) -> Result<(), JobError> {
        let Some(RoundOutcomes { parts, rows: retried }) = self.rounds.take_outcomes() else { return Ok(()) };
        let began = clock::now();
        let storage = self.writer.directory.storage().clone();
        for part in &parts {
            let kind = part.kind();
            // The checksum is checked, because damaged rows must not be written into a part with a new checksum.
            for batch in read_part(storage.as_ref(), &storage.path().join(&part.name), part.crc32, &self.schema)? {
                let batch = batch?;
                self.writer.subtract(kind, &batch);
                let is_kept: BooleanArray =
                    rows(&batch)?.iter().map(|row| Some(!retried.contains(*row as u64))).collect();
                self.writer.keep(kind, &select(&batch, &is_kept)?)?;
            }
        }
        self.writer.commit(&self.done_rows, &CommitChange { removes: parts, ..CommitChange::default() })?;
        let adds = self.writer.last_commit().adds.iter();
        let is_of_round = |part: &&PartRecord| self.includes_succeeded || part.kind() == PartKind::Failed;
        self.rounds.set_replaced(adds.filter(is_of_round).cloned().collect());
        self.not_before = clock::now() + PAUSE_FACTOR * clock::elapsed(began);
        Ok(())
    }

    fn end(&mut self, ending: &Ending) -> Result<(), JobError> {
        let last = self.writer.last_commit();
        let (input_rows, is_finished) = (last.range.end, last.finished);
        let waits_to_finish = !is_finished && last.end() == Some(self.done_rows.watermark());
        let has_news = self.writer.run_rows() > 0 || !ending.undone.is_empty() || self.writer.has_used_budgets();
        if !has_news && !waits_to_finish {
            // No row was retried, so there is nothing to commit. But an earlier run may have kept files.
            return self.writer.wait_for_readers(ending.stopped);
        }
        self.writer.leave_undone(ending.undone);
        self.replace()?;
        self.writer.finish(&self.done_rows, input_rows, ending)
    }
}

impl Sink for RetrySink {
    fn write(&mut self, batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        let added = self.add(&batch);
        self.failed |= added.is_err();
        added.map(|()| ControlFlow::Continue(()))
    }

    fn tick(&mut self) -> Result<(), JobError> {
        let replaced = self.replace_if_due().and_then(|()| self.writer.reserve_if_due(&self.done_rows));
        let replaced = replaced.and_then(|()| self.writer.remove_replaced(0));
        self.failed |= replaced.is_err();
        replaced
    }

    fn shortage(&self) -> Option<Shortage> {
        // The next commit has the other rows of these parts as well.
        self.writer.shortage(self.rounds.bytes())
    }

    fn finish(&mut self, ending: &Ending) -> Result<(), JobError> {
        let ended = if self.failed { Ok(()) } else { self.end(ending) };
        if self.failed || ended.is_err() {
            self.writer.discard_uncommitted();
        }
        self.rounds.close();
        ended
    }
}
