//! What is counted of a lane, from when it begins to when it ends or is given up.

use std::rc::Rc;
use std::time::Instant;

use super::{Shared, Worker};
use crate::engine::failure::PanicGuard;
use crate::in_flight::Place;
use crate::stats::lanes::Wait;

/// A source that waits for the rows of a worker that panicked would wait for ever.
pub(super) struct EndRowsOnPanic<'a>(pub(super) &'a Shared);

impl Drop for EndRowsOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end_rows();
        }
    }
}

/// Counts a lane as waiting as long as it lives: a lane may be given up while it waits.
pub(super) struct Waiting<'a> {
    worker: &'a Worker,
    wait: Wait,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(worker: &'a Worker, wait: Wait) -> Self {
        worker.stats().lanes.enter(wait, Instant::now());
        Self { worker, wait }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.worker.stats().lanes.leave(self.wait, Instant::now());
    }
}

/// Counts a lane as long as it lives, however it ends.
pub(super) struct LaneGuard {
    worker: Rc<Worker>,
    pub(super) place: Place,
    _panic: PanicGuard,
}

impl LaneGuard {
    pub(super) fn new(worker: Rc<Worker>) -> Self {
        worker.lanes.set(worker.lanes.get() + 1);
        worker.stats().lanes.start(Instant::now());
        let panic = worker.shared.failure.on_panic("lane");
        let place = worker.in_flight.enter();
        Self { worker, place, _panic: panic }
    }
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.worker.stop();
        }
        self.worker.in_flight.leave(self.place);
        self.worker.lanes.set(self.worker.lanes.get() - 1);
        self.worker.stats().lanes.end(Instant::now());
        self.worker.lane_ended.notify_one();
    }
}
