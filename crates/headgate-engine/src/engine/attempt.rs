//! One attempt of a lane, from the row at its place to the outcome in a batch.
//!
//! Between the request and its answer a lane keeps its connection and when it started, and nothing else: all that comes
//! before is done in one poll, and so is all that comes after. Ten thousand lanes that wait are then as many looks into cold
//! memory as there have to be. What takes more than that is boxed.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::Method;
use tokio::time::sleep_until;

use crate::columns::select::NO_BODY;
use crate::engine::conclude::{Ended, Finished};
use crate::engine::lanes::PlaceIndex;
use crate::engine::scheduling::{RowNow, SendAt};
use crate::engine::share::Share;
use crate::http::client::{LaneState, Translated};
use crate::http::deadline::OwnWait;
use crate::http::exchange_context::ExchangeContext;
use crate::http::h1::exchange::Exchange;
use crate::http::h1::head::header_buffer;
use crate::http::h1::response::{WantedBody, WholeResponse, parse_whole};
use crate::http::h1::transfer::Outgoing;
use crate::http::keep_alive::Reuse;
use crate::http::method;
use crate::http::redirect::Redirects;
use crate::http::save::saving::Saving;
use crate::http::sent_body::{BodyRest, end_head};
use crate::http::site::Site;
use crate::http::upload::Upload;
use crate::model::error::{ErrorKind, Failure};
use crate::model::headers::HeadersRef;
use crate::model::row::{BodyPiece, Row};
use crate::schedule::retry::AttemptEnd;
use crate::stats::lanes::Wait;

/// What goes the long way. Each part of it is boxed by itself: ten thousand lanes that connect at once need no room for an
/// exchange.
enum Detour {
    /// There is no connection to this site.
    NoConnection(Rc<Site>),
    /// It takes more than one write or one read.
    Exchange(Box<Exchange>),
    /// It goes over the stream of HTTP/2 that the lane holds.
    Http2(Box<Translated>),
    /// Some of its body is in files that were not looked at yet.
    Files(Arc<[BodyPiece]>),
    /// No request can be made of the row.
    Invalid(Failure),
    /// A rate lets it be sent then.
    Held(SendAt),
    /// It can't be sent twice, and the connection has to prove until then that it stays open.
    Unproven(Instant),
}

