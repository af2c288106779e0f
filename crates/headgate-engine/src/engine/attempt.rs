//! One attempt of a lane, from the row at its place to the outcome in a batch.
//!
//! Between the request and its answer a lane keeps its connection and when it started, and nothing else: all that comes
//! before is done in one poll, and so is all that comes after. Ten thousand lanes that wait are then as many looks into cold
//! memory as there have to be. What takes more than that is boxed.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use tokio::time::sleep_until;

use crate::engine::lanes::{PlaceIndex, Span};
use crate::engine::share::Share;
use crate::http::client::LaneState;
use crate::http::deadline::OwnWait;
use crate::http::h1::exchange::{Exchange, Means, NoReply, Reply};
use crate::http::h1::head::header_room;
use crate::http::h1::response::{WholeAnswer, whole};
use crate::http::h1::transfer::Outgoing;
use crate::http::site::Site;
use crate::model::error::Failure;
use crate::model::headers::HeadersRef;
use crate::model::outcome::{Answer, AnswerRef, Outcome, OutcomeRef};
use crate::model::row::Row;
use crate::schedule::Verdict;
use crate::schedule::retry::AttemptEnd;
use crate::stats::lanes::Wait;

/// What an exchange that took the long way came to.
enum Finished {
    /// Its row is asked again later.
    Later,
    Recorded {
        is_full: bool,
    },
    /// It may be sent again, on a new connection to this site.
    Again(Rc<Site>),
}

/// What goes the long way. Each part of it is boxed by itself: ten thousand lanes that connect at once need no room for an
/// exchange.
enum Detour {
    /// There is no connection to this site.
    NoConnection(Rc<Site>),
    /// It takes more than one write or one read.
    Exchange(Box<Exchange>),
    /// No request can be made of the row.
    Invalid(Failure),
    /// A rate lets it be sent then.
    Held(Instant),
}

impl Share {
    /// Makes an attempt at the row at `place`, and records what becomes of it. The row stays there meanwhile, so that others can
    /// see what is in flight. Whether a batch is full.
    pub(super) async fn attempt(&self, place: PlaceIndex, started: Instant, state: &mut LaneState) -> bool {
        state.deadline.set(started + self.attempt_time(place, started));
        let mut on_new_connection = false;
        let mut may_send = !self.shared.gate.counts_sends();
        loop {
            let begin = poll_fn(|cx| Poll::Ready(self.begin(place, started, on_new_connection, may_send, state, cx)));
            let ended = match begin.await {
                Ok(()) => {
                    // Connecting takes its time, in which the timer may have fired.
                    let mut just_begun = !on_new_connection;
                    poll_fn(|cx| self.poll_end(place, started, std::mem::take(&mut just_begun), state, cx)).await
                }
                Err(detour) => Err(detour),
            };
            let site = match ended {
                Ok(is_full) => return is_full,
                Err(Detour::NoConnection(site)) => site,
                Err(Detour::Exchange(exchange)) => {
                    match Box::pin(self.finish(place, started, state, exchange, on_new_connection)).await {
                        Finished::Recorded { is_full } => return is_full,
                        Finished::Later => return false,
                        Finished::Again(site) => {
                            may_send = !self.shared.gate.counts_sends();
                            site
                        }
                    }
                }
                Err(Detour::Invalid(failure)) => {
                    return Box::pin(self.end_unanswered(place, started, None, failure)).await;
                }
                Err(Detour::Held(until)) => {
                    Box::pin(self.waiting(Wait::Turn, sleep_until(until.into()))).await;
                    may_send = true;
                    if self.is_given_back(place) {
                        return false;
                    }
                    continue;
                }
            };
            if let Err(failure) = Box::pin(self.open(&site, state)).await {
                let span = self.span(started, state);
                return Box::pin(self.end_unanswered(place, started, Some(span), failure)).await;
            }
            on_new_connection = true;
            if self.is_given_back(place) {
                return false;
            }
        }
    }

    /// Sends the request if a connection is there that takes all of it.
    fn begin(
        &self,
        place: PlaceIndex,
        started: Instant,
        on_new_connection: bool,
        may_send: bool,
        state: &mut LaneState,
        cx: &mut Context<'_>,
    ) -> Result<(), Detour> {
        let mut wire = self.client.scratch.write.borrow_mut();
        let (site, body) = self.write(place, started, &mut wire).map_err(Detour::Invalid)?;
        if !on_new_connection {
            self.client.reuse(&site.route, state, cx);
        }
        if !may_send
            && state.is_connected()
            && let Some(until) = self.send_at(place, Instant::now())
        {
            return Err(Detour::Held(until));
        }
        match state.send(&wire, body, cx) {
            Some(outgoing) if outgoing.is_done() => Ok(()),
            Some(outgoing) => Err(Detour::Exchange(self.exchange(place, outgoing))),
            None => Err(Detour::NoConnection(site)),
        }
    }

