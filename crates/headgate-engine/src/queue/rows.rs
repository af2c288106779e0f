//! The queue of rows between the source and the workers, bounded in rows and in bytes: rows may carry bodies.
//!
//! Rows go in by whole batches and come out a few at a time, whatever a worker can use. The source is not woken for each
//! few that were taken, but when half of the queue is free: on one core each waking costs as much as a request.
//!
//! Rows that were drawn may be passed over, where the input can be read again: they are left undone, and somebody beside
//! the source reads them again when that is asked for. The source waits meanwhile, wherever it stands; so nobody needs to
//! interrupt it. It is never further than a window beyond the first row that was passed over, but for what was queued.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::again::AgainSender;
pub use super::passed::ReadingAgain;
use super::shared::{Frontier, Shared, State};
use crate::model::row::{Row, RowBatch};

/// How rows that were passed over are read again.
pub struct PassingOver {
    /// Starts whoever reads them; called when they are asked for the first time.
    pub start: Box<dyn FnOnce(AgainSender) + Send>,
    /// How far the source may be beyond the first of them, in rows.
    pub window: u64,
}

impl fmt::Debug for PassingOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassingOver").field("window", &self.window).finish_non_exhaustive()
    }
}

/// The source's end: it blocks. Dropping it says that there are no more rows.
#[derive(Debug)]
pub struct RowSender {
    shared: Arc<Shared>,
}

/// A worker's end; all of them draw from one queue.
#[derive(Debug, Clone)]
pub struct RowReceiver {
    shared: Arc<Shared>,
    /// `None`: it was done, or is not possible.
    start_again: Arc<Mutex<Option<PassingOver>>>,
}

/// Why there is no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRows {
    /// None yet.
    Empty,
    /// None will come by itself: only those that were passed over, once they are asked for.
    Stalled,
    /// None will come, unless a row that was drawn is passed over.
    Ended,
}

/// `passing_over`: `None` where the input can't be read again.
pub fn row_queue(passing_over: Option<PassingOver>) -> (RowSender, RowReceiver) {
    let shared = Arc::new(Shared::new(passing_over.as_ref().map(|passing_over| passing_over.window)));
    let start_again = Arc::new(Mutex::new(passing_over));
    (RowSender { shared: shared.clone() }, RowReceiver { shared, start_again })
}

impl RowSender {
    /// Queues rows, waiting while there is no room for them. `false`: nobody wants rows any more.
    pub fn send(&self, batch: RowBatch) -> bool {
        let Some(last) = batch.last().map(|row| row.ordinal) else { return !self.is_closed() };
        let bytes: usize = batch.iter().map(Row::bytes).sum();
        let mut state = self.shared.state();
        let mut waited = false;
        while !state.closed {
            if self.shared.holds_back(&mut state, last) {
                self.tell_if_stalled(&mut state);
            } else if state.has_room(batch.len(), bytes) || waited && state.is_half_empty() {
                state.rows.extend(batch);
                state.bytes += bytes;
                drop(state);
                self.shared.wake_workers();
                return true;
            } else {
                waited = true;
                state.source_waits = true;
            }
            state = self.shared.wait(state);
        }
        false
    }

    /// The source has to wait until rows that were drawn are done.
    pub fn stand(&self) {
        let mut state = self.shared.state();
        state.frontier = Frontier::Stands;
        self.tell_if_stalled(&mut state);
    }

    /// The input is at its end. What was passed over may still be read again.
    pub fn finish(self) {
        let mut state = self.shared.state();
        if self.shared.window.is_some() {
            state.frontier = Frontier::AtEnd;
        }
        state.tell_if_stalled();
        drop(state);
        self.shared.wake_workers();
    }

    /// Whether nobody wants rows any more.
    pub fn is_closed(&self) -> bool {
        self.shared.state().closed
    }

    fn tell_if_stalled(&self, state: &mut State) {
        state.tell_if_stalled();
        if state.stalled_is_news {
            self.shared.wake_workers();
        }
    }
}

/// An end that does not block, for rows that somebody asks for one by one: who asks bounds them. Dropping it says that there are
/// no more rows.
#[derive(Debug)]
pub struct RowFeeder {
    sender: RowSender,
}

impl RowFeeder {
    pub fn new(sender: RowSender) -> Self {
        Self { sender }
    }

    /// Queues rows, whatever room there is. `false`: nobody wants rows any more, and those are dropped.
    pub fn feed(&self, rows: impl IntoIterator<Item = Row>) -> bool {
        let mut state = self.sender.shared.state();
        if state.closed {
            return false;
        }
        let before = state.rows.len();
        for row in rows {
            state.bytes += row.bytes();
            state.rows.push_back(row);
        }
        let is_one = state.rows.len() == before + 1;
        drop(state);
        self.sender.shared.wake_for(is_one);
        true
    }
}

impl Drop for RowSender {
    fn drop(&mut self) {
        if self.shared.state().frontier != Frontier::AtEnd {
            self.shared.close();
        }
    }
}

