//! What may start now, for all workers of a run: limits, pauses and retries, over all hosts.
//!
//! Rows wait under their host, in the order in which they came. A host stands in one list at the most: those of which a row
//! may start, in the order of these rows; or those that wait for a time. So whatever happens changes one host's standing, and
//! what starts next is found at the front of a list, however many hosts there are.
//!
//! Pure, as the schedule is: times are passed in. They are awake times (see [`StallClock`]): in a stall, no host gets older
//! and no rate limiter fills up. What bounds it: the look-ahead (`look_ahead.rs`), the number of hosts
//! (`hosts_of_run.rs`), and what is in flight.

mod admitting;
mod ending;
#[cfg(test)]
mod model;
mod stalling;
mod standing;
#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::addresses::Addresses;
use super::host::{Head, Standing};
use super::hosts_of_run::{Hosts, MAX_HOSTS};
use super::look_ahead::{LookAhead, MAX_BYTES, MAX_ROWS};
use super::network::Network;
use super::pace::{Meter, Pace};
use super::retry::{Asked, AttemptEnd};
use super::waits::{Hold, Lost, Waits};
use crate::model::error::{ErrorKind, Failure};
use crate::model::limits::{CostOf, Limits, Retrying};
use crate::model::message::OptionName;
use crate::model::random::Rng;
use crate::model::row::Row;
use crate::model::stall::{StallClock, StallFigures};

pub use super::hosts_of_run::HostIndex;

/// Hosts that asked for a pause, named one by one.
const MAX_NAMED_PAUSES: usize = 20;

/// Turns before this one are of rows that were redirected.
const FIRST_TURN: u64 = 1 << 62;

/// What a run has asked for.
#[derive(Debug, Clone)]
pub struct Rules {
    pub limits: Limits,
    pub retrying: Retrying,
    /// In flight at the most, over all hosts.
    pub concurrency: u32,
    /// Of the body of rows that bring none.
    pub body_bytes: u64,
}

impl Rules {
    fn cost_of(&self, row: &Row) -> u64 {
        let extra = row.extra.as_ref();
        match self.limits.cost.as_ref().map(|cost| &cost.of) {
            None => 0,
            Some(CostOf::Row) => 1,
            Some(CostOf::Column(_)) => extra.and_then(|extra| extra.cost).unwrap_or(1),
            Some(CostOf::BodyBytes) => {
                let own = extra.and_then(|extra| Some((extra.cost, extra.body.as_ref()?)));
                own.map_or(self.body_bytes, |(weighed, body)| weighed.unwrap_or(body.held_bytes() as u64))
            }
        }
    }
}

/// What is to be done now.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// Make an attempt at this row: its host has one more in flight until [`Gate::ended`].
    Start(Row, Option<HostIndex>),
    /// This row ends without another attempt.
    Fail(Row, Failure),
    /// Nothing before this time, or before something happens.
    Held(Option<Instant>),
}

/// What of an attempt is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it has ended.
    Whole,
    /// The head of its answer has come, and its body goes on: unless it is asked again, it stays in flight.
    Head,
}

/// An attempt that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub part: Part,
    pub end: AttemptEnd,
    pub asked: Asked,
    /// For how long the host asks to be left alone.
    pub told: Option<Duration>,
    /// When the host last responded, as far as the engine knows.
    pub responded_at: Option<Instant>,
}

/// What the gate has to tell of itself.
#[derive(Debug, Clone, Default)]
pub struct GateFigures {
    pub lost: Lost,
    pub now: Option<Hold>,
    /// The host that most rows wait for, why, and how many.
    pub host: Option<HeldHost>,
    /// Rows that wait, over all hosts.
    pub waiting: u64,
    /// Pauses that hosts asked for, by the name of the first of them.
    pub pauses: BTreeMap<Box<str>, u64>,
    /// Hosts that are paused now.
    pub paused_hosts: u64,
    /// The host whose rows take the longest.
    pub slowest: Option<SlowestHost>,
    /// For how long no host could be reached, while that throttles the run.
    pub network_down: Option<Duration>,
    /// Time in which no worker of the run ran.
    pub stalls: StallFigures,
}

/// The host whose rows take the longest, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowestHost {
    pub name: Box<str>,
    pub waiting: u64,
    pub in_flight: u32,
    pub time_left: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldHost {
    pub name: Box<str>,
    pub hold: Hold,
    pub waiting: u64,
    pub in_flight: u32,
    pub until: Option<Instant>,
}

