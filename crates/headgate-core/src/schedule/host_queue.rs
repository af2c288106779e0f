//! One host from the scheduler's view: its waiting rows, its attempts in flight, and the limits of both.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::time::{Duration, Instant};

use super::adaptive::Adaptive;
use super::breaker::{Allowed, Breaker};
use super::network::View;
use super::rate_limiter::RequestLimiter;
use super::retry_budget::{Load, RetryBudget};
use super::rows_to_cancel::{RowsToCancel, position_by_order};
use super::throttled::{HostFigures, ThrottledBy};
use crate::limits::{HostConcurrency, Limits};
use crate::row::Row;

/// Responses in a row after which rows start in their order again. Half of them are to the oldest rows.
const MIXED_RESPONSES: u32 = 40;

/// The weight of the last attempt in the mean time of a host's attempts.
const MEAN_WEIGHT: f32 = 0.1;

/// The limit of attempts in flight.
#[derive(Debug)]
pub(super) enum Concurrency {
    Unlimited,
    Fixed(u32),
    Adaptive(Box<Adaptive>),
}

impl Concurrency {
    pub(super) fn new(limit: Option<HostConcurrency>, most: u32, now: Instant) -> Self {
        match limit {
            None => Self::Unlimited,
            Some(HostConcurrency::Fixed(limit)) => Self::Fixed(limit),
            Some(HostConcurrency::Auto) => Self::Adaptive(Box::new(Adaptive::new(most, now))),
        }
    }

    pub(super) fn limit(&self) -> u32 {
        match self {
            Self::Unlimited => u32::MAX,
            Self::Fixed(limit) => *limit,
            Self::Adaptive(adaptive) => adaptive.limit(),
        }
    }
}

/// The order in which hosts start rows: first those whose next row was redirected in the middle of an attempt, then by the
/// ordinal of the next row, or of the first new one behind it if that came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    is_not_redirected: bool,
    ordinal: u64,
}

/// Whether a row of a host may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    /// No rows wait for it.
    Idle,
    /// A row may start.
    Ready(Turn),
    /// No row may start before this time.
    Until(Instant, ThrottledBy),
    /// No row may start before an attempt has ended.
    Blocked(ThrottledBy),
}

impl Readiness {
    pub(super) fn throttled_by(self) -> Option<ThrottledBy> {
        match self {
            Self::Until(_, by) | Self::Blocked(by) => Some(by),
            Self::Idle | Self::Ready(_) => None,
        }
    }
}

/// The next row of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextRow {
    Redirected,
    /// The one with this key.
    Retry(Instant, u64),
    Oldest,
    /// The row that came last.
    Newest,
}

/// The credentials of a host's requests, if they can be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostCredentials {
    None,
    Sent,
    /// Its rows wait for new ones.
    Awaited,
}

impl HostCredentials {
    /// Returns the credentials of a host that gets some, while new ones are awaited or not.
    pub(super) fn awaited(is_awaited: bool) -> Self {
        if is_awaited { Self::Awaited } else { Self::Sent }
    }
}

#[derive(Debug)]
pub(super) struct HostQueue {
    pub(super) name: Box<str>,
    pub(super) new_rows: VecDeque<Row>,
    /// Rows that were redirected here in the middle of an attempt, which start first.
    pub(super) redirected: VecDeque<Row>,
    /// Rows that are retried, by the time of the retry and their ordinals.
    pub(super) retries: BTreeMap<(Instant, u64), Row>,
    /// Deferred rows, which will be read again.
    pub(super) deferred: u64,
    pub(super) in_flight: u32,
    pub(super) concurrency: Concurrency,
    pub(super) limiter: Option<RequestLimiter>,
    /// `None`: the host is healthy.
    pub(super) breaker: Option<Box<Breaker>>,
    /// When response headers last came, as far as that was recorded.
    pub(super) responded_at: Option<Instant>,
    /// Whether it has responded in an earlier run of the job.
    pub(super) responded_earlier: bool,
    pub(super) retry_budget: RetryBudget,
    pub(super) readiness: Readiness,
    /// When its readiness changes by itself.
    pub(super) timer: Option<Instant>,
    /// How many of its rows are counted as waiting for what it waits for.
    pub(super) counted: u64,
    pub(super) is_hungry: bool,
    pub(super) credentials: HostCredentials,
    /// See [`HostQueue::note_response`] and [`MIXED_RESPONSES`]; 0: rows start in their order.
    mixed: u32,
    took_newest: bool,
    /// The mean duration of its attempts: a moving average, in seconds.
    mean_s: Option<f32>,
}