impl Share {
    /// Makes an attempt at the row at `place`, and records what becomes of it. The row stays there meanwhile, so that others can
    /// see what is in flight. Whether a batch is full.
    pub(super) async fn attempt(&self, place: PlaceIndex, started: Instant, state: &mut LaneState) -> bool {
        let mut started = started;
        state.from_outside = self.is_from_outside(place);
        if let Some(failure) = self.refusal(place, state).await {
            return Box::pin(self.end_unanswered(place, started, None, failure)).await;
        }
        if self.shared.robots.is_some() {
            started = Instant::now();
        }
        self.set_deadline(place, started, state);
        let mut on_new_connection = false;
        let mut may_send = !self.shared.scheduler.counts_sends();
        // Of this sending of the request: the next one looks at its files again.
        let mut files = None;
        state.begin();
        loop {
            let begin = poll_fn(|cx| {
                Poll::Ready(self.begin(place, started, on_new_connection, may_send, (state, &mut files), cx))
            });
            let ended = match begin.await {
                Ok(()) => {
                    // Connecting takes its time, in which the timer may have fired.
                    let mut just_begun = !on_new_connection;
                    poll_fn(|cx| self.poll_end(place, started, std::mem::take(&mut just_begun), state, cx)).await
                }
                Err(detour) => Err(detour),
            };
            let finished = match ended {
                Ok(is_full) => return is_full,
                Err(Detour::NoConnection(site)) => Finished::Unsent(site),
                Err(Detour::Exchange(exchange)) => {
                    Box::pin(self.finish(place, started, state, exchange, on_new_connection)).await
                }
                Err(Detour::Http2(sent)) => Box::pin(self.finish_http2(place, started, state, sent)).await,
                Err(Detour::Invalid(failure)) => {
                    return Box::pin(self.end_unanswered(place, started, None, failure)).await;
                }
                Err(Detour::Files(pieces)) => {
                    match Box::pin(self.look_at_files(pieces, state)).await {
                        Ok(found) => files = Some(found),
                        Err(failure) => {
                            self.count_own_waits(state);
                            return Box::pin(self.end_unanswered(place, started, None, failure)).await;
                        }
                    }
                    if self.requeue_unsent(place) == RowNow::Requeued {
                        state.leave_stream();
                        return false;
                    }
                    continue;
                }
                Err(Detour::Unproven(until)) => {
                    Box::pin(sleep_until(until.into())).await;
                    if self.requeue_unsent(place) == RowNow::Requeued {
                        return false;
                    }
                    continue;
                }
                Err(Detour::Held(when)) => {
                    Box::pin(self.waiting(Wait::Turn, self.wait_to_send(when))).await;
                    may_send = true;
                    if self.requeue_unsent(place) == RowNow::Requeued {
                        state.leave_stream();
                        return false;
                    }
                    continue;
                }
            };
            let site = match finished {
                Finished::Recorded { is_full } => return is_full,
                Finished::Later => return false,
                Finished::Elsewhere => {
                    state.from_outside = self.is_from_outside(place);
                    if let Some(failure) = Box::pin(self.objection_on_the_way(place, state)).await {
                        let ended = Ended { span: self.span(started, state), remote_addr: None };
                        return Box::pin(self.end_unanswered(place, started, Some(ended), failure)).await;
                    }
                    on_new_connection = false;
                    may_send = !self.shared.scheduler.counts_sends();
                    state.begin();
                    continue;
                }
                Finished::Again(site) => {
                    may_send = !self.shared.scheduler.counts_sends();
                    if site.route.is_http2() {
                        continue;
                    }
                    site
                }
                Finished::Unsent(site) => site,
            };
            if let Err(failure) = Box::pin(self.open(&site, state)).await {
                let ended = Ended { span: self.span(started, state), remote_addr: None };
                return Box::pin(self.end_unanswered(place, started, Some(ended), failure)).await;
            }
            on_new_connection = true;
            if self.requeue_unsent(place) == RowNow::Requeued {
                state.leave_stream();
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
        (state, files): (&mut LaneState, &mut Option<Box<Upload>>),
        cx: &mut Context<'_>,
    ) -> Result<(), Detour> {
        let mut wire = self.client.scratch.write.borrow_mut();
        let (site, rest) = self.write(place, started, &mut wire).map_err(Detour::Invalid)?;
        let body = match rest {
            BodyRest::Bytes(body) => body,
            BodyRest::Files(pieces) => {
                let Some(found) = files else { return Err(Detour::Files(pieces)) };
                end_head(found.length(), &mut wire);
                Bytes::new()
            }
        };
        if site.route.is_http2() {
            return Err(self.begin_http2(place, may_send, (state, files), site, (&wire, body)));
        }
        if !on_new_connection {
            self.client.reuse(&site.route, state, cx);
            if state.is_connected()
                && !self.is_idempotent(place)
                && let Reuse::From(proof) = state.may_carry_once(Instant::now())
            {
                return Err(Detour::Unproven(proof));
            }
        }
        if !may_send
            && state.is_connected()
            && let Some(when) = self.reserve_send(place, Instant::now())
        {
            return Err(Detour::Held(when));
        }
        let sent = state.send(&wire, body, files, cx);
        if let Some(outgoing) = &sent {
            state.expect_answer(outgoing, &self.shared.limits.response.timeouts);
        }
        match sent {
            Some(outgoing) if outgoing.is_done() => Ok(()),
            Some(outgoing) => Err(Detour::Exchange(self.exchange(place, outgoing))),
            None => Err(Detour::NoConnection(site)),
        }
    }

    /// As [`Share::begin`], where the host speaks HTTP/2: what is to be done.
    fn begin_http2(
        &self,
        place: PlaceIndex,
        may_send: bool,
        (state, files): (&mut LaneState, &mut Option<Box<Upload>>),
        site: Rc<Site>,
        (wire, body): (&[u8], Bytes),
    ) -> Detour {
        if !self.client.hold_stream(&site.route, state) {
            return Detour::NoConnection(site);
        }
        if !may_send && let Some(when) = self.reserve_send(place, Instant::now()) {
            return Detour::Held(when);
        }
        match self.client.translate(wire, body, &site) {
            Ok(sent) => Detour::Http2(Box::new(Translated { files: files.take(), ..sent })),
            Err(failure) => Detour::Invalid(failure),
        }
    }

    /// Looks at the files of a body; that we wait for them is not the server's fault.
    async fn look_at_files(&self, pieces: Arc<[BodyPiece]>, state: &mut LaneState) -> Result<Box<Upload>, Failure> {
        let begun = Instant::now();
        let found = Upload::begin(pieces, self.shared.limits.response.memory.clone()).await;
        state.deadline.excuse(OwnWait::Files, begun.elapsed());
        found
    }

    pub(super) fn write(
        &self,
        place: PlaceIndex,
        started: Instant,
        wire: &mut Vec<u8>,
    ) -> Result<(Rc<Site>, BodyRest), Failure> {
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
        let length = match ready!(self.client.poll_read(state, &self.read_reservation, now, cx)) {
            Ok(length) => length,
            Err(failure) => {
                let mut exchange = self.exchange(place, Outgoing::done());
                exchange.fail(failure);
                return Poll::Ready(Err(Detour::Exchange(exchange)));
            }
        };
        let ended = Instant::now();
        state.deadline.excuse_stalls(ended);
        let data = &self.client.scratch.read.borrow()[..length];
        let mut room = header_buffer();
        let wanted = WantedBody::of(&self.shared.limits.response);
        let answer = parse_whole(data, &mut room, self.asks_for_head(place), wanted);
        let room_needed = length + self.lanes.look(place, Row::bytes);
        let selection = self.selection_at(place);
        // Where a batch waits for the sink, an outcome waits in its lane for the next one.
        let is_plain = |answer: &WholeResponse<'_>| {
            self.shared.limits.response.saver.is_none()
                && selection.as_ref().is_none_or(|selection| selection.takes_little(length))
                && self.gathered.has_room(room_needed)
                && state.deadline.excused().is_zero()
                && !state.is_refused_by_proxy(answer.head.status)
                && !self.may_lead_on(place, answer.head.status)
                && !self.is_streamed(place)
        };
        let selected = |answer: &WholeResponse<'_>| {
            let body = answer.body.ok_or(NO_BODY);
            self.select(
                selection.as_deref().map(|selection| &**selection),
                HeadersRef::Parsed(answer.head.headers),
                body,
                length,
            )
            .ok()
        };
        let answer = answer.filter(is_plain).and_then(|answer| Some((selected(&answer)?, answer)));
        let Some((selected, answer)) = answer else {
            let mut exchange = self.exchange(place, Outgoing::done());
            let came = ended.checked_sub(state.deadline.excused()).unwrap_or(ended);
            exchange.take_in(data, &self.exchange_context(place), came);
            return Poll::Ready(Err(Detour::Exchange(exchange)));
        };
        let head = &answer.head;
        let (mut selected, selected_bytes) = selected.unzip();
        if let (Some(selected), Some(selection)) = (&mut selected, &selection) {
            self.apply(selection, place, head.status, selected, ended);
        }
        let end = match selected.as_ref().and_then(|selected| selected.failure.as_ref()) {
            None => AttemptEnd::responded(head.status),
            Some(failure) => AttemptEnd::failed(Some(head.status), failure),
        };
        if let Some(route) = state.route() {
            self.note_response(route, ended);
        }
        let headers = Some(HeadersRef::Parsed(head.headers));
        if self.requeue_for_retry(place, started, end, headers, false, ended) == RowNow::Requeued {
            state.end_exchange(head.keep_alive, ended);
            return Poll::Ready(Ok(false));
        }
        let omitted = if self.shared.omits_bodies { answer.body.map_or(0, <[u8]>::len) } else { 0 };
        let row = self.lanes.take(place);
        let is_full = if row.reply_to().is_some() {
            let mut memory = self.shared.limits.response.memory.reservation();
            self.read_reservation.transfer(&mut memory, (length - omitted + selected_bytes.unwrap_or(0)) as u64);
            self.reply_answer(row, &answer, selected, (started, ended), state.connected_to(), memory);
            false
        } else {
            self.gathered.draw(&self.read_reservation, (length - omitted + selected_bytes.unwrap_or(0)) as u64);
            self.record_answer(&row, &answer, selected.as_ref(), (started, ended), state.remote_addr())
        };
        state.end_exchange(answer.head.keep_alive, ended);
        Poll::Ready(Ok(is_full))
    }

