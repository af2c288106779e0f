//! How a worker uses the scheduler of its run: where it gets rows from, and what it reports. While nothing is limited and all
//! hosts are healthy, rows start from the worker's own slots, without a lock.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::spawn_local;
use tokio::time::sleep_until;

use crate::engine::lanes::{PlaceIndex, Span};
use crate::engine::share::Share;
use crate::http::client::LaneState;
use crate::http::target::{self, Target};
use crate::model::error::HostEvidence;
use crate::model::headers::HeadersRef;
use crate::model::live::Live;
use crate::model::message::OptionName;
use crate::model::redirect_chain::{Earlier, RedirectChain};
use crate::model::row::Row;
use crate::queue::rows::NoRows;
use crate::schedule::decision::Decision;
use crate::schedule::requested_pause::requested_pause;
use crate::schedule::retry::{AttemptEnd, FinishedAttempt, Retry};
use crate::schedule::scheduler::Scheduler;
use crate::schedule::slots::{MAX_CHUNK_ROWS, Slots};

/// Names that a worker looks up at once.
const MAX_LOOK_UPS: usize = 64;
/// Chunks of rows drawn at a time at the most, before other tasks of the worker have their turn.
const MAX_DRAWS: usize = 16;
/// Reading deferred rows takes a fifth of the time at the most, as long as something else goes on.
const PAUSES_BETWEEN_READINGS: u32 = 4;

/// When a request may be sent for which a rate limiter has reserved a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendAt {
    awake: Instant,
    /// As things were when it was reserved.
    real: Instant,
    reserved: Instant,
}

/// Where a row is after something was done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowNow {
    /// In its lane, as before.
    InLane,
    /// It waits at the scheduler, and the lane is free.
    Requeued,
}

impl Share {
    /// Returns what to do at this time, drawing rows if there are some, and whether rows that come would be drawn.
    pub(super) fn decide(self: &Rc<Self>, now: Instant) -> (Decision, bool) {
        loop {
            let mut slots = self.slots.borrow_mut();
            if slots.is_stopped() {
                return (slots.next(now), false);
            }
            let (decision, wants_rows) = if self.shared.scheduler.is_needed() {
                self.decide_with_lock(&mut slots, now)
            } else {
                let decision = slots.next(now);
                let wanted = if decision == Decision::Wait { slots.wanted() } else { 0 };
                if wanted > 0 {
                    match self.shared.rows.try_recv(wanted) {
                        Ok(rows) => slots.offer(rows),
                        Err(NoRows::Ended) => slots.end_input(),
                        Err(NoRows::Empty) => return (decision, true),
                    }
                    if slots.has_several_free() {
                        // Other lanes can take some of the rows.
                        self.wake();
                    }
                    continue;
                }
                (decision, false)
            };
            // A worker without lanes draws nothing, and so does not learn that there are no more rows.
            let has_no_lanes = decision == Decision::Wait && slots.lanes() == 0 && slots.in_use() == 0;
            let is_over = has_no_lanes && self.shared.rows.has_ended() && !self.shared.scheduler.has_rows();
            return (if is_over { Decision::Ended } else { decision }, wants_rows);
        }
    }

