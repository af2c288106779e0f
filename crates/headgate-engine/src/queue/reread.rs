//! The sender for the thread that reads deferred rows again. The source waits while it reads.

use std::sync::Arc;

use headgate_core::clock;
use headgate_core::row::RowBatch;

use super::shared::{QueueState, SharedQueue};

/// The blocking sender of deferred rows. Once it is dropped, no row can be read again.
#[derive(Debug)]
pub(crate) struct RereadSender {
    shared: Arc<SharedQueue>,
}

impl RereadSender {
    pub(super) fn new(shared: Arc<SharedQueue>) -> Self {
        Self { shared }
    }

    /// Waits for a request to read rows again, and returns the first ordinal. `None`: no rows are wanted any more.
    pub(crate) fn wait_for_request(&self) -> Option<u64> {
        let mut state = self.shared.state();
        while !state.is_closed {
            if let Some(from) = state.deferred.begin(clock::now()) {
                return Some(from);
            }
            state = self.shared.wait(state);
        }
        None
    }

    /// Returns the next row to read, not before this ordinal. `None`: there is no such row, or no more rows are wanted; the
    /// source continues.
    pub(crate) fn next_wanted(&self, from: u64) -> Option<u64> {
        let mut state = self.shared.state();
        let wanted = if is_over(&state) { None } else { state.deferred.first_from(from) };
        if wanted.is_none() {
            state.deferred.end(clock::now());
            drop(state);
            self.shared.wake_all();
        }
        wanted
    }

    /// Returns whether no row is to be read now, so that the thread need not scan the rest of a long input.
    pub(crate) fn is_enough(&self) -> bool {
        is_over(&self.shared.state())
    }

    /// Queues those of the rows that are deferred, and drops all other rows; waits while the queue is full. Returns `false` if
    /// no more rows are wanted; `rows` is unchanged then.
    pub(crate) fn send(&self, rows: &mut RowBatch) -> bool {
        let mut state = self.shared.state();
        let mut waited = false;
        loop {
            if is_over(&state) {
                return false;
            }
            let (count, bytes) = state.deferred.size_among(rows);
            if state.has_room(count, bytes) || waited && state.is_half_empty() {
                state.queue_deferred(rows, bytes);
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

fn is_over(state: &QueueState) -> bool {
    state.is_closed || state.deferred.is_enough()
}

impl Drop for RereadSender {
    fn drop(&mut self) {
        self.shared.close();
    }
}