#[derive(Debug)]
pub struct Gate {
    rules: Rules,
    rng: Rng,
    pub(super) clock: StallClock,
    rate: Option<Pace>,
    cost: Option<Meter>,
    hosts: Hosts,
    /// Where hosts are addresses.
    addresses: Addresses,
    /// Hosts of which a row may start, by the turn of that row.
    ready: BTreeSet<(u64, HostIndex)>,
    timers: BTreeSet<(Instant, HostIndex)>,
    /// Rows that lead to no host, and so are held back by nothing.
    hostless: VecDeque<Row>,
    failing: VecDeque<(Row, Failure)>,
    look_ahead: LookAhead,
    network: Network,
    /// Hosts that responded in an earlier run of the job, as far as they are known.
    responded_earlier: HashSet<Box<str>>,
    next_turn: u64,
    /// The turn of the next row that was redirected: those come before all others.
    next_hop: u64,
    /// Rows that were read before have ordinals up to this one.
    newest: Option<u64>,
    /// Hosts that have few rows left here, while others of theirs were passed over.
    hungry: usize,
    passed_over: u64,
    in_trouble: usize,
    /// Not before, hosts are looked for whose trouble is over, as nobody asks them any more.
    forget_after: Option<Instant>,
    /// Rows that wait, by what for.
    waiting: [u64; Hold::ALL.len()],
    waits: Waits,
    pauses: BTreeMap<Box<str>, u64>,
    is_paused: bool,
    is_stopped: bool,
    /// What fails after a stop, and would be asked again, is left for a later run.
    leaves_undone: bool,
}

impl Gate {
    /// `can_pass_over`: rows that can't wait here can be read again.
    pub fn new(rules: Rules, can_pass_over: bool, seed: u64, now: Instant) -> Self {
        Self::bounded(rules, can_pass_over, seed, now, (MAX_ROWS, MAX_BYTES, MAX_HOSTS))
    }

    pub(super) fn bounded(
        rules: Rules,
        can_pass_over: bool,
        seed: u64,
        now: Instant,
        (max_rows, max_bytes, max_hosts): (usize, usize, usize),
    ) -> Self {
        let burst = rules.limits.burst.map(Into::into);
        Self {
            rate: rules.limits.rate.map(|rate| Pace::new(rate, burst, now)),
            cost: rules.limits.cost.as_ref().map(|cost| Meter::new(cost.rate, None, now)),
            network: Network::new(rules.retrying.network_down_after),
            responded_earlier: HashSet::new(),
            rules,
            rng: Rng::with_seed(seed),
            clock: StallClock::default(),
            hosts: Hosts::new(max_hosts),
            addresses: Addresses::default(),
            ready: BTreeSet::new(),
            timers: BTreeSet::new(),
            hostless: VecDeque::new(),
            failing: VecDeque::new(),
            look_ahead: LookAhead::new(can_pass_over, max_rows, max_bytes),
            next_turn: FIRST_TURN,
            next_hop: 0,
            newest: None,
            hungry: 0,
            passed_over: 0,
            in_trouble: 0,
            forget_after: None,
            waiting: [0; Hold::ALL.len()],
            waits: Waits::default(),
            pauses: BTreeMap::new(),
            is_paused: false,
            is_stopped: false,
            leaves_undone: false,
        }
    }

    /// A later run can ask rows that are left undone: those that fail after a stop, and would be asked again, are.
    #[must_use]
    pub fn leaving_undone(mut self, leaves_undone: bool) -> Self {
        self.leaves_undone = leaves_undone;
        self
    }

    /// These hosts have responded in an earlier run of the job.
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

    /// Whether rows have to come through here: something is limited, or a host is in trouble, or rows wait here.
    pub fn is_needed(&self) -> bool {
        !self.rules.limits.is_none()
            || self.in_trouble > 0
            || self.network.is_watched()
            || self.is_paused
            || self.is_stopped
            || self.look_ahead.has_given_up()
            || !self.is_empty()
            || !self.look_ahead.remembers_nothing()
    }

    /// Whether no row is here.
    pub fn is_empty(&self) -> bool {
        self.look_ahead.rows() == 0 && self.hostless.is_empty() && self.failing.is_empty()
    }

    /// Whether more rows could start something that those here can't.
    pub fn wants_rows(&self) -> bool {
        let nothing_is_next = self.ready.is_empty() && self.hostless.is_empty() && self.failing.is_empty();
        // Only who asks for rows learns that there are none.
        self.is_empty() || nothing_is_next && self.look_ahead.takes_rows() && !self.starts_nothing()
    }

    /// Whether rows that were passed over should be read again.
    pub fn is_hungry(&self) -> bool {
        self.hungry > 0 && !self.starts_nothing()
    }

    fn starts_nothing(&self) -> bool {
        self.is_paused || self.is_stopped || self.network.is_down()
    }

    /// Whether any row was ever passed over.
    pub fn has_passed_over(&self) -> bool {
        self.look_ahead.has_given_up()
    }

    /// Rows that were passed over since the last time.
    pub fn take_passed_over(&mut self) -> Vec<u64> {
        self.look_ahead.take_given_up()
    }

