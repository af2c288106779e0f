//! The turns that the source and the sink of a retry take: one part is asked at a time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use roaring::RoaringTreemap;

use crate::error::JobError;
use crate::job::commit::PartRecord;

/// A part whose rows are asked again.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) part: PartRecord,
    /// The rows that are asked, in their order, and how often each was tried before.
    attempts: Vec<(u64, i16)>,
    done: RoaringTreemap,
}

#[derive(Debug, Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    turn: Option<Turn>,
    replacing: bool,
    closed: bool,
}

impl Turn {
    pub(super) fn new(part: PartRecord, attempts: Vec<(u64, i16)>) -> Self {
        Self { part, attempts, done: RoaringTreemap::new() }
    }

    pub(super) fn is_done(&self, row: u64) -> bool {
        self.done.contains(row)
    }
}

impl Turns {
    /// By the source, before it gives the rows of the part.
    pub(super) fn begin(&self, turn: Turn) {
        self.state().turn = Some(turn);
    }

    /// By the source: whether to go on with the next part.
    pub(super) fn wait_until_replaced(&self) -> bool {
        let waits = |state: &mut State| (state.turn.is_some() || state.replacing) && !state.closed;
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
            let at = turn.attempts.binary_search_by_key(&row, |(row, _)| *row);
            match at {
                Ok(at) if turn.done.insert(row) => tried.push(turn.attempts[at].1),
                _ => return Err(JobError::internal(format!("row {row} ended twice, or was not asked again"))),
            }
        }
        Ok(tried)
    }

    /// Whether all rows of the part have an outcome.
    pub(super) fn is_complete(&self) -> bool {
        self.state().turn.as_ref().is_some_and(|turn| turn.done.len() == turn.attempts.len() as u64)
    }

    /// By the sink, which replaces the part now.
    pub(super) fn take(&self) -> Option<Turn> {
        let mut state = self.state();
        state.replacing = true;
        state.turn.take()
    }

    pub(super) fn replaced(&self) {
        self.state().replacing = false;
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
