//! A worker's share of a run: its lanes, the rows that they have in flight, the outcomes that wait to go to the sink.
//!
//! A lane takes a row, performs the exchange, hands the outcome on and takes the next; there is no task for a request. The
//! scheduler decides what starts when. While there are rows, lanes get their next rows from it themselves; all other decisions
//! are carried out by [`Share::drive`], which also creates lanes as they are needed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

use crate::engine::alarm::Alarm;
use crate::engine::attempt::Attempt;
use crate::engine::failure::PanicGuard;
use crate::engine::gathered::{Batch, Gathered, NothingIsKept};
use crate::engine::lanes::{LaneIndex, Lanes};
use crate::engine::shared::Shared;
use crate::engine::worker_index::WorkerIndex;
use crate::http::client::{Client, LaneState};
use crate::http::h1::allowance::Allowance;
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
    /// Makes requests for robots.txt, where that is obeyed.
    pub(super) preparer_of_robots: Option<RefCell<Preparer>>,
    /// What its lanes may read.
    pub(super) allowance: Allowance,
    pub(super) gathered: Gathered,
    pub(super) slots: RefCell<Slots>,
    /// Outcomes of rows that are in no lane any more: one of each lane at the most.
    unrecorded: RefCell<Vec<Outcome>>,
    pub(super) lanes: Lanes,
    /// Something has happened that may change what is decided.
    changed: Notify,
    /// The sink takes no outcomes any more.
    nothing_is_kept: Cell<bool>,
    alarm: Alarm,
    /// Tasks that look up hostnames for the scheduler.
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
        let allowance = Allowance::new(&shared.limits.response.memory);
        Ok(Self {
            allowance,
            shared,
            stats,
            client,
            preparer: RefCell::new(preparer),
            preparer_of_robots: preparer_of_robots.map(RefCell::new),
            gathered,
            slots: RefCell::new(slots),
            unrecorded: RefCell::default(),
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
        // A worker without lanes may wait for the other workers to end.
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
        self.record_unrecorded().await;
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
            self.record_unrecorded().await;
            // Before the decision, so that no change after it is missed.
            let (scheduler_changed, rows_came) = (scheduler.changed(), rows.available());
            let (decision, wants_rows) = self.decide(Instant::now());
            let until = match decision {
                Decision::Start(row, host) => {
                    self.start(row, host);
                    continue;
                }
                Decision::Fail(row, failure) => {
                    self.record_later(self.failed(row, None, failure));
                    continue;
                }
                Decision::Ended => return,
                Decision::WaitUntil(time) => Some(time),
                Decision::Wait => None,
            };
            if self.slots.borrow().in_use() == 0 {
                self.allowance.release();
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
            let lane = guard.lane;
            let task = spawn_local(self.clone().run_lane(guard));
            self.lanes.set_task(lane, task.abort_handle());
        }
    }

    async fn run_lane(self: Rc<Self>, guard: LaneGuard) {
        let mut state = LaneState::new(&self.client.stalls);
        let mut started = Instant::now();
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
                self.changed.notify_one();
                Box::pin(self.waiting(Wait::Input, self.lanes.woken(guard.lane))).await;
                Instant::now()
            };
        }
    }

    /// Has the lane start its next row, and returns when. `None`: it has nothing to do.
    fn start_next(self: &Rc<Self>, lane: LaneIndex) -> Option<Instant> {
        let now = Instant::now();
        match self.decide(now).0 {
            Decision::Start(row, host) => {
                self.lanes.put(lane, row, host);
                return Some(now);
            }
            Decision::Fail(row, failure) => self.record_later(self.failed(row, None, failure)),
            Decision::WaitUntil(_) | Decision::Wait | Decision::Ended => {}
        }
        None
    }

    /// Has [`Share::drive`] record an outcome of a row that is in no lane any more.
    pub(super) fn record_later(&self, outcome: Outcome) {
        self.unrecorded.borrow_mut().push(outcome);
    }

    /// Records the outcomes of rows that are in no lane any more. Waits where a batch is full and the sink is behind.
    async fn record_unrecorded(&self) {
        loop {
            let outcome = self.unrecorded.borrow_mut().pop();
            let Some(outcome) = outcome else { return };
            if self.record(outcome).await == Batch::Full {
                self.flush(true).await;
            }
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
    lane: LaneIndex,
    _panic: StopOnPanic,
}

impl LaneGuard {
    fn new(share: Rc<Share>, row: Row, host: Option<HostIndex>) -> Self {
        share.stats().lanes.start(Instant::now());
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
        share.stats().lanes.end(Instant::now());
        share.wake();
    }
}
