//! What becomes of attempts that have ended, of their rows and of their hosts.

use std::time::{Duration, Instant};

use super::{Ended, Gate, HostIndex, MAX_NAMED_PAUSES, Part};
use crate::model::error::{ErrorKind, Failure};
use crate::model::message::OptionName;
use crate::model::row::{Before, Row};
use crate::schedule::adaptive::{Sample, SampleResult};
use crate::schedule::breaker::Breaker;
use crate::schedule::host::{Concurrency, Parked};
use crate::schedule::network::{Checked, Sign, Step};
use crate::schedule::retry::{Asked, AttemptEnd, Evidence, Fate, fate};

/// A host that has responded within this time is not doubted because of rows that have failed before.
const JUST_RESPONDED: Duration = Duration::from_secs(30);

impl Gate {
    /// An attempt has ended; `name`: its host, where it was started without the gate. What becomes of its row. If it is
    /// asked again, [`Gate::put_back`] has to follow.
    pub fn ended(
        &mut self,
        index: Option<HostIndex>,
        name: impl FnOnce() -> Option<Box<str>>,
        ended: &Ended,
        now: Instant,
    ) -> Fate {
        let fate = match fate(&self.rules.retrying, &ended.end, &ended.asked, now, &mut self.rng) {
            // Nothing starts any more: what it came to is its result, unless a later run asks it again.
            Fate::Again(_) if self.is_stopped && !self.leaves_undone => Fate::Final,
            fate => fate,
        };
        let is_excused = self.is_excused(ended, now);
        let (sign, evidence) =
            if is_excused { (Sign::Nothing, Evidence::Nothing) } else { (ended.end.sign(), ended.end.evidence()) };
        if ended.responded_at.is_some() {
            self.network.note_earlier_response();
        }
        // With one attempt for each row, each fails on its own.
        if self.rules.retrying.retries > 0 && self.network.note(sign, self.hosts.len() > 1, now) {
            self.forgive_all(now);
        }
        let is_failure = matches!(evidence, Evidence::Overloaded | Evidence::Silent);
        let has_news = ended.told.is_some() || is_failure || self.in_trouble > 0;
        let known = index.or_else(|| has_news.then(|| name().map(|name| self.host(&name, now))).flatten());
        let Some(known) = known else { return fate };
        let host = self.hosts.at(known);
        host.note_time(now.saturating_duration_since(ended.asked.started));
        if let Concurrency::Adaptive(adaptive) = &mut host.concurrency {
            let result = if is_excused { SampleResult::Neutral } else { sample_result(ended.end) };
            let sample = Sample { started: ended.asked.started, result };
            let in_flight = if index.is_some() { host.in_flight.max(1) } else { host.in_flight + 1 };
            adaptive.ended(sample, in_flight, now);
        }
        if ended.asked.before.is_some() && evidence == Evidence::Responded && host.has_only_retries() {
            host.budget.useful_retry();
        }
        self.note_evidence(known, evidence, ended, now);
        let fate = if self.ends_in_pause(known, fate, &ended.asked) { Fate::Final } else { fate };
        if index.is_some() && (ended.part != Part::Head || matches!(fate, Fate::Again(_))) {
            let host = self.hosts.at(known);
            host.in_flight = host.in_flight.saturating_sub(1);
        }
        self.settle(known, now);
        fate
    }

    /// Whether a row can't be asked again before its deadline, since its host has asked for a pause that is longer.
    fn ends_in_pause(&mut self, index: HostIndex, fate: Fate, asked: &Asked) -> bool {
        let breaker = self.hosts.get(index).and_then(|host| host.breaker.as_ref());
        let until = breaker.and_then(|breaker| breaker.paused_until()).filter(|_| matches!(fate, Fate::Again(_)));
        until.zip(self.rules.retrying.deadline).is_some_and(|(until, deadline)| until >= asked.first + deadline)
    }

    /// An attempt was given up, or the body has ended of one whose head was told.
    pub fn abandoned(&mut self, index: HostIndex, now: Instant) {
        let host = self.hosts.at(index);
        host.in_flight = host.in_flight.saturating_sub(1);
        self.settle(index, now);
    }

