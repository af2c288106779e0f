//! The queue of rows between the source and the workers, bounded in rows and in bytes: rows may carry bodies.
//!
//! The source sends whole batches, and a worker takes a few rows at a time. The source is not woken each time that a worker
//! takes rows, but once half of the queue is free: on one core, waking it costs as much as a request.
//!
//! If the input can be read again, rows that were drawn may be deferred: a worker skips them, and a second thread reads them
//! again on request. The source waits meanwhile when it next sends rows, so it need not be interrupted. It is never further
//! than a window beyond the first deferred row, except for rows that are queued.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use headgate_core::clock;
use headgate_core::row::{Row, RowBatch};
use headgate_core::schedule::rows_to_cancel::RowsToCancel;
use headgate_core::schedule::scheduler::rereading::Rereading;
use headgate_core::schedule::slots::{DrawnRows, Slots};
use tokio::sync::futures::Notified;

use super::reread::RereadSender;
use super::shared::{QueueState, SharedQueue, SourceState};

/// The parameters for reading deferred rows again.
pub(crate) struct Deferring {
    /// Starts the thread that reads them; called with the first request.
    pub start: Box<dyn FnOnce(RereadSender) + Send>,
    /// The number of rows that the source may be beyond the first deferred row.
    pub window: u64,
}

impl fmt::Debug for Deferring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferring").field("window", &self.window).finish_non_exhaustive()
    }
}

/// The blocking sender of the source. Once it is dropped, there are no more rows.
#[derive(Debug)]
pub(crate) struct RowSender {
    shared: Arc<SharedQueue>,
}

/// The receiver of a worker. All receivers draw from one queue.
#[derive(Debug, Clone)]
pub(crate) struct RowReceiver {
    shared: Arc<SharedQueue>,
    /// `None`: the thread was started, or rows can't be deferred.
    deferring: Arc<Mutex<Option<Deferring>>>,
}

/// The reason why there is no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRows {
    /// There is no row yet, or only deferred rows will come, once they are requested.
    Empty,
    /// No row will come, unless a row that was drawn is deferred.
    Ended,
}

/// Creates a queue of rows. `deferring` is `None` if the input can't be read again.
pub(crate) fn row_queue(deferring: Option<Deferring>) -> (RowSender, RowReceiver) {
    let shared = Arc::new(SharedQueue::new(deferring.as_ref().map(|deferring| deferring.window)));
    let receiver = RowReceiver { shared: shared.clone(), deferring: Arc::new(Mutex::new(deferring)) };
    (RowSender { shared }, receiver)
}

impl RowSender {
    /// Queues rows, and waits while the queue is full. Returns `false` if no rows are wanted any more.
    pub(crate) fn send(&self, batch: RowBatch) -> bool {
        let Some(last) = batch.last().map(|row| row.ordinal) else { return !self.is_closed() };
        let bytes: usize = batch.iter().map(Row::bytes).sum();
        let mut state = self.shared.state();
        let mut waited = false;
        while !state.is_closed {
            if !self.shared.must_wait(&mut state, last) {
                if state.has_room(batch.len(), bytes) || waited && state.is_half_empty() {
                    state.rows.extend(batch);
                    state.bytes += bytes;
                    drop(state);
                    self.shared.wake_workers();
                    return true;
                }
                waited = true;
                state.source_waits = true;
            }
            state = self.shared.wait(state);
        }
        false
    }

    /// Notes that the source has to wait until rows that were drawn are done.
    pub(crate) fn note_stall(&self) {
        self.shared.set_source(&mut self.shared.state(), SourceState::Stalled);
    }

    /// Notes that the input is at its end. Deferred rows may still be read again.
    pub(crate) fn finish(self) {
        if self.shared.window.is_some() {
            self.shared.set_source(&mut self.shared.state(), SourceState::AtEnd);
        }
    }

    /// Returns whether no rows are wanted any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.state().is_closed
    }
}

/// A sender that does not block, for callers that bound their rows themselves. Once it is dropped, there are no more rows.
#[derive(Debug)]
pub(crate) struct RowFeeder {
    sender: RowSender,
}

impl RowFeeder {
    pub(crate) fn new(sender: RowSender) -> Self {
        Self { sender }
    }

    /// Queues rows, even if the queue is full. Returns `false` if no rows are wanted any more, and drops the rows then.
    pub(crate) fn feed(&self, rows: impl IntoIterator<Item = Row>) -> bool {
        let mut state = self.sender.shared.state();
        if state.is_closed {
            return false;
        }
        let before = state.rows.len();
        for row in rows {
            state.bytes += row.bytes();
            state.rows.push_back(row);
        }
        let is_one = state.rows.len() == before + 1;
        drop(state);
        let available = &self.sender.shared.available;
        // One row needs one worker, which checks the queue before it waits again. Every running worker does so, too.
        if is_one {
            available.notify_one();
        } else {
            available.notify_waiters();
        }
        true
    }
}

impl Drop for RowSender {
    fn drop(&mut self) {
        if self.shared.state().source != SourceState::AtEnd {
            self.shared.close();
        }
    }
}