impl HostQueue {
    pub(super) fn new(name: &str, limits: &Limits, most: u32, now: Instant) -> Self {
        let burst = limits.burst.map(Into::into);
        let most = limits.most_of(name).map_or(most, |most_of_host| most_of_host.min(most));
        Self {
            name: name.into(),
            new_rows: VecDeque::new(),
            redirected: VecDeque::new(),
            retries: BTreeMap::new(),
            deferred: 0,
            in_flight: 0,
            concurrency: Concurrency::new(limits.concurrency_of(name), most, now),
            limiter: limits.rate_per_host.of(name).map(|rate| RequestLimiter::new(rate, burst, now)),
            breaker: None,
            responded_at: None,
            responded_earlier: false,
            retry_budget: RetryBudget::new(now),
            readiness: Readiness::Idle,
            timer: None,
            counted: 0,
            is_hungry: false,
            credentials: HostCredentials::None,
            mixed: 0,
            took_newest: false,
            mean_s: None,
        }
    }

    pub(super) fn waiting(&self) -> u64 {
        (self.new_rows.len() + self.redirected.len() + self.retries.len()) as u64
    }

    /// Applies other limits from now on, and keeps what is known of the host.
    pub(super) fn set(&mut self, limits: &Limits, most: u32, now: Instant) {
        let burst = limits.burst.map(Into::into);
        self.limiter = RequestLimiter::changed(self.limiter.take(), limits.rate_per_host.of(&self.name), burst, now);
        let most = limits.most_of(&self.name).map_or(most, |most_of_host| most_of_host.min(most));
        match (limits.concurrency_of(&self.name), &mut self.concurrency) {
            (Some(HostConcurrency::Auto), Concurrency::Adaptive(adaptive)) => adaptive.set_max(most),
            (limit, concurrency) => *concurrency = Concurrency::new(limit, most, now),
        }
    }

    /// Records that the host has responded. If its breaker is open, only some adjacent rows fail: then rows start from both
    /// ends in turn, so that the rest show that the host is healthy.
    pub(super) fn note_response(&mut self, breaker_is_open: bool, now: Instant) {
        self.responded_at = Some(now);
        self.mixed = if breaker_is_open { MIXED_RESPONSES } else { self.mixed.saturating_sub(1) };
    }

    /// Records that the host has failed to respond.
    pub(super) fn note_silence(&mut self) {
        if self.mixed > 0 {
            self.mixed = MIXED_RESPONSES;
        }
    }

    /// Records that an attempt of this length has ended.
    pub(super) fn note_time(&mut self, took: Duration) {
        let took_s = took.as_secs_f32();
        self.mean_s = Some(self.mean_s.map_or(took_s, |mean_s| mean_s + (took_s - mean_s) * MEAN_WEIGHT));
    }

    /// Returns what is reported of the host; `real`: awake time as real time.
    pub(super) fn figures(&self, now: Instant, real: impl Fn(Instant) -> Instant) -> HostFigures {
        let until = if let Readiness::Until(until, _) = self.readiness { Some(real(until)) } else { None };
        HostFigures {
            name: self.name.clone(),
            throttled_by: self.readiness.throttled_by(),
            waiting: self.waiting() + self.deferred,
            in_flight: self.in_flight,
            until,
            time_left: self.time_left(now),
        }
    }

    /// Returns how long its rows take at least, as far as its limits and the times of its attempts tell; `None`: none wait,
    /// or the host does not respond.
    pub(super) fn time_left(&self, now: Instant) -> Option<Duration> {
        let waiting = self.waiting() + self.deferred;
        if waiting == 0 || self.breaker.as_ref().is_some_and(|breaker| breaker.is_open()) {
            return None;
        }
        let by_rate = self.limiter.as_ref().map_or(Duration::ZERO, |limiter| limiter.starts.time_for(waiting));
        let by_concurrency = match (self.concurrency.limit(), self.mean_s) {
            (u32::MAX, _) | (_, None) => Duration::ZERO,
            (limit, Some(mean_s)) => {
                let rounds = (waiting + u64::from(self.in_flight)) as f64 / f64::from(limit);
                Duration::try_from_secs_f64(rounds * f64::from(mean_s)).unwrap_or(Duration::MAX)
            }
        };
        let until = if let Readiness::Until(until, _) = self.readiness { until } else { now };
        Some(by_rate.max(by_concurrency).saturating_add(until.saturating_duration_since(now)))
    }

