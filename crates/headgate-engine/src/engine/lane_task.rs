//! The task of a lane: it makes attempts at one row after another, and ends with its share of the run.

use std::rc::Rc;
use std::time::Instant;

use headgate_core::clock;
use headgate_core::row::Row;
use headgate_core::schedule::decision::Decision;
use headgate_core::schedule::host_queues::HostIndex;
use headgate_http::client::LaneState;
use tokio::task::spawn_local;

use crate::engine::attempt::Attempt;
use crate::engine::gathered::Batch;
use crate::engine::lanes::LaneIndex;
use crate::engine::share::{Share, StopOnPanic};
use crate::stats::lanes::Wait;

impl Share {
    /// Has a lane make an attempt at a row: one that waits, or a new one.
    pub(super) fn start(self: &Rc<Self>, row: Row, host: Option<HostIndex>) {
        if let Err(row) = self.lanes.hand_over(row, host) {
            let guard = LaneGuard::new(self.clone(), row, host);
            let lane = guard.lane;
            let task = spawn_local(self.clone().run_lane(guard));
            self.lanes.set_task(lane, task.abort_handle());
        }
    }

    async fn run_lane(self: Rc<Self>, guard: LaneGuard) {
        let mut state = LaneState::new(&self.client.stalls);
        let mut started = clock::now();
        loop {
            if Attempt::new(&self, guard.lane, started).run(&mut state).await == Batch::Full {
                // Other lanes may need its connection meanwhile.
                self.client.rest(&mut state);
                // Boxed, as all is that a lane rarely does: what it keeps while it waits for a response is to be small.
                Box::pin(self.waiting(Wait::Sink, self.flush(true))).await;
            }
            // From here to the next wait the lane is not counted; no other task sees that.
            self.slots.borrow_mut().free();
            started = if let Some(now) = self.start_next(guard.lane) {
                now
            } else {
                self.client.rest(&mut state);
                self.lanes.park(guard.lane);
                self.wake();
                Box::pin(self.waiting(Wait::Input, self.lanes.woken(guard.lane))).await;
                clock::now()
            };
        }
    }

    /// Has the lane start its next row, and returns when. `None`: it has nothing to do.
    fn start_next(self: &Rc<Self>, lane: LaneIndex) -> Option<Instant> {
        let now = clock::now();
        match self.decide(now).0 {
            Decision::Start(row, host) => {
                self.lanes.put(lane, row, host);
                return Some(now);
            }
            Decision::Fail(row, failure) => self.record_later(self.failed(row, None, failure)),
            Decision::WaitUntil(_) | Decision::Wait | Decision::UsedUp(_) | Decision::Ended => {}
        }
        None
    }
}

/// Counts a lane as long as it lives, however it ends.
struct LaneGuard {
    share: Rc<Share>,
    lane: LaneIndex,
    _panic: StopOnPanic,
}

impl LaneGuard {
    fn new(share: Rc<Share>, row: Row, host: Option<HostIndex>) -> Self {
        share.stats().lanes.start(clock::now());
        let panic = StopOnPanic::new(share.clone(), "lane");
        let lane = share.lanes.enter(row, host);
        Self { share, lane, _panic: panic }
    }
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        let Self { share, lane, .. } = self;
        share.release_host(*lane);
        if !share.lanes.is_parked(*lane) {
            share.slots.borrow_mut().free();
        }
        share.lanes.remove(*lane);
        share.stats().lanes.end(clock::now());
        share.wake();
    }
}
