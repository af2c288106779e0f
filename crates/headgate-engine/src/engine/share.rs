//! A worker's share of a run: its lanes, the rows that they have in flight, the outcomes that wait to go to the sink.
//!
//! A lane takes a row, performs the exchange, hands the outcome on and takes the next; there is no task for a request. The
//! scheduler decides what starts when. While there are rows, lanes ask it themselves, one after another; all other decisions
//! are carried out by [`Share::drive`], which also creates lanes as they are needed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

use crate::engine::alarm::Alarm;
use crate::engine::failure::PanicGuard;
use crate::engine::gathered::{Gathered, NothingIsKept};
use crate::engine::lanes::{Lanes, PlaceIndex};
use crate::engine::shared::Shared;
use crate::engine::worker_index::WorkerIndex;
use crate::http::client::{Client, LaneState};
use crate::http::h1::read_reservation::ReadReservation;
use crate::http::request::Preparer;
use crate::model::error::JobError;
use crate::model::outcome::Outcome;
use crate::model::row::Row;
use crate::schedule::decision::Decision;
use crate::schedule::host_queues::HostIndex;
use crate::schedule::slots::Slots;
use crate::stats::lanes::Wait;
use crate::stats::worker::{Waiting, WorkerStats};

pub(super) struct Share {
    pub(super) shared: Arc<Shared>,
    stats: Arc<Mutex<WorkerStats>>,
    pub(super) client: Rc<Client>,
    pub(super) preparer: RefCell<Preparer>,
    /// Of requests for robots.txt, where that is obeyed.
    pub(super) preparer_of_robots: Option<RefCell<Preparer>>,
    /// What its lanes may read.
    pub(super) read_reservation: ReadReservation,
    pub(super) gathered: Gathered,
    pub(super) slots: RefCell<Slots>,
    /// Decisions that lanes got and that are not theirs to carry out: one of each lane at the most.
    left_over: RefCell<Vec<Decision>>,
    /// Outcomes of rows that were cancelled in flight: one for each lane that ends by it.
    pub(super) cancelled: RefCell<Vec<Outcome>>,
    pub(super) lanes: Lanes,
    /// Something has happened that may change what is decided.
    changed: Notify,
    /// The sink takes no outcomes any more.
    nothing_is_kept: Cell<bool>,
    alarm: Alarm,
    /// Tasks that look up names for the scheduler.
    pub(super) looking_up: Cell<usize>,
    /// Which part of the run is this worker's.
    pub(super) worker: WorkerIndex,
}

impl Share {
    /// # Errors
    /// `Input`: a kept column has a type that can't be carried.
    pub(super) fn new(
        shared: Arc<Shared>,
        client: Rc<Client>,
        (preparer, preparer_of_robots): (Preparer, Option<Preparer>),
        slots: Slots,
        stats: Arc<Mutex<WorkerStats>>,
        worker: WorkerIndex,
    ) -> Result<Self, JobError> {
        let gathered =
            Gathered::new(shared.columns.as_ref(), shared.limits.response.memory.clone(), shared.outcomes.clone())?;
        let read_reservation = ReadReservation::new(&shared.limits.response.memory);
        Ok(Self {
            read_reservation,
            shared,
            stats,
            client,
            preparer: RefCell::new(preparer),
            preparer_of_robots: preparer_of_robots.map(RefCell::new),
            gathered,
            slots: RefCell::new(slots),
            left_over: RefCell::default(),
            cancelled: RefCell::default(),
            lanes: Lanes::default(),
            changed: Notify::new(),
            nothing_is_kept: Cell::new(false),
            alarm: Alarm::new(),
            looking_up: Cell::new(0),
            worker,
        })
    }

    /// Works until the rows end or the run is stopped, and hands over what there is.
    pub(super) async fn run(self: Rc<Self>) {
        let background = spawn_local(self.clone().work_in_background());
        let _guard = EndOnPanic {
            share: &self,
            background: background.abort_handle(),
            _panic: self.shared.failure.on_panic("worker"),
        };
        self.drive().await;
        // A worker without lanes may wait for the end of the others.
        self.shared.scheduler.wake_workers();
        let abandoned = self.lanes.abandon();
        self.stats().figures.abandoned = abandoned;
        // Lanes that hand an outcome to the sink end when they have done so.
        loop {
            self.lanes.end_parked();
            if self.lanes.len() == 0 {
                break;
            }
            self.changed.notified().await;
        }
        self.end_cancelled().await;
        self.flush(false).await;
        // Not before: it may have been handing over a batch.
        background.abort();
    }

    /// Carries out decisions until the run has ended.
    async fn drive(self: &Rc<Self>) {
        let (scheduler, rows) = (&self.shared.scheduler, &self.shared.rows);
        let mut stops_at = self.shared.stops_at.clone();
        let mut live = self.shared.limits.live.clone();
        if live.borrow().paused {
            scheduler.change_at(Instant::now(), |scheduler, now| scheduler.pause(true, now));
        }
        // A run whose handle is gone works on to its end: nothing can stop it any more.
        let mut may_be_stopped = true;
        let mut may_be_set = true;
        if let Some(until) = *stops_at.borrow_and_update() {
            self.stop(until);
        }
        loop {
            self.end_cancelled().await;
            // Before the decision, so that no change after it is missed.
            let (scheduler_changed, rows_came) = (scheduler.changed(), rows.available());
            let left_over = self.left_over.borrow_mut().pop();
            let (decision, wants_rows) = left_over.map_or_else(|| self.decide(Instant::now()), |left| (left, false));
            let until = match decision {
                Decision::Start(row, host) => {
                    self.start(row, host);
                    continue;
                }
                Decision::Fail(row, failure) => {
                    self.end_without_lane(self.unanswered(row, None, failure)).await;
                    continue;
                }
                Decision::Ended => return,
                Decision::WaitUntil(time) => Some(time),
                Decision::Wait => None,
            };
            if self.slots.borrow().in_use() == 0 {
                self.read_reservation.release();
                // A caller may wait for these outcomes before there are more rows.
                if !self.gathered.is_empty() {
                    self.flush(false).await;
                }
            }
            tokio::select! {
                () = rows_came, if wants_rows => {}
                () = scheduler_changed => {}
                changed = live.changed(), if may_be_set => match changed {
                    Ok(()) => {
                        let live = live.borrow_and_update().clone();
                        self.apply_options(&live);
                    }
                    Err(_) => may_be_set = false,
                },
                () = self.changed.notified() => {}
                changed = stops_at.changed(), if may_be_stopped => match (changed, *stops_at.borrow_and_update()) {
                    (Ok(()), Some(until)) => self.stop(until),
                    (Ok(()), None) => {}
                    (Err(_), _) => may_be_stopped = false,
                },
                () = self.alarm.until(until), if until.is_some() => {}
            }
        }
    }

