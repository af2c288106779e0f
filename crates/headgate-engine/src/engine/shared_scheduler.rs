//! The scheduler of a run as its workers share it, with the queue that it draws from. A run is stopped here, and rows that wait
//! are cancelled here.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::limits::{Limits, RetryOn, Retrying};
use headgate_core::live::Live;
use headgate_core::options::RunOptions;
use headgate_core::schedule::budget::Budgets;
use headgate_core::schedule::failure_limit::PROBE_ROWS;
use headgate_core::schedule::rows_to_cancel::RowsToCancel;
use headgate_core::schedule::scheduler::{Rules, Scheduler, SchedulerFigures};
use headgate_core::stall::{ClockReading, Stall, Suspends};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::queue::responders::Responders;
use crate::queue::rows::RowReceiver;
use crate::queue::window::Window;
use crate::stats::throttled::FigureSource;

/// What is in flight when a run stops itself has as long as it takes: attempts have an end of their own.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// The scheduler of a run. While it is not needed, workers start rows without its lock.
#[derive(Debug)]
pub(crate) struct SharedScheduler {
    pub(super) rows: RowReceiver,
    /// What the source waits for besides capacity in `rows`.
    pub(super) window: Arc<Window>,
    scheduler: Mutex<Scheduler>,
    /// The number of workers that beat.
    workers: AtomicUsize,
    /// See [`Scheduler::is_needed`].
    is_needed: AtomicBool,
    changed: Notify,
    /// A rate limiter counts each request that is sent.
    counts_sends: AtomicBool,
    /// In nanoseconds; 0: rows have no total timeout.
    total_timeout: AtomicU64,
    /// When the machine was suspended since the run began.
    suspends: RwLock<Suspends>,
    /// It was suspended.
    was_suspended: AtomicBool,
    /// What is retried: it never changes.
    retry_on: RetryOn,
    is_resumable: bool,
    /// The run was stopped from outside: by its handle, or by its sink.
    is_interrupted: AtomicBool,
    /// Counts all requests of the run, also those of rows that start without the scheduler.
    pub(crate) budgets: Arc<Budgets>,
    /// Rows wait for the next reservation of a budget.
    budget_is_short: Notify,
}

impl SharedScheduler {
    /// Returns the scheduler of a run that begins now; `body_bytes`: the length of the run's own body; `is_resumable`: a later
    /// run can send rows that are left undone; `is_probing`: the job has stopped itself before, and begins with a few rows.
    pub(crate) fn of(
        run: &RunOptions,
        body_bytes: u64,
        (rows, window): (RowReceiver, Arc<Window>),
        (is_resumable, is_probing): (bool, bool),
        (responders, budgets): (&Responders, Arc<Budgets>),
        now: Instant,
    ) -> Self {
        let rules = rules(run.concurrency, &run.limits, &run.retrying, body_bytes);
        let earlier = responders.recent().iter().map(|origin| origin.key(run.limits.host_by)).collect();
        let scheduler = Scheduler::new(rules, rows.can_defer(), fastrand::u64(..), now);
        let scheduler = scheduler.leaving_undone(is_resumable).resuming(earlier).within(budgets.clone());
        let scheduler = scheduler.probing(is_probing.then_some(PROBE_ROWS));
        Self {
            rows,
            window,
            is_needed: AtomicBool::new(scheduler.is_needed()),
            counts_sends: AtomicBool::new(scheduler.rules().limits.has_rates()),
            total_timeout: AtomicU64::new(total_timeout_ns(&scheduler.rules().retrying)),
            suspends: RwLock::default(),
            was_suspended: AtomicBool::new(false),
            retry_on: scheduler.rules().retrying.on.clone(),
            scheduler: Mutex::new(scheduler),
            workers: AtomicUsize::new(0),
            changed: Notify::new(),
            is_resumable,
            is_interrupted: AtomicBool::new(false),
            budgets,
            budget_is_short: Notify::new(),
        }
    }

    /// Applies options that were set during the run.
    pub(super) fn apply_options(&self, live: &Live, now: Instant) {
        self.counts_sends.store(live.limits.has_rates(), Ordering::Relaxed);
        self.total_timeout.store(total_timeout_ns(&live.retrying), Ordering::Relaxed);
        self.change_at(now, |scheduler, now| {
            let body_bytes = scheduler.rules().body_bytes;
            scheduler.set(rules(live.concurrency, &live.limits, &live.retrying, body_bytes), now);
            scheduler.pause(live.paused, now);
        });
    }

    /// Returns whether a later run can send rows that are left undone.
    pub(super) fn is_resumable(&self) -> bool {
        self.is_resumable
    }

    /// Returns what is retried.
    pub(super) fn retry_on(&self) -> &RetryOn {
        &self.retry_on
    }

    /// Returns the time that a row has for all of its attempts.
    pub(super) fn total_timeout(&self) -> Option<Duration> {
        let total_timeout = self.total_timeout.load(Ordering::Relaxed);
        (total_timeout > 0).then(|| Duration::from_nanos(total_timeout))
    }

    /// Returns whether a rate limiter counts each request that is sent.
    pub(super) fn counts_sends(&self) -> bool {
        self.counts_sends.load(Ordering::Relaxed)
    }

    pub(super) fn is_needed(&self) -> bool {
        self.is_needed.load(Ordering::Relaxed)
    }

    /// Changes something, and wakes workers that may have something to do by it. `now` becomes the awake time that the scheduler
    /// is told.
    pub(crate) fn change_at<T>(&self, now: Instant, change: impl FnOnce(&mut Scheduler, Instant) -> T) -> T {
        let (mut scheduler, now) = self.lock_at(now);
        let changed = change(&mut scheduler, now);
        self.note_change(&scheduler);
        changed
    }

