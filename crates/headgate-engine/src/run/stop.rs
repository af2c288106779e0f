//! How a run is told to stop.

use std::time::Instant;

use tokio::sync::watch;

use crate::engine::shared::Phase;
use crate::queue::rows::RowReceiver;

/// Whoever has it can stop the run.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    phase: watch::Sender<Phase>,
    rows: RowReceiver,
}

impl Stop {
    /// Of the run whose rows these are. Also what its workers look at.
    pub(super) fn new(rows: RowReceiver) -> (Self, watch::Receiver<Phase>) {
        let (phase, receiver) = watch::channel(Phase::Running);
        (Self { phase, rows }, receiver)
    }

    /// Nothing new is started; what is in flight has until then. Asking again may shorten this time, never lengthen it.
    pub(super) fn at(&self, until: Instant) {
        self.phase.send_modify(|phase| {
            *phase = match *phase {
                Phase::Draining { until: earlier } => Phase::Draining { until: until.min(earlier) },
                Phase::Running => Phase::Draining { until },
            };
        });
        self.rows.stop();
    }

    /// The run has ended: nobody waits to be asked for rows any more.
    pub(super) fn end_rows(&self) {
        self.rows.stop();
    }

    pub(super) fn was_asked_for(&self) -> bool {
        *self.phase.borrow() != Phase::Running
    }
}
