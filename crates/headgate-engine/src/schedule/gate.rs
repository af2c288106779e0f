//! What may start now, for all workers of a run: limits, pauses and retries, over all hosts.
//!
//! Rows wait under their host, in the order in which they came. A host stands in one list at the most: those of which a row
//! may start, in the order of these rows; or those that wait for a time. So whatever happens changes one host's standing, and
//! what starts next is found at the front of a list, however many hosts there are.
//!
//! Pure, as the schedule is: times are passed in. What bounds it: the look-ahead (`look_ahead.rs`), the number of hosts
//! (`hosts_of_run.rs`), and what is in flight.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::adaptive::{Sample, SampleResult};
use super::health::{Allowed, Health};
use super::host::{Concurrency, Host, Parked, Standing};
use super::hosts_of_run::{Hosts, MAX_HOSTS};
use super::look_ahead::{LookAhead, MAX_BYTES, MAX_ROWS};
use super::pace::{Meter, Pace};
use super::retry::{Asked, AttemptEnd, Fate, fate};
use super::waits::{Hold, Lost, Waits};
use crate::model::error::{ErrorKind, Failure};
use crate::model::limits::{CostOf, Limits, Retrying};
use crate::model::message::OptionName;
use crate::model::row::{Before, Row};

pub use super::hosts_of_run::HostIndex;

/// Hosts that asked for a pause, named one by one.
const MAX_NAMED_PAUSES: usize = 20;

