//! The queue of rows between the source and the workers, bounded in rows and in bytes: rows may carry bodies.
//!
//! Rows go in by whole batches and come out a few at a time, whatever a worker can use. The source is not woken for each
//! few that were taken, but when half of the queue is free: on one core each waking costs as much as a request.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::row::{MAX_BATCH_ROWS, Row, RowBatch};

/// Rows that may wait.
const MAX_ROWS: usize = 4 * MAX_BATCH_ROWS;
/// Bytes that may wait; one batch may always, however large.
const MAX_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// For the source: half of the queue is free, or nobody wants rows any more.
    room: Condvar,
    /// For the workers: there are rows, or there will be none.
    available: Notify,
}

#[derive(Debug, Default)]
struct State {
    rows: VecDeque<Row>,
    bytes: usize,
    source_waits: bool,
    /// The source has no more, or nobody wants more.
    closed: bool,
}

impl State {
    fn has_room(&self, rows: usize, bytes: usize) -> bool {
        self.rows.is_empty() || self.rows.len() + rows <= MAX_ROWS && self.bytes + bytes <= MAX_BYTES
    }

    fn is_half_empty(&self) -> bool {
        self.rows.len() <= MAX_ROWS / 2 && self.bytes <= MAX_BYTES / 2
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.state().closed = true;
        self.room.notify_all();
        self.available.notify_waiters();
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
}

#[derive(Default)]
pub struct ReadingAgain {
    pub active: bool,
    pub last_took: std::time::Duration,
    pub ended_at: Option<std::time::Instant>,
}
/// Why there is no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRows {
    /// None yet.
    Empty,
    /// None will come.
    Ended,
}

pub fn row_queue() -> (RowSender, RowReceiver) {
    let shared = Arc::<Shared>::default();
    (RowSender { shared: shared.clone() }, RowReceiver { shared })
}

impl RowSender {
    /// Queues rows, waiting while there is no room for them. `false`: nobody wants rows any more.
    pub fn send(&self, batch: RowBatch) -> bool {
        let bytes: usize = batch.iter().map(Row::bytes).sum();
        let mut state = self.shared.state();
        if !state.has_room(batch.len(), bytes) {
            state.source_waits = true;
            let waits = |state: &mut State| !state.closed && !state.is_half_empty();
            state = self.shared.room.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
            state.source_waits = false;
        }
        if state.closed {
            return false;
        }
        state.rows.extend(batch);
        state.bytes += bytes;
        drop(state);
        self.shared.available.notify_waiters();
        true
    }
}

impl RowSender {
    /// Whether nobody wants rows any more.
    pub fn is_closed(&self) -> bool {
        self.shared.state().closed
    }
}

impl Drop for RowSender {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl RowReceiver {
    /// Up to `max` rows, when there are any. Cancel safe.
    pub async fn recv(&self, max: usize) -> Result<Vec<Row>, NoRows> {
        loop {
            // `Notified` counts from its creation: rows that come between the look and the wait are not missed.
            let available = self.shared.available.notified();
            match self.try_recv(max) {
                Err(NoRows::Empty) => available.await,
                rows_or_end => return rows_or_end,
            }
        }
    }

    pub fn can_pass_over(&self) -> bool {
        false
    }
    pub fn pass_over(&self, _o: &[u64]) {}
    pub fn read_again(&self, _f: u64) {}
    pub fn enough(&self) {}
    pub fn reading_again(&self) -> ReadingAgain {
        ReadingAgain::default()
    }
    pub fn passed_over(&self) -> (Option<u64>, u64) {
        (None, 0)
    }
    pub fn frontier_stalled(&self) -> bool {
        false
    }

    /// Waits until [`RowReceiver::try_recv`] has something to say. Cancel safe.
    pub async fn available(&self) {
        loop {
            let available = self.shared.available.notified();
            let state = self.shared.state();
            if !state.rows.is_empty() || state.closed {
                return;
            }
            drop(state);
            available.await;
        }
    }

    pub fn try_recv(&self, max: usize) -> Result<Vec<Row>, NoRows> {
        let mut state = self.shared.state();
        if state.rows.is_empty() {
            return Err(if state.closed { NoRows::Ended } else { NoRows::Empty });
        }
        let count = max.min(state.rows.len());
        let rows: Vec<Row> = state.rows.drain(..count).collect();
        state.bytes -= rows.iter().map(Row::bytes).sum::<usize>();
        if state.source_waits && state.is_half_empty() {
            self.shared.room.notify_one();
        }
        Ok(rows)
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
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::row::RowExtra;

    fn heavy(ordinal: u64) -> Row {
        let extra = RowExtra { body: Some(vec![0; 10 << 20].into()), ..RowExtra::default() };
        Row { extra: Some(Box::new(extra)), ..Row::new(ordinal, "http://example.com/") }
    }

    #[test]
    fn heavy_rows_wait_for_room_and_come_in_order() {
        let (sender, receiver) = row_queue();
        let source = std::thread::spawn(move || (0..5).all(|ordinal| sender.send(vec![heavy(ordinal)])));
        let mut ordinals = Vec::new();
        loop {
            match receiver.try_recv(1) {
                Ok(rows) => ordinals.extend(rows.iter().map(|row| row.ordinal)),
                Err(NoRows::Empty) => std::thread::yield_now(),
                Err(NoRows::Ended) => break,
            }
            assert!(receiver.shared.state().bytes <= MAX_BYTES);
        }
        assert!(source.join().expect("no panic"));
        assert_eq!(vec![0, 1, 2, 3, 4], ordinals);
    }

    #[test]
    fn a_source_that_waits_for_room_learns_that_nobody_wants_rows() {
        let (sender, receiver) = row_queue();
        assert!(sender.send(vec![heavy(0)]));
        let source = std::thread::spawn(move || sender.send(vec![heavy(1)]));
        receiver.stop();
        assert!(!source.join().expect("no panic"));
    }

    proptest! {
        #[test]
        fn every_row_comes_out_once_and_in_order_and_few_wait(
            batches in proptest::collection::vec(1..=MAX_BATCH_ROWS, 0..20),
            takes in proptest::collection::vec(1_usize..100, 1..5),
        ) {
            let (sender, receiver) = row_queue();
            let count: usize = batches.iter().sum();
            let source = std::thread::spawn(move || {
                let mut ordinals = 0_u64..;
                batches.into_iter().all(|rows| {
                    sender.send(ordinals.by_ref().take(rows).map(|ordinal| Row::new(ordinal, "")).collect())
                })
            });
            let mut ordinals = Vec::new();
            for take in takes.iter().cycle() {
                match receiver.try_recv(*take) {
                    Ok(rows) => {
                        prop_assert!((1..=*take).contains(&rows.len()));
                        ordinals.extend(rows.iter().map(|row| row.ordinal));
                    }
                    Err(NoRows::Empty) => std::thread::yield_now(),
                    Err(NoRows::Ended) => break,
                }
                prop_assert!(receiver.shared.state().rows.len() <= MAX_ROWS);
            }
            prop_assert!(source.join().expect("no panic"));
            prop_assert_eq!((0..count as u64).collect::<Vec<_>>(), ordinals);
        }
    }
}
