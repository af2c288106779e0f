//! A worker's share of a run: its lanes, the rows that they have in flight, the outcomes that wait to go to the sink.
//!
//! A lane takes a row, performs the exchange, hands the outcome on and takes the next; there is no task for a request. What
//! starts when is for the [`Schedule`] to say. While there are rows, lanes ask it themselves, one after another; whatever
//! else it says is carried out by [`Share::drive`], which also makes lanes as they are needed.

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
use crate::engine::part::Part;
use crate::engine::shared::{Phase, Shared};
use crate::engine::shared_gate::Idle;
use crate::http::client::{Client, LaneState};
use crate::http::h1::allowance::Allowance;
use crate::http::request::Preparer;
use crate::model::error::JobError;
use crate::model::outcome::Outcome;
use crate::model::row::Row;
use crate::queue::rows::NoRows;
use crate::schedule::gate::HostIndex;
use crate::schedule::{Next, Schedule};
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
    pub(super) allowance: Allowance,
    pub(super) gathered: Gathered,
    pub(super) schedule: RefCell<Schedule>,
    /// What lanes were told that is not for them to do: one thing a lane at the most.
    left_over: RefCell<Vec<Next>>,
    /// Outcomes of rows that were cancelled in flight: one for each lane that ends by it.
    pub(super) cancelled: RefCell<Vec<Outcome>>,
    pub(super) lanes: Lanes,
    /// Something has happened that the schedule may have something to say to.
    changed: Notify,
    /// Nobody takes outcomes any more.
    nothing_is_kept: Cell<bool>,
    alarm: Alarm,
    /// Tasks that look up names for the gate.
    pub(super) looking_up: Cell<usize>,
    /// Its part of what the run has in flight.
    pub(super) part: Part,
    /// What the gate had told when it was last looked at.
    pub(super) seen: Cell<u64>,
}

