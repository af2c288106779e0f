//! The scheduler of a run: decides which row starts next and what follows an attempt that has ended, under limits, pauses and
//! retries, over all hosts and for all workers.
//!
//! Rows wait under their host, in the order in which they came. Hosts of which a row may start are in one list, in the order
//! of these rows in the input, and hosts that wait for a time are in another. So each event changes one host, and the next
//! row is at the front of a list, however many hosts there are.
//!
//! Pure: times are passed in. They are awake times (see [`StallClock`]): in a stall, no host gets older and no rate limiter
//! fills up. It is bounded by the look-ahead (`look_ahead.rs`), the number of hosts (`host_queues.rs`), and what is in
//! flight.

mod finishing;
pub mod lookup;
mod pausing;
mod readiness;
pub mod rereading;
mod stalling;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::addresses::Addresses;
use super::budget::{Allowance, Budgets, UsedUp};
use super::decision::Decision;
use super::host_queue::{NextRow, Readiness, Turn};
use super::host_queues::{HostIndex, HostQueues, MAX_HOSTS};
use super::look_ahead::{LookAhead, MAX_BYTES, MAX_ROWS};
use super::network::NetworkState;
use super::rate_limiter::{RateLimiter, RequestLimiter};
use super::throttled::{HostFigures, ThrottledBy, ThrottledClock, ThrottledTime};
use crate::error::{ErrorKind, Failure};
use crate::limits::{CostOf, HostBy, Limits, Retrying};
use crate::message::OptionName;
use crate::random::Rng;
use crate::row::Row;
use crate::stall::{StallClock, StallFigures};

/// The maximum number of hosts whose pauses are counted by name, and of those whose open circuit breakers are.
const MAX_NAMED_HOSTS: usize = 20;

/// The options of a run that limit requests.
#[derive(Debug, Clone)]
pub struct Rules {
    pub limits: Limits,
    pub retrying: Retrying,
    /// The maximum number of attempts in flight, over all hosts.
    pub concurrency: u32,
    /// The size of the body of rows without one of their own.
    pub body_bytes: u64,
}

impl Rules {
    fn cost_estimate(&self, row: &Row) -> u64 {
        let extra = row.extra.as_ref();
        match self.limits.cost.as_ref().map(|cost| &cost.of) {
            None => 0,
            Some(CostOf::Row) => 1,
            Some(CostOf::Column(_)) => extra.and_then(|extra| extra.cost).unwrap_or(1),
            Some(CostOf::BodyBytes) => {
                let own = extra.and_then(|extra| Some((extra.cost, extra.body.as_ref()?)));
                own.map_or(self.body_bytes, |(weighed, body)| weighed.unwrap_or(body.bytes_in_memory() as u64))
            }
        }
    }

    /// Returns what an attempt at a row uses of the budget for costs. A redirect is a part of an attempt that was counted.
    fn spent_by(&self, row: &Row) -> u64 {
        if row.chain().is_some() { 0 } else { self.cost_estimate(row) }
    }
}

/// How many of the slowest hosts are reported.
pub const MAX_SLOWEST: usize = 10;

/// The scheduler's report of its state.
#[derive(Debug, Clone, Default)]
pub struct SchedulerFigures {
    pub throttled: ThrottledTime,
    pub now: Option<ThrottledBy>,
    /// The throttled host that most rows wait for.
    pub host: Option<HostFigures>,
    /// Waiting rows, over all hosts.
    pub waiting: u64,
    /// Requested pauses, by the names of the first hosts.
    pub pauses: BTreeMap<Box<str>, u64>,
    /// How often circuit breakers opened, by the names of the first hosts.
    pub breakers_opened: BTreeMap<Box<str>, u64>,
    /// Hosts whose circuit breakers are open now.
    pub open_breakers: u64,
    /// Hosts that are paused now.
    pub paused_hosts: u64,
    /// The hosts whose rows take the longest, the slowest first: at most [`MAX_SLOWEST`].
    pub slowest: Vec<HostFigures>,
    /// For how long no host could be reached, while that throttles the run.
    pub network_down: Option<Duration>,
    /// Time in which no worker of the run ran.
    pub stalls: StallFigures,
    /// How late the next beat of its workers is: a stall that goes on is no part of `stalls` yet.
    pub late: Duration,
}