impl RowReceiver {
    /// Up to `max` rows, when there are any. Cancel safe.
    ///
    /// [`NoRows::Stalled`] is told to one worker each time that it becomes so, or rows are passed over while it is so; perhaps
    /// also when the source is just about to go on.
    pub async fn recv(&self, max: usize) -> Result<Vec<Row>, NoRows> {
        loop {
            // `Notified` counts from its creation: rows that come between the look and the wait are not missed.
            let available = self.shared.available.notified();
            match self.take(max, true) {
                Err(NoRows::Empty) => available.await,
                rows_or_end => return rows_or_end,
            }
        }
    }

    /// Never [`NoRows::Stalled`].
    pub fn try_recv(&self, max: usize) -> Result<Vec<Row>, NoRows> {
        self.take(max, false)
    }

    fn take(&self, max: usize, tell: bool) -> Result<Vec<Row>, NoRows> {
        let mut state = self.shared.state();
        if state.rows.is_empty() {
            return Err(if state.has_ended() {
                NoRows::Ended
            } else if tell && mem::take(&mut state.stalled_is_news) && state.only_reading_again_helps() {
                NoRows::Stalled
            } else {
                NoRows::Empty
            });
        }
        let count = max.min(state.rows.len());
        let rows: Vec<Row> = state.rows.drain(..count).collect();
        state.bytes -= rows.iter().map(Row::bytes).sum::<usize>();
        if state.is_half_empty() && mem::take(&mut state.source_waits) {
            self.shared.room.notify_all();
        }
        Ok(rows)
    }

    /// Whether the input can be read again, so that rows can be passed over.
    pub fn can_pass_over(&self) -> bool {
        self.shared.window.is_some()
    }

    /// These rows were drawn, and are left to be read again; in any order. To be asked of one that can pass over.
    pub fn pass_over(&self, ordinals: &[u64]) {
        let mut state = self.shared.state();
        if !state.closed {
            state.passed.add(ordinals);
            state.tell_if_stalled();
            if state.stalled_is_news {
                self.shared.wake_workers();
            }
        }
    }

    /// Has the rows that were passed over read again, from this ordinal on in their order, before the source reads on. Nothing
    /// if that goes on already.
    pub fn read_again(&self, from: u64) {
        if !self.shared.ask(from) {
            return;
        }
        self.shared.room.notify_all();
        let start = self.start_again.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(PassingOver { start, .. }) = start {
            start(AgainSender::new(self.shared.clone()));
        }
    }

    /// Enough was read again: the source reads on where it stopped. What was not read stays passed over.
    pub fn enough(&self) {
        let mut state = self.shared.state();
        if state.passed.enough(Instant::now()) {
            state.tell_if_stalled();
        }
        drop(state);
        self.shared.wake_all();
    }

    /// Waits until [`RowReceiver::try_recv`] has something else to say than that there is none yet, or only reading again
    /// helps. Cancel safe.
    pub async fn available(&self) {
        loop {
            let available = self.shared.available.notified();
            let is_news = {
                let mut state = self.shared.state();
                let is_stalled = mem::take(&mut state.stalled_is_news) && state.only_reading_again_helps();
                !state.rows.is_empty() || state.has_ended() || is_stalled
            };
            if is_news {
                return;
            }
            available.await;
        }
    }

    /// Whether this holds of all rows that are queued.
    pub fn all_queued(&self, holds: impl FnMut(&Row) -> bool) -> bool {
        self.shared.state().rows.iter().all(holds)
    }

    /// Whether no row will come, unless one that was drawn is passed over.
    pub fn has_ended(&self) -> bool {
        self.shared.state().has_ended()
    }

    /// Whether rows are read again, and when that was so before.
    pub fn reading_again(&self) -> ReadingAgain {
        self.shared.state().passed.reading_again()
    }

    /// The first row that was passed over, and how many there are.
    pub fn passed_over(&self) -> (Option<u64>, u64) {
        let state = self.shared.state();
        (state.passed.first(), state.passed.count())
    }

    /// Whether the source can't go on by itself: it is at the end of the input, or as far beyond rows that are not done as it may
    /// be.
    pub fn frontier_stalled(&self) -> bool {
        self.shared.state().frontier != Frontier::Reads
    }

    /// Marks this row as cancelled, if it is queued: whoever takes it in its turn sees to that it fails. Whether it is.
    pub fn cancel(&self, ordinal: u64) -> bool {
        let mut state = self.shared.state();
        let Some(row) = state.rows.iter_mut().find(|row| row.ordinal == ordinal) else { return false };
        let bytes_before = row.bytes();
        row.cancel();
        let added = row.bytes() - bytes_before;
        state.bytes += added;
        true
    }

    /// Nobody wants rows any more: those that wait are dropped, and the source learns of it.
    pub fn stop(&self) {
        let mut state = self.shared.state();
        state.rows.clear();
        state.bytes = 0;
        // Under the same lock: no batch comes in between.
        state.closed = true;
        drop(state);
        self.shared.close();
        // It holds the input open, and this one may live on.
        drop(self.start_again.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

#[cfg(test)]
mod tests;
