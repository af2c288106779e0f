//! How a worker uses the scheduler of its run: where it gets rows from, and what it reports. While nothing is limited and all
//! hosts are healthy, rows start from the worker's own slots, without a lock.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use headgate_core::clock;
use headgate_core::live::Live;
use headgate_core::row::Row;
use headgate_core::schedule::decision::Decision;
use headgate_core::schedule::scheduler::Scheduler;
use headgate_core::schedule::scheduler::rereading::RereadDecision;
use headgate_core::schedule::slots::{MAX_CHUNK_ROWS, Slots};
use headgate_core::target::{self, Target};
use tokio::task::spawn_local;

use crate::engine::attempt::refused;
use crate::engine::lanes::LaneIndex;
use crate::engine::share::Share;
use crate::queue::rows::NoRows;

/// A worker looks up at most so many hostnames at once.
const MAX_LOOK_UPS: usize = 64;
/// A worker draws at most so many chunks of rows before its other tasks run.
const MAX_DRAWS: usize = 16;

impl Share {
    /// Returns what to do now, and whether the worker would draw rows that arrive later. Draws rows if there are some.
    pub(super) fn decide(self: &Rc<Self>, now: Instant) -> (Decision, bool) {
        loop {
            let mut slots = self.slots.borrow_mut();
            let (decision, wants_rows) = if self.shared.scheduler.is_needed() {
                self.decide_with_lock(&mut slots, now)
            } else {
                let decision = slots.decide();
                let wanted = if decision == Decision::Wait { slots.wanted() } else { 0 };
                if wanted > 0 {
                    match self.shared.scheduler.rows.draw(wanted, &mut slots) {
                        Ok(drawn) => self.shared.scheduler.budgets.requests.spend(drawn as u64),
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
            if let Decision::UsedUp(used_up) = decision {
                drop(slots);
                self.stop_by_budget(used_up);
                return (Decision::Wait, false);
            }
            let is_over = has_no_lanes && self.shared.scheduler.rows.has_ended() && !self.shared.scheduler.has_rows();
            return (if is_over { Decision::Ended } else { decision }, wants_rows);
        }
    }

    fn decide_with_lock(self: &Rc<Self>, slots: &mut Slots, now: Instant) -> (Decision, bool) {
        let (mut scheduler, awake) = self.shared.scheduler.lock_at(now);
        let drawn = self.drain_drawn(slots);
        if let Some(decision) = scheduler.after_stop(slots.in_use(), now) {
            return (decision, false);
        }
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
            wants_rows = scheduler.wants_rows();
            if wants_rows {
                scheduler.evict_hosts(awake);
                wants_rows = scheduler.has_space_for_a_host();
            }
            if !wants_rows {
                break Decision::wait(self.steer_rereading(&mut scheduler, until, now));
            }
            if chunks == MAX_DRAWS {
                break Decision::WaitUntil(now);
            }
            // Under the lock, so that rows come to the scheduler in their order.
            match self.shared.scheduler.rows.try_recv(scheduler.rows_to_draw(MAX_CHUNK_ROWS)) {
                Ok(rows) => {
                    scheduler.note_drawn(rows.len());
                    for row in rows {
                        self.offer(&mut scheduler, row, awake);
                    }
                }
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
        self.look_up_hostnames(&scheduler);
        self.shared.scheduler.note_need(&scheduler);
        self.shared.scheduler.request_reservation();
        // Nothing but a look wakes no worker: two that wait would wake each other in turns.
        if is_news || matches!(decision, Decision::Start(..) | Decision::Fail(..)) {
            self.shared.scheduler.wake_workers();
        }
        (decision, wants_rows)
    }

    /// Removes the rows that were drawn and not started. They were counted as requests when they were drawn.
    fn drain_drawn(&self, slots: &mut Slots) -> VecDeque<Row> {
        let drawn = slots.drain_drawn();
        if !drawn.is_empty() {
            self.shared.scheduler.budgets.requests.refund(drawn.len() as u64);
        }
        drawn
    }

    /// Starts to look up the addresses of hosts, where limits are per address.
    fn look_up_hostnames(self: &Rc<Self>, scheduler: &Scheduler) {
        if scheduler.has_hostnames_to_resolve() && self.looking_up.get() < MAX_LOOK_UPS {
            self.looking_up.update(|count| count + 1);
            spawn_local(self.clone().look_up());
        }
    }

    async fn look_up(self: Rc<Self>) {
        let next_name =
            || self.shared.scheduler.change_at(clock::now(), |scheduler, _| scheduler.next_hostname_to_resolve());
        while let Some((name, url)) = next_name() {
            let by = clock::now() + self.shared.limits.connect_timeout;
            let address = match target::parse(&url) {
                Ok(Target { origin, .. }) => {
                    let route = self.preparer.borrow().route_key(origin);
                    self.client.address_of(&route, by).await
                }
                Err(_) => None,
            };
            self.shared.scheduler.change_at(clock::now(), |scheduler, now| {
                scheduler.found_address(&name, address, now);
                self.pass_on_deferred(scheduler);
            });
            self.wake();
        }
        self.looking_up.update(|count| count - 1);
    }

    /// Applies options that were set during the run.
    pub(super) fn apply_options(&self, live: &Live) {
        let now = clock::now();
        self.shared.scheduler.apply_options(live, now);
        if self.shared.failure_limit.set(live.max_failures) {
            self.shared.scheduler.change_at(now, |scheduler, _| scheduler.end_probe());
        }
        let mut slots = self.slots.borrow_mut();
        let lanes = self.worker.portion_of(live.concurrency);
        if !self.shared.limits.shares_connections {
            self.client.pool.borrow_mut().allow_more(lanes.saturating_sub(slots.lanes()));
        }
        slots.set_lanes(lanes);
        if lanes == 0 {
            // Other workers start what was drawn here.
            self.shared.scheduler.change_at(now, |scheduler, now| {
                self.drain_drawn(&mut slots).into_iter().for_each(|row| self.offer(scheduler, row, now));
            });
        }
        drop(slots);
        self.wake();
    }

    /// Gives a row to the scheduler.
    pub(super) fn offer(&self, scheduler: &mut Scheduler, row: Row, now: Instant) {
        let mut preparer = self.preparer.borrow_mut();
        let credentials = if self.shared.watches_credentials() { preparer.credentials_of(&row) } else { None };
        if credentials.as_ref().is_some_and(|credentials| credentials.is_refused()) {
            scheduler.fail(row, refused());
            return;
        }
        let key = preparer.limit_key(&row);
        if let (Some(renewal), Some(name)) = (&self.shared.renewal, &key) {
            match credentials {
                Some(_) => {
                    scheduler.note_credentials(name, now);
                    if scheduler.awaits_credentials() {
                        renewal.request_fetch();
                    }
                }
                // What provides the credentials may need such a request for it.
                None if scheduler.awaits_credentials() && row.reply_to.is_some() => {
                    scheduler.offer(row, None, now);
                    return;
                }
                None => {}
            }
        }
        scheduler.offer(row, key.as_deref(), now);
    }

    /// Has the queue remember rows that were deferred.
    pub(super) fn pass_on_deferred(&self, scheduler: &mut Scheduler) {
        let rows = scheduler.drain_deferred();
        if !rows.is_empty() {
            self.shared.scheduler.rows.defer(&rows);
        }
    }

    /// Requests that deferred rows are read again, where there is capacity for them. Returns when to check again.
    fn steer_rereading(&self, scheduler: &mut Scheduler, until: Option<Instant>, now: Instant) -> Option<Instant> {
        if !scheduler.has_deferred() {
            return until;
        }
        let rows = &self.shared.scheduler.rows;
        match scheduler.decide_rereading(&rows.rereading(), now) {
            RereadDecision::Continue => {}
            RereadDecision::Begin(first) => rows.reread(first),
            RereadDecision::End => rows.end_rereading(),
            RereadDecision::WaitUntil(time) => return Some(until.map_or(time, |until| until.min(time))),
        }
        until
    }

    /// Returns wall-clock time in microseconds since 1970, with the time that the machine was suspended until then.
    pub(super) fn unix_us(&self, instant: Instant) -> i64 {
        self.shared.clock.unix_us(instant + self.shared.scheduler.suspended_until(instant))
    }

    /// Reports that a row in flight has ended without showing anything about its host.
    pub(super) fn release_host(&self, lane: LaneIndex) {
        if let Some(host) = self.lanes.take_host(lane) {
            self.shared.scheduler.change_at(clock::now(), |scheduler, now| scheduler.release(host, now));
        }
    }

    /// Returns whether sending the row's request twice has the effect of sending it once, or the server can recognise a retry.
    pub(super) fn is_idempotent(&self, row: &Row) -> bool {
        let preparer = self.preparer.borrow();
        preparer.is_idempotent(row) || preparer.has_idempotency_key(row)
    }
}