/// What a run has asked for.
#[derive(Debug, Clone)]
pub struct Rules {
    pub limits: Limits,
    pub retrying: Retrying,
    /// In flight at the most, over all hosts.
    pub concurrency: u32,
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

/// An attempt that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub end: AttemptEnd,
    pub asked: Asked,
    /// For how long the host asks to be left alone.
    pub told: Option<Duration>,
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
    rate: Option<Pace>,
    cost: Option<Meter>,
    hosts: Hosts,
    /// Hosts of which a row may start, by the turn of that row.
    ready: BTreeSet<(u64, HostIndex)>,
    timers: BTreeSet<(Instant, HostIndex)>,
    /// Rows that lead to no host, and so are held back by nothing.
    hostless: VecDeque<Row>,
    failing: VecDeque<(Row, Failure)>,
    look_ahead: LookAhead,
    next_turn: u64,
    /// Rows that were read before have ordinals up to this one.
    newest: Option<u64>,
    /// Hosts that have few rows left here, while others of theirs were passed over.
    hungry: usize,
    passed_over: u64,
    has_ever_passed_over: bool,
    in_trouble: usize,
    /// Rows that wait, by what for.
    waiting: [u64; Hold::ALL.len()],
    waits: Waits,
    pauses: BTreeMap<Box<str>, u64>,
    is_paused: bool,
    is_stopped: bool,
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
            rules,
            rng: Rng::with_seed(seed),
            hosts: Hosts::new(max_hosts),
            ready: BTreeSet::new(),
            timers: BTreeSet::new(),
            hostless: VecDeque::new(),
            failing: VecDeque::new(),
            look_ahead: LookAhead::new(can_pass_over, max_rows, max_bytes),
            next_turn: 0,
            newest: None,
            hungry: 0,
            passed_over: 0,
            has_ever_passed_over: false,
            in_trouble: 0,
            waiting: [0; Hold::ALL.len()],
            waits: Waits::default(),
            pauses: BTreeMap::new(),
            is_paused: false,
            is_stopped: false,
        }
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether rows have to come through here: something is limited, or a host is in trouble, or rows wait here.
    pub fn is_needed(&self) -> bool {
        !self.rules.limits.is_none()
            || self.in_trouble > 0
            || self.is_paused
            || self.is_stopped
            || self.passed_over > 0
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
        let has_room = self.look_ahead.can_pass_over() || !self.look_ahead.is_full();
        // Only who asks for rows learns that there are none.
        self.is_empty() || nothing_is_next && has_room && !self.is_paused && !self.is_stopped
    }

    /// Whether rows that were passed over should be read again.
    pub fn is_hungry(&self) -> bool {
        self.hungry > 0 && !self.is_paused && !self.is_stopped
    }

    /// Whether rows were passed over, as far as is known here.
    pub fn has_passed_over(&self) -> bool {
        self.passed_over > 0 || self.has_ever_passed_over
    }

    /// Whether there is room for many more rows.
    pub fn is_half_empty(&self) -> bool {
        self.look_ahead.is_half_empty()
    }

    /// Rows are about to be read again: each host has a share of the room.
    pub fn reads_again(&mut self) {
        let hosts = self.hosts.iter().filter(|host| host.passed_over > 0 || !host.parked.is_empty()).count();
        self.look_ahead.divide(hosts);
        self.weigh_all();
    }

    /// Rows that were passed over since the last time.
    pub fn take_passed_over(&mut self) -> Vec<u64> {
        self.look_ahead.take_given_up()
    }

    /// A row that was drawn, and the host that it goes to; `None`: it can't be sent to any.
    pub fn offer(&mut self, mut row: Row, name: Option<&str>, now: Instant) {
        let is_new = self.newest.is_none_or(|newest| row.ordinal > newest);
        if is_new {
            self.newest = Some(row.ordinal);
        }
        self.look_ahead.recall(&mut row);
        if row.is_cancelled() {
            self.fail(row, cancelled());
            return;
        }
        let Some(name) = name else {
            self.hostless.push_back(row);
            return;
        };
        let index = self.host(name, now);
        let host = self.hosts.at(index);
        if !is_new && host.passed_over > 0 {
            host.passed_over -= 1;
            self.passed_over -= 1;
        }
        let turn = self.next_turn;
        self.next_turn += 1;
        if self.is_refused(index, now) {
            self.fail_down(index, row, now);
        } else if self.look_ahead.is_full() && self.look_ahead.can_pass_over() {
            self.make_room(now);
            self.park(index, Parked { turn, row });
        } else {
            self.park(index, Parked { turn, row });
        }
        self.settle(index, now);
    }

    /// Whether a row of this host is to fail without being asked.
    fn is_refused(&mut self, index: HostIndex, now: Instant) -> bool {
        let host = self.hosts.at(index);
        let may_probe =
            || host.health.as_ref().is_some_and(|health| matches!(health.allowed(now), Allowed::InFlight(_)));
        host.is_down(&self.rules.retrying, now) && !(host.waiting() == 0 && host.in_flight == 0 && may_probe())
    }

    fn park(&mut self, index: HostIndex, parked: Parked) {
        let host = self.hosts.at(index);
        if self.look_ahead.can_pass_over() && host.parked.len() >= self.look_ahead.share() {
            self.pass_over(index, &parked.row);
            return;
        }
        self.look_ahead.enters(&parked.row);
        host.parked.push_back(parked);
    }

    fn pass_over(&mut self, index: HostIndex, row: &Row) {
        self.look_ahead.give_up(row);
        self.hosts.at(index).passed_over += 1;
        self.passed_over += 1;
        self.has_ever_passed_over = true;
    }

    /// Takes from those that have more than their share.
    fn make_room(&mut self, now: Instant) {
        let hosts = self.hosts.iter().filter(|host| !host.parked.is_empty()).count();
        self.look_ahead.divide(hosts);
        for index in self.hosts.indices() {
            let Some(host) = self.hosts.get(index) else { continue };
            let kept = host.parked.len().min(self.look_ahead.share());
            for Parked { row, .. } in host.parked.split_off(kept) {
                self.look_ahead.leaves(&row);
                self.pass_over(index, &row);
            }
            if self.hosts.get(index).is_some_and(|host| host.counted != host.waiting()) {
                self.settle(index, now);
            }
        }
        self.weigh_all();
    }

    fn host(&mut self, name: &str, now: Instant) -> HostIndex {
        if let Some(index) = self.hosts.find(name) {
            return index;
        }
        self.hosts.make_room(now);
        self.hosts.insert(Host::new(name, &self.rules.limits, self.rules.concurrency, now))
    }

    /// Whether another host would have no place: then no more rows are to be drawn.
    pub fn is_full_of_hosts(&mut self, now: Instant) -> bool {
        !self.hosts.make_room(now)
    }

    /// What is to be done at this time. To be asked until it says [`Turn::Held`], and again when something has happened.
    pub fn next(&mut self, now: Instant) -> Turn {
        if let Some((row, failure)) = self.failing.pop_front() {
            return Turn::Fail(row, failure);
        }
        if self.is_paused || self.is_stopped {
            self.waits.held_by(self.is_paused.then_some(Hold::Paused), now);
            return Turn::Held(None);
        }
        self.wake(now);
        if let Some(row) = self.hostless.pop_front() {
            self.waits.held_by(None, now);
            return Turn::Start(row, None);
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
        let hold = self.hold();
        self.waits.held_by(hold, now);
        Turn::Held(self.timers.first().map(|(time, _)| *time))
    }

    /// What keeps all hosts from starting anything, if anything does.
    fn held_by_run(&mut self, index: HostIndex, head: super::host::Head, now: Instant) -> Option<Turn> {
        let at = |meter: &Meter, cost| {
            let when = meter.when(cost, now);
            (when > now).then(|| meter.wake_at(when))
        };
        let held = if let Some(until) = self.rate.as_ref().and_then(|pace| at(&pace.starts, 1)) {
            (Hold::Rate, until)
        } else {
            let of = self.rules.limits.cost.as_ref().map(|cost| &cost.of);
            let cost = cost_of(of, self.hosts.at(index).peek(head)?);
            (Hold::Cost, self.cost.as_ref().and_then(|meter| at(meter, cost))?)
        };
        self.waits.held_by(Some(held.0), now);
        // Rows whose time comes meanwhile are looked at then.
        Some(Turn::Held(Some(held.1)))
    }

    fn start(&mut self, index: HostIndex, row: &Row, now: Instant) {
        let cost = cost_of(self.rules.limits.cost.as_ref().map(|cost| &cost.of), row);
        let host = self.hosts.at(index);
        host.in_flight += 1;
        match row.before() {
            None => host.budget.first_attempt(now),
            Some(_) => host.budget.retry(now),
        }
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
        let is_late = row.before().is_some_and(|before| now >= before.first + deadline);
        is_late.then(|| {
            Failure::new(ErrorKind::Timeout, "the deadline of the row passed before its next attempt could start")
                .with_option(OptionName::DeadlineS)
        })
    }

    /// When a request may be sent that was started before, which is `now` or later: it is reserved. Whoever sends it does so
    /// then, and not before.
    pub fn send(&mut self, index: Option<HostIndex>, now: Instant) -> Instant {
        let of_host = index.and_then(|index| self.hosts.at(index).pace.as_mut());
        let mut meters: Vec<&mut Meter> =
            of_host.into_iter().chain(&mut self.rate).map(|pace| &mut pace.sends).collect();
        let when = meters.iter().map(|meter| meter.when(1, now)).max().unwrap_or(now);
        meters.iter_mut().for_each(|meter| meter.take_at(1, when));
        when
    }

    /// An attempt has ended; `name`: its host, where it was started without the gate. What becomes of its row. If it is
    /// asked again, [`Gate::put_back`] has to follow.
    pub fn ended(
        &mut self,
        index: Option<HostIndex>,
        name: impl FnOnce() -> Option<Box<str>>,
        ended: &Ended,
        now: Instant,
    ) -> Fate {
        let fate = fate(&self.rules.retrying, &ended.end, &ended.asked, now, &mut self.rng);
        let has_news = ended.told.is_some() || ended.end.is_refusal() || self.in_trouble > 0;
        let known = index.or_else(|| has_news.then(|| name().map(|name| self.host(&name, now))).flatten());
        let Some(known) = known else { return fate };
        let host = self.hosts.at(known);
        if index.is_some() {
            host.in_flight = host.in_flight.saturating_sub(1);
        }
        if let Concurrency::Adaptive(adaptive) = &mut host.concurrency {
            let sample = Sample { started: ended.asked.started, result: sample_result(&ended.end) };
            adaptive.ended(sample, host.in_flight + 1, now);
        }
        if ended.asked.before.is_some() && ended.end.is_answer() && host.parked.is_empty() && host.passed_over == 0 {
            host.budget.useful_retry(now);
        }
        self.note_health(known, ended, now);
        self.settle(known, now);
        fate
    }

    /// An attempt was given up.
    pub fn abandoned(&mut self, index: HostIndex, now: Instant) {
        let host = self.hosts.at(index);
        host.in_flight = host.in_flight.saturating_sub(1);
        self.settle(index, now);
    }

    fn note_health(&mut self, index: HostIndex, ended: &Ended, now: Instant) {
        let host = self.hosts.at(index);
        let was_in_trouble = host.health.is_some();
        if let Some(time) = ended.told {
            host.health.get_or_insert_with(|| Box::new(Health::new(now))).pause(
                time,
                &self.rules.retrying,
                now,
                &mut self.rng,
            );
            let count = if self.pauses.contains_key(&host.name) || self.pauses.len() < MAX_NAMED_PAUSES {
                host.name.clone()
            } else {
                "others".into()
            };
            *self.pauses.entry(count).or_default() += 1;
        }
        if ended.end.is_refusal() {
            host.health.get_or_insert_with(|| Box::new(Health::new(now))).failed(
                ended.asked.before.is_none(),
                now,
                &mut self.rng,
            );
        } else if ended.end.is_answer()
            && let Some(health) = &mut host.health
        {
            health.succeeded(ended.asked.started);
        }
        host.health.take_if(|health| health.is_well(now));
        let is_in_trouble = host.health.is_some();
        self.in_trouble = self.in_trouble + usize::from(is_in_trouble) - usize::from(was_in_trouble);
        if is_in_trouble && host.is_down(&self.rules.retrying, now) {
            self.fail_all_of(index, now);
        }
    }

    /// A row is asked again, not before `due`.
    pub fn put_back(
        &mut self,
        mut row: Row,
        started: Instant,
        index: Option<HostIndex>,
        name: Option<&str>,
        due: Instant,
        now: Instant,
    ) {
        let before = row.before();
        let first = before.map_or(started, |before| before.first);
        row.set_before(Before { attempts: before.map_or(0, |before| before.attempts) + 1, first });
        let Some(index) = index.or_else(|| name.map(|name| self.host(name, now))) else {
            self.hostless.push_back(row);
            return;
        };
        if self.hosts.at(index).is_down(&self.rules.retrying, now) {
            self.fail_down(index, row, now);
            return;
        }
        if self.look_ahead.is_full() && self.look_ahead.can_pass_over() {
            self.make_room(now);
        }
        if self.look_ahead.is_full() && self.look_ahead.has_room_for_before() {
            self.pass_over(index, &row);
        } else {
            let turn = self.next_turn;
            self.next_turn += 1;
            self.look_ahead.enters(&row);
            self.hosts.at(index).retries.insert((due, turn), row);
        }
        self.settle(index, now);
    }

    fn fail(&mut self, row: Row, failure: Failure) {
        self.failing.push_back((row, failure));
    }

    fn fail_down(&mut self, index: HostIndex, row: Row, now: Instant) {
        let host = self.hosts.at(index);
        let is_paused = host.health.as_ref().is_some_and(|health| health.is_paused(now));
        self.fail(row, host_down(is_paused));
    }

    fn fail_all_of(&mut self, index: HostIndex, now: Instant) {
        let host = self.hosts.at(index);
        let parked = std::mem::take(&mut host.parked).into_iter().map(|parked| parked.row);
        let rows: Vec<Row> = parked.chain(std::mem::take(&mut host.retries).into_values()).collect();
        for row in rows {
            self.look_ahead.leaves(&row);
            self.fail_down(index, row, now);
        }
    }

    /// Cancels a row that waits here: it fails next. Whether there is one.
    pub fn cancel(&mut self, ordinal: u64, now: Instant) -> bool {
        for index in self.hosts.indices() {
            let Some(host) = self.hosts.get(index) else { continue };
            let parked = host.parked.iter().position(|parked| parked.row.ordinal == ordinal);
            let parked = parked.and_then(|at| host.parked.remove(at)).map(|parked| parked.row);
            let retry = host.retries.iter().find(|(_, row)| row.ordinal == ordinal).map(|(key, _)| *key);
            if let Some(row) = parked.or_else(|| retry.and_then(|key| host.retries.remove(&key))) {
                self.look_ahead.leaves(&row);
                self.fail(row, cancelled());
                self.settle(index, now);
                return true;
            }
        }
        false
    }

    /// Nothing starts any more: rows that wait are left undone.
    pub fn stop(&mut self, now: Instant) {
        self.is_stopped = true;
        self.hostless.clear();
        self.failing.clear();
        for index in self.hosts.indices() {
            let Some(host) = self.hosts.get(index) else { continue };
            let parked = std::mem::take(&mut host.parked).into_iter().map(|parked| parked.row);
            for row in parked.chain(std::mem::take(&mut host.retries).into_values()) {
                self.look_ahead.leaves(&row);
            }
            self.settle(index, now);
        }
    }

    /// Nothing starts, until it is told otherwise.
    pub fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Other limits hold from now on.
    pub fn set(&mut self, rules: Rules, now: Instant) {
        let limits = &rules.limits;
        let burst = limits.burst.map(Into::into);
        self.rate = match (limits.rate, self.rate.take()) {
            (None, _) => None,
            (Some(rate), None) => Some(Pace::new(rate, burst, now)),
            (Some(rate), Some(mut pace)) => {
                pace.set(rate, burst, now);
                Some(pace)
            }
        };
        self.cost = match (&limits.cost, self.cost.take()) {
            (None, _) => None,
            (Some(cost), None) => Some(Meter::new(cost.rate, None, now)),
            (Some(cost), Some(mut meter)) => {
                meter.set(cost.rate, None, now);
                Some(meter)
            }
        };
        self.rules = rules;
        for index in self.hosts.indices() {
            if let Some(host) = self.hosts.get(index) {
                host.set(&self.rules.limits, self.rules.concurrency, now);
                self.settle(index, now);
            }
        }
    }

    /// Looks at hosts whose time has come.
    fn wake(&mut self, now: Instant) {
        while let Some((_, index)) = self.timers.first().copied().filter(|(time, _)| *time <= now) {
            self.settle(index, now);
        }
    }

    /// Puts a host where it stands now.
    fn settle(&mut self, index: HostIndex, now: Instant) {
        let host = self.hosts.at(index);
        match host.standing {
            Standing::Ready(turn) => drop(self.ready.remove(&(turn, index))),
            Standing::Until(time, _) => drop(self.timers.remove(&(time, index))),
            Standing::Idle | Standing::Blocked(_) => {}
        }
        if let Some(hold) = host.standing.hold() {
            self.waiting[hold as usize] -= host.counted;
        }
        host.standing = host.look(now).0;
        host.counted = host.waiting();
        if let Some(hold) = host.standing.hold() {
            self.waiting[hold as usize] += host.counted;
        }
        match host.standing {
            Standing::Ready(turn) => drop(self.ready.insert((turn, index))),
            Standing::Until(time, _) => drop(self.timers.insert((time, index))),
            Standing::Idle | Standing::Blocked(_) => {}
        }
        if host.standing == Standing::Idle
            && host.in_flight == 0
            && host.health.take_if(|health| health.may_be_forgotten(now)).is_some()
        {
            self.in_trouble -= 1;
        }
        self.weigh(index);
    }

    /// Whether a host has few rows left here, while others of its rows were passed over.
    fn weigh(&mut self, index: HostIndex) {
        let host = self.hosts.at(index);
        let is_hungry = host.passed_over > 0 && host.parked.len() < (self.look_ahead.share() / 2).max(1);
        self.hungry = self.hungry + usize::from(is_hungry) - usize::from(host.is_hungry);
        host.is_hungry = is_hungry;
        if self.passed_over == 0 {
            self.look_ahead.undivided();
        }
    }

    fn weigh_all(&mut self) {
        for index in self.hosts.indices() {
            if self.hosts.get(index).is_some() {
                self.weigh(index);
            }
        }
    }

    /// What most rows wait for.
    fn hold(&self) -> Option<Hold> {
        if self.look_ahead.rows() == 0 {
            return None;
        }
        if self.look_ahead.is_full() && !self.look_ahead.can_pass_over() {
            return Some(Hold::LookAhead);
        }
        Hold::ALL.into_iter().max_by_key(|hold| self.waiting[*hold as usize])
    }

    pub fn figures(&self, now: Instant) -> GateFigures {
        let held = self.hosts.iter().filter_map(|host| Some((host, host.standing.hold()?)));
        let host = held.max_by_key(|(host, _)| host.waiting() + host.passed_over).map(|(host, hold)| HeldHost {
            name: host.name.clone(),
            hold,
            waiting: host.waiting() + host.passed_over,
            in_flight: host.in_flight,
            until: if let Standing::Until(until, _) = host.standing { Some(until) } else { None },
        });
        let is_paused = |host: &&Host| host.health.as_ref().is_some_and(|health| health.is_paused(now));
        GateFigures {
            lost: self.waits.lost(now),
            now: self.waits.now(),
            host,
            waiting: self.look_ahead.rows() as u64 + self.passed_over,
            pauses: self.pauses.clone(),
            paused_hosts: if self.in_trouble > 0 { self.hosts.iter().filter(is_paused).count() as u64 } else { 0 },
        }
    }
}

fn cost_of(of: Option<&CostOf>, row: &Row) -> u64 {
    match of {
        None => 0,
        Some(CostOf::Column(_)) => row.extra.as_ref().and_then(|extra| extra.cost).unwrap_or(1),
        Some(CostOf::BodyBytes) => {
            row.extra.as_ref().and_then(|extra| extra.body.as_ref()).map_or(0, |body| body.len() as u64)
        }
    }
}

fn cancelled() -> Failure {
    Failure::new(ErrorKind::Cancelled, "it was cancelled before it was sent")
}

fn host_down(asked_for_a_pause: bool) -> Failure {
    if asked_for_a_pause {
        Failure::new(ErrorKind::HostDown, "the host asked for too long a pause").with_option(OptionName::MaxRetryAfterS)
    } else {
        Failure::new(ErrorKind::HostDown, "the host has refused everything for too long")
            .with_option(OptionName::HostDownAfterS)
    }
}

fn sample_result(end: &AttemptEnd) -> SampleResult {
    if end.is_overload() {
        SampleResult::Overloaded
    } else if end.is_answer() {
        SampleResult::Answered
    } else {
        SampleResult::Neutral
    }
}