    /// Stops the run: no row is read or started any more, and attempts in flight must end by `until`. A second call may shorten
    /// this time, never lengthen it.
    pub(crate) fn stop(&self, until: Instant) {
        // First: a worker that finds the queue closed is then told when to end.
        self.change_at(clock::now(), |scheduler, now| scheduler.stop(until, now));
        self.close();
    }

    /// Stops the run, and waits for the attempts in flight.
    pub(crate) fn stop_in_order(&self) {
        self.stop(clock::now() + LONGEST);
    }

    /// Stops the run as [`SharedScheduler::stop`] does, on request of the user or the sink.
    pub(crate) fn interrupt(&self, until: Instant) {
        self.is_interrupted.store(true, Ordering::Relaxed);
        self.stop(until);
    }

    /// Returns whether the run was stopped from outside.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }

    /// Closes the queue, since no rows are wanted any more.
    pub(crate) fn close(&self) {
        self.rows.close();
        self.window.close();
    }

    /// Returns the rows that a stop has left undone after attempts, with the number of these.
    pub(crate) fn drain_undone(&self) -> Vec<(u64, u16)> {
        self.lock().drain_undone()
    }

    /// Returns whether the run was stopped before its end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().is_stopped()
    }

    /// Cancels rows that wait in the queue or here, or that a worker has drawn and not started. They fail next. Returns whether
    /// there are any.
    pub(super) fn cancel(&self, rows: RowsToCancel) -> bool {
        self.change_at(clock::now(), |scheduler, now| {
            // Before the rows leave the queue: a worker that then finds the queue at its end comes here.
            self.is_needed.store(true, Ordering::Relaxed);
            let (mut waiting, drawn) = self.rows.remove(rows);
            self.budgets.requests.refund(drawn.len() as u64);
            waiting.extend(drawn);
            scheduler.cancel(waiting, rows, now)
        })
    }

    /// Notes that a worker begins to beat.
    pub(super) fn begin_worker(&self) {
        self.workers.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a worker has ended. After the last one, the run may merge or keep files for any time, and does not stall.
    pub(super) fn end_worker(&self) {
        if self.workers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.lock().rest();
        }
    }

    /// Notes that a worker of the run runs.
    pub(super) fn beat(&self, now: ClockReading) {
        let mut scheduler = self.lock();
        if let Some(stall) = scheduler.beat(now) {
            self.note_stall(&scheduler, stall);
        }
    }

    /// Returns the scheduler, and what awake time it is there: a stall that ends now is excused first.
    pub(crate) fn lock_at(&self, now: Instant) -> (MutexGuard<'_, Scheduler>, Instant) {
        let mut scheduler = self.lock();
        if scheduler.is_late(now)
            && let Some(stall) = scheduler.observe(ClockReading::now())
        {
            self.note_stall(&scheduler, stall);
        }
        let awake = scheduler.awake(now);
        (scheduler, awake)
    }

    /// Returns awake time of the scheduler as real time, as far as stalls are known now.
    pub(super) fn real(&self, awake: Instant) -> Instant {
        self.lock_at(clock::now()).0.real(awake)
    }

    fn note_stall(&self, scheduler: &Scheduler, stall: Stall) {
        if !stall.suspended().is_zero() {
            self.suspends.write().unwrap_or_else(PoisonError::into_inner).add(&stall);
            self.was_suspended.store(true, Ordering::Relaxed);
        }
        self.note_change(scheduler);
    }

    /// Returns for how long the machine was suspended since the run began until then: by so much wall-clock time is ahead of the
    /// monotonic clock.
    pub(super) fn suspended_until(&self, moment: Instant) -> Duration {
        if !self.was_suspended.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        self.suspends.read().unwrap_or_else(PoisonError::into_inner).until(moment)
    }

    pub(super) fn has_rows(&self) -> bool {
        !self.lock().is_empty()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Scheduler> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the scheduler was changed, and wakes workers that wait.
    pub(super) fn note_change(&self, scheduler: &Scheduler) {
        self.note_need(scheduler);
        self.wake_workers();
    }

    /// Notes whether rows have to come through the scheduler.
    pub(super) fn note_need(&self, scheduler: &Scheduler) {
        self.is_needed.store(scheduler.is_needed(), Ordering::Relaxed);
    }

    /// Requests the next reservation of a budget, if rows wait for it.
    pub(super) fn request_reservation(&self) {
        if self.budgets.are_short() {
            self.budget_is_short.notify_one();
        }
    }

    /// Waits until rows wait for the next reservation of a budget.
    pub(crate) async fn budget_is_short(&self) {
        self.budget_is_short.notified().await;
    }

    /// Wakes workers that wait for rows of the scheduler, or for its end.
    pub(crate) fn wake_workers(&self) {
        self.changed.notify_waiters();
    }

    /// Completes after the next change. To be called before the scheduler is looked at, so that no change in between is missed.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

fn rules(concurrency: usize, limits: &Limits, retrying: &Retrying, body_bytes: u64) -> Rules {
    let concurrency = u32::try_from(concurrency).unwrap_or(u32::MAX);
    Rules { limits: limits.clone(), retrying: retrying.clone(), concurrency, body_bytes }
}

fn total_timeout_ns(retrying: &Retrying) -> u64 {
    retrying.total_timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1))
}

impl FigureSource for SharedScheduler {
    fn figures(&self, now: Instant) -> SchedulerFigures {
        self.lock().figures(now)
    }

    fn limits(&self) -> Limits {
        self.lock().rules().limits.clone()
    }
}