#[derive(Debug)]
pub struct Scheduler {
    rules: Rules,
    rng: Rng,
    clock: StallClock,
    rate: Option<RequestLimiter>,
    cost: Option<RateLimiter>,
    budgets: Arc<Budgets>,
    /// Attempts in flight that were started here.
    in_flight: u64,
    /// Rows without a valid host that were started, and of which it is not known yet that no request can be made.
    hostless_in_flight: u64,
    hosts: HostQueues,
    /// The addresses of hosts, if limits are per address.
    addresses: Addresses,
    /// Hosts of which a row may start.
    ready: BTreeSet<(Turn, HostIndex)>,
    timers: BTreeSet<(Instant, HostIndex)>,
    /// Rows without a valid host, which nothing throttles.
    hostless: VecDeque<Row>,
    failing: VecDeque<(Row, Failure)>,
    look_ahead: LookAhead,
    network: NetworkState,
    /// Hosts that responded in an earlier run of the job, as far as they are known.
    responded_earlier: HashSet<Box<str>>,
    /// The highest ordinal so far: rows up to it were read before.
    newest: Option<u64>,
    /// Hosts with few rows left here, while more of theirs were deferred.
    hungry_hosts: usize,
    /// Deferred rows, over all hosts.
    deferred: u64,
    /// Hosts that have a circuit breaker.
    unhealthy: usize,
    /// The time of the next search for hosts that have become healthy without further requests.
    forget_after: Option<Instant>,
    /// Waiting rows, by what they wait for.
    waiting: [u64; ThrottledBy::ALL.len()],
    throttled: ThrottledClock,
    pauses: BTreeMap<Box<str>, u64>,
    breakers_opened: BTreeMap<Box<str>, u64>,
    is_paused: bool,
    /// Hosts that get credentials wait for new ones.
    awaits_credentials: bool,
    /// The rows that may still come in a probe; `None`: there is none.
    probe: Option<u64>,
    /// `Some`: the run was stopped. Nothing new starts, and attempts in flight must end by this time, which is a real one.
    stops_at: Option<Instant>,
    /// Whether rows whose attempts fail after a stop, and would be retried, are left undone for a later run.
    leaves_undone: bool,
    /// Rows that were left undone after attempts, with the number of these.
    undone: Vec<(u64, u16)>,
}

impl Scheduler {
    /// Creates the scheduler of a run. `can_defer`: rows that don't fit here can be read again.
    pub fn new(rules: Rules, can_defer: bool, seed: u64, now: Instant) -> Self {
        Self::bounded(rules, can_defer, seed, now, (MAX_ROWS, MAX_BYTES, MAX_HOSTS))
    }

    fn bounded(
        rules: Rules,
        can_defer: bool,
        seed: u64,
        now: Instant,
        (max_rows, max_bytes, max_hosts): (usize, usize, usize),
    ) -> Self {
        let burst = rules.limits.burst.map(Into::into);
        Self {
            rate: rules.limits.rate.map(|rate| RequestLimiter::new(rate, burst, now)),
            cost: rules.limits.cost_rate().map(|rate| RateLimiter::new(rate, None, now)),
            budgets: Arc::default(),
            in_flight: 0,
            hostless_in_flight: 0,
            network: NetworkState::new(rules.retrying.network_down_after),
            responded_earlier: HashSet::new(),
            rules,
            rng: Rng::with_seed(seed),
            clock: StallClock::default(),
            hosts: HostQueues::new(max_hosts),
            addresses: Addresses::default(),
            ready: BTreeSet::new(),
            timers: BTreeSet::new(),
            hostless: VecDeque::new(),
            failing: VecDeque::new(),
            look_ahead: LookAhead::new(can_defer, max_rows, max_bytes),
            newest: None,
            hungry_hosts: 0,
            deferred: 0,
            unhealthy: 0,
            forget_after: None,
            waiting: [0; ThrottledBy::ALL.len()],
            throttled: ThrottledClock::default(),
            pauses: BTreeMap::new(),
            breakers_opened: BTreeMap::new(),
            is_paused: false,
            awaits_credentials: false,
            probe: None,
            stops_at: None,
            leaves_undone: false,
            undone: Vec::new(),
        }
    }

    /// Leaves rows undone whose attempts fail after a stop and would be retried: a later run can send them.
    #[must_use]
    pub fn leaving_undone(mut self, leaves_undone: bool) -> Self {
        self.leaves_undone = leaves_undone;
        self
    }

    /// Begins with a probe: only this many rows come before one has succeeded.
    #[must_use]
    pub fn probing(mut self, rows: Option<u64>) -> Self {
        self.probe = rows;
        self
    }

    /// Uses these budgets, of which earlier runs of the job have used some.
    #[must_use]
    pub fn within(mut self, budgets: Arc<Budgets>) -> Self {
        budgets.set(&self.rules.limits);
        self.budgets = budgets;
        self
    }