    /// What is to be done at this time. To be asked until it says [`Turn::Held`], and again when something has happened.
    pub fn next(&mut self, now: Instant) -> Turn {
        if !self.is_paused && !self.is_stopped {
            self.wake(now);
        }
        if let Some((row, failure)) = self.failing.pop_front() {
            return Turn::Fail(row, failure);
        }
        if self.is_paused || self.is_stopped {
            self.waits.held_by(self.is_paused.then_some(Hold::Paused), now);
            return Turn::Held(None);
        }
        self.forget_troubles(now);
        if let Some(row) = self.hostless.pop_front() {
            self.waits.held_by(None, now);
            return Turn::Start(row, None);
        }
        if let Some(until) = self.network.throttled(now) {
            self.waits.held_by(Some(Hold::Network), now);
            return Turn::Held(until);
        }
        while let Some((_, index)) = self.ready.first().copied() {
            let (standing, head) = self.hosts.at(index).look(now);
            let Some(head) = head.filter(|_| matches!(standing, Standing::Ready(_))) else {
                self.settle(index, now);
                continue;
            };
            if let Some(held) = self.held_by_run(index, head, now) {
                return held;
            }
            let host = self.hosts.at(index);
            let Some(row) = host.take(head) else {
                self.settle(index, now);
                continue;
            };
            self.look_ahead.leaves(&row);
            if let Some(failure) = self.too_late(&row, now) {
                self.settle(index, now);
                return Turn::Fail(row, failure);
            }
            self.start(index, &row, now);
            self.waits.held_by(None, now);
            return Turn::Start(row, Some(index));
        }
        if let Some((row, failure)) = self.failing.pop_front() {
            return Turn::Fail(row, failure);
        }
        let hold = self.hold();
        self.waits.held_by(hold, now);
        // Hosts that have no rows left have no timer, and still take up their place for a while.
        let look_again = self.hosts.look_again_at(now);
        Turn::Held(self.timers.first().map(|(time, _)| *time).into_iter().chain(look_again).min())
    }

    /// What keeps all hosts from starting anything, if anything does.
    fn held_by_run(&mut self, index: HostIndex, head: Head, now: Instant) -> Option<Turn> {
        let at = |meter: &Meter, cost| {
            let when = meter.when(cost, now);
            (when > now).then(|| meter.wake_at(when))
        };
        let (hold, until) = if let Some(until) = self.rate.as_ref().and_then(|pace| at(&pace.starts, 1)) {
            (Hold::Rate, until)
        } else {
            let cost = self.rules.cost_of(self.hosts.at(index).peek(head)?);
            (Hold::Cost, self.cost.as_ref().and_then(|meter| at(meter, cost))?)
        };
        self.waits.held_by(Some(hold), now);
        // Rows whose time comes meanwhile are looked at then.
        Some(Turn::Held(Some(until)))
    }

    fn start(&mut self, index: HostIndex, row: &Row, now: Instant) {
        let cost = self.rules.cost_of(row);
        let host = self.hosts.at(index);
        host.in_flight += 1;
        match row.before() {
            // It is a part of an attempt that was counted elsewhere.
            _ if row.trail().is_some() => {}
            None => host.budget.first_attempt(now),
            Some(_) => host.budget.retry(),
        }
        self.network.started(now);
        for pace in host.pace.iter_mut().chain(self.rate.iter_mut()) {
            pace.starts.take_at(1, now);
        }
        if let Some(meter) = &mut self.cost {
            meter.take_at(cost, now);
        }
        self.settle(index, now);
    }

    fn too_late(&self, row: &Row, now: Instant) -> Option<Failure> {
        let deadline = self.rules.retrying.deadline?;
        // Rows tell real times, and a caller that waits for one waits in real time.
        let (began, now) = match row.first_began()? {
            began if row.reply_to().is_some() => (began, self.clock.real(now)),
            began => (self.clock.awake(began), now),
        };
        let is_late = now >= began + deadline;
        is_late.then(|| {
            let what = match row.trail() {
                Some(_) => "the deadline of the row passed while it waited for where it was redirected to",
                None => "the deadline of the row passed before its next attempt could start",
            };
            Failure::new(ErrorKind::Timeout, what).with_option(OptionName::DeadlineS)
        })
    }

    /// What a row in flight has cost in the end.
    pub fn has_cost(&mut self, row: &Row, cost: u64, now: Instant) {
        let taken = self.rules.cost_of(row);
        if let Some(meter) = &mut self.cost {
            meter.correct(taken, cost, now);
        }
    }

    /// When a request may be sent that was started before, which is `now` or later: it is reserved. Whoever sends it does so
    /// then, and not before.
    pub fn send(&mut self, index: Option<HostIndex>, now: Instant) -> Instant {
        let of_host = index.and_then(|index| self.hosts.at(index).pace.as_mut());
        let mut meters = [of_host, self.rate.as_mut()].map(|pace| pace.map(|pace| &mut pace.sends));
        let when = meters.iter().flatten().map(|meter| meter.when(1, now)).max().unwrap_or(now);
        for meter in meters.iter_mut().flatten() {
            meter.take_at(1, when);
        }
        when
    }

    /// Nothing starts, until it is told otherwise.
    pub fn pause(&mut self, is_paused: bool, now: Instant) {
        if self.is_paused != is_paused {
            self.is_paused = is_paused;
            // The time in which nothing was tried shows nothing, about the network and about hosts.
            self.network.restart();
            self.forgive_all(now);
        }
    }
}