    async fn open(&self, site: &Site, state: &mut LaneState) -> Result<(), Failure> {
        let opened = self.client.open(site, &self.shared.limits, state).await;
        self.count_wait(Wait::Names, state.take_waited_for_names());
        self.count_wait(Wait::Stream, state.take_waited_for_stream());
        let connected = state.take_connected();
        self.count_wait(Wait::Connection, connected.time);
        self.stats().figures.connections += connected.connections;
        opened
    }

    pub(super) fn is_idempotent(&self, place: PlaceIndex) -> bool {
        self.lanes.look(place, |row| method::is_idempotent(self.method_now(row)))
    }

    fn exchange(&self, place: PlaceIndex, outgoing: Outgoing) -> Box<Exchange> {
        let mut exchange = Box::new(Exchange::new(outgoing, self.asks_for_head(place), &self.exchange_context(place)));
        exchange.save(self.saving(place));
        exchange
    }

    /// Where the body of its answer goes, if it is saved.
    pub(super) fn saving(&self, place: PlaceIndex) -> Option<Box<Saving>> {
        let saver = self.shared.limits.response.saver.as_ref()?;
        if self.asks_for_head(place) { None } else { self.lanes.look(place, |row| Saving::of(saver, row)) }
    }

    pub(super) fn exchange_context(&self, place: PlaceIndex) -> ExchangeContext<'_> {
        let streams = self.is_streamed(place);
        ExchangeContext {
            redirects: self.redirects(place),
            streams,
            ..self.client.exchange_context(&self.shared.limits, &self.read_reservation)
        }
    }

    /// Why its row is not asked at all, if it isn't.
    async fn refusal(&self, place: PlaceIndex, state: &mut LaneState) -> Option<Failure> {
        if self.lanes.look(place, Row::is_unwanted) {
            return Some(Failure::new(ErrorKind::Cancelled, "it was cancelled before it was sent"));
        }
        self.shared.robots.as_ref()?;
        Box::pin(self.objection(place, state)).await
    }

    /// Returns whether a server outside has redirected its row.
    pub(super) fn is_from_outside(&self, place: PlaceIndex) -> bool {
        self.lanes.look(place, |row| row.chain().is_some_and(|chain| chain.from_outside))
    }

    /// As they are followed for this row.
    pub(super) fn redirects(&self, place: PlaceIndex) -> Redirects {
        self.lanes.look(place, |row| self.shared.limits.response.redirects.of(row, self.method_now(row)))
    }

    /// Whether a response with this status may be a redirect that is followed.
    pub(super) fn may_lead_on(&self, place: PlaceIndex, status: u16) -> bool {
        self.lanes.look(place, |row| self.shared.limits.response.redirects.may_follow(row, status))
    }

    /// Whether its body is handed out as it comes.
    fn is_streamed(&self, place: PlaceIndex) -> bool {
        self.lanes.look(place, |row| row.stream().is_some())
    }

    fn asks_for_head(&self, place: PlaceIndex) -> bool {
        self.lanes.look(place, |row| self.method_now(row) == Method::HEAD.as_str())
    }

    pub(super) fn method_of<'a>(&'a self, row: &'a Row) -> &'a str {
        self.shared.methods.name(row)
    }

    /// The method that it is asked with now, which a redirect may have changed.
    pub(super) fn method_now<'a>(&'a self, row: &'a Row) -> &'a str {
        row.chain().and_then(|chain| chain.method.as_deref()).unwrap_or_else(|| self.method_of(row))
    }
}
