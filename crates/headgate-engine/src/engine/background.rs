//! What a worker does beside its lanes: it sends outcomes that have waited to the sink, cancels rows, and names slow ones.

use std::rc::Rc;
use std::time::Duration;

use headgate_core::error::{ErrorKind, Failure};
use headgate_core::schedule::rows_to_cancel::RowsToCancel;
use headgate_core::stall::ClockReading;
use headgate_core::target;
use tokio::time::MissedTickBehavior;

use crate::engine::share::{Share, StopOnPanic};
use crate::stats::worker::SlowRow;

/// Outcomes that have waited this long go to the sink, however few.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

impl Share {
    /// Cancels rows that wait, or are in flight here.
    pub(super) fn cancel(&self, rows: RowsToCancel) {
        // Rows may have been requeued since the caller looked there.
        self.shared.scheduler.cancel(rows);
        for (row, span) in self.lanes.cancel(|row| rows.includes(row)) {
            let failure = Failure::new(ErrorKind::Cancelled, "cancelled while it was in flight");
            self.record_later(self.failed(row, span, failure));
        }
        self.wake();
    }

    /// Notes that the worker runs.
    pub(super) fn beat(&self, now: ClockReading) {
        self.shared.scheduler.beat(now);
    }

    pub(super) async fn work_in_background(self: Rc<Self>) {
        let _panic = StopOnPanic::new(self.clone(), "worker");
        tokio::join!(self.flush_at_intervals(), self.watch_network());
    }

    async fn flush_at_intervals(&self) {
        let mut interval = tokio::time::interval(FLUSH_EVERY);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            self.name_slow_row();
            self.flush(false).await;
        }
    }

    /// Notes the host of the row that keeps the window full, if it is in flight here.
    pub(super) fn name_slow_row(&self) {
        let slow_row = self.shared.scheduler.window.full_at().and_then(|ordinal| {
            let target = target::parse(&self.lanes.url_of(ordinal)?).ok()?;
            Some(SlowRow { ordinal, host: target.origin.authority().into() })
        });
        self.stats().slow_row = slow_row;
    }
}