    /// Returns whether all rows that wait here or will be read again have failed before.
    pub(super) fn has_only_retries(&self) -> bool {
        self.new_rows.is_empty() && self.redirected.is_empty() && self.deferred == 0
    }

    pub(super) fn responded_since(&self, time: Duration, now: Instant) -> bool {
        self.responded_at.is_some_and(|at| now.saturating_duration_since(at) < time)
    }

    /// Returns how long it may send no response before its rows fail.
    pub(super) fn down_after(&self, view: View<'_>) -> Duration {
        let rules = view.rules;
        // A host that never responded may be down for the same reason as all hosts, until one of them responds.
        let has_responded = self.responded_at.is_some() || self.responded_earlier;
        rules.host_down_after(has_responded || !view.network.has_responded())
    }

    /// Returns whether its rows fail without a request: it sent no response for too long, or requested too long a pause.
    pub(super) fn is_down(&self, view: View<'_>, now: Instant) -> bool {
        let pause_exceeds_limit = self.breaker.as_ref().is_some_and(|breaker| breaker.pause_exceeds_limit(now));
        let silent_since = self.breaker.as_ref().and_then(|breaker| breaker.silent_for(self.down_after(view)));
        pause_exceeds_limit || silent_since.is_some_and(|since| view.network.works_since(since, now))
    }

    /// Returns whether a row may start now, and which one.
    pub(super) fn evaluate(&mut self, now: Instant) -> (Readiness, Option<NextRow>) {
        if self.waiting() == 0 {
            return (Readiness::Idle, None);
        }
        if self.credentials == HostCredentials::Awaited {
            return (Readiness::Blocked(ThrottledBy::Credentials), None);
        }
        if self.in_flight >= self.concurrency.limit() {
            return (Readiness::Blocked(ThrottledBy::HostConcurrency), None);
        }
        let mut is_probe = false;
        // If only rows are left that have failed before, their backoff is enough.
        let has_only_retries = self.has_only_retries();
        if let Some(breaker) = &self.breaker {
            match breaker.allowed(now) {
                Allowed::Pause(until) => return (Readiness::Until(until, ThrottledBy::Pause), None),
                _ if has_only_retries && breaker.is_open() => {}
                Allowed::Probe(until) => return (Readiness::Until(until, ThrottledBy::CircuitBreaker), None),
                Allowed::InFlight(allowed) => {
                    is_probe = allowed == 1;
                    // Attempts from before the limit may take as long as they like.
                    if self.in_flight.saturating_sub(breaker.earlier()) >= allowed {
                        return (Readiness::Blocked(ThrottledBy::CircuitBreaker), None);
                    }
                }
            }
        }
        let next = match self.next_row(is_probe, now) {
            Ok(next) => next,
            Err(readiness) => return (readiness, None),
        };
        if let Some(limiter) = &self.limiter {
            let when = limiter.starts.when(1, now);
            if when > now {
                return (Readiness::Until(limiter.starts.wake_at(when), ThrottledBy::HostRate), None);
            }
        }
        let ordinals = self.peek(next).into_iter().chain(self.new_rows.front()).map(|row| row.ordinal);
        let is_not_redirected = next != NextRow::Redirected;
        let turn = ordinals.min().map(|ordinal| Turn { is_not_redirected, ordinal });
        (turn.map_or(Readiness::Idle, Readiness::Ready), Some(next))
    }