    fn decide_with_lock(self: &Rc<Self>, slots: &mut Slots, now: Instant) -> (Decision, bool) {
        let (mut scheduler, awake) = self.shared.scheduler.lock_at(now);
        let drawn = slots.take_drawn();
        let mut is_news = !drawn.is_empty();
        for row in drawn {
            self.offer(&mut scheduler, row, awake);
        }
        let (mut chunks, mut wants_rows) = (0, false);
        let decision = loop {
            if !slots.has_free() {
                break scheduler.next_failing().unwrap_or(Decision::Wait);
            }
            let until = match scheduler.next(awake) {
                Decision::Wait | Decision::Ended => None,
                Decision::WaitUntil(until) => Some(scheduler.real(until)),
                start_or_fail => break start_or_fail,
            };
            wants_rows = scheduler.wants_rows() && scheduler.make_room_for_a_host(awake);
            if !wants_rows {
                break Decision::wait(self.steer_rereading(&mut scheduler, until, now));
            }
            if chunks == MAX_DRAWS {
                break Decision::WaitUntil(now);
            }
            // Under the lock, so that rows come to the scheduler in their order.
            match self.shared.rows.try_recv(MAX_CHUNK_ROWS) {
                Ok(rows) => rows.into_iter().for_each(|row| self.offer(&mut scheduler, row, awake)),
                Err(NoRows::Ended) if scheduler.is_empty() && slots.in_use() == 0 => break Decision::Ended,
                Err(_) => break Decision::wait(self.steer_rereading(&mut scheduler, until, now)),
            }
            self.pass_on_deferred(&mut scheduler);
            is_news = true;
            chunks += 1;
        };
        if matches!(decision, Decision::Start(..)) {
            slots.occupy();
        }
        self.pass_on_deferred(&mut scheduler);
        self.look_up_names(&scheduler);
        self.shared.scheduler.note_need(&scheduler);
        // Nothing but a look wakes no worker: two that wait would wake each other in turns.
        if is_news || matches!(decision, Decision::Start(..) | Decision::Fail(..)) {
            self.shared.scheduler.wake_workers();
        }
        (decision, wants_rows)
    }

    /// Finds the addresses of hosts, where limits are per address.
    fn look_up_names(self: &Rc<Self>, scheduler: &Scheduler) {
        if scheduler.has_names_to_look_up() && self.looking_up.get() < MAX_LOOK_UPS {
            self.looking_up.update(|count| count + 1);
            spawn_local(self.clone().look_up());
        }
    }

    async fn look_up(self: Rc<Self>) {
        let next_name = || self.shared.scheduler.change_at(Instant::now(), |scheduler, _| scheduler.name_to_look_up());
        while let Some((name, url)) = next_name() {
            let by = Instant::now() + self.shared.limits.connect_timeout;
            let address = match target::parse(&url) {
                Ok(Target { origin, .. }) => {
                    let route = self.preparer.borrow().route_key(origin);
                    self.client.address_of(&route, by).await
                }
                Err(_) => None,
            };
            self.shared.scheduler.change_at(Instant::now(), |scheduler, now| {
                scheduler.found_address(&name, address, now);
                self.pass_on_deferred(scheduler);
            });
            self.wake();
        }
        self.looking_up.update(|count| count - 1);
    }

    /// Applies options that were set while the run goes on.
    pub(super) fn apply_options(&self, live: &Live) {
        let now = Instant::now();
        self.shared.scheduler.apply_options(live, now);
        self.shared.failure_limit.set(live.stop_when_failed);
        let mut slots = self.slots.borrow_mut();
        let lanes = self.worker.portion_of(live.concurrency);
        if !self.shared.limits.shares_connections {
            self.client.pool.borrow_mut().allow_more(lanes.saturating_sub(slots.lanes()));
        }
        slots.set_lanes(lanes);
        if lanes == 0 {
            // Other workers start what was drawn here.
            self.shared.scheduler.change_at(now, |scheduler, now| {
                slots.take_drawn().into_iter().for_each(|row| self.offer(scheduler, row, now));
            });
        }
        drop(slots);
        self.wake();
    }

    fn offer(&self, scheduler: &mut Scheduler, row: Row, now: Instant) {
        let mut preparer = self.preparer.borrow_mut();
        let key = preparer.limit_key(&row);
        scheduler.offer(row, key.as_deref(), now);
    }

    /// Has the queue remember rows that were deferred.
    fn pass_on_deferred(&self, scheduler: &mut Scheduler) {
        let rows = scheduler.take_deferred();
        if !rows.is_empty() {
            self.shared.rows.defer(&rows);
        }
    }

