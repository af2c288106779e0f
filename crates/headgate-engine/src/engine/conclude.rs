//! What becomes of a row when an exchange of it has ended: asked again, sent again, redirected, or recorded.

use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::engine::completion_queue;
use crate::engine::lanes::{PlaceIndex, Span};
use crate::engine::scheduling::RowNow;
use crate::engine::share::Share;
use crate::http::client::{Answered, LaneState, Translated};
use crate::http::deadline::OwnWait;
use crate::http::h1::exchange::Exchange;
use crate::http::pool::Route;
use crate::http::reply::{NoReply, Reply};
use crate::http::site::Site;
use crate::model::error::{ErrorKind, Failure, JobError, NetworkEvidence};
use crate::model::headers::HeadersRef;
use crate::model::outcome::{Answer, Outcome, OutcomeRef};
use crate::model::redirect_chain::RedirectChain;
use crate::model::row::Row;
use crate::model::selected::Selected;
use crate::schedule::retry::AttemptEnd;
use crate::stats::lanes::Wait;

/// What an exchange that took the long way came to.
pub(super) enum Finished {
    /// Its row is asked again later.
    Later,
    Recorded {
        is_full: bool,
    },
    /// It may be sent again, on a new connection to this site.
    Again(Rc<Site>),
    /// It was not sent: there is no connection to this site.
    Unsent(Rc<Site>),
    /// It was redirected, and goes on at once.
    Elsewhere,
}

/// What an exchange was made on.
struct Used {
    /// Where it leads, if one stood.
    remote_addr: Option<Arc<str>>,
    is_new: bool,
    /// The request may be sent once more, if nothing else speaks against it.
    may_repeat: bool,
}

/// An attempt that had no answer.
pub(super) struct Ended {
    pub(super) span: Span,
    /// Where its connection led, if one stood.
    pub(super) remote_addr: Option<Arc<str>>,
}

impl Share {
    /// Goes on with an exchange to its end, and records what becomes of the row.
    pub(super) async fn finish(
        &self,
        place: PlaceIndex,
        started: Instant,
        state: &mut LaneState,
        exchange: Box<Exchange>,
        on_new_connection: bool,
    ) -> Finished {
        let used =
            Used { remote_addr: state.connected_to(), is_new: on_new_connection, may_repeat: !on_new_connection };
        let route = state.route().cloned();
        let finished = self.client.finish(*exchange, &self.exchange_context(place), state).await;
        if let Some(route) = route.filter(|_| finished.is_ok()) {
            self.note_response(&route, Instant::now());
        }
        self.conclude(place, started, state, finished, used).await
    }

    /// Notes that a response head came over this route.
    pub(super) fn note_response(&self, route: &Route, now: Instant) {
        if route.host.note_response(now) {
            self.shared.responders.note(&route.key.origin);
        }
    }

    /// Makes an exchange over HTTP/2, and records what becomes of the row.
    pub(super) async fn finish_http2(
        &self,
        place: PlaceIndex,
        started: Instant,
        state: &mut LaneState,
        sent: Box<Translated>,
    ) -> Finished {
        let remote_addr = state.connected_to();
        let site = sent.site.clone();
        let finished = self.client.exchange(sent, self.saving(place), &self.exchange_context(place), state).await;
        if finished.is_ok() {
            self.note_response(&site.route, Instant::now());
        }
        let may_repeat = finished.as_ref().err().is_some_and(|none| state.may_be_sent_again(none, &site.route));
        let used = Used { remote_addr, is_new: false, may_repeat };
        self.conclude(place, started, state, finished, used).await
    }

