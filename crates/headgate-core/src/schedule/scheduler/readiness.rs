//! The readiness of hosts: which are ready, wait or are throttled, and what the scheduler reports of that.

use std::time::{Duration, Instant};

use super::{HostIndex, MAX_SLOWEST, Scheduler, SchedulerFigures};
use crate::schedule::host_queue::{HostQueue, Readiness};
use crate::schedule::throttled::ThrottledBy;

/// Searching all hosts takes a millisecond.
const FORGET_EVERY: Duration = Duration::from_secs(1);

impl Scheduler {
    /// Updates hosts whose timers are due.
    pub(super) fn wake(&mut self, now: Instant) {
        while let Some((_, index)) = self.timers.first().copied().filter(|(time, _)| *time <= now) {
            self.settle(index, now);
        }
    }

    /// Moves a host to the list where it belongs now.
    pub(super) fn settle(&mut self, index: HostIndex, now: Instant) {
        let waiting = self.hosts.at(index).waiting();
        if waiting > 0 && self.is_refused(index, waiting - 1, now) {
            self.fail_all_of(index, now);
        }
        let host = self.hosts.at(index);
        if let Readiness::Ready(turn) = host.readiness {
            self.ready.remove(&(turn, index));
        }
        if let Some(by) = host.readiness.throttled_by() {
            self.waiting[by as usize] -= host.counted;
        }
        host.readiness = host.evaluate(now).0;
        host.counted = host.waiting();
        if let Some(by) = host.readiness.throttled_by() {
            self.waiting[by as usize] += host.counted;
        }
        let mut timer = None;
        match host.readiness {
            Readiness::Ready(turn) => {
                self.ready.insert((turn, index));
                // A retry may be older than the row that is next until then.
                timer = host.retries.first_key_value().map(|((due, _), _)| *due).filter(|due| *due > now);
            }
            Readiness::Until(time, _) => timer = Some(time),
            Readiness::Idle | Readiness::Blocked(_) => {}
        }
        if timer != host.timer {
            host.timer.map(|time| self.timers.remove(&(time, index)));
            timer.map(|time| self.timers.insert((time, index)));
            host.timer = timer;
        }
        self.weigh(index);
    }

    /// Forgets the circuit breakers of hosts that have failed and get no further requests, so that not all rows have to pass here.
    pub(super) fn forget_healthy(&mut self, now: Instant) {
        if self.unhealthy == 0 || self.forget_after.is_some_and(|after| now < after) {
            return;
        }
        self.forget_after = Some(now + FORGET_EVERY);
        for index in self.hosts.indices() {
            if let Some(host) = self.hosts.get(index)
                && host.readiness == Readiness::Idle
                && host.in_flight == 0
                && host.breaker.take_if(|breaker| breaker.may_be_forgotten(now)).is_some()
            {
                self.unhealthy -= 1;
            }
        }
    }

    /// Updates whether a host has few rows left here, while more of its rows are deferred.
    pub(super) fn weigh(&mut self, index: HostIndex) {
        let host = self.hosts.at(index);
        let share = self.look_ahead.share();
        // A host that gets more rows gets all of its share.
        let enough = if host.is_hungry { share } else { (share / 2).max(1) };
        let is_hungry = host.deferred > 0 && host.new_rows.len() < enough;
        self.hungry_hosts = self.hungry_hosts + usize::from(is_hungry) - usize::from(host.is_hungry);
        host.is_hungry = is_hungry;
        if self.deferred == 0 {
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

    /// Returns what most rows wait for.
    pub(super) fn throttled_most_by(&self) -> Option<ThrottledBy> {
        if self.look_ahead.rows() == 0 {
            return None;
        }
        if self.look_ahead.is_full() && !self.look_ahead.can_defer() {
            return Some(ThrottledBy::HeadOfLine);
        }
        ThrottledBy::ALL.into_iter().max_by_key(|by| self.waiting[*by as usize])
    }

    pub fn figures(&self, now: Instant) -> SchedulerFigures {
        let late = self.clock.late_by(now);
        let now = self.awake(now);
        let throttled = self.hosts.iter().filter(|host| host.readiness.throttled_by().is_some());
        // There may be 100,000 hosts, and only the first few are needed.
        let mut slowest = Vec::with_capacity(MAX_SLOWEST + 1);
        for host in self.hosts.iter() {
            let Some(time_left) = host.time_left(now) else { continue };
            let at = slowest.partition_point(|(other, _)| *other >= time_left);
            if at < MAX_SLOWEST {
                slowest.insert(at, (time_left, host));
                slowest.truncate(MAX_SLOWEST);
            }
        }
        let report = |host: &HostQueue| host.figures(now, |awake| self.real(awake));
        let is_open = |host: &&HostQueue| host.breaker.as_ref().is_some_and(|breaker| breaker.is_open());
        let is_paused = |host: &&HostQueue| host.breaker.as_ref().is_some_and(|breaker| breaker.is_paused(now));
        SchedulerFigures {
            throttled: self.throttled.time(now),
            now: self.throttled.now(),
            host: throttled.max_by_key(|host| host.waiting() + host.deferred).map(report),
            waiting: self.look_ahead.rows() as u64 + self.deferred,
            pauses: self.pauses.clone(),
            breakers_opened: self.breakers_opened.clone(),
            open_breakers: if self.unhealthy > 0 { self.hosts.iter().filter(is_open).count() as u64 } else { 0 },
            slowest: slowest.into_iter().map(|(_, host)| report(host)).collect(),
            network_down: self.network.down_for(now),
            paused_hosts: if self.unhealthy > 0 { self.hosts.iter().filter(is_paused).count() as u64 } else { 0 },
            stalls: self.clock.figures(),
            late,
        }
    }
}
