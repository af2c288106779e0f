//! What a worker does where something is held back: its rows come from the gate that all workers of the run share, and
//! attempts that end are told there. Where nothing is limited and no host is in trouble, nobody comes here.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::spawn_local;
use tokio::time::sleep_until;

use crate::engine::lanes::{PlaceIndex, Span};
use crate::engine::share::Share;
use crate::http::client::LaneState;
use crate::http::target::{self, Target};
use crate::model::headers::HeadersRef;
use crate::model::live::Live;
use crate::model::message::OptionName;
use crate::model::row::Row;
use crate::model::trail::{Earlier, Trail};
use crate::queue::rows::NoRows;
use crate::schedule::asked_to_wait::asked_to_wait;
use crate::schedule::gate::{Ended, Gate, Part, Turn};
use crate::schedule::retry::{Asked, AttemptEnd, Evidence, Fate};
use crate::schedule::{MAX_CHUNK_ROWS, Next, Schedule};

/// Names that a worker looks up at once.
const MAX_LOOK_UPS: usize = 64;
/// Chunks of rows drawn at a time at the most, before others of the worker have their turn.
const MAX_DRAWS: usize = 16;
/// Reading rows again takes a fifth of the time at the most, as long as something else goes on.
const PAUSES_BETWEEN_READINGS: u32 = 4;

/// When a request may be sent for which a rate limiter has reserved a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendAt {
    awake: Instant,
    /// As things were when it was reserved.
    real: Instant,
    reserved: Instant,
}

impl Share {
    /// What is to be done at this time.
    pub(super) fn next_at(self: &Rc<Self>, now: Instant) -> Next {
        // Before the look: what is told meanwhile counts as not seen.
        self.seen.set(self.shared.gate.news());
        let mut schedule = self.schedule.borrow_mut();
        if schedule.is_draining() {
            return schedule.next(now);
        }
        let next =
            if self.shared.gate.is_needed() { self.next_through_gate(&mut schedule, now) } else { schedule.next(now) };
        // Who has no places draws nothing, and so is not told that there is nothing more.
        let is_over = matches!(next, Next::Wait) && schedule.places() == 0 && schedule.taken() == 0;
        if is_over && self.shared.rows.has_ended() && !self.shared.gate.has_rows() { Next::Ended } else { next }
    }

    fn next_through_gate(self: &Rc<Self>, schedule: &mut Schedule, now: Instant) -> Next {
        let (mut gate, awake) = self.shared.gate.lock_at(now);
        let drawn = schedule.take_drawn();
        let mut is_news = !drawn.is_empty();
        for row in drawn {
            self.offer(&mut gate, row, awake);
        }
        let mut chunks = 0;
        let next = loop {
            if !schedule.has_place() {
                break Next::Wait;
            }
            match gate.next(awake) {
                Turn::Start(row, host) => {
                    schedule.take_place();
                    break Next::Start(row, host);
                }
                Turn::Fail(row, failure) => break Next::Fail(row, failure),
                Turn::Held(until) => {
                    let until = until.map(|until| gate.real(until));
                    let drawn = if chunks < MAX_DRAWS { self.draw_into(&mut gate, awake) } else { Err(NoRows::Empty) };
                    let until = match drawn {
                        Ok(()) => {
                            is_news = true;
                            chunks += 1;
                            continue;
                        }
                        Err(NoRows::Ended) if gate.is_empty() && schedule.taken() == 0 => break Next::Ended,
                        Err(_) if chunks == MAX_DRAWS => Some(now),
                        Err(_) => self.steer_reading(&mut gate, until, now),
                    };
                    break until.map_or(Next::Wait, Next::Until);
                }
            }
        };
        self.give_up_rows(&mut gate);
        self.look_up_names(&gate);
        self.shared.gate.look_after(&gate);
        // Nothing but a look is no news: two who wait would wake each other for it in turns.
        if is_news || matches!(next, Next::Start(..) | Next::Fail(..)) {
            self.shared.gate.tell();
        }
        self.seen.set(self.shared.gate.news());
        next
    }

