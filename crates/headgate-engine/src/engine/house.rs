//! What happens beside a share's lanes: outcomes that have waited go to the sink, rows are cancelled, slow ones are named.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;

use crate::engine::conclude::Ended;
use crate::engine::lanes::Span;
use crate::engine::share::{DrainOnPanic, Share};
use crate::http::target;
use crate::model::error::{ErrorKind, Failure};
use crate::model::row::Row;
use crate::model::stall::Reading;
use crate::stats::worker::SlowRow;

/// Outcomes that have waited this long go to the sink, however few.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

impl Share {
    /// Cancels a row that was drawn or is in flight here.
    pub(super) fn cancel(&self, ordinal: u64) {
        let now = Instant::now();
        if self.schedule.borrow_mut().cancel(ordinal)
            || self.shared.gate.change_at(now, |gate, now| gate.cancel(ordinal, now))
        {
            self.wake();
        } else if let Some((row, span)) = self.lanes.cancel(ordinal) {
            self.end_cancelled_row(row, span);
        }
    }

    /// Cancels what is in flight here and nobody waits for any more. What was not started yet ends when its turn comes.
    pub(super) fn cancel_unwanted(&self) {
        for (row, span) in self.lanes.cancel_all(Row::is_unwanted) {
            self.end_cancelled_row(row, span);
        }
        self.wake();
    }

    fn end_cancelled_row(&self, row: Row, span: Option<Span>) {
        let failure = Failure::new(ErrorKind::Cancelled, "cancelled while it was in flight");
        let ended = span.map(|span| Ended { span, remote_addr: None });
        let outcome = self.unanswered(row, ended, failure);
        self.cancelled.borrow_mut().push(outcome);
    }

    /// The worker runs.
    pub(super) fn beat(&self, now: Reading) {
        self.shared.gate.beat(now);
    }

    pub(super) async fn end_cancelled(&self) {
        loop {
            let outcome = self.cancelled.borrow_mut().pop();
            let Some(outcome) = outcome else { return };
            self.end_without_lane(outcome).await;
        }
    }

    pub(super) async fn keep_house(self: Rc<Self>) {
        let _panic = DrainOnPanic::new(self.clone(), "worker");
        tokio::join!(self.flush_now_and_then(), self.watch_network());
    }

    async fn flush_now_and_then(&self) {
        let mut interval = tokio::time::interval(FLUSH_EVERY);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            self.name_slow_row();
            self.flush(false).await;
        }
    }

    /// Says whom the row asks that the window is full behind, if it is one of ours.
    pub(super) fn name_slow_row(&self) {
        let slow_row = self.shared.window.full_at().and_then(|ordinal| {
            let target = target::parse(&self.lanes.url_of(ordinal)?).ok()?;
            Some(SlowRow { ordinal, host: target.origin.authority().into() })
        });
        self.stats().slow_row = slow_row;
    }
}
