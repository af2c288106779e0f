//! The rounds of a retry, for its source and its sink: the rows of a few parts are asked at a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use headgate_core::error::JobError;
use roaring::RoaringTreemap;

use crate::job::commit::PartRecord;

/// Parts whose rows are asked again together.
#[derive(Debug)]
pub(super) struct Round {
    parts: Vec<PartRecord>,
    /// The rows that are asked, in their order, and how often each was tried before.
    attempts: Vec<(u64, i16)>,
    done: RoaringTreemap,
    /// Of those the ones whose outcomes are not committed.
    uncommitted: RoaringTreemap,
}

/// What became of rows since the last commit, and the parts that those rows are in.
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
    round: Option<Round>,
    closed: bool,
}

impl Round {
    /// `attempts`: the rows that are asked, and how often each was tried.
    pub(super) fn new(parts: Vec<PartRecord>, mut attempts: Vec<(u64, i16)>) -> Self {
        attempts.sort_unstable();
        Self { parts, attempts, done: RoaringTreemap::new(), uncommitted: RoaringTreemap::new() }
    }

    /// The rows that are asked, in their order.
    pub(super) fn rows(&self) -> Vec<u64> {
        self.attempts.iter().map(|(row, _)| *row).collect()
    }

    fn is_complete(&self) -> bool {
        self.done.len() == self.attempts.len() as u64
    }
}

impl Rounds {
    /// By the source, before it gives the rows of the parts.
    pub(super) fn begin(&self, round: Round) {
        self.state().round = Some(round);
    }

    /// By the source: whether to go on with the next parts.
    pub(super) fn wait_until_replaced(&self) -> bool {
        let waits = |state: &mut State| state.round.is_some() && !state.closed;
        let state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// By the sink: rows that have an outcome. How often each was tried before.
    pub(super) fn record(&self, rows: &[i64]) -> Result<Vec<i16>, JobError> {
        let mut state = self.state();
        let round = state.round.as_mut();
        let round = round.ok_or_else(|| JobError::internal("a row ended that was not asked again"))?;
        let mut tried = Vec::with_capacity(rows.len());
        for row in rows.iter().map(|row| *row as u64) {
            match round.attempts.binary_search_by_key(&row, |(row, _)| *row) {
                Ok(at) if round.done.insert(row) => tried.push(round.attempts[at].1),
                _ => return Err(JobError::internal(format!("row {row} ended twice, or was not asked again"))),
            }
            round.uncommitted.insert(row);
        }
        Ok(tried)
    }

    /// Whether all rows of the round have an outcome.
    pub(super) fn is_complete(&self) -> bool {
        self.state().round.as_ref().is_some_and(Round::is_complete)
    }

    /// By the sink, which commits them now. `None`: there are none.
    pub(super) fn take_outcomes(&self) -> Option<RoundOutcomes> {
        let mut state = self.state();
        let round = state.round.as_mut().filter(|round| !round.uncommitted.is_empty())?;
        Some(RoundOutcomes { parts: std::mem::take(&mut round.parts), rows: std::mem::take(&mut round.uncommitted) })
    }

    /// By the sink: these parts stand for those of the round now.
    pub(super) fn replaced(&self, parts: Vec<PartRecord>) {
        let mut state = self.state();
        match &mut state.round {
            Some(round) if !round.is_complete() => round.parts = parts,
            round => *round = None,
        }
        self.changed.notify_all();
    }

    /// By the sink, which takes no more rows.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