impl Share {
    /// # Errors
    /// `Input`: a kept column has a type that can't be carried.
    pub(super) fn new(
        shared: Arc<Shared>,
        client: Rc<Client>,
        (preparer, preparer_of_robots): (Preparer, Option<Preparer>),
        schedule: Schedule,
        stats: Arc<Mutex<WorkerStats>>,
        part: Part,
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
            schedule: RefCell::new(schedule),
            left_over: RefCell::default(),
            cancelled: RefCell::default(),
            lanes: Lanes::default(),
            changed: Notify::new(),
            nothing_is_kept: Cell::new(false),
            alarm: Alarm::new(),
            looking_up: Cell::new(0),
            part,
            seen: Cell::new(0),
        })
    }

    /// Works until the rows end or the phase says so, and hands over what there is.
    pub(super) async fn run(self: Rc<Self>) {
        let house = spawn_local(self.clone().keep_house());
        let _guard =
            EndOnPanic { share: &self, house: house.abort_handle(), _panic: self.shared.failure.on_panic("worker") };
        self.drive().await;
        // Somebody who has no places may wait for the end of the others.
        self.shared.gate.tell();
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
        house.abort();
    }

    /// Does what the schedule says, until it has ended.
    async fn drive(self: &Rc<Self>) {
        let mut phase = self.shared.phase.clone();
        let mut live = self.shared.limits.live.clone();
        if live.borrow().paused {
            self.shared.gate.change_at(Instant::now(), |gate, now| gate.pause(true, now));
        }
        // A run whose handle is gone works on to its end: nobody is left to stop it.
        let mut may_be_stopped = true;
        let mut may_be_set = true;
        if let Phase::Draining { until } = *phase.borrow_and_update() {
            self.drain(until);
        }
        loop {
            self.end_cancelled().await;
            let next = self.next();
            // Lanes look, too, while this one waits below.
            let seen = self.seen.get();
            let until = match next {
                Next::Start(row, host) => {
                    self.start(row, host);
                    continue;
                }
                Next::Fail(row, failure) => {
                    self.end_without_lane(self.unanswered(row, None, failure)).await;
                    continue;
                }
                Next::PassOver(rows) => {
                    drop(rows);
                    continue;
                }
                Next::Ended => return,
                Next::Until(time) => Some(time),
                Next::Wait => None,
            };
            let gate_changed = self.shared.gate.changed.notified();
            let _idle = Idle::new(&self.shared.gate);
            if self.shared.gate.news() != seen {
                continue;
            }
            let is_gated = self.shared.gate.is_needed();
            let wanted = if is_gated { 0 } else { self.schedule.borrow().wanted() };
            if wanted > 0 && self.draw() {
                continue;
            }
            let wants_any = is_gated && self.wants_rows_for_gate();
            if self.schedule.borrow().taken() == 0 {
                self.allowance.release();
                // Somebody may wait for these outcomes before there are more rows.
                if !self.gathered.is_empty() {
                    self.flush(false).await;
                }
            }
            tokio::select! {
                rows = self.shared.rows.recv(wanted), if wanted > 0 => self.drawn(rows),
                () = self.shared.rows.available(), if wants_any => {}
                () = gate_changed => {}
                changed = live.changed(), if may_be_set => match changed {
                    Ok(()) => {
                        let live = live.borrow_and_update().clone();
                        self.keep_to(&live);
                    }
                    Err(_) => may_be_set = false,
                },
                () = self.changed.notified() => {}
                changed = phase.changed(), if may_be_stopped => match (changed, *phase.borrow_and_update()) {
                    (Ok(()), Phase::Draining { until }) => self.drain(until),
                    (Ok(()), Phase::Running) => {}
                    (Err(_), _) => may_be_stopped = false,
                },
                () = self.alarm.until(until), if until.is_some() => {}
            }
        }
    }

    /// What is to be done now: what a lane left, or what the schedule says.
    fn next(self: &Rc<Self>) -> Next {
        let left_over = self.left_over.borrow_mut().pop();
        left_over.unwrap_or_else(|| self.next_at(Instant::now()))
    }

    /// No row is started any more.
    pub(super) fn drain(&self, until: Instant) {
        // For all workers: what stops one, stops the run.
        self.shared.end_rows();
        self.schedule.borrow_mut().drain(until);
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
                // Others may need its connection meanwhile.
                self.client.rest(&mut state);
                // Boxed, as all is that a lane rarely does: what it keeps while it waits for an answer is to be small.
                Box::pin(self.waiting(Wait::Sink, self.flush(true))).await;
            }
            // From here to the next wait the lane has no place; nobody else sees that.
            self.schedule.borrow_mut().free_place();
            match self.next_of_lane() {
                (Next::Start(row, host), now) => {
                    self.lanes.put(guard.place, row, host);
                    started = now;
                }
                (other, _) => {
                    if matches!(other, Next::Fail(..) | Next::PassOver(_)) {
                        self.left_over.borrow_mut().push(other);
                    }
                    self.client.rest(&mut state);
                    self.lanes.park(guard.place);
                    self.changed.notify_one();
                    Box::pin(self.waiting(Wait::Input, self.lanes.woken(guard.place))).await;
                    started = Instant::now();
                }
            }
        }
    }

    /// What a lane is to do that has nothing to do, and as of when. It draws rows itself if there are any, and so needs
    /// nobody's help.
    fn next_of_lane(self: &Rc<Self>) -> (Next, Instant) {
        let now = Instant::now();
        loop {
            let next = self.next_at(now);
            if !matches!(next, Next::Wait) || self.shared.gate.is_needed() || !self.draw() {
                return (next, now);
            }
            if self.schedule.borrow().has_places_to_spare() {
                // Other lanes can take some of the rows.
                self.changed.notify_one();
            }
        }
    }

    /// Draws rows if some are wanted. Whether the schedule learned something by it.
    fn draw(&self) -> bool {
        let wanted = self.schedule.borrow().wanted();
        if wanted == 0 {
            return false;
        }
        let drawn = self.shared.rows.try_recv(wanted);
        let is_news = drawn != Err(NoRows::Empty);
        if is_news {
            self.drawn(drawn);
        }
        is_news
    }

    fn drawn(&self, rows: Result<Vec<Row>, NoRows>) {
        match rows {
            Ok(rows) => self.schedule.borrow_mut().offer(rows),
            Err(NoRows::Ended) => self.schedule.borrow_mut().end_input(),
            // The gate has rows read again.
            Err(NoRows::Stalled | NoRows::Empty) => {}
        }
    }

    /// A row has its outcome that no lane has brought. Waits where a batch is full and the sink is behind.
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
            self.drain(Instant::now());
        }
    }

    /// Has the loop look again what is to be done.
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
    house: AbortHandle,
    _panic: PanicGuard,
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
    share: Rc<Share>,
    _panic: PanicGuard,
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
struct LaneGuard {
    share: Rc<Share>,
    place: PlaceIndex,
    _panic: DrainOnPanic,
}

impl LaneGuard {
    fn new(share: Rc<Share>, row: Row, host: Option<HostIndex>) -> Self {
        share.stats().lanes.start(Instant::now());
        let panic = DrainOnPanic::new(share.clone(), "lane");
        let place = share.lanes.enter(row, host);
        Self { share, place, _panic: panic }
    }
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        self.share.give_host_back(self.place);
        if !self.share.lanes.leave(self.place) {
            self.share.schedule.borrow_mut().free_place();
        }
        self.share.stats().lanes.end(Instant::now());
        self.share.wake();
    }
}
