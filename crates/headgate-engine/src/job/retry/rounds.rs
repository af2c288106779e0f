//! The rounds of a retry, shared by its source and its sink: the rows of a few parts are retried at a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use arrow_array::{BooleanArray, RecordBatch};
use headgate_core::error::JobError;
use roaring::RoaringTreemap;

use super::earlier_errors::EarlierErrors;
use crate::job::commit::PartRecord;
use crate::job::tried_rows::TriedRows;

/// Parts whose rows are retried together.
#[derive(Debug, Default)]
pub(super) struct RetryRound {
    pub(super) parts: Vec<PartRecord>,
    /// The rows to retry, with the attempts in their earlier outcomes.
    pub(super) tried: TriedRows,
    /// The errors in these outcomes.
    pub(super) errors: EarlierErrors,
    done: RoaringTreemap,
    /// The done rows whose outcomes are not committed.
    uncommitted: RoaringTreemap,
}

/// The rows that have ended since the last commit, and the parts that have their earlier outcomes.
#[derive(Debug)]
pub(super) struct RoundOutcomes {
    pub(super) parts: Vec<PartRecord>,
    pub(super) rows: RoaringTreemap,
}

#[derive(Debug, Default)]
pub(super) struct Rounds {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    round: Option<RetryRound>,
    closed: bool,
}

impl RetryRound {
    fn is_complete(&self) -> bool {
        self.done.len() == self.tried.len()
    }
}

impl Rounds {
    /// Begins a round. The source calls this before it returns the rows.
    pub(super) fn begin(&self, round: RetryRound) {
        self.state().round = Some(round);
    }

    /// Waits until the sink has replaced the parts of the round. Returns `false` if the sink accepts no more rows.
    pub(super) fn wait_until_replaced(&self) -> bool {
        let waits = |state: &mut State| state.round.is_some() && !state.closed;
        let state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// Notes rows that have an outcome, for the sink. Returns the number of earlier attempts of each.
    pub(super) fn record(&self, rows: &[i64]) -> Result<Vec<u16>, JobError> {
        let mut state = self.state();
        let round = state.round.as_mut();
        let round = round.ok_or_else(|| JobError::internal("a row ended that was not retried"))?;
        let mut tried = Vec::with_capacity(rows.len());
        for row in rows.iter().map(|row| *row as u64) {
            match round.tried.of(row) {
                Some(attempts) if round.done.insert(row) => tried.push(attempts),
                _ => return Err(JobError::internal(format!("row {row} ended twice, or was not retried"))),
            }
            round.uncommitted.insert(row);
        }
        Ok(tried)
    }

    /// Returns the outcomes of rows of the round with the errors of earlier ones.
    pub(super) fn with_earlier_errors(
        &self,
        records: &RecordBatch,
        failed: Option<&BooleanArray>,
    ) -> Result<RecordBatch, JobError> {
        let state = self.state();
        state.round.as_ref().map_or_else(|| Ok(records.clone()), |round| round.errors.add_to(records, failed))
    }

    /// Returns whether all rows of the round have an outcome.
    pub(super) fn is_complete(&self) -> bool {
        self.state().round.as_ref().is_some_and(RetryRound::is_complete)
    }

    /// Returns the size of the parts of the round, which are replaced together.
    pub(super) fn bytes(&self) -> u64 {
        self.state().round.as_ref().map_or(0, |round| round.parts.iter().map(|part| part.bytes).sum())
    }

    /// Returns the uncommitted outcomes to the sink, which commits them now. `None`: there are none.
    pub(super) fn take_outcomes(&self) -> Option<RoundOutcomes> {
        let mut state = self.state();
        let round = state.round.as_mut().filter(|round| !round.uncommitted.is_empty())?;
        Some(RoundOutcomes { parts: std::mem::take(&mut round.parts), rows: std::mem::take(&mut round.uncommitted) })
    }

    /// Notes the parts that have replaced those of the round. A round that is complete ends.
    pub(super) fn set_replaced(&self, parts: Vec<PartRecord>) {
        let mut state = self.state();
        match &mut state.round {
            Some(round) if !round.is_complete() => round.parts = parts,
            round => *round = None,
        }
        self.changed.notify_all();
    }

    /// Notes that the sink accepts no more rows.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
