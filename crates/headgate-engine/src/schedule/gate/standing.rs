//! Where hosts stand, and what the gate has to tell of that.

use std::time::{Duration, Instant};

use super::{Gate, GateFigures, HeldHost, HostIndex, Rules, SlowestHost};
use crate::schedule::host::{Host, Standing};
use crate::schedule::pace::{Meter, Pace};
use crate::schedule::waits::Hold;

/// Looking through all hosts takes a millisecond.
const FORGET_EVERY: Duration = Duration::from_secs(1);

impl Gate {
    /// Nothing starts any more: rows that wait are left undone, and so are those that still come.
    pub fn stop(&mut self, now: Instant) {
        self.is_stopped = true;
        self.hostless.clear();
        self.failing.clear();
        for row in self.addresses.drain() {
            self.look_ahead.leaves(&row);
        }
        for index in self.hosts.indices() {
            let Some(host) = self.hosts.get(index) else { continue };
            for row in host.take_all() {
                self.look_ahead.leaves(&row);
            }
            self.settle(index, now);
        }
    }

    /// Other limits hold from now on.
    pub fn set(&mut self, rules: Rules, now: Instant) {
        let limits = &rules.limits;
        let burst = limits.burst.map(Into::into);
        self.rate = Pace::changed(self.rate.take(), limits.rate, burst, now);
        self.cost = Meter::changed(self.cost.take(), limits.cost.as_ref().map(|cost| cost.rate), None, now);
        self.network.set(rules.retrying.network_down_after);
        self.rules = rules;
        for index in self.hosts.indices() {
            if let Some(host) = self.hosts.get(index) {
                host.set(&self.rules.limits, self.rules.concurrency, now);
                self.settle(index, now);
            }
        }
    }

    /// Looks at hosts whose time has come.
    pub(super) fn wake(&mut self, now: Instant) {
        while let Some((_, index)) = self.timers.first().copied().filter(|(time, _)| *time <= now) {
            self.settle(index, now);
        }
    }

    /// Puts a host where it stands now.
    pub(super) fn settle(&mut self, index: HostIndex, now: Instant) {
        let waiting = self.hosts.at(index).waiting();
        if waiting > 0 && self.is_refused(index, waiting - 1, now) {
            self.fail_all_of(index, now);
        }
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
        self.weigh(index);
    }

    /// A host that has failed and that nobody asks any more is not to keep all others under account.
    pub(super) fn forget_troubles(&mut self, now: Instant) {
        if self.in_trouble == 0 || self.forget_after.is_some_and(|after| now < after) {
            return;
        }
        self.forget_after = Some(now + FORGET_EVERY);
        for index in self.hosts.indices() {
            if let Some(host) = self.hosts.get(index)
                && host.standing == Standing::Idle
                && host.in_flight == 0
                && host.breaker.take_if(|breaker| breaker.may_be_forgotten(now)).is_some()
            {
                self.in_trouble -= 1;
            }
        }
    }

    /// Whether a host has few rows left here, while others of its rows were passed over.
    pub(super) fn weigh(&mut self, index: HostIndex) {
        let host = self.hosts.at(index);
        let share = self.look_ahead.share();
        // Who is given more is given all of its share.
        let enough = if host.is_hungry { share } else { (share / 2).max(1) };
        let is_hungry = host.passed_over > 0 && host.parked.len() < enough;
        self.hungry = self.hungry + usize::from(is_hungry) - usize::from(host.is_hungry);
        host.is_hungry = is_hungry;
        if self.passed_over == 0 {
            self.look_ahead.undivided();
        }
    }

    pub(super) fn weigh_all(&mut self) {
        for index in self.hosts.indices() {
            if self.hosts.get(index).is_some() {
                self.weigh(index);
            }
        }
    }

    /// What most rows wait for.
    pub(super) fn hold(&self) -> Option<Hold> {
        if self.look_ahead.rows() == 0 {
            return None;
        }
        if self.look_ahead.is_full() && !self.look_ahead.can_pass_over() {
            return Some(Hold::LookAhead);
        }
        Hold::ALL.into_iter().max_by_key(|hold| self.waiting[*hold as usize])
    }

    pub fn figures(&self, now: Instant) -> GateFigures {
        let now = self.awake(now);
        let held = self.hosts.iter().filter_map(|host| Some((host, host.standing.hold()?)));
        let host = held.max_by_key(|(host, _)| host.waiting() + host.passed_over).map(|(host, hold)| HeldHost {
            name: host.name.clone(),
            hold,
            waiting: host.waiting() + host.passed_over,
            in_flight: host.in_flight,
            until: if let Standing::Until(until, _) = host.standing { Some(self.real(until)) } else { None },
        });
        let slowest = self.hosts.iter().filter_map(|host| Some((host.time_left(now)?, host)));
        let slowest = slowest.max_by_key(|(time_left, _)| *time_left).map(|(time_left, host)| SlowestHost {
            name: host.name.clone(),
            waiting: host.waiting() + host.passed_over,
            in_flight: host.in_flight,
            time_left,
        });
        let is_paused = |host: &&Host| host.breaker.as_ref().is_some_and(|breaker| breaker.is_paused(now));
        GateFigures {
            lost: self.waits.lost(now),
            now: self.waits.now(),
            host,
            waiting: self.look_ahead.rows() as u64 + self.passed_over,
            pauses: self.pauses.clone(),
            slowest,
            network_down: self.network.down_for(now),
            paused_hosts: if self.in_trouble > 0 { self.hosts.iter().filter(is_paused).count() as u64 } else { 0 },
            stalls: self.clock.figures(),
        }
    }
}