    /// Returns the next row: a retry that is due, or else the row that has waited the longest.
    fn next_row(&mut self, is_probe: bool, now: Instant) -> Result<NextRow, Readiness> {
        if !self.redirected.is_empty() {
            return Ok(NextRow::Redirected);
        }
        // Rows that failed, and those beside them, may fail though the host is healthy: distant rows show whether it is.
        let is_open = self.breaker.as_ref().is_some_and(|breaker| breaker.is_open());
        if is_open && !self.new_rows.is_empty() {
            return Ok(NextRow::Newest);
        }
        let mut wait = None;
        if let Some(((due, ordinal), _)) = self.retries.first_key_value() {
            let only_retries = Load::OnlyRetries { host_is_well: !is_open };
            let load = if self.has_only_retries() { only_retries } else { Load::NewRows };
            let allowed = if is_probe { now } else { self.retry_budget.when(load, now) };
            if *due > now {
                wait = Some((*due, ThrottledBy::Backoff));
            } else if allowed > now {
                wait = Some((allowed, ThrottledBy::RetryBudget));
            } else {
                return Ok(NextRow::Retry(*due, *ordinal));
            }
        }
        match wait {
            _ if !self.new_rows.is_empty() => {
                Ok(if self.mixed > 0 && !self.took_newest { NextRow::Newest } else { NextRow::Oldest })
            }
            Some((until, by)) => Err(Readiness::Until(until, by)),
            None => Err(Readiness::Idle),
        }
    }

    /// Returns all rows that wait.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.redirected.iter().chain(&self.new_rows).chain(self.retries.values())
    }

    /// Returns whether a row that had no attempt yet is found by the order of ordinals: one that waits may not be.
    pub(super) fn has_new_row(&self, ordinal: u64) -> bool {
        position_by_order(&self.new_rows, ordinal).is_some()
    }

    pub(super) fn peek(&self, next: NextRow) -> Option<&Row> {
        match next {
            NextRow::Redirected => self.redirected.front(),
            NextRow::Retry(due, ordinal) => self.retries.get(&(due, ordinal)),
            NextRow::Oldest => self.new_rows.front(),
            NextRow::Newest => self.new_rows.back(),
        }
    }

    /// Counts an attempt that has ended; `started`: when it began, if that is known.
    pub(super) fn end_attempt(&mut self, started: Option<Instant>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(breaker) = &mut self.breaker {
            breaker.end_attempt(started);
        }
    }

    /// Removes the waiting rows for which `leaves` is true.
    pub(super) fn remove_where(&mut self, mut leaves: impl FnMut(&Row) -> bool) -> Vec<Row> {
        let retries = self.retries.extract_if(.., |_, row| leaves(row));
        let mut removed: Vec<Row> = retries.map(|(_, row)| row).collect();
        for waiting in [&mut self.redirected, &mut self.new_rows] {
            let (left, kept): (Vec<Row>, Vec<Row>) = mem::take(waiting).into_iter().partition(|row| leaves(row));
            *waiting = kept.into();
            removed.extend(left);
        }
        removed
    }

    /// Removes the waiting rows that are cancelled.
    pub(super) fn remove(&mut self, cancelled: RowsToCancel) -> Vec<Row> {
        let retries = self.retries.extract_if(.., |_, row| cancelled.includes(row));
        let mut removed: Vec<Row> = retries.map(|(_, row)| row).collect();
        for waiting in [&mut self.redirected, &mut self.new_rows] {
            removed.extend(cancelled.remove_from(waiting));
        }
        removed
    }

    /// Removes all waiting rows.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Row> + use<> {
        let waiting = mem::take(&mut self.redirected).into_iter().chain(mem::take(&mut self.new_rows));
        waiting.chain(mem::take(&mut self.retries).into_values())
    }

    pub(super) fn remove_next(&mut self, next: NextRow) -> Option<Row> {
        match next {
            NextRow::Redirected => self.redirected.pop_front(),
            NextRow::Retry(due, ordinal) => self.retries.remove(&(due, ordinal)),
            NextRow::Oldest => {
                self.took_newest = false;
                self.new_rows.pop_front()
            }
            NextRow::Newest => {
                self.took_newest = true;
                self.new_rows.pop_back()
            }
        }
    }

    /// Returns whether little is lost if the host is forgotten and later begins anew.
    pub(super) fn may_be_forgotten(&self, now: Instant) -> bool {
        self.waiting() == 0
            && self.in_flight == 0
            && self.deferred == 0
            && self.breaker.as_ref().is_none_or(|breaker| breaker.may_send(now))
            && self.limiter.as_ref().is_none_or(|limiter| limiter.is_as_new(now))
    }
}
