//! One attempt of a lane, from the row at its place to the outcome in a batch.
//!
//! Between the request and its answer a lane keeps its connection and when it started, and nothing else: all that comes
//! before is done in one poll, and so is all that comes after. Ten thousand lanes that wait are then as many looks into cold
//! memory as there have to be. What takes more than that goes [`Share::long_way`], which is boxed.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use http::Method;

use crate::engine::lanes::{PlaceIndex, Span};
use crate::engine::share::Share;
use crate::http::client::LaneState;
use crate::http::h1::exchange::{Exchange, Means, Reply};
use crate::http::h1::head::header_room;
use crate::http::h1::response::{WholeAnswer, whole};
use crate::http::h1::transfer::Outgoing;
use crate::http::request::Prepared;
use crate::model::error::Failure;
use crate::model::headers::HeadersRef;
use crate::model::outcome::{Answer, AnswerRef, Outcome, OutcomeRef};
use crate::model::row::Row;
use crate::schedule::{AttemptEnd, Verdict};
use crate::stats::lanes::Wait;

/// What goes the long way: an exchange as far as it came, or nothing if no request was sent.
type Detour = Option<Box<Exchange>>;

impl Share {
    /// Makes an attempt at the row at `place`, and records what becomes of it. The row stays there meanwhile, so that others can
    /// see what is in flight. Whether a batch is full.
    pub(super) async fn attempt(&self, place: PlaceIndex, started: Instant, state: &mut LaneState) -> bool {
        let begun = poll_fn(|cx| Poll::Ready(self.begin(place, started, state, cx))).await;
        let ended = match begun {
            Ok(()) => {
                let mut just_begun = true;
                poll_fn(|cx| self.poll_end(place, started, std::mem::take(&mut just_begun), state, cx)).await
            }
            Err(detour) => Err(detour),
        };
        match ended {
            Ok(is_full) => is_full,
            Err(detour) => Box::pin(self.long_way(place, started, state, detour)).await,
        }
    }

    /// Sends the request if a connection is there that takes all of it.
    fn begin(
        &self,
        place: PlaceIndex,
        started: Instant,
        state: &mut LaneState,
        cx: &mut Context<'_>,
    ) -> Result<(), Detour> {
        state.deadline.set(started + self.shared.limits.timeout);
        let mut wire = self.client.scratch.write.borrow_mut();
        let site = self.lanes.begin(place, started, |row| self.preparer.borrow_mut().write(row, &mut wire));
        // A row of which no request can be made says so on the long way.
        let Ok(Some(site)) = site else { return Err(None) };
        match self.client.send(&site.route, &wire, state, cx) {
            Some(outgoing) if outgoing.is_done() => Ok(()),
            Some(outgoing) => Err(Some(self.exchange(place, outgoing))),
            None => Err(None),
        }
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
                return Poll::Ready(Err(Some(exchange)));
            }
        };
        let ended = Instant::now();
        let data = &self.client.scratch.read.borrow()[..length];
        let mut room = header_room();
        let max_body_bytes = self.shared.limits.response.max_body_bytes;
        let answer = whole(data, &mut room, self.asks_for_head(place), max_body_bytes);
        // Where a batch waits for the sink, an outcome waits in its lane for the next one.
        let Some(answer) = answer.filter(|_| !self.gathered.is_full()) else {
            let mut exchange = self.exchange(place, Outgoing::done());
            exchange.take_in(data, &self.means(), ended);
            return Poll::Ready(Err(Some(exchange)));
        };
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
            attempts: 1,
            started_at_us: self.shared.clock.unix_us(started),
            elapsed_us,
            answer: Some(answer),
            failure: None,
        })
    }

    /// Does whatever it takes. Waits, too, where a batch is full that the outcome would come to.
    async fn long_way(&self, place: PlaceIndex, started: Instant, state: &mut LaneState, detour: Detour) -> bool {
        let asked = self.ask(place, state, detour).await;
        let (names, memory) = (state.take_waited_for_names(), state.deadline.take_excused());
        for (wait, time) in [(Wait::Names, names), (Wait::Memory, memory)] {
            if !time.is_zero() {
                self.stats().lanes.add_waited(wait, time);
            }
        }
        let row = self.lanes.take(place);
        // What we have waited for ourselves is no part of how long the server took.
        let span = Span { started, elapsed: started.elapsed().saturating_sub(memory) };
        let outcome = match asked {
            Err(failure) => self.unanswered(row, None, failure),
            Ok(Err(failure)) => self.unanswered(row, Some(span), failure),
            Ok(Ok((reply, remote_addr))) => self.answered(row, span, reply, remote_addr),
        };
        while self.gathered.is_full() {
            self.waiting(Wait::Sink, self.flush(true)).await;
        }
        let is_full = self.record(outcome);
        // Rows that end without I/O must not keep the others from theirs.
        tokio::task::consume_budget().await;
        is_full
    }

    /// The reply, or why there is none, or why nothing can be sent.
    async fn ask(
        &self,
        place: PlaceIndex,
        state: &mut LaneState,
        detour: Detour,
    ) -> Result<Result<(Reply, Arc<str>), Failure>, Failure> {
        let (means, limits) = (self.means(), &self.shared.limits);
        let again = detour.is_some();
        if let Some(exchange) = detour {
            match self.client.finish(*exchange, &means, state).await {
                Ok(reply) => return Ok(Ok(reply)),
                Err(none) if none.may_be_sent_again(&self.prepare(place)?.method) => {}
                Err(none) => return Ok(Err(none.failure)),
            }
        }
        let prepared = self.prepare(place)?;
        Ok(self.client.ask(&prepared, again, limits, &means, state).await)
    }

    fn prepare(&self, place: PlaceIndex) -> Result<Prepared, Failure> {
        self.lanes.look(place, |row| self.preparer.borrow_mut().prepare(row))
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
        let own = row.extra.as_ref().and_then(|extra| extra.method.as_deref());
        own.unwrap_or(&self.shared.method)
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
            remote_addr,
            ttfb_us: reply.first_byte.saturating_duration_since(span.started).as_micros() as u64,
            body,
            body_bytes: reply.body_bytes,
        };
        Outcome {
            method: self.method_of(&row).into(),
            row,
            attempts: 1,
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
            row,
            attempts: u16::from(span.is_some()),
            started_at_us: self.shared.clock.unix_us(started),
            elapsed_us: span.map_or(0, |span| span.elapsed.as_micros() as u64),
            answer: None,
            failure: Some(failure),
        }
    }

    /// A row has its outcome. Whether a batch is full.
    pub(super) fn record(&self, outcome: Outcome) -> bool {
        let is_full = self.record_ref(outcome.as_ref());
        if let Some(body) = outcome.answer.and_then(|answer| answer.body) {
            self.gathered.absorb(body.reservation);
        }
        is_full
    }

    /// As [`Share::record`]; its memory is for the caller to see to.
    fn record_ref(&self, outcome: OutcomeRef<'_>) -> bool {
        let failed = self.schedule.borrow().ended(AttemptEnd::of(outcome)) == Verdict::Failed;
        self.stats().figures.record(outcome, failed);
        self.gathered.push(outcome, failed)
    }
}
