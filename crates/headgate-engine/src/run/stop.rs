//! The stop signal of a run.

use std::time::Instant;

use tokio::sync::watch;

use crate::queue::rows::RowReceiver;

/// Whoever has it can stop the run.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    /// The deadline of requests in flight.
    stops_at: watch::Sender<Option<Instant>>,
    rows: RowReceiver,
}

impl Stop {
    /// Of the run whose rows these are. Also returns what its workers watch.
    pub(super) fn new(rows: RowReceiver) -> (Self, watch::Receiver<Option<Instant>>) {
        let (stops_at, receiver) = watch::channel(None);
        (Self { stops_at, rows }, receiver)
    }

    /// Starts nothing new; what is in flight has until then. A second call may shorten this time, never lengthen it.
    pub(super) fn at(&self, until: Instant) {
        self.stops_at.send_modify(|at| *at = Some(at.map_or(until, |earlier| earlier.min(until))));
        self.rows.stop();
    }

    /// Ends the rows of a run that has ended: no thread waits to read more.
    pub(super) fn end_rows(&self) {
        self.rows.stop();
    }

    pub(super) fn was_asked_for(&self) -> bool {
        self.stops_at.borrow().is_some()
    }
}