    fn note_evidence(&mut self, index: HostIndex, evidence: Evidence, ended: &Ended, now: Instant) {
        let rules = &self.rules.retrying;
        let host = self.hosts.at(index);
        let was_in_trouble = host.breaker.is_some();
        host.responded_at = host.responded_at.max(ended.responded_at);
        // A row that has failed before may be the cause itself, where the host has just responded to others.
        let is_about_host = ended.asked.before.is_none() || !host.responded_since(JUST_RESPONDED, now);
        let down_after = host.down_after(self.network.view(rules));
        if let Some(time) = ended.told {
            host.breaker.get_or_insert_with(|| Box::new(Breaker::new(now))).pause(time, rules, now, &mut self.rng);
            let count = if self.pauses.contains_key(&host.name) || self.pauses.len() < MAX_NAMED_PAUSES {
                host.name.clone()
            } else {
                "others".into()
            };
            *self.pauses.entry(count).or_default() += 1;
        }
        // With one attempt for each row, there is nothing to probe with.
        let may_open = rules.retries > 0;
        match evidence {
            Evidence::Silent if may_open => {
                host.note_silence();
                let breaker = &mut host.breaker;
                let is_open = breaker.as_ref().is_some_and(|breaker| breaker.is_open());
                if is_about_host || is_open {
                    let breaker = breaker.get_or_insert_with(|| Box::new(Breaker::new(now)));
                    breaker.silent(ended.asked.started, down_after, now, &mut self.rng);
                }
            }
            Evidence::Overloaded => {
                host.responded_at = Some(now);
                if may_open {
                    let breaker = host.breaker.get_or_insert_with(|| Box::new(Breaker::new(now)));
                    breaker.overloaded(now, &mut self.rng);
                }
            }
            Evidence::Responded => {
                host.note_response(host.breaker.as_ref().is_some_and(|breaker| breaker.is_open()), now);
                if let Some(breaker) = &mut host.breaker {
                    breaker.responded(ended.asked.started);
                }
            }
            Evidence::Silent | Evidence::Nothing => {}
        }
        host.breaker.take_if(|breaker| breaker.is_idle(now));
        let is_in_trouble = host.breaker.is_some();
        self.in_trouble = self.in_trouble + usize::from(is_in_trouble) - usize::from(was_in_trouble);
        let view = self.network.view(rules);
        if is_in_trouble && host.is_down(view, now) {
            self.fail_all_of(index, now);
        }
    }

    /// The network was down: what failed meanwhile shows nothing about any host.
    pub(super) fn forgive_all(&mut self, now: Instant) {
        for index in self.hosts.indices() {
            let Some(host) = self.hosts.get(index) else { continue };
            if let Some(breaker) = &mut host.breaker {
                breaker.forgive();
                self.settle(index, now);
            }
        }
    }

    /// What connecting to hosts that have responded before came to (see [`Step::Check`]).
    pub fn network_checked(&mut self, checked: Checked, now: Instant) {
        if self.network.checked(checked, now) {
            self.forgive_all(now);
        }
    }