    /// Has deferred rows read again, where there is room for them. Returns when to look again.
    fn steer_rereading(&self, scheduler: &mut Scheduler, until: Option<Instant>, now: Instant) -> Option<Instant> {
        let rows = &self.shared.rows;
        if !scheduler.has_deferred() || !scheduler.wants_rows() {
            return until;
        }
        let rereading = rows.rereading();
        if rereading.active {
            if !scheduler.wants_deferred_rows() && !rows.is_source_stalled() {
                rows.end_rereading();
            }
            return until;
        }
        let Some(first) = rows.first_deferred() else { return until };
        if !scheduler.wants_deferred_rows() && !scheduler.is_empty() {
            return until;
        }
        let pause_ends = rereading.ended_at.map(|ended| ended + rereading.last_took * PAUSES_BETWEEN_READINGS);
        if let Some(ends) = pause_ends.filter(|ends| *ends > now && !scheduler.is_empty()) {
            return Some(until.map_or(ends, |until| until.min(ends)));
        }
        scheduler.begin_rereading();
        rows.reread(first);
        until
    }

    /// Returns what limits know the host by that the row at `place` goes to.
    fn limit_key(&self, place: PlaceIndex) -> Option<Box<str>> {
        self.lanes.look(place, |row| self.preparer.borrow_mut().limit_key(row).map(Into::into))
    }

    /// Requeues the row at `place`, which is not sent yet, if its host has asked for a pause since it was started.
    pub(super) fn requeue_unsent(&self, place: PlaceIndex) -> RowNow {
        if !self.shared.scheduler.is_needed() {
            return RowNow::InLane;
        }
        let host = self.lanes.host(place);
        let take_row = || {
            self.lanes.take_host(place);
            self.lanes.take(place)
        };
        let is_requeued = self.shared.scheduler.change_at(Instant::now(), |scheduler, now| {
            scheduler.requeue_unsent(host, || self.limit_key(place), take_row, now)
        });
        if is_requeued { RowNow::Requeued } else { RowNow::InLane }
    }

    /// Reserves a time at which the request at `place` may be sent; `None`: now. To be called once for each time that it is sent.
    pub(super) fn reserve_send(&self, place: PlaceIndex, now: Instant) -> Option<SendAt> {
        let (mut scheduler, awake_now) = self.shared.scheduler.lock_at(now);
        let awake = scheduler.reserve_send(self.lanes.host(place), awake_now);
        (awake > awake_now).then(|| SendAt { awake, real: scheduler.real(awake), reserved: now })
    }

    /// Waits until that time. Requests whose times came in a stall keep their distances.
    pub(super) async fn wait_to_send(&self, at: SendAt) {
        let mut until = at.real;
        loop {
            sleep_until(until.into()).await;
            let now = Instant::now();
            self.client.stalls.observe(now);
            if self.client.stalls.has_stalled_since(at.reserved) {
                until = self.shared.scheduler.real(at.awake);
            }
            if until <= now {
                return;
            }
        }
    }

    /// Returns wall-clock time in microseconds since 1970, with the time that the machine was suspended until then.
    pub(super) fn unix_us(&self, instant: Instant) -> i64 {
        self.shared.clock.unix_us(instant + self.shared.scheduler.suspended_until(instant))
    }

