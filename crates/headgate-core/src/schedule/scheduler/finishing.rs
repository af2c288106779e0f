//! The consequences of the end of an attempt, for its row, its host and the network.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::pausing::awake;
use super::{HostIndex, MAX_NAMED_HOSTS, Scheduler};
use crate::error::{HostEvidence, LoadEvidence, NetworkEvidence};
use crate::row::Row;
use crate::schedule::adaptive::EndedAttempt;
use crate::schedule::breaker::Breaker;
use crate::schedule::host_queue::{Concurrency, HostCredentials};
use crate::schedule::network::{Checked, NetworkAction, NetworkChange};
use crate::schedule::retry::{FinishedAttempt, NewCredentials, RetryDecision};

/// A host that has responded within this time is not doubted because of rows that have failed before.
const JUST_RESPONDED: Duration = Duration::from_secs(30);

/// Waiting rows are looked at when the pause of their host gets this much longer: not for each response of a burst.
const LONGER: Duration = Duration::from_secs(1);

/// A row that is retried: it, the host that it waits for, if that is known, and otherwise the host's name.
pub(super) type Requeued = (Row, Option<HostIndex>, Option<Box<str>>);

/// Counts something of a host by its name, or as `others` beyond the first hosts.
fn count_host(counts: &mut BTreeMap<Box<str>, u64>, name: &str) {
    let is_named = counts.contains_key(name) || counts.len() < MAX_NAMED_HOSTS;
    *counts.entry(if is_named { name.into() } else { "others".into() }).or_default() += 1;
}

impl Scheduler {
    /// Records the end of an attempt, and lets its row wait for the next one if it is retried. `name`: the host, if the
    /// attempt was started without the scheduler; `take_row` is called if the row is retried. The times of the attempt are
    /// real ones.
    pub fn finish_attempt(
        &mut self,
        index: Option<HostIndex>,
        name: impl FnOnce() -> Option<Box<str>>,
        attempt: &FinishedAttempt,
        take_row: impl FnOnce() -> Requeued,
        now: Instant,
    ) -> RetryDecision {
        let awake = FinishedAttempt {
            first: self.awake(attempt.first),
            own: awake(attempt.own, &self.clock),
            started: self.awake(attempt.started),
            responded_at: attempt.responded_at.map(|at| self.awake(at)),
            ..*attempt
        };
        let retry = self.judge(index, name, &awake, now);
        if let RetryDecision::At(due) = retry {
            let (row, index, name) = take_row();
            let first = (attempt.first, attempt.new_credentials.is_some());
            self.enqueue_retry(row, first, (index, name.as_deref()), due, now);
        }
        retry
    }

    /// Records the evidence of an attempt, and returns whether another one follows.
    fn judge(
        &mut self,
        index: Option<HostIndex>,
        name: impl FnOnce() -> Option<Box<str>>,
        attempt: &FinishedAttempt,
        now: Instant,
    ) -> RetryDecision {
        if attempt.new_credentials == Some(NewCredentials::Awaited) {
            self.await_credentials(true, now);
        }
        let retry = match attempt.retry(&self.rules.retrying, now, &mut self.rng) {
            // Nothing starts any more: the result is final, unless a later run retries it.
            RetryDecision::At(_) if self.is_stopped() && !self.leaves_undone => RetryDecision::No,
            retry => retry,
        };
        let is_excused = self.is_excused(attempt, now);
        let (about_network, evidence) = if is_excused {
            (NetworkEvidence::Nothing, HostEvidence::Nothing)
        } else {
            (attempt.end.network_evidence(), attempt.end.evidence())
        };
        if attempt.responded_at.is_some() {
            self.network.note_earlier_response();
        }
        // With one attempt for each row, each fails on its own.
        if attempt.own.retries(&self.rules.retrying) > 0
            && self.network.note(about_network, self.hosts.len() > 1, now) == NetworkChange::Recovered
        {
            self.forgive_all(now);
        }
        let is_refused = attempt.new_credentials.is_some();
        let has_news = is_pause(attempt) || evidence.is_failure() || self.unhealthy > 0 || is_refused;
        let known = index.or_else(|| has_news.then(|| name().map(|name| self.host(&name, now))).flatten());
        let Some(known) = known else { return retry };
        let host = self.hosts.at(known);
        if is_refused {
            host.credentials = HostCredentials::awaited(self.awaits_credentials);
        }
        host.note_time(now.saturating_duration_since(attempt.started));
        if let Concurrency::Adaptive(adaptive) = &mut host.concurrency {
            let load = if is_excused { LoadEvidence::Neutral } else { attempt.end.load_evidence() };
            let in_flight = if index.is_some() { host.in_flight.max(1) } else { host.in_flight + 1 };
            adaptive.ended(EndedAttempt { started: attempt.started, load }, in_flight, now);
        }
        if attempt.before.is_some() && evidence == HostEvidence::Responded && host.has_only_retries() {
            host.retry_budget.useful_retry();
        }
        self.note_evidence(known, evidence, attempt, now);
        let ends_at = attempt.own.ends_at(attempt.first, self.rules.retrying.total_timeout);
        let is_refused =
            matches!(retry, RetryDecision::At(_)) && self.refused_by_pause(known, &attempt.own, ends_at, now).is_some();
        let retry = if is_refused { RetryDecision::No } else { retry };
        if index.is_some() && (!attempt.body_continues || matches!(retry, RetryDecision::At(_))) {
            self.leave(known, Some(attempt.started));
        }
        self.settle(known, now);
        retry
    }