    /// Finds the addresses of hosts, where these are what is limited.
    fn look_up_names(self: &Rc<Self>, gate: &Gate) {
        if gate.has_names_to_look_up() && self.looking_up.get() < MAX_LOOK_UPS {
            self.looking_up.update(|count| count + 1);
            spawn_local(self.clone().look_up());
        }
    }

    async fn look_up(self: Rc<Self>) {
        while let Some((name, url)) = self.shared.gate.change(Gate::name_to_look_up) {
            let by = Instant::now() + self.shared.limits.connect_timeout;
            let address = match target::parse(&url) {
                Ok(Target { origin, .. }) => {
                    let route = self.preparer.borrow().route_key(origin);
                    self.client.address_of(&route, by).await
                }
                Err(_) => None,
            };
            self.shared.gate.change_at(Instant::now(), |gate, now| {
                gate.found_address(&name, address, now);
                self.give_up_rows(gate);
            });
            self.wake();
        }
        self.looking_up.update(|count| count - 1);
    }

    /// Keeps to what was set meanwhile.
    pub(super) fn keep_to(&self, live: &Live) {
        let now = Instant::now();
        self.shared.gate.keep_to(live, now);
        self.shared.give_up.set(live.stop_when_failed);
        let mut schedule = self.schedule.borrow_mut();
        let places = self.part.of(live.concurrency);
        if !self.shared.limits.shares_connections {
            self.client.pool.borrow_mut().allow_more(places.saturating_sub(schedule.places()));
        }
        schedule.set_places(places);
        if places == 0 {
            // Others start what was drawn here.
            self.shared.gate.change_at(now, |gate, now| {
                schedule.take_drawn().into_iter().for_each(|row| self.offer(gate, row, now));
            });
        }
        drop(schedule);
        self.wake();
    }

    /// Draws rows for the gate, under its lock, so that they come there in their order.
    fn draw_into(&self, gate: &mut Gate, now: Instant) -> Result<(), NoRows> {
        if !gate.wants_rows() || gate.is_full_of_hosts(now) {
            return Err(NoRows::Empty);
        }
        for row in self.shared.rows.try_recv(MAX_CHUNK_ROWS)? {
            self.offer(gate, row, now);
        }
        self.give_up_rows(gate);
        Ok(())
    }

    fn offer(&self, gate: &mut Gate, row: Row, now: Instant) {
        let mut preparer = self.preparer.borrow_mut();
        let key = preparer.limit_key(&row);
        gate.offer(row, key.as_deref(), now);
    }

    /// Rows that were passed over are read again later.
    fn give_up_rows(&self, gate: &mut Gate) {
        let rows = gate.take_passed_over();
        if !rows.is_empty() {
            self.shared.rows.pass_over(&rows);
        }
    }

    /// Has rows read again that were passed over, where there is room for them. When to look again.
    fn steer_reading(&self, gate: &mut Gate, until: Option<Instant>, now: Instant) -> Option<Instant> {
        let rows = &self.shared.rows;
        if !gate.has_passed_over() || !gate.wants_rows() {
            return until;
        }
        let again = rows.reading_again();
        if again.active {
            if !gate.is_hungry() && !rows.frontier_stalled() {
                rows.enough();
            }
            return until;
        }
        let (Some(first), _) = rows.passed_over() else { return until };
        if !gate.is_hungry() && !gate.is_empty() {
            return until;
        }
        let pause_ends = again.ended_at.map(|ended| ended + again.last_took * PAUSES_BETWEEN_READINGS);
        if let Some(ends) = pause_ends.filter(|ends| *ends > now && !gate.is_empty()) {
            return Some(until.map_or(ends, |until| until.min(ends)));
        }
        gate.reads_again();
        rows.read_again(first);
        until
    }

    /// Whether rows that come would be drawn.
    pub(super) fn wants_rows_for_gate(&self) -> bool {
        let has_place = self.schedule.borrow().has_place();
        let (mut gate, now) = self.shared.gate.lock_at(Instant::now());
        has_place && gate.wants_rows() && !gate.is_full_of_hosts(now) && !self.shared.rows.has_ended()
    }