    /// Records what an exchange came to.
    async fn conclude(
        &self,
        place: PlaceIndex,
        started: Instant,
        state: &mut LaneState,
        finished: Result<Answered, NoReply>,
        used: Used,
    ) -> Finished {
        if let Some(site) = self.resend_after_stall(place, started, state, &finished) {
            return Finished::Again(site);
        }
        let is_full = match finished {
            Ok(Answered { reply: Reply { saved: Some(Err(error)), .. }, .. }) => {
                self.give_up_saving(place, error);
                return Finished::Later;
            }
            Ok(Answered { mut reply, remote_addr, is_outside, open }) => {
                let status = Some(reply.head.status);
                let mut chain = self.led_on(place, &mut reply, is_outside);
                if let Some(chain) = &mut chain {
                    self.reserve_chain(place, chain, &mut reply, state).await;
                }
                let selects = chain.is_none() && open.is_none() && self.selection_at(place).is_some();
                let selected = if selects { Box::pin(self.select_from(place, &mut reply, state)).await } else { None };
                let end = match &reply.failure {
                    None => AttemptEnd::responded(reply.head.status),
                    Some(failure) => AttemptEnd::failed(status, failure),
                };
                let headers = HeadersRef::Kept(&reply.head.headers);
                self.count_skipped(reply.head.skipped);
                if open.is_some() {
                    self.apply_head(place, headers);
                }
                // What is handed out goes on, unless it is asked again.
                let goes_on = open.is_some() && reply.failure.is_none() && chain.is_none();
                let now = self.requeue_for_retry(place, started, end, Some(headers), goes_on, Instant::now());
                if now == RowNow::Requeued {
                    if let Some(open) = open {
                        open.end(state);
                    }
                    return Finished::Later;
                }
                let span = self.span(started, state);
                if let Some(chain) = chain {
                    return match self.follow_redirect(place, chain, span) {
                        RowNow::InLane => Finished::Elsewhere,
                        RowNow::Requeued => Finished::Later,
                    };
                }
                if let Some(open) = open.filter(|_| goes_on) {
                    Box::pin(self.hand_out(place, span, state, (reply, remote_addr), open)).await;
                    return Finished::Recorded { is_full: false };
                }
                let outcome = self.answered(self.lanes.take(place), span, reply, selected, remote_addr);
                self.record_in_turn(outcome).await
            }
            Err(none) => {
                if used.may_repeat
                    && self.may_be_sent_again(place, &none)
                    && let Ok((site, _)) = self.write(place, started, &mut Vec::new())
                {
                    self.stats().figures.sent_again += 1;
                    return Finished::Again(site);
                }
                let failure = none.failure_on(used.is_new);
                let ended = Ended { span: self.span(started, state), remote_addr: used.remote_addr };
                self.end_unanswered(place, started, Some(ended), failure).await
            }
        };
        Finished::Recorded { is_full }
    }

    /// Where a request is sent again whose connection died in a stall, as if the server had closed an idle one: if its method
    /// is idempotent (RFC 9110 section 9.2.2).
    fn resend_after_stall(
        &self,
        place: PlaceIndex,
        started: Instant,
        state: &mut LaneState,
        finished: &Result<Answered, NoReply>,
    ) -> Option<Rc<Site>> {
        let failure = match finished {
            Ok(Answered { open: Some(_), .. } | Answered { reply: Reply { failure: None, .. }, .. }) => return None,
            Ok(Answered { reply, .. }) => reply.failure.as_ref()?,
            Err(none) => &none.failure,
        };
        let died = failure.kind == ErrorKind::Closed && state.try_resend_after_stall(started, Instant::now());
        if !died || !self.is_idempotent(place) {
            return None;
        }
        let (site, _) = self.write(place, started, &mut Vec::new()).ok()?;
        self.stats().figures.sent_again += 1;
        Some(site)
    }

    /// A body can't be written: the run ends, and the row is left undone.
    fn give_up_saving(&self, place: PlaceIndex, error: JobError) {
        drop(self.lanes.take(place));
        self.release_host(place);
        self.sent(Err(Some(error)));
    }