    fn write(&self, place: PlaceIndex, started: Instant, wire: &mut Vec<u8>) -> Result<(Rc<Site>, Bytes), Failure> {
        self.lanes.begin(place, started, |row| self.preparer.borrow_mut().write(row, wire))
    }

    /// Waits for the answer, and records it if it comes whole in one read.
    fn poll_end(
        &self,
        place: PlaceIndex,
        started: Instant,
        just_begun: bool,
        state: &mut LaneState,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, Detour>> {
        // A look at the clock is dear beside the rest.
        let now = || if just_begun { started } else { Instant::now() };
        let length = match ready!(self.client.poll_read(state, &self.allowance, now, cx)) {
            Ok(length) => length,
            Err(failure) => {
                let mut exchange = self.exchange(place, Outgoing::done());
                exchange.fail(failure);
                return Poll::Ready(Err(Detour::Exchange(exchange)));
            }
        };
        let ended = Instant::now();
        let data = &self.client.scratch.read.borrow()[..length];
        let mut room = header_room();
        let max_body_bytes = self.shared.limits.response.max_body_bytes;
        let answer = whole(data, &mut room, self.asks_for_head(place), max_body_bytes);
        let room_needed = length + self.lanes.look(place, Row::bytes);
        // Where a batch waits for the sink, an outcome waits in its lane for the next one.
        let Some(answer) = answer.filter(|_| self.gathered.has_room(room_needed) && state.deadline.excused().is_zero())
        else {
            let mut exchange = self.exchange(place, Outgoing::done());
            let came = ended.checked_sub(state.deadline.excused()).unwrap_or(ended);
            exchange.take_in(data, &self.means(), came);
            return Poll::Ready(Err(Detour::Exchange(exchange)));
        };
        let head = &answer.head;
        let end = AttemptEnd::answered(head.status);
        if self.is_asked_again(place, started, end, Some(HeadersRef::Parsed(head.headers)), ended) {
            state.end_exchange(head.keep_alive);
            return Poll::Ready(Ok(false));
        }
        self.gathered.draw(&self.allowance, length as u64);
        let is_full = self.record_answer(&self.lanes.take(place), &answer, (started, ended), state.remote_addr());
        state.end_exchange(answer.head.keep_alive);
        Poll::Ready(Ok(is_full))
    }

    fn record_answer(
        &self,
        row: &Row,
        answer: &WholeAnswer<'_>,
        (started, ended): (Instant, Instant),
        remote_addr: &str,
    ) -> bool {
        let elapsed_us = ended.saturating_duration_since(started).as_micros() as u64;
        let WholeAnswer { head, body } = answer;
        let answer = AnswerRef {
            status: head.status,
            version: head.version,
            headers: HeadersRef::Parsed(head.headers),
            remote_addr,
            ttfb_us: elapsed_us,
            body: Some(body),
            body_bytes: body.len() as u64,
        };
        self.record_ref(OutcomeRef {
            row,
            method: self.method_of(row),
            attempts: row.attempts_before() + 1,
            started_at_us: self.shared.clock.unix_us(started),
            elapsed_us,
            answer: Some(answer),
            failure: None,
        })
    }

    /// Goes on with an exchange to its end, and records what becomes of the row.
    async fn finish(
        &self,
        place: PlaceIndex,
        started: Instant,
        state: &mut LaneState,
        exchange: Box<Exchange>,
        on_new_connection: bool,
    ) -> Finished {
        let finished = self.client.finish(*exchange, &self.means(), state).await;
        let is_full = match finished {
            Ok((reply, remote_addr)) => {
                let status = Some(reply.head.status);
                let end = match &reply.body {
                    Ok(_) => AttemptEnd { status, error: None, is_lasting: false },
                    Err(failure) => AttemptEnd::failed(status, failure),
                };
                let headers = HeadersRef::Kept(&reply.head.headers);
                if self.is_asked_again(place, started, end, Some(headers), Instant::now()) {
                    return Finished::Later;
                }
                let span = self.span(started, state);
                let outcome = self.answered(self.lanes.take(place), span, reply, remote_addr);
                self.record_in_turn(outcome).await
            }
            Err(none) => {
                if !on_new_connection
                    && self.may_be_sent_again(place, &none)
                    && let Ok((site, _)) = self.write(place, started, &mut Vec::new())
                {
                    return Finished::Again(site);
                }
                self.end_unanswered(place, started, Some(self.span(started, state)), none.failure).await
            }
        };
        Finished::Recorded { is_full }
    }

    async fn end_unanswered(&self, place: PlaceIndex, started: Instant, span: Option<Span>, failure: Failure) -> bool {
        if self.is_asked_again(place, started, AttemptEnd::failed(None, &failure), None, Instant::now()) {
            return false;
        }
        let outcome = self.unanswered(self.lanes.take(place), span, failure);
        self.record_in_turn(outcome).await
    }

    async fn open(&self, site: &Site, state: &mut LaneState) -> Result<(), Failure> {
        let opened = self.client.open(&site.route, &self.shared.limits, state).await;
        self.count_wait(Wait::Names, state.take_waited_for_names());
        opened
    }

    /// Records an outcome that waits for its turn where a batch is full. Whether the next one is.
    async fn record_in_turn(&self, outcome: Outcome) -> bool {
        let is_full = if self.gathered.has_room(outcome.as_ref().bytes()) {
            self.record(outcome).await
        } else {
            self.waiting(Wait::Sink, self.record(outcome)).await
        };
        // Rows that end without I/O must not keep the others from theirs.
        tokio::task::consume_budget().await;
        is_full
    }

    /// Of an attempt that ends now. What we have waited for ourselves is no part of how long the server took.
    fn span(&self, started: Instant, state: &mut LaneState) -> Span {
        let excused = state.deadline.excused();
        for (wait, own) in [(Wait::Memory, OwnWait::Memory), (Wait::Decoder, OwnWait::Decoder)] {
            self.count_wait(wait, state.deadline.take_excused(own));
        }
        Span { started, elapsed: started.elapsed().saturating_sub(excused) }
    }

    fn count_wait(&self, wait: Wait, time: Duration) {
        if !time.is_zero() {
            self.stats().lanes.add_waited(wait, time);
        }
    }

    fn may_be_sent_again(&self, place: PlaceIndex, none: &NoReply) -> bool {
        self.lanes.look(place, |row| none.may_be_sent_again(self.method_of(row)))
    }

    fn exchange(&self, place: PlaceIndex, outgoing: Outgoing) -> Box<Exchange> {
        Box::new(Exchange::new(outgoing, self.asks_for_head(place), &self.means()))
    }

    fn means(&self) -> Means<'_> {
        self.client.means(&self.shared.limits, &self.allowance)
    }

