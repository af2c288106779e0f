//! The stop signal of a run.

use std::time::Instant;

use tokio::sync::watch;

use crate::queue::rows::RowReceiver;

/// Stops the run. Clones stop the same run.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    /// The deadline of requests in flight.
    stops_at: watch::Sender<Option<Instant>>,
    rows: RowReceiver,
}

impl Stop {
    /// Creates the signal of the run with these rows, and the receiver for its workers.
    pub(super) fn new(rows: RowReceiver) -> (Self, watch::Receiver<Option<Instant>>) {
        let (stops_at, receiver) = watch::channel(None);
        (Self { stops_at, rows }, receiver)
    }

    /// Starts nothing new; requests in flight must end by `until`. A second call may shorten this time, never lengthen it.
    pub(super) fn at(&self, until: Instant) {
        self.stops_at.send_modify(|at| *at = Some(at.map_or(until, |earlier| earlier.min(until))));
        self.rows.stop();
    }

    /// Ends the queue of rows of a run that has ended: no thread waits to read more.
    pub(super) fn end_rows(&self) {
        self.rows.stop();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stops_at.borrow().is_some()
    }
}
