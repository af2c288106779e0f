//! What both ends of the queue of rows have in common, and whoever reads again.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::passed::Passed;
use crate::model::row::{MAX_BATCH_ROWS, Row, RowBatch};

/// Rows that may wait.
pub(super) const MAX_ROWS: usize = 4 * MAX_BATCH_ROWS;
/// Bytes that may wait; one batch may always, however large.
pub(super) const MAX_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// `None`: rows can't be passed over.
    pub(super) window: Option<u64>,
    /// For the source, and whoever reads again: half of the queue is free, that began or ended, or nobody wants rows any more.
    pub(super) room: Condvar,
    /// For the workers: there are rows, or there will be none.
    pub(super) available: Notify,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) rows: VecDeque<Row>,
    pub(super) bytes: usize,
    pub(super) source_waits: bool,
    pub(super) frontier: Frontier,
    /// No more will come, or nobody wants more.
    pub(super) closed: bool,
    pub(super) passed: Passed,
    /// A worker is to learn that only reading again brings rows.
    pub(super) stalled_is_news: bool,
}

/// How far the source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Frontier {
    #[default]
    Reads,
    /// It can't go on before rows are done that were drawn.
    Stands,
    /// It has no more. What was passed over may still be read again.
    AtEnd,
}

impl State {
    pub(super) fn has_room(&self, rows: usize, bytes: usize) -> bool {
        self.rows.is_empty() || self.rows.len() + rows <= MAX_ROWS && self.bytes + bytes <= MAX_BYTES
    }

    pub(super) fn is_half_empty(&self) -> bool {
        self.rows.len() <= MAX_ROWS / 2 && self.bytes <= MAX_BYTES / 2
    }

    /// No row is here, and none will come.
    pub(super) fn has_ended(&self) -> bool {
        let none_will_come =
            self.closed || self.frontier == Frontier::AtEnd && self.passed.is_empty() && !self.passed.is_read();
        none_will_come && self.rows.is_empty()
    }

    pub(super) fn only_reading_again_helps(&self) -> bool {
        self.frontier != Frontier::Reads && !self.passed.is_empty() && !self.passed.is_read()
    }

    /// To be called where that may have come true. Who waits is to be woken.
    pub(super) fn tell_if_stalled(&mut self) {
        self.stalled_is_news = self.only_reading_again_helps();
    }

    /// Queues those of the rows that were passed over, which have so many bytes.
    pub(super) fn queue_passed(&mut self, rows: &mut RowBatch, bytes: usize) {
        self.rows.extend(self.passed.take(rows));
        self.bytes += bytes;
    }
}

impl Shared {
    pub(super) fn new(window: Option<u64>) -> Self {
        Self { state: Mutex::default(), window, room: Condvar::new(), available: Notify::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until there is room, or something else has changed.
    pub(super) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.room.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake_workers(&self) {
        self.available.notify_waiters();
    }

    /// Wakes one worker for one row. It looks at the queue before it waits again, and so does every other that is at work.
    pub(super) fn wake_for(&self, is_one: bool) {
        if is_one { self.available.notify_one() } else { self.available.notify_waiters() }
    }

    pub(super) fn wake_all(&self) {
        self.room.notify_all();
        self.available.notify_waiters();
    }

    pub(super) fn close(&self) {
        self.state().closed = true;
        self.wake_all();
    }

    /// Asks for rows that were passed over. Whether that is news.
    pub(super) fn ask(&self, from: u64) -> bool {
        let mut state = self.state();
        !state.closed && state.passed.ask(from)
    }

    /// Whether the source is to wait with rows up to this one, whatever room there is.
    pub(super) fn holds_back(&self, state: &mut State, last: u64) -> bool {
        let window = self.window.unwrap_or(u64::MAX);
        let too_far = state.passed.first().is_some_and(|first| last >= first.saturating_add(window));
        state.frontier = if too_far { Frontier::Stands } else { Frontier::Reads };
        too_far || state.passed.is_read()
    }
}
