//! What ends with a lane or a share, however it ends: it is given up while it waits, or something panics.

use std::rc::Rc;
use std::time::Instant;

use tokio::task::AbortHandle;

use crate::engine::failure::PanicGuard;
use crate::engine::lanes::PlaceIndex;
use crate::engine::share::Share;
use crate::model::row::Row;
use crate::schedule::gate::HostIndex;

/// A run of which a worker's part has panicked would never end: its source would wait, and its lanes keep the sink waiting.
pub(super) struct EndOnPanic<'a> {
    pub(super) share: &'a Share,
    pub(super) house: AbortHandle,
    pub(super) _panic: PanicGuard,
}

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.share.shared.end_rows();
            self.share.lanes.end_all();
            self.house.abort();
        }
    }
}

/// What panics beside it ends the share in an orderly way.
pub(super) struct DrainOnPanic {
    pub(super) share: Rc<Share>,
    pub(super) _panic: PanicGuard,
}

impl DrainOnPanic {
    pub(super) fn new(share: Rc<Share>, part: &'static str) -> Self {
        let panic = share.shared.failure.on_panic(part);
        Self { share, _panic: panic }
    }
}

impl Drop for DrainOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.share.drain(Instant::now());
        }
    }
}

/// Counts a lane as long as it lives, however it ends.
pub(super) struct LaneGuard {
    pub(super) share: Rc<Share>,
    pub(super) place: PlaceIndex,
    pub(super) _panic: DrainOnPanic,
}

impl LaneGuard {
    pub(super) fn new(share: Rc<Share>, row: Row, host: Option<HostIndex>) -> Self {
        share.stats().lanes.start(Instant::now());
        let panic = DrainOnPanic::new(share.clone(), "lane");
        let place = share.lanes.enter(row, host);
        Self { share, place, _panic: panic }
    }
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        if let Some(host) = self.share.lanes.take_host(self.place) {
            self.share.shared.gate.change(|gate| gate.abandoned(host, Instant::now()));
        }
        if !self.share.lanes.leave(self.place) {
            self.share.schedule.borrow_mut().free_place();
        }
        self.share.stats().lanes.end(Instant::now());
        self.share.wake();
    }
}