    /// Ends an attempt in flight that shows nothing, or whose headers were reported before.
    pub fn release(&mut self, index: HostIndex, now: Instant) {
        self.leave(index, None);
        self.settle(index, now);
    }

    /// Counts an attempt as no longer in flight; `started`: when it began, if that is known.
    pub(super) fn leave(&mut self, index: HostIndex, started: Option<Instant>) {
        let host = self.hosts.at(index);
        if host.in_flight > 0 {
            host.end_attempt(started);
            self.in_flight = self.in_flight.saturating_sub(1);
        }
    }

    fn note_evidence(&mut self, index: HostIndex, evidence: HostEvidence, attempt: &FinishedAttempt, now: Instant) {
        let rules = &self.rules.retrying;
        let host = self.hosts.at(index);
        let was_unhealthy = host.breaker.is_some();
        host.responded_at = host.responded_at.max(attempt.responded_at);
        // If the host has just responded to other rows, a row that has failed before may be the cause itself.
        let is_about_host = attempt.before.is_none() || !host.responded_since(JUST_RESPONDED, now);
        let down_after = host.down_after(self.network.view(rules));
        let mut is_longer = false;
        if let Some(time) = attempt.requested_pause.filter(|_| is_pause(attempt)) {
            let in_flight = host.in_flight;
            let breaker = host.breaker.get_or_insert_with(|| Box::new(Breaker::new(now)));
            let earlier = breaker.paused_until(now).unwrap_or(now);
            breaker.pause(time, in_flight, rules, now, &mut self.rng);
            is_longer = breaker.paused_until(now).is_some_and(|until| until > earlier + LONGER);
            count_host(&mut self.pauses, &host.name);
        }
        let in_flight = host.in_flight;
        let was_open = host.breaker.as_ref().is_some_and(|breaker| breaker.is_open());
        // With one attempt for each row, there is nothing to probe with, unless other rows wait.
        let may_open = attempt.own.retries(rules) > 0 || was_open;
        match evidence {
            HostEvidence::Silent if may_open => {
                host.note_silence();
                let breaker = &mut host.breaker;
                if is_about_host || was_open {
                    let breaker = breaker.get_or_insert_with(|| Box::new(Breaker::new(now)));
                    breaker.silent(attempt.started, down_after, now, &mut self.rng);
                }
            }
            HostEvidence::Overloaded => {
                host.responded_at = Some(now);
                if may_open {
                    let breaker = host.breaker.get_or_insert_with(|| Box::new(Breaker::new(now)));
                    breaker.overloaded(in_flight, now, &mut self.rng);
                }
            }
            HostEvidence::Responded => {
                host.note_response(was_open, now);
                if let Some(breaker) = &mut host.breaker {
                    breaker.responded(attempt.started);
                }
            }
            HostEvidence::Silent | HostEvidence::Nothing => {}
        }
        host.breaker.take_if(|breaker| breaker.is_idle(now));
        let is_unhealthy = host.breaker.is_some();
        let has_opened = !was_open && host.breaker.as_ref().is_some_and(|breaker| breaker.is_open());
        if has_opened {
            count_host(&mut self.breakers_opened, &host.name);
        }
        self.unhealthy = self.unhealthy + usize::from(is_unhealthy) - usize::from(was_unhealthy);
        let view = self.network.view(rules);
        if is_unhealthy && host.is_down(view, now) {
            self.fail_all_of(index, now);
            return;
        }
        if is_longer {
            self.fail_paused_too_long(index, now);
        }
        if has_opened {
            self.fail_without_retries(index);
        }
    }

    /// Forgets the failures of all hosts: the network was down, and so they show nothing about any host.
    pub(super) fn forgive_all(&mut self, now: Instant) {
        for index in self.hosts.indices() {
            let Some(host) = self.hosts.get(index) else { continue };
            if let Some(breaker) = &mut host.breaker {
                breaker.forgive();
                self.settle(index, now);
            }
        }
    }

    /// Records the result of connecting to hosts that have responded before (see [`NetworkAction::Check`]).
    pub fn network_checked(&mut self, checked: Checked, now: Instant) {
        if self.network.checked(checked, now) == NetworkChange::Recovered {
            self.forgive_all(now);
        }
    }

    /// Returns the next action regarding the network.
    pub fn network_step(&mut self, now: Instant) -> NetworkAction {
        if self.is_paused || self.is_stopped() { NetworkAction::Wait } else { self.network.step(now) }
    }
}

/// Returns whether the server requests a pause. One of zero is not a pause.
fn is_pause(attempt: &FinishedAttempt) -> bool {
    attempt.requested_pause.is_some_and(|time| !time.is_zero())
}