    /// Records hosts that have responded in an earlier run of the job.
    #[must_use]
    pub fn resuming(mut self, responders: HashSet<Box<str>>) -> Self {
        if !responders.is_empty() {
            self.network.resume();
        }
        self.responded_earlier = responders;
        self
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns whether rows must pass through here: something is limited, a host is unhealthy, or rows wait here.
    pub fn is_needed(&self) -> bool {
        !self.rules.limits.is_none()
            || self.unhealthy > 0
            || self.network.is_watched()
            || self.is_paused
            || self.awaits_credentials
            || self.probe.is_some()
            || self.is_stopped()
            || self.look_ahead.has_deferred()
            || !self.is_empty()
    }

    /// Returns whether no row is here.
    pub fn is_empty(&self) -> bool {
        self.look_ahead.rows() == 0 && self.hostless.is_empty() && self.failing.is_empty()
    }

    /// Returns whether more rows could start something that those here can't.
    pub fn wants_rows(&self) -> bool {
        let nothing_is_next = self.ready.is_empty() && self.hostless.is_empty() && self.failing.is_empty();
        if self.probe == Some(0) {
            return false;
        }
        // Only a worker that requests rows learns that there are none.
        self.is_empty() || nothing_is_next && self.look_ahead.accepts_rows() && !self.starts_nothing()
    }

    /// Returns how many rows may come at once: at most `most`.
    pub fn rows_to_draw(&self, most: usize) -> usize {
        self.probe.map_or(most, |rows| most.min(usize::try_from(rows).unwrap_or(most)))
    }

    /// Records that this many rows have come.
    pub fn note_drawn(&mut self, rows: usize) {
        self.probe = self.probe.map(|left| left.saturating_sub(rows as u64));
    }

    fn starts_nothing(&self) -> bool {
        self.is_paused || self.is_stopped() || self.network.is_down()
    }

    /// Returns whether any row was ever deferred.
    pub fn has_deferred(&self) -> bool {
        self.look_ahead.has_deferred()
    }

    /// Returns the rows that were deferred since the last call.
    pub fn drain_deferred(&mut self) -> Vec<u64> {
        self.look_ahead.drain_deferred()
    }

    /// Returns the next action at this time: to start or fail a row, or to wait. Call it until it returns a wait, and again
    /// when something has happened.
    pub fn next(&mut self, now: Instant) -> Decision {
        let may_start = !self.is_paused && !self.is_stopped();
        if may_start {
            self.wake(now);
        }
        if let Some(fail) = self.next_failing() {
            return fail;
        }
        if !may_start {
            return self.wait(self.is_paused.then_some(ThrottledBy::Paused), None, now);
        }
        self.forget_healthy(now);
        if let Some(row) = self.hostless.pop_front() {
            self.throttled.set(None, now);
            // Of most, no request can be made: then it is taken back.
            self.budgets.requests.spend(1);
            self.budgets.cost.spend(self.rules.spent_by(&row));
            self.hostless_in_flight += 1;
            return Decision::Start(row, None);
        }
        if let Some(used_up) = self.budgets.used_up(None).filter(|_| self.look_ahead.rows() > 0) {
            return self.end_by_budget(used_up, now);
        }
        if let Some(until) = self.network.throttled(now) {
            return self.wait(Some(ThrottledBy::Network), until, now);
        }
        if self.awaits_credentials && self.rules.limits.host_by == HostBy::Address {
            return self.wait(Some(ThrottledBy::Credentials), None, now);
        }
        while let Some((_, index)) = self.ready.first().copied() {
            let (readiness, next) = self.hosts.at(index).evaluate(now);
            let Some(next) = next.filter(|_| matches!(readiness, Readiness::Ready(_))) else {
                self.settle(index, now);
                continue;
            };
            if let Some(decision) = self.refused_by_budget(index, next, now) {
                return decision;
            }
            if let Some((by, until)) = self.throttled_by_run(index, next, now) {
                // Rows that become due meanwhile are started then.
                return self.wait(Some(by), Some(until), now);
            }
            let Some(row) = self.hosts.at(index).remove_next(next) else {
                self.settle(index, now);
                continue;
            };
            self.look_ahead.leaves(&row);
            if let Some(failure) = self.too_late(&row, now) {
                self.settle(index, now);
                return Decision::Fail(row, failure);
            }
            self.start(index, &row, now);
            self.throttled.set(None, now);
            return Decision::Start(row, Some(index));
        }
        if let Some(fail) = self.next_failing() {
            return fail;
        }
        // Hosts without rows have no timer, and still occupy the table for a while.
        let next_eviction = self.hosts.next_eviction_at(now);
        let until = self.timers.first().map(|(time, _)| *time).into_iter().chain(next_eviction).min();
        self.wait(self.throttled_most_by(), until, now)
    }

    /// Returns the next row that fails, whether or not a lane is free.
    pub fn next_failing(&mut self) -> Option<Decision> {
        self.failing.pop_front().map(|(row, failure)| Decision::Fail(row, failure))
    }

    fn wait(&mut self, by: Option<ThrottledBy>, until: Option<Instant>, now: Instant) -> Decision {
        self.throttled.set(by, now);
        Decision::wait(until)
    }

    /// Stops the run if nothing is in flight. Until then, a part of the budget may be refunded.
    fn end_by_budget(&mut self, used_up: UsedUp, now: Instant) -> Decision {
        // What is in flight may turn out not to be sent, and is taken back then.
        let may_be_refunded = self.in_flight + self.hostless_in_flight > 0;
        if may_be_refunded { self.wait(Some(ThrottledBy::Budget), None, now) } else { Decision::UsedUp(used_up) }
    }

    /// Returns what follows if the budgets don't allow this row to start.
    fn refused_by_budget(&mut self, index: HostIndex, next: NextRow, now: Instant) -> Option<Decision> {
        let cost = self.rules.spent_by(self.hosts.at(index).peek(next)?);
        match self.budgets.allowance(cost) {
            Allowance::Allowed => None,
            Allowance::NotReserved => Some(self.wait(Some(ThrottledBy::Budget), None, now)),
            Allowance::UsedUp => {
                let used_up = self.budgets.used_up(Some(cost))?;
                Some(self.end_by_budget(used_up, now))
            }
        }
    }

    /// Returns what throttles all hosts, and until when.
    fn throttled_by_run(&mut self, index: HostIndex, next: NextRow, now: Instant) -> Option<(ThrottledBy, Instant)> {
        let at = |limiter: &RateLimiter, cost| {
            let when = limiter.when(cost, now);
            (when > now).then(|| limiter.wake_at(when))
        };
        if let Some(until) = self.rate.as_ref().and_then(|rate| at(&rate.starts, 1)) {
            return Some((ThrottledBy::Rate, until));
        }
        let cost = self.rules.cost_estimate(self.hosts.at(index).peek(next)?);
        Some((ThrottledBy::Cost, at(self.cost.as_ref()?, cost)?))
    }

    fn start(&mut self, index: HostIndex, row: &Row, now: Instant) {
        let cost = self.rules.cost_estimate(row);
        self.budgets.requests.spend(1);
        self.budgets.cost.spend(self.rules.spent_by(row));
        self.in_flight += 1;
        let host = self.hosts.at(index);
        host.in_flight += 1;
        match row.before() {
            // It is part of an attempt that was counted at another host.
            _ if row.chain().is_some() => {}
            None => host.retry_budget.first_attempt(now),
            Some(_) => host.retry_budget.retry(),
        }
        self.network.started(now);
        for limiter in host.limiter.iter_mut().chain(self.rate.iter_mut()) {
            limiter.starts.spend_at(1, now);
        }
        if let Some(limiter) = &mut self.cost {
            limiter.spend_at(cost, now);
        }
        self.settle(index, now);
    }

    fn too_late(&self, row: &Row, now: Instant) -> Option<Failure> {
        let first = row.first_began();
        // Rows have real times, and a caller that waits for one waits in real time.
        let (began, now) = match first {
            Some(began) if row.reply_to.is_none() => (self.clock.awake(began), now),
            began => (began.unwrap_or(now), self.clock.real(now)),
        };
        let ends_at = row.own_retrying().ends_at(began, self.rules.retrying.total_timeout)?;
        (now >= ends_at).then(|| {
            let what = match row.chain() {
                Some(_) => "the total timeout passed while the row waited for the host of its redirect",
                None if first.is_none() => "the total timeout passed before the first attempt could start",
                None => "the total timeout passed before the next attempt could start",
            };
            Failure::new(ErrorKind::TotalTimeout, what).with_option(OptionName::TotalTimeout)
        })
    }

    /// Corrects the estimated cost of a row in flight.
    pub fn correct_cost(&mut self, row: &Row, cost: u64, now: Instant) {
        let estimate = self.rules.cost_estimate(row);
        if let Some(limiter) = &mut self.cost {
            limiter.correct(estimate, cost, now);
        }
        if self.rules.limits.cost.is_some() {
            self.budgets.cost.spend(cost);
            self.budgets.cost.refund(estimate);
        }
    }

    /// Takes back what a row has used of which no request can be made; `has_host`: it was started for a host.
    pub fn refund_invalid(&mut self, row: &Row, has_host: bool) {
        if !has_host {
            self.hostless_in_flight = self.hostless_in_flight.saturating_sub(1);
        }
        self.refund(row);
    }

    /// Takes back what a row has used that was started and not sent.
    pub fn refund(&mut self, row: &Row) {
        self.budgets.requests.refund(1);
        self.budgets.cost.refund(self.rules.spent_by(row));
    }

    /// Reserves a time at which a request that was started may be sent, which is `now` or later. The caller sends it then, and
    /// not before.
    pub fn reserve_send(&mut self, index: Option<HostIndex>, now: Instant) -> Instant {
        let of_host = index.and_then(|index| self.hosts.at(index).limiter.as_mut());
        let mut limiters = [of_host, self.rate.as_mut()].map(|limiter| limiter.map(|limiter| &mut limiter.sends));
        let when = limiters.iter().flatten().map(|limiter| limiter.when(1, now)).max().unwrap_or(now);
        for limiter in limiters.iter_mut().flatten() {
            limiter.spend_at(1, when);
        }
        when
    }

    /// Starts nothing while `is_paused`.
    pub fn pause(&mut self, is_paused: bool, now: Instant) {
        if self.is_paused != is_paused {
            self.is_paused = is_paused;
            // The time in which nothing was tried shows nothing, about the network and about hosts.
            self.network.restart();
            self.forgive_all(now);
        }
    }

    /// Starts nothing any more: rows that wait are left undone, and so are those that still come. Attempts in flight must end
    /// by `until`, a real time. A second call may shorten it, never lengthen it.
    pub fn stop(&mut self, until: Instant, now: Instant) {
        self.stops_at = Some(self.stops_at.map_or(until, |earlier| earlier.min(until)));
        let hostless = mem::take(&mut self.hostless).into_iter();
        for row in hostless.chain(mem::take(&mut self.failing).into_iter().map(|(row, _)| row)) {
            self.leave_row_undone(&row);
        }
        let deferred = self.look_ahead.drain_tried();
        self.leave_undone(deferred);
        for row in self.addresses.drain() {
            self.look_ahead.leaves(&row);
            self.leave_row_undone(&row);
        }
        for index in self.hosts.indices() {
            let Some(host) = self.hosts.get(index) else { continue };
            for row in host.drain() {
                self.look_ahead.leaves(&row);
                self.leave_row_undone(&row);
            }
            self.settle(index, now);
        }
    }

    /// Remembers rows that are left undone, each with the number of its attempts.
    pub fn leave_undone(&mut self, rows: impl IntoIterator<Item = (u64, u16)>) {
        self.undone.extend(rows.into_iter().filter(|(_, attempts)| self.leaves_undone && *attempts > 0));
    }

    fn leave_row_undone(&mut self, row: &Row) {
        self.leave_undone([(row.ordinal, row.attempts_begun())]);
    }

    /// Returns the rows that were left undone after attempts since the last call, with the number of these.
    pub fn drain_undone(&mut self) -> Vec<(u64, u16)> {
        mem::take(&mut self.undone)
    }

    pub fn is_stopped(&self) -> bool {
        self.stops_at.is_some()
    }

    /// Returns what a worker with this many rows in flight does at this real time, if the run was stopped.
    pub fn after_stop(&self, in_flight: usize, now: Instant) -> Option<Decision> {
        let until = self.stops_at?;
        Some(if in_flight > 0 && now < until { Decision::WaitUntil(until) } else { Decision::Ended })
    }

    /// Applies other limits from now on.
    pub fn set(&mut self, rules: Rules, now: Instant) {
        let limits = &rules.limits;
        let burst = limits.burst.map(Into::into);
        self.rate = RequestLimiter::changed(self.rate.take(), limits.rate, burst, now);
        self.cost = RateLimiter::changed(self.cost.take(), limits.cost_rate(), None, now);
        self.budgets.set(limits);
        self.network.set(rules.retrying.network_down_after);
        self.rules = rules;
        for index in self.hosts.indices() {
            if let Some(host) = self.hosts.get(index) {
                host.set(&self.rules.limits, self.rules.concurrency, now);
                self.settle(index, now);
            }
        }
    }
}
