//! The calls of an attempt to the scheduler: whether the row continues, when its request may be sent, and how it ended.

use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::error::HostEvidence;
use headgate_core::headers::HeadersRef;
use headgate_core::message::OptionName;
use headgate_core::redirect_chain::{Earlier, RedirectChain};
use headgate_core::row::Row;
use headgate_core::schedule::requested_pause::requested_pause;
use headgate_core::schedule::retry::{AttemptEnd, FinishedAttempt, NewCredentials, RetryDecision};
use headgate_core::timer::sleep_until;
use headgate_http::client::LaneState;

use super::record::Followed;
use super::{Attempt, RowNow, SendAt};
use crate::engine::lanes::Span;

/// What becomes of a row whose attempt has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterAttempt {
    Requeued,
    /// The attempt was the last one.
    Final,
    /// The attempt was the last one, because the body can't be sent any more.
    BodyConsumed,
}

impl Attempt<'_> {
    /// Sets the timeouts of the attempt.
    pub(super) fn set_deadline(&self, state: &mut LaneState) {
        // A stall before it is none of its own.
        self.share.client.stalls.observe(self.started);
        let (time, option, latest) = self.time();
        if !state.deadline.excused().is_zero() {
            // Of an attempt whose row is tried again later.
            self.count_own_waits(state);
        }
        state.deadline.set(self.started + time, option);
        state.deadline.set_latest(latest);
    }

    /// Returns the time that the attempt has, no more than what is left to its row; and when it ends at the latest where a caller
    /// waits for the row, whatever else it waits for.
    fn time(&self) -> (Duration, OptionName, Option<Instant>) {
        let (scheduler, started) = (&self.share.shared.scheduler, self.started);
        let total_timeout = scheduler.total_timeout();
        self.row(|row| {
            let earlier = row.chain().and_then(|chain| chain.earlier);
            let own = row.own().and_then(|own| own.timeout);
            let timeout = own
                .unwrap_or(self.share.shared.limits.timeout)
                .saturating_sub(earlier.map_or(Duration::ZERO, |part| part.took));
            let first = row.first_began().unwrap_or(started);
            let Some(ends_at) = row.own_retrying().ends_at(first, total_timeout) else {
                return (timeout, OptionName::Timeout, None);
            };
            if row.reply_to.is_some() {
                return (timeout, OptionName::Timeout, Some(ends_at));
            }
            let passed = if first == started {
                Duration::ZERO
            } else {
                let scheduler = scheduler.lock();
                scheduler.awake(started).saturating_duration_since(scheduler.awake(first))
            };
            match ends_at.saturating_duration_since(first).saturating_sub(passed) {
                left if left < timeout => (left, OptionName::TotalTimeout, None),
                _ => (timeout, OptionName::Timeout, None),
            }
        })
    }

    /// Requeues the row, which is not sent yet, if its host has requested a pause since the row was started.
    pub(super) fn requeue_unsent(&self, state: &mut LaneState) -> RowNow {
        let scheduler = &self.share.shared.scheduler;
        if !scheduler.is_needed() {
            return RowNow::InLane;
        }
        let host = self.share.lanes.host(self.lane);
        let is_requeued = scheduler.change_at(clock::now(), |scheduler, now| {
            scheduler.requeue_unsent(host, || self.limit_key(), || self.take_row(), now)
        });
        if !is_requeued {
            return RowNow::InLane;
        }
        state.leave_stream();
        RowNow::Requeued
    }

    /// Counts a request that is sent once more within the attempt, and requeues the row if its budget doesn't allow that now.
    pub(super) fn requeue_resent(&self) -> RowNow {
        let scheduler = &self.share.shared.scheduler;
        if !scheduler.is_needed() {
            scheduler.budgets.requests.spend(1);
            return RowNow::InLane;
        }
        let host = self.share.lanes.host(self.lane);
        let is_requeued = scheduler.change_at(clock::now(), |scheduler, now| {
            scheduler.requeue_resent(host, || self.limit_key(), || self.take_row(), now)
        });
        if is_requeued { RowNow::Requeued } else { RowNow::InLane }
    }

    /// Takes the row out of its lane, and with it the host that it was started for.
    fn take_row(&self) -> Row {
        let lanes = &self.share.lanes;
        lanes.take_host(self.lane);
        lanes.take(self.lane)
    }

    /// Takes back what the row has used of budgets: no request could be made of it.
    pub(super) fn refund(&self) {
        let (scheduler, has_host) = (&self.share.shared.scheduler, self.share.lanes.host(self.lane).is_some());
        self.row(|row| scheduler.change_at(clock::now(), |scheduler, _| scheduler.refund_invalid(row, has_host)));
    }

    /// Reserves a time at which the request may be sent; `None`: now. To be called once for each time that it is sent.
    pub(super) fn reserve_send(&self, now: Instant) -> Option<SendAt> {
        let (mut scheduler, awake_now) = self.share.shared.scheduler.lock_at(now);
        let awake = scheduler.reserve_send(self.share.lanes.host(self.lane), awake_now);
        (awake > awake_now).then(|| SendAt { awake, real: scheduler.real(awake), reserved: now })
    }

    /// Waits until that time. Requests whose times came in a stall keep their distances.
    pub(super) async fn wait_to_send(&self, at: SendAt) {
        let stalls = &self.share.client.stalls;
        let mut until = at.real;
        loop {
            sleep_until(until).await;
            let now = clock::now();
            stalls.observe(now);
            if stalls.has_stalled_since(at.reserved) {
                until = self.share.shared.scheduler.real(at.awake);
            }
            if until <= now {
                return;
            }
        }
    }

    /// Reports to the scheduler how the attempt ended, and requeues the row if another attempt follows. `body_continues`: only the
    /// head of the response has come, and its body is handed out. `new_credentials`: the row is retried with these. `followed`: the
    /// attempt, which is reported if another one follows.
    pub(super) fn requeue_for_retry(
        &self,
        end: AttemptEnd,
        headers: Option<HeadersRef<'_>>,
        body_continues: bool,
        new_credentials: Option<NewCredentials>,
        followed: &mut Option<Followed>,
        now: Instant,
    ) -> AfterAttempt {
        let Self { share, lane, started } = *self;
        let host = if body_continues { share.lanes.host(lane) } else { share.lanes.take_host(lane) };
        let pause = headers
            .zip(end.status)
            .and_then(|(headers, status)| requested_pause(status, headers, (share.unix_us(now) / 1000) as u64));
        let scheduler = &share.shared.scheduler;
        let evidence = end.evidence();
        let says_nothing = new_credentials.is_none()
            && pause.is_none_or(|pause| pause.is_zero())
            && !evidence.is_failure()
            && !end.is_retryable(scheduler.retry_on());
        if host.is_none() && says_nothing && !scheduler.is_needed() {
            return AfterAttempt::Final;
        }
        let is_silent = evidence == HostEvidence::Silent;
        let mut attempt = self.row(|row| FinishedAttempt {
            end,
            body_continues,
            before: row.before(),
            first: row.first_began().unwrap_or(started),
            own: row.own_retrying(),
            started,
            is_idempotent: share.is_idempotent(row),
            body_is_consumed: row.is_body_consumed(),
            was_acted_on: row.chain().is_some_and(|chain| chain.method.is_some()),
            requested_pause: pause,
            new_credentials,
            responded_at: is_silent.then(|| share.preparer.borrow_mut().responded_at(row)).flatten(),
        });
        let take_row = || {
            share.lanes.take_host(lane);
            let mut row = share.lanes.take(lane);
            // The next attempt begins where the first one did.
            let host = if row.remove_chain().is_some() { None } else { host };
            let key = share.preparer.borrow_mut().limit_key(&row).map(Box::from);
            (row, host, key)
        };
        let retry = scheduler.change_at(now, |scheduler, now| {
            let is_renewed = || share.shared.renewal.as_ref().is_some_and(|renewal| !renewal.is_awaited());
            if attempt.new_credentials == Some(NewCredentials::Awaited) && is_renewed() {
                // They have come since: only under this lock is it certain that the scheduler learns of it.
                attempt.new_credentials = Some(NewCredentials::Renewed);
            }
            let retry = scheduler.finish_attempt(host, || self.limit_key(), &attempt, take_row, now);
            share.pass_on_deferred(scheduler);
            if let RetryDecision::At(time) = retry
                && let Some(followed) = followed.take()
            {
                // Another worker may begin the next attempt as soon as the scheduler is unlocked.
                followed.report(Some(time.saturating_duration_since(now)));
            }
            retry
        });
        match retry {
            RetryDecision::No => AfterAttempt::Final,
            RetryDecision::BodyConsumed => AfterAttempt::BodyConsumed,
            RetryDecision::NotIdempotent => {
                share.stats().figures.retries.not_retried += 1;
                AfterAttempt::Final
            }
            RetryDecision::At(_) => {
                share.stats().figures.record_retry(end, now.saturating_duration_since(started));
                // It may be due before anything else that the worker waits for.
                share.wake();
                AfterAttempt::Requeued
            }
        }
    }

    /// Has the row follow a redirect in its lane or, where rows are throttled, requeues it. `took`: the attempt so far.
    pub(super) fn requeue_redirected(&self, mut chain: Box<RedirectChain>, took: Span) -> RowNow {
        let (share, scheduler) = (self.share, &self.share.shared.scheduler);
        let is_free = !scheduler.is_needed() || {
            // After a stop, what is in flight comes to its end.
            let scheduler = scheduler.lock();
            scheduler.is_stopped() && scheduler.rules().limits.is_none()
        };
        if is_free {
            share.lanes.change(self.lane, |row| row.set_chain(chain));
            return RowNow::InLane;
        }
        let earlier = chain.earlier.get_or_insert(Earlier { began: took.started, took: Duration::ZERO });
        earlier.took += took.elapsed;
        let mut row = share.lanes.take(self.lane);
        row.set_chain(chain);
        scheduler.change_at(clock::now(), |scheduler, now| share.offer(scheduler, row, now));
        share.wake();
        RowNow::Requeued
    }

    /// Returns the name of the row's host in limits.
    fn limit_key(&self) -> Option<Box<str>> {
        self.row(|row| self.share.preparer.borrow_mut().limit_key(row).map(Into::into))
    }
}
