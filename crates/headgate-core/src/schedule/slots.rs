//! A worker's slots: how many of its lanes are in use, and the few rows that it has drawn from the queue.
//!
//! While nothing is limited and all hosts are healthy, rows start in their order, and [`Slots::decide`] decides without a lock.
//! Otherwise the worker passes what it has drawn to the [`Scheduler`](super::scheduler::Scheduler), which all workers share.
//!
//! Pure: it neither waits nor reads a clock. At most as many rows are in flight as there are lanes, and at most one chunk
//! more has been drawn, which another worker with a free lane may steal. The scheduler alone knows whether the run was stopped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::decision::Decision;
use super::rows_to_cancel::RowsToCancel;
use crate::row::Row;

/// The maximum number of rows drawn at a time.
pub const MAX_CHUNK_ROWS: usize = 64;

#[derive(Debug)]
pub struct Slots {
    lanes: usize,
    in_use: usize,
    input_ended: bool,
    drawn: DrawnRows,
}

/// The rows that a worker has drawn and not started: at most one chunk.
#[derive(Debug, Default, Clone)]
pub struct DrawnRows(Arc<Mutex<VecDeque<Row>>>);

impl DrawnRows {
    /// Removes the oldest row, and returns it.
    pub fn pop(&self) -> Option<Row> {
        self.rows().pop_front()
    }

    /// Removes the rows that are cancelled, and returns them.
    pub fn remove(&self, cancelled: RowsToCancel) -> Vec<Row> {
        cancelled.remove_from(&mut self.rows())
    }

    fn rows(&self) -> MutexGuard<'_, VecDeque<Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    /// Creates slots for this many lanes.
    pub fn new(lanes: usize) -> Self {
        Self { lanes, in_use: 0, input_ended: false, drawn: DrawnRows::default() }
    }

    /// Returns how many rows to draw: at most an eighth of the lanes, so that few are not in their order.
    pub fn wanted(&self) -> usize {
        let wants = !self.input_ended && self.has_free() && self.drawn.rows().is_empty();
        if wants { (self.lanes / 8).clamp(1, MAX_CHUNK_ROWS) } else { 0 }
    }

    /// Accepts rows that were drawn.
    pub fn offer(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.drawn.rows().extend(rows);
    }

    /// Records that there are no more rows to draw.
    pub fn end_input(&mut self) {
        self.input_ended = true;
    }

    /// Returns the next action. Call it until it returns a wait or the end of the run, and again when something has
    /// happened.
    pub fn decide(&mut self) -> Decision {
        if self.has_free()
            && let Some(row) = self.drawn.pop()
        {
            self.in_use += 1;
            return Decision::Start(row, None);
        }
        if self.input_ended && self.in_use == 0 && self.drawn.rows().is_empty() {
            Decision::Ended
        } else {
            Decision::Wait
        }
    }

    /// Frees a lane: its row has ended, and the outcome was handed on.
    pub fn free(&mut self) {
        debug_assert!(self.in_use > 0, "only what was taken is freed");
        self.in_use = self.in_use.saturating_sub(1);
    }

    /// Occupies a lane for a row that the shared scheduler starts.
    pub fn occupy(&mut self) {
        self.in_use += 1;
    }

    /// Removes the rows that were drawn and not started.
    pub fn drain_drawn(&mut self) -> VecDeque<Row> {
        std::mem::take(&mut self.drawn.rows())
    }

    /// Returns the rows that were drawn and not started, for other workers.
    pub fn drawn(&self) -> DrawnRows {
        self.drawn.clone()
    }

    pub fn has_free(&self) -> bool {
        self.in_use < self.lanes
    }

    /// Returns how many rows could be started.
    pub fn free_lanes(&self) -> usize {
        self.lanes.saturating_sub(self.in_use)
    }

    /// Returns whether more than one row could be started.
    pub fn has_several_free(&self) -> bool {
        self.in_use + 1 < self.lanes
    }

    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Changes the number of lanes; what is in flight stays.
    pub fn set_lanes(&mut self, lanes: usize) {
        self.lanes = lanes;
    }

    pub fn in_use(&self) -> usize {
        self.in_use
    }
}

#[cfg(test)]
mod tests;
