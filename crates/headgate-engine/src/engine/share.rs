//! A worker's share of a run: its lanes, the rows that they have in flight, the outcomes that wait to go to the sink.
//!
//! A lane takes a row, performs the exchange, hands the outcome on and takes the next; there is no task for a request. The
//! scheduler decides what starts when. While there are rows, lanes get their next rows from it themselves; all other decisions
//! are carried out by [`Share::drive`], which also creates lanes as they are needed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headgate_core::clock;
use headgate_core::error::JobError;
use headgate_core::row::Outcome;
use headgate_core::schedule::decision::Decision;
use headgate_core::schedule::slots::Slots;
use headgate_core::virtual_clock;
use headgate_http::client::Client;
use headgate_http::h1::read_reservation::ReadReservation;
use headgate_http::request::Preparer;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_local};

use crate::engine::alarm::Alarm;
use crate::engine::failure::PanicGuard;
use crate::engine::gathered::{Batch, Gathered, NothingIsKept};
use crate::engine::lanes::Lanes;
use crate::engine::shared::Shared;
use crate::engine::worker_index::WorkerIndex;
use crate::stats::lanes::Wait;
use crate::stats::worker::{WaitingLane, WorkerStats};

pub(super) struct Share {
    pub(super) shared: Arc<Shared>,
    stats: Arc<Mutex<WorkerStats>>,
    pub(super) client: Rc<Client>,
    pub(super) preparer: RefCell<Preparer>,
    /// Makes requests for robots.txt, where that is obeyed.
    pub(super) preparer_of_robots: Option<RefCell<Preparer>>,
    /// What its lanes may read.
    pub(super) read_reservation: ReadReservation,
    pub(super) gathered: Gathered,
    pub(super) slots: RefCell<Slots>,
    /// Outcomes of rows that are in no lane any more: one of each lane at the most.
    unrecorded: RefCell<Vec<Outcome>>,
    pub(super) lanes: Lanes,
    /// Something has happened that may change what is decided.
    changed: Notify,
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
        let read_reservation = ReadReservation::new(&shared.limits.response.memory);
        shared.scheduler.rows.share_drawn(slots.drawn());
        Ok(Self {
            read_reservation,
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
        self.stats().figures.abandoned = abandoned.len() as u64;
        self.shared.scheduler.lock().leave_undone(abandoned);
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
        let (scheduler, alarm) = (&self.shared.scheduler, Alarm::new());
        let mut live = self.shared.limits.live.clone();
        if live.borrow().paused {
            scheduler.change_at(clock::now(), |scheduler, now| scheduler.pause(true, now));
        }
        let mut may_be_set = true;
        loop {
            virtual_clock::note_activity();
            self.record_unrecorded().await;
            // Before the decision, so that no change after it is missed.
            let (scheduler_changed, rows_came) = (scheduler.changed(), scheduler.rows.available());
            let (decision, wants_rows) = self.decide(clock::now());
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
                Decision::Wait | Decision::UsedUp(_) => None,
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
                () = alarm.until(until), if until.is_some() => {}
            }
        }
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
        self.shared.scheduler.stop(clock::now());
    }

    /// Wakes the loop, which decides again.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    pub(super) async fn waiting<T>(&self, wait: Wait, future: impl Future<Output = T>) -> T {
        let _waiting = WaitingLane::new(&self.stats, wait);
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
            self.share.shared.scheduler.stop(clock::now());
            self.share.lanes.end_all();
            self.background.abort();
        }
    }
}

/// Stops the run if a task panics beside [`Share::run`], so that the share ends in an orderly way.
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
            self.share.shared.scheduler.stop(clock::now());
        }
    }
}
