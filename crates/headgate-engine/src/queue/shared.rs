//! The state that is shared by the sender and the receivers of the queue of rows, and by the thread that reads deferred rows.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use headgate_core::row::{MAX_BATCH_ROWS, Row, RowBatch};
use headgate_core::schedule::slots::DrawnRows;
use tokio::sync::Notify;

use super::deferred::Deferred;

/// The maximum number of queued rows.
pub(super) const MAX_ROWS: usize = 4 * MAX_BATCH_ROWS;
/// The maximum size of the queued rows, except that an empty queue accepts one batch of any size.
pub(super) const MAX_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct SharedQueue {
    state: Mutex<QueueState>,
    /// `None`: rows can't be deferred.
    pub(super) window: Option<u64>,
    /// Notifies the reading threads that half of the queue is free, rereading began or ended, or no rows are wanted any more.
    pub(super) room: Condvar,
    /// Notifies the workers that there are rows, or that none will come without a request.
    pub(super) available: Notify,
}

#[derive(Debug, Default)]
pub(super) struct QueueState {
    pub(super) rows: VecDeque<Row>,
    pub(super) bytes: usize,
    pub(super) source_waits: bool,
    pub(super) source: SourceState,
    /// No more rows enter the queue: a sender is gone, or no more rows are wanted.
    pub(super) is_closed: bool,
    pub(super) deferred: Deferred,
    /// What each worker has drawn and not started.
    pub(super) drawn: Vec<DrawnRows>,
    /// A worker has drawn more than it could start since the others looked for such rows.
    pub(super) may_steal: bool,
}

/// The state of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum SourceState {
    #[default]
    Reads,
    /// It can't continue before rows that were drawn are done.
    Stalled,
    /// It has no more rows. Deferred rows may still be read again.
    AtEnd,
}

impl QueueState {
    pub(super) fn has_room(&self, rows: usize, bytes: usize) -> bool {
        self.rows.is_empty() || self.rows.len() + rows <= MAX_ROWS && self.bytes + bytes <= MAX_BYTES
    }

    pub(super) fn is_half_empty(&self) -> bool {
        self.rows.len() <= MAX_ROWS / 2 && self.bytes <= MAX_BYTES / 2
    }

    /// Returns whether no row is queued, and none will come.
    pub(super) fn has_ended(&self) -> bool {
        let is_read = self.source == SourceState::AtEnd && self.deferred.is_empty() && !self.deferred.is_active();
        (self.is_closed || is_read) && self.rows.is_empty()
    }

    /// Removes a row that a worker has drawn and not started, and returns it.
    pub(super) fn steal(&mut self) -> Option<Row> {
        let stolen = if self.may_steal { self.drawn.iter().find_map(DrawnRows::pop) } else { None };
        self.may_steal = stolen.is_some();
        stolen
    }

    /// Queues those of the rows that are deferred, which have `bytes` bytes in total.
    pub(super) fn queue_deferred(&mut self, rows: &mut RowBatch, bytes: usize) {
        self.rows.extend(self.deferred.take(rows));
        self.bytes += bytes;
    }
}

impl SharedQueue {
    pub(super) fn new(window: Option<u64>) -> Self {
        Self { state: Mutex::default(), window, room: Condvar::new(), available: Notify::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a notification of `room`.
    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, QueueState>) -> MutexGuard<'a, QueueState> {
        self.room.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake_workers(&self) {
        self.available.notify_waiters();
    }

    pub(super) fn wake_all(&self) {
        self.room.notify_all();
        self.available.notify_waiters();
    }

    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.wake_all();
    }

    /// Sets the state of the source. Wakes the workers if only reading deferred rows can provide rows from now on.
    pub(super) fn set_source(&self, state: &mut QueueState, source: SourceState) {
        let is_news = source != SourceState::Reads && source != state.source;
        state.source = source;
        if is_news {
            self.wake_workers();
        }
    }

    /// Returns whether the source has to wait before it queues rows up to this one, even if the queue has room.
    pub(super) fn must_wait(&self, state: &mut QueueState, last: u64) -> bool {
        let window = self.window.unwrap_or(u64::MAX);
        let too_far = state.deferred.first().is_some_and(|first| last >= first.saturating_add(window));
        self.set_source(state, if too_far { SourceState::Stalled } else { SourceState::Reads });
        too_far || state.deferred.is_active()
    }
}
