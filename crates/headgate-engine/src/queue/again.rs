//! The queue's end for whoever reads rows again that were passed over. Meanwhile the source waits.

use std::sync::Arc;
use std::time::Instant;

use super::shared::{Shared, State};
use crate::model::row::RowBatch;

/// It blocks. Dropping it says that no row can be read again.
#[derive(Debug)]
pub struct AgainSender {
    shared: Arc<Shared>,
}

impl AgainSender {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Waits until rows are to be read again: from which ordinal on. `None`: nobody wants rows any more.
    pub fn wait_until_asked(&self) -> Option<u64> {
        let mut state = self.shared.state();
        while !state.closed {
            if let Some(from) = state.passed.begin(Instant::now()) {
                return Some(from);
            }
            state = self.shared.wait(state);
        }
        None
    }

    /// The next row to read, not before this ordinal. `None`: there is none, or it was enough; the source goes on.
    pub fn next_wanted(&self, from: u64) -> Option<u64> {
        let mut state = self.shared.state();
        let wanted = if is_over(&state) { None } else { state.passed.first_from(from) };
        if wanted.is_none() {
            state.passed.end(Instant::now());
            state.tell_if_stalled();
            drop(state);
            self.shared.wake_all();
        }
        wanted
    }

    /// Whether nothing is to be read now: a long way through the input need not be gone to its end.
    pub fn is_enough(&self) -> bool {
        is_over(&self.shared.state())
    }

    /// Queues those of the rows that were passed over, and drops the others; waits while there is no room. `false`: it was
    /// enough, and the rows are as they were.
    pub fn send(&self, rows: &mut RowBatch) -> bool {
        let mut state = self.shared.state();
        let mut waited = false;
        loop {
            if is_over(&state) {
                return false;
            }
            let (count, bytes) = state.passed.size_among(rows);
            if state.has_room(count, bytes) || waited && state.is_half_empty() {
                state.queue_passed(rows, bytes);
                drop(state);
                self.shared.wake_workers();
                return true;
            }
            waited = true;
            state.source_waits = true;
            state = self.shared.wait(state);
        }
    }
}

fn is_over(state: &State) -> bool {
    state.closed || state.passed.is_enough()
}

impl Drop for AgainSender {
    fn drop(&mut self) {
        self.shared.close();
    }
}