    /// Where an answer leads, if anywhere; that it leads nowhere where it should is its failure.
    fn led_on(&self, place: PlaceIndex, reply: &mut Reply, is_outside: bool) -> Option<Box<RedirectChain>> {
        let Reply { head, failure, .. } = reply;
        if failure.is_some() || !self.may_lead_on(place, head.status) {
            return None;
        }
        let led = self.lanes.look(place, |row| {
            let method = self.method_now(row);
            self.shared.limits.response.redirects.of(row, method).follow(
                row,
                method,
                (head.status, &head.headers),
                is_outside,
                SystemTime::now(),
            )
        });
        led.unwrap_or_else(|error| {
            *failure = Some(error);
            None
        })
    }

    /// Reserves what a redirect chain takes: what was reserved for the one before it and for the headers of the redirect, and more
    /// where there is memory.
    async fn reserve_chain(
        &self,
        place: PlaceIndex,
        chain: &mut RedirectChain,
        reply: &mut Reply,
        state: &mut LaneState,
    ) {
        let needed = chain.bytes() as u64;
        let mut memory = self.shared.limits.response.memory.reservation();
        self.lanes.change(place, |row| memory.absorb(row.take_chain_memory()));
        memory.absorb(std::mem::take(&mut reply.memory));
        let missing = needed.saturating_sub(memory.bytes());
        if missing > 0 && !memory.try_grow_within(missing) {
            let since = Instant::now();
            Box::pin(memory.grow(missing)).await;
            state.deadline.excuse(OwnWait::Memory, since.elapsed());
        }
        // The next response needs the permit to overdraw.
        memory.end_overdrawing();
        memory.shrink_to(needed);
        chain.memory.0 = memory;
    }