impl RowReceiver {
    /// Returns a future that completes when there may be rows, or none will come without a request. Call it before
    /// [`RowReceiver::try_recv`], so that no change in between is missed.
    pub(crate) fn available(&self) -> Notified<'_> {
        self.shared.available.notified()
    }

    /// Removes up to `max` rows from the queue, and returns them.
    pub(crate) fn try_recv(&self, max: usize) -> Result<Vec<Row>, NoRows> {
        self.recv(&mut self.shared.state(), max)
    }

    /// Lets other workers steal what a worker has drawn.
    pub(crate) fn share_drawn(&self, drawn: DrawnRows) {
        self.shared.state().drawn.push(drawn);
    }

    /// Draws up to `max` rows into the slots of a worker, and returns how many. If none is queued, a row is stolen that a worker
    /// with no free lane has drawn, so that rows never wait while a lane is free; it was counted when it was drawn.
    pub(crate) fn draw(&self, max: usize, slots: &mut Slots) -> Result<usize, NoRows> {
        // Under one lock, because a row that is in neither place would be missed by the others.
        let mut state = self.shared.state();
        if state.rows.is_empty()
            && let Some(stolen) = state.steal()
        {
            slots.offer([stolen]);
            return Ok(0);
        }
        let rows = self.recv(&mut state, max)?;
        let count = rows.len();
        state.may_steal |= count > slots.free_lanes();
        slots.offer(rows);
        Ok(count)
    }

    fn recv(&self, state: &mut QueueState, max: usize) -> Result<Vec<Row>, NoRows> {
        if state.rows.is_empty() {
            return Err(if state.has_ended() { NoRows::Ended } else { NoRows::Empty });
        }
        let count = max.min(state.rows.len());
        let rows: Vec<Row> = state.rows.drain(..count).collect();
        state.bytes -= rows.iter().map(Row::bytes).sum::<usize>();
        self.wake_source_if_half_empty(state);
        Ok(rows)
    }

    /// Returns whether the input can be read again, so that rows can be deferred.
    pub(crate) fn can_defer(&self) -> bool {
        self.shared.window.is_some()
    }

    /// Defers rows that were drawn, in any order. Call it only if rows can be deferred.
    pub(crate) fn defer(&self, ordinals: &[u64]) {
        let mut state = self.shared.state();
        if !state.is_closed {
            state.deferred.add(ordinals);
        }
    }

    /// Requests that the deferred rows from this ordinal on are read again, in their order, before the source continues. Does
    /// nothing while deferred rows are read.
    pub(crate) fn reread(&self, from: u64) {
        let mut state = self.shared.state();
        if state.is_closed || !state.deferred.request(from) {
            return;
        }
        drop(state);
        self.shared.room.notify_all();
        let deferring = self.deferring.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Deferring { start, .. }) = deferring {
            start(RereadSender::new(self.shared.clone()));
        }
    }

    /// Ends the reading of deferred rows. The source continues where it stopped, and rows that were not read stay deferred.
    pub(crate) fn end_rereading(&self) {
        self.shared.state().deferred.set_enough(clock::now());
        self.shared.wake_all();
    }

    /// Returns whether `holds` is true for all queued rows.
    pub(crate) fn all_queued(&self, holds: impl FnMut(&Row) -> bool) -> bool {
        self.shared.state().rows.iter().all(holds)
    }

    /// Returns whether no row is queued, and none will come unless a row that was drawn is deferred.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.state().has_ended()
    }

    /// Returns the state of reading deferred rows again.
    pub(crate) fn rereading(&self) -> Rereading {
        let state = self.shared.state();
        state.deferred.rereading(state.source != SourceState::Reads)
    }

    #[cfg(test)]
    pub(crate) fn deferred_count(&self) -> u64 {
        self.shared.state().deferred.count()
    }

    /// Removes the rows that are cancelled, and returns those that were queued, and those that a worker had drawn.
    pub(crate) fn remove(&self, cancelled: RowsToCancel) -> (Vec<Row>, Vec<Row>) {
        let mut state = self.shared.state();
        let queued = cancelled.remove_from(&mut state.rows);
        state.bytes -= queued.iter().map(Row::bytes).sum::<usize>();
        self.wake_source_if_half_empty(&mut state);
        let drawn = state.drawn.iter().flat_map(|drawn| drawn.remove(cancelled)).collect();
        (queued, drawn)
    }

    fn wake_source_if_half_empty(&self, state: &mut QueueState) {
        if state.is_half_empty() && mem::take(&mut state.source_waits) {
            self.shared.room.notify_all();
        }
    }

    /// Drops the queued rows, and closes the queue, so that the source stops.
    pub(crate) fn close(&self) {
        let mut state = self.shared.state();
        state.rows.clear();
        state.drawn.clear();
        state.bytes = 0;
        // This happens under the same lock, so no batch is queued in between.
        state.is_closed = true;
        drop(state);
        self.shared.close();
        // `deferring` keeps the input open, and this receiver may live longer.
        drop(self.deferring.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

#[cfg(test)]
mod tests;