    /// What is to be done about the network.
    pub fn network_step(&mut self, now: Instant) -> Step {
        if self.is_paused || self.is_stopped { Step::Wait } else { self.network.step(now) }
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
        if self.is_stopped {
            return;
        }
        let before = row.before();
        let first = before.map_or(started, |before| before.first);
        row.set_before(Before { attempts: before.map_or(0, |before| before.attempts) + 1, first });
        let Some(index) = index.or_else(|| name.map(|name| self.host(name, now))) else {
            self.hostless.push_back(row);
            return;
        };
        let view = self.network.view(&self.rules.retrying);
        if self.hosts.at(index).is_down(view, now) {
            self.fail_down(index, row, now);
            return;
        }
        if self.look_ahead.may_make_room() {
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

    /// Whether a row that was started and not sent is to wait all the same: its host has asked for a pause meanwhile.
    pub fn has_to_wait(
        &mut self,
        index: Option<HostIndex>,
        name: impl FnOnce() -> Option<Box<str>>,
        now: Instant,
    ) -> bool {
        let index = index.or_else(|| name().and_then(|name| self.find(&name)));
        let breaker = index.and_then(|index| self.hosts.get(index)).and_then(|host| host.breaker.as_ref());
        breaker.is_some_and(|breaker| breaker.is_paused(now))
    }

    /// A row comes back that was started and not sent: it is the next one of its host.
    pub fn take_back(&mut self, row: Row, index: Option<HostIndex>, name: Option<&str>, now: Instant) {
        let started_for = index;
        let Some(index) = index.or_else(|| name.map(|name| self.host(name, now))) else { return };
        let host = self.hosts.at(index);
        host.in_flight -= u32::from(started_for.is_some()).min(host.in_flight);
        if !self.is_stopped {
            let turn = host.parked.front().map_or(self.next_turn, |parked| parked.turn);
            self.next_turn += 1;
            self.look_ahead.enters(&row);
            if row.trail().is_some() {
                let turn = host.hops.front().map_or(self.next_hop, |hop| hop.turn);
                host.hops.push_front(Parked { turn, row });
            } else if row.before().is_some() {
                host.retries.insert((now, self.next_turn), row);
            } else {
                host.parked.push_front(Parked { turn, row });
            }
        }
        self.settle(index, now);
    }

    pub(super) fn fail(&mut self, row: Row, failure: Failure) {
        self.failing.push_back((row, failure));
    }

    pub(super) fn fail_down(&mut self, index: HostIndex, row: Row, now: Instant) {
        let host = self.hosts.at(index);
        let asked_for_too_much = host.breaker.as_ref().is_some_and(|breaker| breaker.asked_for_too_much(now));
        self.fail(row, host_down(asked_for_too_much));
    }

    pub(super) fn fail_all_of(&mut self, index: HostIndex, now: Instant) {
        for row in self.hosts.at(index).take_all() {
            self.look_ahead.leaves(&row);
            self.fail_down(index, row, now);
        }
    }

    fn cancel_waiting(&mut self, row: Row) {
        let failure = match row.trail() {
            Some(_) => Failure::new(ErrorKind::Cancelled, "cancelled while it waited for where it was redirected to"),
            None => cancelled(),
        };
        self.fail(row, failure);
    }

    /// Cancels a row that waits here: it fails next. Whether there is one.
    pub fn cancel(&mut self, ordinal: u64, now: Instant) -> bool {
        if let Some(row) = self.addresses.remove(ordinal) {
            self.look_ahead.leaves(&row);
            self.cancel_waiting(row);
            return true;
        }
        for index in self.hosts.indices() {
            let Some(host) = self.hosts.get(index) else { continue };
            let parked = [&mut host.hops, &mut host.parked].into_iter().find_map(|parked| {
                let at = parked.iter().position(|parked| parked.row.ordinal == ordinal)?;
                parked.remove(at).map(|parked| parked.row)
            });
            let retry = host.retries.iter().find(|(_, row)| row.ordinal == ordinal).map(|(key, _)| *key);
            if let Some(row) = parked.or_else(|| retry.and_then(|key| host.retries.remove(&key))) {
                self.look_ahead.leaves(&row);
                self.cancel_waiting(row);
                self.settle(index, now);
                return true;
            }
        }
        false
    }
}

pub(super) fn cancelled() -> Failure {
    Failure::new(ErrorKind::Cancelled, "it was cancelled before it was sent")
}

fn host_down(asked_for_a_pause: bool) -> Failure {
    if asked_for_a_pause {
        Failure::new(ErrorKind::HostDown, "the host asked for too long a pause").with_option(OptionName::MaxRetryAfterS)
    } else {
        Failure::new(ErrorKind::HostDown, "the host has sent no response for too long")
            .with_option(OptionName::HostDownAfterS)
    }
}

fn sample_result(end: AttemptEnd) -> SampleResult {
    if end.is_overload() {
        SampleResult::Overloaded
    } else if end.is_answer() {
        SampleResult::Answered
    } else {
        SampleResult::Neutral
    }
}