    pub(super) async fn end_unanswered(
        &self,
        place: PlaceIndex,
        started: Instant,
        ended: Option<Ended>,
        failure: Failure,
    ) -> bool {
        let end = AttemptEnd::failed(None, &failure);
        if matches!(end.network_evidence(), NetworkEvidence::Unreachable | NetworkEvidence::Refused) {
            *self.shared.last_unreached.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.clone());
        }
        if self.requeue_for_retry(place, started, end, None, false, Instant::now()) == RowNow::Requeued {
            return false;
        }
        let outcome = self.unanswered(self.lanes.take(place), ended, failure);
        self.record_in_turn(outcome).await
    }

    /// Records an outcome that waits for its turn where a batch is full. Whether the next one is.
    async fn record_in_turn(&self, outcome: Outcome) -> bool {
        let is_full = if self.gathered.has_room(outcome.as_ref().bytes()) {
            let failed = self.count(outcome.as_ref());
            completion_queue::reply(outcome, failed).is_some_and(|outcome| self.gathered.push_owned(outcome, failed))
        } else {
            Box::pin(self.waiting(Wait::Sink, self.record(outcome))).await
        };
        // Rows that end without I/O must not keep the others from theirs.
        tokio::task::consume_budget().await;
        is_full
    }

    /// Of an attempt that ends now. What we have waited for ourselves is no part of how long the server took.
    pub(super) fn span(&self, started: Instant, state: &mut LaneState) -> Span {
        state.deadline.excuse_stalls(Instant::now());
        let excused = state.deadline.excused();
        self.count_own_waits(state);
        Span { started, elapsed: started.elapsed().saturating_sub(excused) }
    }

    /// Counts what was waited for ourselves; the next attempt begins without it.
    pub(super) fn count_own_waits(&self, state: &mut LaneState) {
        let own_waits = [
            (Wait::Memory, OwnWait::Memory),
            (Wait::Decoder, OwnWait::Decoder),
            (Wait::Files, OwnWait::Files),
            (Wait::Sink, OwnWait::Disk),
        ];
        for (wait, own) in own_waits {
            self.count_wait(wait, state.deadline.take_excused(own));
        }
        state.deadline.take_excused(OwnWait::Stall);
    }

    pub(super) fn count_wait(&self, wait: Wait, time: Duration) {
        if !time.is_zero() {
            self.stats().lanes.add_waited(wait, time);
        }
    }

    /// Headers of an answer were left out.
    fn count_skipped(&self, headers: u32) {
        if headers > 0 {
            self.stats().figures.headers_skipped += u64::from(headers);
        }
    }

    fn may_be_sent_again(&self, place: PlaceIndex, none: &NoReply) -> bool {
        self.lanes.look(place, |row| none.may_resend(self.method_now(row)))
    }

    /// What of a response arrived, and why its body did not.
    pub(super) fn answered(
        &self,
        row: Row,
        span: Span,
        reply: Reply,
        selected: Option<Box<Selected>>,
        remote_addr: Arc<str>,
    ) -> Outcome {
        let ttfb = reply.first_byte.saturating_duration_since(span.started);
        let ttfb_us = Span { elapsed: ttfb, ..span }.whole(&row).elapsed.as_micros() as u64;
        let span = span.whole(&row);
        let (mut body, mut memory) = (reply.body, reply.memory);
        if self.shared.omits_bodies
            && let Some(mut body) = body.take()
        {
            // What was taken from it stays.
            body.reservation.shrink_to(selected.as_ref().map_or(0, |selected| selected.bytes() as u64));
            memory.absorb(body.reservation);
        }
        let answer = Answer {
            status: reply.head.status,
            version: reply.head.version,
            headers: reply.head.headers,
            memory,
            ttfb_us,
            body,
            body_encoding: reply.body_encoding,
            body_truncated: reply.truncated,
            body_bytes: reply.body_bytes,
            // A row that fails has no file: it may be asked again, and then has the name.
            saved: reply.saved.filter(|_| reply.failure.is_none()).and_then(|saved| saved.ok()?.keep()),
        };
        Outcome {
            method: self.method_of(&row).into(),
            attempts: row.attempts_before() + 1,
            row,
            started_at_us: self.unix_us(span.started),
            elapsed_us: span.elapsed.as_micros() as u64,
            remote_addr: Some(remote_addr),
            answer: Some(answer),
            selected,
            failure: reply.failure,
        }
    }

    /// What became of a row without an answer; `ended`: its attempt, if there was one.
    pub(super) fn unanswered(&self, row: Row, ended: Option<Ended>, failure: Failure) -> Outcome {
        let (span, remote_addr) = ended.map_or((None, None), |ended| (Some(ended.span), ended.remote_addr));
        // What it was asked before it was redirected and waited is a part of an attempt, too.
        let span = span.or_else(|| row.chain()?.earlier.map(|_| Span::none())).map(|span| span.whole(&row));
        let started = span.map_or_else(Instant::now, |span| span.started);
        Outcome {
            method: self.method_of(&row).into(),
            attempts: row.attempts_before() + u16::from(span.is_some()),
            row,
            started_at_us: self.unix_us(started),
            elapsed_us: span.map_or(0, |span| span.elapsed.as_micros() as u64),
            remote_addr,
            answer: None,
            selected: None,
            failure: Some(failure),
        }
    }

    /// A row has its outcome. Waits where there is no room for it. Whether a batch is full.
    pub(super) async fn record(&self, outcome: Outcome) -> bool {
        let failed = self.count(outcome.as_ref());
        let Some(outcome) = completion_queue::reply(outcome, failed) else { return false };
        if self.gathered.has_room(outcome.as_ref().bytes()) {
            return self.gathered.push_owned(outcome, failed);
        }
        self.sent(self.gathered.push_in_turn(outcome, failed).await);
        false
    }

    /// As [`Share::record`], where there is room; its memory is for the caller to see to.
    pub(super) fn record_ref(&self, outcome: OutcomeRef<'_>) -> bool {
        let failed = self.count(outcome);
        self.gathered.push(outcome, failed)
    }

    /// Whether the row failed.
    pub(super) fn count(&self, outcome: OutcomeRef<'_>) -> bool {
        let failed = AttemptEnd::of(outcome).is_failure(&self.shared.fail_on);
        self.stats().figures.record(outcome, failed);
        self.apply_failure_limit(outcome, failed);
        failed
    }
}