    /// Reports an attempt that has ended so to the scheduler, and requeues the row at `place` if another attempt follows.
    /// `body_continues`: only the head of the response has come, and its body is handed out.
    pub(super) fn requeue_for_retry(
        &self,
        place: PlaceIndex,
        started: Instant,
        end: AttemptEnd,
        headers: Option<HeadersRef<'_>>,
        body_continues: bool,
        now: Instant,
    ) -> RowNow {
        let host = if body_continues { self.lanes.host(place) } else { self.lanes.take_host(place) };
        let pause = headers
            .zip(end.status)
            .and_then(|(headers, status)| requested_pause(status, headers, (self.unix_us(now) / 1000) as u64));
        let shared = &self.shared.scheduler;
        let evidence = end.evidence();
        let says_nothing = pause.is_none_or(|pause| pause.is_zero())
            && matches!(evidence, HostEvidence::Responded | HostEvidence::Nothing)
            && !end.is_retryable(shared.retry_on());
        if host.is_none() && says_nothing && !shared.is_needed() {
            return RowNow::InLane;
        }
        let is_silent = evidence == HostEvidence::Silent;
        let attempt = self.lanes.look(place, |row| FinishedAttempt {
            end,
            body_continues,
            before: row.before(),
            first: row.first_began().unwrap_or(started),
            started,
            may_repeat: self.may_repeat(row),
            was_acted_on: row.chain().is_some_and(|chain| chain.method.is_some()),
            requested_pause: pause,
            responded_at: is_silent.then(|| self.preparer.borrow_mut().responded_at(row)).flatten(),
        });
        let take_row = || {
            self.lanes.take_host(place);
            let mut row = self.lanes.take(place);
            // The next attempt begins where the first one did.
            let host = if row.take_chain().is_some() { None } else { host };
            let key = self.preparer.borrow_mut().limit_key(&row).map(Box::from);
            (row, host, key)
        };
        let retry = shared.change_at(now, |scheduler, now| {
            let retry = scheduler.finish_attempt(host, || self.limit_key(place), &attempt, take_row, now);
            self.pass_on_deferred(scheduler);
            retry
        });
        match retry {
            Retry::No => RowNow::InLane,
            Retry::NotRepeatable => {
                self.stats().figures.retries.unrepeatable += 1;
                RowNow::InLane
            }
            Retry::At(_) => {
                self.stats().figures.record_retry(end, now.saturating_duration_since(started));
                // It may be due before anything else that the worker waits for.
                self.wake();
                RowNow::Requeued
            }
        }
    }

    /// Reports that what is in flight at `place` has ended without showing anything about its host.
    pub(super) fn release_host(&self, place: PlaceIndex) {
        if let Some(host) = self.lanes.take_host(place) {
            self.shared.scheduler.change_at(Instant::now(), |scheduler, now| scheduler.release(host, now));
        }
    }

    /// Has the row at `place` follow a redirect: at once or, where rows are throttled, in its turn.
    pub(super) fn follow_redirect(&self, place: PlaceIndex, mut chain: Box<RedirectChain>, took: Span) -> RowNow {
        let scheduler = &self.shared.scheduler;
        // After a stop, what is in flight comes to its end.
        let is_free =
            !scheduler.is_needed() || (self.slots.borrow().is_stopped() && scheduler.lock().rules().limits.is_none());
        if is_free {
            self.lanes.change(place, |row| row.set_chain(chain));
            return RowNow::InLane;
        }
        let earlier = chain.earlier.get_or_insert(Earlier { began: took.started, took: Duration::ZERO });
        earlier.took += took.elapsed;
        let mut row = self.lanes.take(place);
        row.set_chain(chain);
        scheduler.change_at(Instant::now(), |scheduler, now| self.offer(scheduler, row, now));
        self.wake();
        RowNow::Requeued
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
        state.deadline.set_latest(latest);
    }

    /// Returns the time that an attempt has, no more than what is left to its row; and when it ends at the latest where a caller
    /// waits for the row, whatever else it waits for.
    fn attempt_time(&self, place: PlaceIndex, started: Instant) -> (Duration, OptionName, Option<Instant>) {
        let deadline = self.shared.scheduler.deadline();
        self.lanes.look(place, |row| {
            let earlier = row.chain().and_then(|chain| chain.earlier);
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
                let scheduler = self.shared.scheduler.lock();
                scheduler.awake(started).saturating_duration_since(scheduler.awake(first))
            };
            match deadline.saturating_sub(passed) {
                left if left < timeout => (left, OptionName::DeadlineS, None),
                _ => (timeout, OptionName::TimeoutS, None),
            }
        })
    }
}