    /// Starts no row any more; what is in flight has until then.
    pub(super) fn stop(&self, until: Instant) {
        // For all workers: what stops one, stops the run.
        self.shared.end_rows();
        self.slots.borrow_mut().stop(until);
        self.changed.notify_one();
    }

    /// Has a lane make an attempt at a row: one that waits, or a new one.
    fn start(self: &Rc<Self>, row: Row, host: Option<HostIndex>) {
        if let Err(row) = self.lanes.hand_over(row, host) {
            let guard = LaneGuard::new(self.clone(), row, host);
            let place = guard.place;
            let task = spawn_local(self.clone().lane(guard));
            self.lanes.set_task(place, task.abort_handle());
        }
    }

    async fn lane(self: Rc<Self>, guard: LaneGuard) {
        let mut state = LaneState::new(&self.client.stalls);
        let mut started = Instant::now();
        loop {
            if self.attempt(guard.place, started, &mut state).await {
                // Other lanes may need its connection meanwhile.
                self.client.rest(&mut state);
                // Boxed, as all is that a lane rarely does: what it keeps while it waits for an answer is to be small.
                Box::pin(self.waiting(Wait::Sink, self.flush(true))).await;
            }
            // From here to the next wait the lane is not counted; no other task sees that.
            self.slots.borrow_mut().free();
            started = if let Some(now) = self.start_next(guard.place) {
                now
            } else {
                self.client.rest(&mut state);
                self.lanes.park(guard.place);
                self.changed.notify_one();
                Box::pin(self.waiting(Wait::Input, self.lanes.woken(guard.place))).await;
                Instant::now()
            };
        }
    }

    /// Has the lane at `place` start its next row, and returns when. `None`: it has nothing to do.
    fn start_next(self: &Rc<Self>, place: PlaceIndex) -> Option<Instant> {
        let now = Instant::now();
        match self.decide(now).0 {
            Decision::Start(row, host) => {
                self.lanes.put(place, row, host);
                return Some(now);
            }
            fail @ Decision::Fail(..) => self.left_over.borrow_mut().push(fail),
            Decision::WaitUntil(_) | Decision::Wait | Decision::Ended => {}
        }
        None
    }

    /// Records the outcome of a row that is in no lane. Waits where a batch is full and the sink is behind.
    pub(super) async fn end_without_lane(&self, outcome: Outcome) {
        if self.record(outcome).await {
            self.flush(true).await;
        }
    }

    /// Sends what was gathered to the sink; waits while the sink is behind.
    pub(super) async fn flush(&self, only_if_full: bool) {
        self.sent(self.gathered.send(only_if_full).await);
    }

    pub(super) fn sent(&self, sent: Result<(), NothingIsKept>) {
        let Err(error) = sent else { return };
        if let Some(error) = error {
            self.shared.failure.set(error);
        }
        if !self.nothing_is_kept.replace(true) {
            self.stop(Instant::now());
        }
    }

    /// Has the loop decide again.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    pub(super) async fn waiting<T>(&self, wait: Wait, future: impl Future<Output = T>) -> T {
        let _waiting = Waiting::new(&self.stats, wait);
        future.await
    }

    pub(super) fn stats(&self) -> MutexGuard<'_, WorkerStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run of which a worker's part has panicked would never end: its source would wait, and its lanes keep the sink waiting.
struct EndOnPanic<'a> {
    share: &'a Share,
    background: AbortHandle,
    _panic: PanicGuard,
}

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.share.shared.end_rows();
            self.share.lanes.end_all();
            self.background.abort();
        }
    }
}

/// What panics beside it ends the share in an orderly way.
pub(super) struct StopOnPanic {
    share: Rc<Share>,
    _panic: PanicGuard,
}

impl StopOnPanic {
    pub(super) fn new(share: Rc<Share>, part: &'static str) -> Self {
        let panic = share.shared.failure.on_panic(part);
        Self { share, _panic: panic }
    }
}

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.share.stop(Instant::now());
        }
    }
}

/// Counts a lane as long as it lives, however it ends.
struct LaneGuard {
    share: Rc<Share>,
    place: PlaceIndex,
    _panic: StopOnPanic,
}

impl LaneGuard {
    fn new(share: Rc<Share>, row: Row, host: Option<HostIndex>) -> Self {
        share.stats().lanes.start(Instant::now());
        let panic = StopOnPanic::new(share.clone(), "lane");
        let place = share.lanes.enter(row, host);
        Self { share, place, _panic: panic }
    }
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        self.share.release_host(self.place);
        if !self.share.lanes.leave(self.place) {
            self.share.slots.borrow_mut().free();
        }
        self.share.stats().lanes.end(Instant::now());
        self.share.wake();
    }
}
