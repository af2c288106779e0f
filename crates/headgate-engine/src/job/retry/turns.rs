//! The turns that the source and the sink of a retry take: the rows of a few parts are asked at a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use roaring::RoaringTreemap;

use crate::job::commit::PartRecord;
use crate::model::error::JobError;

/// Parts whose rows are asked again together.
#[derive(Debug)]
pub(super) struct Turn {
    parts: Vec<PartRecord>,
    /// The rows that are asked, in their order, and how often each was tried before.
    attempts: Vec<(u64, i16)>,
    done: RoaringTreemap,
    /// Of those the ones whose outcomes are not committed.
    uncommitted: RoaringTreemap,
}

/// What became of rows since the last commit, and the parts that those rows are in.
#[derive(Debug)]
pub(super) struct Outcomes {
    pub(super) parts: Vec<PartRecord>,
    pub(super) rows: RoaringTreemap,
}

#[derive(Debug, Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    turn: Option<Turn>,
    closed: bool,
}

impl Turn {
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

impl Turns {
    /// By the source, before it gives the rows of the parts.
    pub(super) fn begin(&self, turn: Turn) {
        self.state().turn = Some(turn);
    }

    /// By the source: whether to go on with the next parts.
    pub(super) fn wait_until_replaced(&self) -> bool {
        let waits = |state: &mut State| state.turn.is_some() && !state.closed;
        let state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// By the sink: rows that have an outcome. How often each was tried before.
    pub(super) fn record(&self, rows: &[i64]) -> Result<Vec<i16>, JobError> {
        let mut state = self.state();
        let turn = state.turn.as_mut();
        let turn = turn.ok_or_else(|| JobError::internal("a row ended that was not asked again"))?;
        let mut tried = Vec::with_capacity(rows.len());
        for row in rows.iter().map(|row| *row as u64) {
            match turn.attempts.binary_search_by_key(&row, |(row, _)| *row) {
                Ok(at) if turn.done.insert(row) => tried.push(turn.attempts[at].1),
                _ => return Err(JobError::internal(format!("row {row} ended twice, or was not asked again"))),
            }
            turn.uncommitted.insert(row);
        }
        Ok(tried)
    }

    /// Whether all rows of the turn have an outcome.
    pub(super) fn is_complete(&self) -> bool {
        self.state().turn.as_ref().is_some_and(Turn::is_complete)
    }

    /// By the sink, which commits them now. `None`: there are none.
    pub(super) fn take_outcomes(&self) -> Option<Outcomes> {
        let mut state = self.state();
        let turn = state.turn.as_mut().filter(|turn| !turn.uncommitted.is_empty())?;
        Some(Outcomes { parts: std::mem::take(&mut turn.parts), rows: std::mem::take(&mut turn.uncommitted) })
    }

    /// By the sink: these parts stand for those of the turn now.
    pub(super) fn replaced(&self, parts: Vec<PartRecord>) {
        let mut state = self.state();
        match &mut state.turn {
            Some(turn) if !turn.is_complete() => turn.parts = parts,
            turn => *turn = None,
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
