//! A call: one row whose caller waits for it, for no longer than its timeouts, whatever becomes of the row.
//!
//! The caller enforces the timeouts: it looks at its call when one passes, and cancels the row. A row in flight ends by itself
//! at its total timeout, with what its attempt has shown about the host; the caller leaves it [`GRACE`] for that.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use headgate_core::call::{CallLimits, CallProgress, CallStage};
use headgate_core::clock;
use headgate_core::limits::Rate;
use headgate_core::row::{ReplyTo, Row};
use headgate_core::schedule::scheduler::lookup::RowWait;
use headgate_core::schedule::throttled::ThrottledBy;
use headgate_core::virtual_clock::{self, RegisteredTimer};

use super::handle::Run;
use crate::engine::completion_queue::CompletionQueue;

/// How long after its total timeout a row in flight may end by itself. A response that came in a stall is read in this time.
const GRACE: Duration = Duration::from_millis(500);
/// A call that waits longer than this before its request can be sent is reported.
const LONG_WAIT: Duration = Duration::from_secs(5);

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub struct CallTimeouts {
    /// From its submission to its outcome.
    pub total: Duration,
    /// For the wait for a slot; `None`: as long as it takes.
    pub pool: Option<Duration>,
    /// The longest pause that its host may request while it waits.
    pub max_pause: Duration,
}

/// A call that was submitted. Dropping it does not cancel its row.
#[derive(Debug)]
pub struct Call {
    run: Arc<Run>,
    ordinal: u64,
    /// Weak: the caller is notified when the row is gone.
    reply_to: Weak<ReplyTo>,
    timeouts: CallTimeouts,
    begun: Instant,
    ends_at: Instant,
    /// When the wait for a slot is looked at next.
    pool_at: Option<Instant>,
    /// When its present wait is looked at next; `None`: it was reported.
    reports_at: Option<Instant>,
    /// `None`: there was no virtual clock when it was submitted.
    timer: Option<LookTimer>,
}

/// Wakes a caller when the time for a look has come on a virtual clock.
#[derive(Debug)]
struct LookTimer {
    completions: Arc<CompletionQueue>,
    registered: Option<RegisteredTimer>,
}

impl LookTimer {
    fn begin(completions: &CompletionQueue, at: Instant) -> Option<Self> {
        let completions = if virtual_clock::is_active() { completions.shared()? } else { return None };
        let mut timer = Self { completions, registered: None };
        timer.set(at);
        Some(timer)
    }

    fn set(&mut self, at: Instant) {
        let completions = self.completions.clone();
        self.registered = virtual_clock::call_at(at, move || completions.wake());
    }
}

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CallWait {
    /// A free slot: so many requests of the run may be in flight.
    Slot(u32),
    /// A rate of the run.
    Rate(Option<Rate>),
    /// Something that throttles its host or all hosts, for this time if that is known.
    Throttled(ThrottledBy, Option<Duration>),
    /// A step of its attempt, or the response.
    Attempt(CallStage),
}

/// What follows when a caller has looked at its call.
#[derive(Debug)]
pub enum CallState {
    /// It goes on; the next look is due then.
    Waits(Instant),
    /// It goes on, and has waited for long before its request could be sent. This is reported once.
    WaitsLong(CallWait, Instant),
    /// It was cancelled, as a timeout has passed.
    TimedOut(CallTimeout),
}

/// A call whose timeout has passed.
#[derive(Debug)]
pub struct CallTimeout {
    pub wait: CallWait,
    /// The timeout that has passed.
    pub timeout: Duration,
    /// It is the one of the wait for a slot.
    pub is_pool_timeout: bool,
    /// Attempts that had begun.
    pub attempts: u16,
    /// Since its submission.
    pub elapsed: Duration,
}

impl Call {
    /// Submits a row as a call: its outcome comes to `completions` with this number, and its attempts if it is `followed`.
    /// `None`: the run has ended.
    pub fn submit(
        run: Arc<Run>,
        completions: &CompletionQueue,
        number: u64,
        row: Row,
        timeouts: CallTimeouts,
        followed: bool,
    ) -> Option<Self> {
        let begun = clock::now();
        let CallTimeouts { total, pool, max_pause } = timeouts;
        let ends_at = begun + total;
        let reply_to = completions.reply_to(number, Some(CallLimits { ends_at, max_pause }), followed)?;
        let shared = Arc::downgrade(&reply_to);
        let ordinal = run.feed(vec![Row { reply_to: Some(reply_to), ..row }])?;
        let (pool_at, reports_at) = (pool.map(|pool| begun + pool), Some(begun + LONG_WAIT));
        let mut call =
            Self { run, ordinal, reply_to: shared, timeouts, begun, ends_at, pool_at, reports_at, timer: None };
        call.timer = LookTimer::begin(completions, call.next_look());
        Some(call)
    }