    /// Gives the row at `place` back, which is not sent yet, if its host has asked for a pause since it was started. Whether
    /// it was.
    pub(super) fn is_given_back(&self, place: PlaceIndex) -> bool {
        if !self.shared.gate.is_needed() {
            return false;
        }
        let host = self.lanes.host(place);
        let key = || self.lanes.look(place, |row| self.preparer.borrow_mut().limit_key(row).map(Into::into));
        self.shared.gate.change_at(Instant::now(), |gate, now| {
            let has_to_wait = gate.has_to_wait(host, key, now);
            if has_to_wait {
                let key: Option<Box<str>> = key();
                self.lanes.take_host(place);
                gate.take_back(self.lanes.take(place), host, key.as_deref(), now);
            }
            has_to_wait
        })
    }

    /// When the request at `place` may be sent; `None`: now. To be asked once for each time that it is sent.
    pub(super) fn send_at(&self, place: PlaceIndex, now: Instant) -> Option<SendAt> {
        let (mut gate, awake_now) = self.shared.gate.lock_at(now);
        let awake = gate.send(self.lanes.host(place), awake_now);
        (awake > awake_now).then(|| SendAt { awake, real: gate.real(awake), reserved: now })
    }

    /// Waits until that time. Requests whose times came in a stall keep their distances.
    pub(super) async fn wait_to_send(&self, at: SendAt) {
        let mut until = at.real;
        loop {
            sleep_until(until.into()).await;
            let now = Instant::now();
            self.client.stalls.observe(now);
            if self.client.stalls.has_stalled_since(at.reserved) {
                until = self.shared.gate.real(at.awake);
            }
            if until <= now {
                return;
            }
        }
    }

    /// Wall-clock time in microseconds since 1970, with the time that the machine was suspended until then.
    pub(super) fn unix_us(&self, instant: Instant) -> i64 {
        self.shared.clock.unix_us(instant + self.shared.gate.suspended_until(instant))
    }

    /// An attempt has ended so, or this part of it. Whether its row is asked again: then it is no longer at `place`.
    pub(super) fn is_asked_again(
        &self,
        place: PlaceIndex,
        started: Instant,
        end: AttemptEnd,
        headers: Option<HeadersRef<'_>>,
        (part, now): (Part, Instant),
    ) -> bool {
        let host = if part == Part::Head { self.lanes.host(place) } else { self.lanes.take_host(place) };
        let told = headers
            .zip(end.status)
            .and_then(|(headers, status)| asked_to_wait(status, headers, (self.unix_us(now) / 1000) as u64));
        // A server that says "at once" has also said that it did nothing.
        let was_told_when = told.is_some();
        let told = told.map(|told| told.for_).filter(|time| !time.is_zero());
        let gate = &self.shared.gate;
        let evidence = end.evidence();
        let says_nothing = told.is_none()
            && matches!(evidence, Evidence::Responded | Evidence::Nothing)
            && !end.is_worth_another(gate.retries_on());
        if host.is_none() && says_nothing && !gate.is_needed() {
            return false;
        }
        let first = self.lanes.look(place, Row::first_began).unwrap_or(started);
        let asked = self.lanes.look(place, |row| Asked {
            before: row.before(),
            first,
            started,
            may_repeat: self.may_repeat(row),
            was_acted_on: row.trail().is_some_and(|trail| trail.method.is_some()),
            was_told_when,
        });
        let key = || self.lanes.look(place, |row| self.preparer.borrow_mut().limit_key(row).map(Into::into));
        let responded_at = if evidence == Evidence::Silent {
            self.lanes.look(place, |row| self.preparer.borrow_mut().responded_at(row))
        } else {
            None
        };
        let fate = gate.change_at(now, |gate, now| {
            let asked = Asked { first: gate.awake(first), started: gate.awake(started), ..asked };
            let responded_at = responded_at.map(|at| gate.awake(at));
            let fate = gate.ended(host, key, &Ended { part, end, asked, told, responded_at }, now);
            if let Fate::Again(due) = fate {
                self.lanes.take_host(place);
                let mut row = self.lanes.take(place);
                // The next attempt begins where the first one did.
                let host = if row.take_trail().is_some() { None } else { host };
                let key = self.preparer.borrow_mut().limit_key(&row).map(Box::<str>::from);
                gate.put_back(row, first, host, key.as_deref(), due, now);
                self.give_up_rows(gate);
            }
            fate
        });
        match fate {
            Fate::Final => {}
            Fate::Unrepeatable => self.stats().figures.retries.unrepeatable += 1,
            Fate::Again(_) => {
                self.stats().figures.record_retry(end, now.saturating_duration_since(started));
                // It may be due before anything else that the worker waits for.
                self.wake();
            }
        }
        matches!(fate, Fate::Again(_))
    }