    fn asks_for_head(&self, place: PlaceIndex) -> bool {
        self.lanes.look(place, |row| self.method_of(row) == Method::HEAD.as_str())
    }

    fn method_of<'a>(&'a self, row: &'a Row) -> &'a str {
        self.shared.methods.name(row)
    }

    /// What of a response arrived, and why its body did not.
    fn answered(&self, row: Row, span: Span, reply: Reply, remote_addr: Arc<str>) -> Outcome {
        let (body, failure) = match reply.body {
            Ok(body) => (Some(body), None),
            Err(failure) => (None, Some(failure)),
        };
        let answer = Answer {
            status: reply.head.status,
            version: reply.head.version,
            headers: reply.head.headers,
            memory: reply.memory,
            remote_addr,
            ttfb_us: reply.first_byte.saturating_duration_since(span.started).as_micros() as u64,
            body,
            body_bytes: reply.body_bytes,
        };
        Outcome {
            method: self.method_of(&row).into(),
            attempts: row.attempts_before() + 1,
            row,
            started_at_us: self.shared.clock.unix_us(span.started),
            elapsed_us: span.elapsed.as_micros() as u64,
            answer: Some(answer),
            failure,
        }
    }

    /// What became of a row without an answer; `span`: of its attempt, if there was one.
    pub(super) fn unanswered(&self, row: Row, span: Option<Span>, failure: Failure) -> Outcome {
        let started = span.map_or_else(Instant::now, |span| span.started);
        Outcome {
            method: self.method_of(&row).into(),
            attempts: row.attempts_before() + u16::from(span.is_some()),
            row,
            started_at_us: self.shared.clock.unix_us(started),
            elapsed_us: span.map_or(0, |span| span.elapsed.as_micros() as u64),
            answer: None,
            failure: Some(failure),
        }
    }

    /// A row has its outcome. Waits where there is no room for it. Whether a batch is full.
    pub(super) async fn record(&self, outcome: Outcome) -> bool {
        let failed = self.count(outcome.as_ref());
        if self.gathered.has_room(outcome.as_ref().bytes()) {
            return self.gathered.push_owned(outcome, failed);
        }
        self.sent(self.gathered.push_in_turn(outcome, failed).await);
        false
    }

    /// As [`Share::record`], where there is room; its memory is for the caller to see to.
    fn record_ref(&self, outcome: OutcomeRef<'_>) -> bool {
        let failed = self.count(outcome);
        self.gathered.push(outcome, failed)
    }

    /// Whether the row failed.
    fn count(&self, outcome: OutcomeRef<'_>) -> bool {
        let failed = self.schedule.borrow().ended(AttemptEnd::of(outcome)) == Verdict::Failed;
        self.stats().figures.record(outcome, failed);
        self.give_up_if_it_has_to(outcome, failed);
        failed
    }
}
