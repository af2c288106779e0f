//! The gate of a run as its workers share it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::model::limits::{Limits, RetryOn, Retrying};
use crate::model::live::Live;
use crate::model::options::RunOptions;
use crate::model::stall::{Reading, Stall, Suspends};
use crate::queue::responders::Responders;
use crate::schedule::gate::{Gate, GateFigures, Rules};
use crate::stats::held::Held;

/// Whether rows that are left undone can be asked again.
#[derive(Debug, Clone, Copy)]
pub struct Repeats {
    pub in_this_run: bool,
    pub in_a_later_run: bool,
}

/// The gate of a run, and who is to be woken when something changes there.
#[derive(Debug)]
pub struct SharedGate {
    gate: Mutex<Gate>,
    /// See [`Gate::is_needed`].
    is_needed: AtomicBool,
    /// Something may start that could not.
    pub(super) changed: Notify,
    /// Workers that have nothing to start.
    idle: AtomicUsize,
    /// Rises with whatever may give others something to do: who is about to wait looks whether he has missed any.
    news: AtomicU64,
    /// Each request that is sent is counted by a rate.
    counts_sends: AtomicBool,
    /// In nanoseconds; 0: rows have no deadline.
    deadline: AtomicU64,
    /// When the machine was suspended since the run began.
    suspends: RwLock<Suspends>,
    /// It was.
    was_suspended: AtomicBool,
    /// What is worth another attempt: it never changes.
    on: RetryOn,
}

impl SharedGate {
    /// Of a run that begins now; `body_bytes`: of the body of rows that bring none.
    pub fn of(run: &RunOptions, body_bytes: u64, input: Repeats, responders: &Responders, now: Instant) -> Self {
        let rules = rules(run.concurrency, &run.limits, &run.retrying, body_bytes);
        let earlier = responders.recent().iter().map(|origin| origin.key(run.limits.limit_by)).collect();
        let gate = Gate::new(rules, input.in_this_run, fastrand::u64(..), now);
        let gate = gate.leaving_undone(input.in_a_later_run).resuming(earlier);
        Self {
            is_needed: AtomicBool::new(gate.is_needed()),
            counts_sends: AtomicBool::new(gate.rules().limits.has_rates()),
            deadline: AtomicU64::new(deadline_ns(&gate.rules().retrying)),
            suspends: RwLock::default(),
            was_suspended: AtomicBool::new(false),
            on: gate.rules().retrying.on.clone(),
            gate: Mutex::new(gate),
            changed: Notify::new(),
            idle: AtomicUsize::new(0),
            news: AtomicU64::new(0),
        }
    }

    /// Keeps to what was set meanwhile.
    pub(super) fn keep_to(&self, live: &Live, now: Instant) {
        self.counts_sends.store(live.limits.has_rates(), Ordering::Relaxed);
        self.deadline.store(deadline_ns(&live.retrying), Ordering::Relaxed);
        self.change_at(now, |gate, now| {
            let body_bytes = gate.rules().body_bytes;
            gate.set(rules(live.concurrency, &live.limits, &live.retrying, body_bytes), now);
            gate.pause(live.paused, now);
        });
    }

    /// What is worth another attempt.
    pub(super) fn retries_on(&self) -> &RetryOn {
        &self.on
    }

    /// What a row has for all of its attempts.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let deadline = self.deadline.load(Ordering::Relaxed);
        (deadline > 0).then(|| Duration::from_nanos(deadline))
    }

    /// Whether each request that is sent is counted by a rate.
    pub(super) fn counts_sends(&self) -> bool {
        self.counts_sends.load(Ordering::Relaxed)
    }

    pub(super) fn is_needed(&self) -> bool {
        self.is_needed.load(Ordering::Relaxed)
    }

    /// Changes something, and wakes those who may have something to do by it.
    pub fn change<T>(&self, change: impl FnOnce(&mut Gate) -> T) -> T {
        let mut gate = self.lock();
        let changed = change(&mut gate);
        self.look_after(&gate);
        self.tell();
        changed
    }

    /// As [`SharedGate::change`], with `now` as the awake time that the gate is told.
    pub fn change_at<T>(&self, now: Instant, change: impl FnOnce(&mut Gate, Instant) -> T) -> T {
        let (mut gate, now) = self.lock_at(now);
        let changed = change(&mut gate, now);
        self.look_after(&gate);
        self.tell();
        changed
    }

    /// Notes that a worker of the run runs.
    pub(super) fn beat(&self, now: Reading) {
        let mut gate = self.lock();
        if let Some(stall) = gate.beat(now) {
            self.note_suspend(stall);
            self.look_after(&gate);
            self.tell();
        }
    }

    /// The gate, and what awake time it is there: a stall that ends now is excused first.
    pub(super) fn lock_at(&self, now: Instant) -> (MutexGuard<'_, Gate>, Instant) {
        let mut gate = self.lock();
        if gate.is_late(now)
            && let Some(stall) = gate.observe(Reading::now())
        {
            self.note_suspend(stall);
            self.look_after(&gate);
            self.tell();
        }
        let awake = gate.awake(now);
        (gate, awake)
    }

    /// Awake time of the gate as real time, as far as stalls are known now.
    pub(super) fn real(&self, awake: Instant) -> Instant {
        self.lock_at(Instant::now()).0.real(awake)
    }

    fn note_suspend(&self, stall: Stall) {
        if !stall.suspended().is_zero() {
            self.suspends.write().unwrap_or_else(PoisonError::into_inner).add(&stall);
            self.was_suspended.store(true, Ordering::Relaxed);
        }
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

    pub(super) fn lock(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn look_after(&self, gate: &Gate) {
        self.is_needed.store(gate.is_needed(), Ordering::Relaxed);
    }

    /// Whoever waits for rows of the gate, or for its end, looks again.
    pub(super) fn tell(&self) {
        // Whoever begins to wait does so the other way round: one of both sees the other.
        self.news.fetch_add(1, Ordering::SeqCst);
        if self.idle.load(Ordering::SeqCst) > 0 {
            self.changed.notify_waiters();
        }
    }

    /// How much was told so far.
    pub(super) fn news(&self) -> u64 {
        self.news.load(Ordering::SeqCst)
    }
}

fn rules(concurrency: usize, limits: &Limits, retrying: &Retrying, body_bytes: u64) -> Rules {
    let concurrency = u32::try_from(concurrency).unwrap_or(u32::MAX);
    Rules { limits: limits.clone(), retrying: retrying.clone(), concurrency, body_bytes }
}

fn deadline_ns(retrying: &Retrying) -> u64 {
    retrying.deadline.map_or(0, |deadline| u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX).max(1))
}

impl Held for SharedGate {
    fn figures(&self, now: Instant) -> GateFigures {
        self.lock().figures(now)
    }

    fn limits(&self) -> Limits {
        self.lock().rules().limits.clone()
    }
}

/// A worker that waits for something to happen.
pub(super) struct Idle<'a>(&'a SharedGate);

impl<'a> Idle<'a> {
    pub(super) fn new(gate: &'a SharedGate) -> Self {
        gate.idle.fetch_add(1, Ordering::SeqCst);
        Self(gate)
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.idle.fetch_sub(1, Ordering::Relaxed);
    }
}