    /// What is in flight at `place` is no more, and says nothing of its host.
    pub(super) fn give_host_back(&self, place: PlaceIndex) {
        if let Some(host) = self.lanes.take_host(place) {
            self.shared.gate.change_at(Instant::now(), |gate, now| gate.abandoned(host, now));
        }
    }

    /// Has the row at `place` go on to where it was redirected to: there and then, or in its turn where something is held back.
    /// Whether it is still at `place`.
    pub(super) fn goes_on_here(&self, place: PlaceIndex, mut trail: Box<Trail>, took: Span) -> bool {
        // Who stops lets what is in flight come to its end.
        let is_free = !self.shared.gate.is_needed()
            || (self.schedule.borrow().is_draining() && self.shared.gate.lock().rules().limits.is_none());
        if is_free {
            self.lanes.change(place, |row| row.set_trail(trail));
            return true;
        }
        let earlier = trail.earlier.get_or_insert(Earlier { began: took.started, took: Duration::ZERO });
        earlier.took += took.elapsed;
        let mut row = self.lanes.take(place);
        row.set_trail(trail);
        let key = self.preparer.borrow_mut().limit_key(&row).map(Box::<str>::from);
        self.shared.gate.change_at(Instant::now(), |gate, now| gate.offer_hop(row, key.as_deref(), now));
        self.wake();
        false
    }

    fn may_repeat(&self, row: &Row) -> bool {
        let preparer = self.preparer.borrow();
        preparer.is_idempotent(row) || preparer.has_idempotency_key(row)
    }

    /// Sets the time limits of an attempt that begins at `started`.
    pub(super) fn set_deadline(&self, place: PlaceIndex, started: Instant, state: &mut LaneState) {
        // A stall before it is none of its own.
        self.client.stalls.observe(started);
        let (time, option, latest) = self.attempt_time(place, started);
        if !state.deadline.excused().is_zero() {
            // Of an attempt whose row is tried again later.
            self.count_own_waits(state);
        }
        state.deadline.set(started + time, option);
        state.deadline.end_by(latest);
    }

    /// The time that an attempt has, no more than what is left to its row; and when it ends at the latest where a caller waits
    /// for the row, whatever else it waits for.
    fn attempt_time(&self, place: PlaceIndex, started: Instant) -> (Duration, OptionName, Option<Instant>) {
        let deadline = self.shared.gate.deadline();
        self.lanes.look(place, |row| {
            let earlier = row.trail().and_then(|trail| trail.earlier);
            let own = row.own().and_then(|own| own.timeout);
            let timeout = own
                .unwrap_or(self.shared.limits.timeout)
                .saturating_sub(earlier.map_or(Duration::ZERO, |part| part.took));
            let Some(deadline) = deadline else { return (timeout, OptionName::TimeoutS, None) };
            let first = row.first_began().unwrap_or(started);
            if row.reply_to().is_some() {
                return (timeout, OptionName::TimeoutS, Some(first + deadline));
            }
            let passed = if first == started {
                Duration::ZERO
            } else {
                let gate = self.shared.gate.lock();
                gate.awake(started).saturating_duration_since(gate.awake(first))
            };
            match deadline.saturating_sub(passed) {
                left if left < timeout => (left, OptionName::DeadlineS, None),
                _ => (timeout, OptionName::TimeoutS, None),
            }
        })
    }
}