    /// Returns when the caller has to look at it next.
    pub fn next_look(&self) -> Instant {
        [self.pool_at, self.reports_at].into_iter().flatten().fold(self.ends_at, Instant::min)
    }

    /// Returns its run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Cancels its row.
    pub fn cancel(&self) {
        self.run.cancel(self.ordinal);
    }

    /// Cancels the row if a timeout has passed. To be called at [`Call::next_look`].
    pub fn check_timeouts(&mut self) -> CallState {
        let state = self.state();
        let next_look = self.next_look();
        if let Some(timer) = &mut self.timer {
            timer.set(next_look);
        }
        state
    }

    fn state(&mut self) -> CallState {
        let now = clock::now();
        let reply_to = self.reply_to.upgrade();
        let progress = reply_to.as_ref().map(|reply_to| reply_to.progress());
        let (stage, attempts) = progress.map_or((CallStage::Sent, 0), CallProgress::get);
        let waits_since = progress.and_then(CallProgress::waits_since).unwrap_or(self.begun);
        let wait = self.run.wait_of(self.ordinal, stage, now);
        let is_in_flight = matches!(wait, CallWait::Attempt(_));
        let timed_out = |timeout, is_pool_timeout| {
            let elapsed = now.saturating_duration_since(self.begun);
            self.run.cancel(self.ordinal);
            CallState::TimedOut(CallTimeout { wait, timeout, is_pool_timeout, attempts, elapsed })
        };
        if now >= self.begun + self.timeouts.total {
            if !is_in_flight || now >= self.begun + self.timeouts.total + GRACE {
                return timed_out(self.timeouts.total, false);
            }
            (self.ends_at, self.pool_at, self.reports_at) = (self.begun + self.timeouts.total + GRACE, None, None);
        }
        if let Some(pool) = self.timeouts.pool.filter(|_| self.pool_at.is_some_and(|at| now >= at)) {
            if wait.is_for_a_slot() {
                return timed_out(pool, true);
            }
            // It may wait for a slot later.
            self.pool_at = (stage != CallStage::Sent).then(|| now + pool);
        }
        if self.reports_at.is_some_and(|at| now >= at) {
            // While the server is waited for, the intervals grow, so that a call of hours is not looked at every few seconds.
            let sent_for = now.saturating_duration_since(self.begun).max(LONG_WAIT);
            let is_sent = wait == CallWait::Attempt(CallStage::Sent);
            let at = if is_sent { now + sent_for } else { waits_since + LONG_WAIT };
            self.reports_at = Some(at).filter(|at| now < *at);
            if self.reports_at.is_none() {
                return CallState::WaitsLong(wait, self.next_look());
            }
        }
        CallState::Waits(self.next_look())
    }
}

impl CallWait {
    /// Returns whether it is for a slot of the run or of the host.
    fn is_for_a_slot(self) -> bool {
        matches!(
            self,
            Self::Slot(_)
                | Self::Throttled(ThrottledBy::HostConcurrency, _)
                | Self::Attempt(CallStage::HostConnection | CallStage::Stream)
        )
    }
}

impl Run {
    /// Returns what a row of a caller waits for, whose attempts have recorded this stage.
    fn wait_of(&self, ordinal: u64, stage: CallStage, now: Instant) -> CallWait {
        let Some(assigned) = self.assigned.as_ref().filter(|_| stage == CallStage::Waiting) else {
            return CallWait::Attempt(stage);
        };
        // Before the scheduler is locked, which is done for longer.
        let in_flight = assigned.in_flight();
        let (mut scheduler, awake) = assigned.scheduler.lock_at(now);
        let wait = match scheduler.wait_of(ordinal, awake) {
            // It is queued for the scheduler or for a worker.
            None => scheduler.throttled_by().map_or(RowWait::Lane, |by| RowWait::Throttled(by, None)),
            Some(wait) => wait,
        };
        match wait {
            RowWait::Dns => CallWait::Attempt(CallStage::Dns),
            // There are free lanes: a worker is about to start it.
            RowWait::Lane if in_flight < scheduler.rules().concurrency => CallWait::Attempt(stage),
            RowWait::Lane => CallWait::Slot(scheduler.rules().concurrency),
            RowWait::Throttled(ThrottledBy::Rate, _) => CallWait::Rate(scheduler.rules().limits.rate),
            RowWait::Throttled(by, until) => {
                CallWait::Throttled(by, until.map(|until| scheduler.real(until).saturating_duration_since(now)))
            }
        }
    }
}
