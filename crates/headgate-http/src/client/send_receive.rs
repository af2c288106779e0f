//! One exchange: a request is sent on the connection that the lane holds, over whichever version of HTTP, and its response
//! is read.
//!
//! Nearly all exchanges take the fast path: one write sends the request, and one read brings the whole response, which is
//! used where it lies. In between a lane keeps next to nothing, which is what makes ten thousand of them fast. Whatever turns
//! out otherwise becomes a [`Pending`] exchange.

use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use headgate_core::clock;
use headgate_core::error::Failure;
use headgate_core::schedule::hosts::Speaks;

use super::exchange::{Awaited, Expected, LaneReadiness, Pending, Read, ReceivedResponse, Translated};
use super::lane::LaneState;
use super::open_body::OpenBody;
use super::{Client, note_found_closed};
use crate::exchange_context::ExchangeContext;
use crate::h1::exchange::Exchange;
use crate::h1::head::header_buffer;
use crate::h1::read_reservation::{READ_BYTES, ReadReservation};
use crate::h1::response::{WantedBody, parse_whole};
use crate::h1::transfer::UnsentRequest;
use crate::h2::exchange::{Http2Error, StreamExchange};
use crate::keep_alive::Reuse;
use crate::pool::{Lease, Route};
use crate::reply::{NoReply, Replied};
use crate::response_timeouts::ResponseTimeouts;
use crate::site::Site;
use crate::upload::Upload;

impl Client {
    /// Gives the lane a usable connection to the site, or a stream on one, if there is one. `is_new`: [`Client::open`] has
    /// just made it, and it is not checked: a connection that the server closes at once would be replaced for ever.
    pub fn ready(
        &self,
        site: &Site,
        is_new: bool,
        is_idempotent: impl FnOnce() -> bool,
        lane: &mut LaneState,
        cx: &mut Context<'_>,
    ) -> LaneReadiness {
        if site.route.is_http2() {
            return if self.hold_stream(&site.route, lane) {
                LaneReadiness::Ready
            } else {
                LaneReadiness::NoConnection
            };
        }
        if !is_new {
            self.reuse(&site.route, lane, cx);
            if lane.held.is_some()
                && !is_idempotent()
                && let Reuse::From(proof) = lane.check_single_use(clock::now())
            {
                return LaneReadiness::Unproven(proof);
            }
        }
        if lane.held.is_some() { LaneReadiness::Ready } else { LaneReadiness::NoConnection }
    }

    /// Sends a request to the site for which the lane is [ready](Client::ready): `wire`, then `body`, then `upload`, which is
    /// taken. Returns `None` if it was sent whole, and [`Client::poll_response`] waits for the response.
    ///
    /// # Errors
    /// `invalid_request`: HTTP/2 has no such request.
    pub fn send<'a>(
        &self,
        site: &Rc<Site>,
        (wire, body, upload): (&[u8], Bytes, &mut Option<Box<Upload>>),
        timeouts: &ResponseTimeouts,
        expected: impl FnOnce() -> Expected<'a>,
        lane: &mut LaneState,
        cx: &mut Context<'_>,
    ) -> Result<Option<Pending>, Failure> {
        lane.on_network = lane.work_on_network();
        if site.route.is_http2() {
            let translated = self.translator.borrow_mut().translate(wire, site.route.key.origin.https);
            let (request, beginning) = translated.inspect_err(|_| lane.leave_stream())?;
            let body = if body.is_empty() { beginning } else { body };
            let (site, upload, saving) = (site.clone(), upload.take(), expected().saving);
            return Ok(Some(Pending::Http2(Box::new(Translated { site, request, body, upload, saving }))));
        }
        let sent = lane.held.as_mut().map(|lease| lease.connection().send(wire, body, upload.take(), cx));
        let outgoing = sent.unwrap_or_default();
        lane.expect_response(&outgoing, timeouts);
        Ok(if outgoing.is_done() { None } else { Some(Pending::Http1(expected().exchange(outgoing))) })
    }

    /// Waits for the response to a request that was sent whole. If one read brings all of it, `take` gets it, and the exchange
    /// ends with what `take` returns. `to_head`: whether the request's method is HEAD.
    ///
    /// # Errors
    /// The response needs more than one read, or `take` returned `None`: the exchange continues with [`Client::finish`].
    pub fn poll_response<'a, T>(
        &self,
        awaited: &Awaited<'_>,
        to_head: impl FnOnce() -> bool,
        expected: impl FnOnce() -> Expected<'a>,
        lane: &mut LaneState,
        take: impl FnOnce(Read<'_>, &LaneState) -> Option<T>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T, Pending>> {
        let &Awaited { limits, read_reservation, sent_now } = awaited;
        let bytes = match ready!(self.poll_read(read_reservation, sent_now, lane, cx)) {
            Ok(bytes) => bytes,
            Err(failure) => {
                let mut exchange = expected().exchange(UnsentRequest::done());
                exchange.fail(failure);
                return Poll::Ready(Err(Pending::Http1(exchange)));
            }
        };
        let at = clock::now();
        lane.deadline.excuse_stalls(at);
        let data = &self.scratch.read.borrow()[..bytes];
        let mut room = header_buffer();
        if limits.saver.is_none()
            && let Some(response) =
                parse_whole(data, &mut room, to_head(), WantedBody::of(limits, limits.max_body_size))
            && lane.deadline.excused().is_zero()
            && !lane.is_refused_by_proxy(response.head.status)
            && let Some(taken) = take(Read { response: &response, bytes, at }, lane)
        {
            lane.end_exchange(response.head.keep_alive, at);
            return Poll::Ready(Ok(taken));
        }
        let mut expected = expected();
        let arrived = at.checked_sub(lane.deadline.excused()).unwrap_or(at);
        let mut exchange = expected.exchange(UnsentRequest::done());
        exchange.take_in(data, &expected.context, arrived);
        Poll::Ready(Err(Pending::Http1(exchange)))
    }

    /// Reads what has arrived into the worker's memory, and returns the number of bytes; 0: the end of the connection.
    ///
    /// # Errors
    /// Nothing was read: the deadline has passed, there is no memory for what would be read, or the connection has failed, for
    /// the reason that is given.
    #[inline]
    fn poll_read(
        &self,
        read_reservation: &ReadReservation,
        sent_now: Option<Instant>,
        lane: &mut LaneState,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, Option<Failure>>> {
        let Some(lease) = &mut lane.held else { return Poll::Ready(Err(None)) };
        let connection = lease.connection();
        let read = if read_reservation.try_reserve(READ_BYTES) {
            connection.poll_read(&mut self.scratch.read.borrow_mut(), cx).map_err(Some)
        } else {
            connection.poll_readable(cx).map(|()| Err(None))
        };
        if read.is_pending() && lane.deadline.poll_passed_at(sent_now.unwrap_or_else(clock::now), cx) {
            return Poll::Ready(Err(None));
        }
        read
    }

    /// Completes an exchange: sends what is left of the request, reads the response, and decodes it.
    ///
    /// # Errors
    /// There was no response.
    ///
    /// Cancelling it closes the connection, or resets the stream.
    pub async fn finish(
        &self,
        pending: Pending,
        context: &ExchangeContext<'_>,
        lane: &mut LaneState,
    ) -> Result<ReceivedResponse, NoReply> {
        match pending {
            Pending::Http1(exchange) => self.finish_http1(*exchange, context, lane).await,
            Pending::Http2(translated) => self.finish_http2(*translated, context, lane).await,
        }
    }

    async fn finish_http1(
        &self,
        exchange: Exchange,
        context: &ExchangeContext<'_>,
        lane: &mut LaneState,
    ) -> Result<ReceivedResponse, NoReply> {
        let mut lease = lane.held.take().ok_or_else(NoReply::unsent)?;
        let finished = exchange.finish(lease.connection(), context, &mut lane.deadline).await;
        let replied = finished.map_err(|none| match lease.connection().verdict() {
            Some(failure) => NoReply { failure, unsent: false, silent: false },
            None => none,
        });
        if replied.as_ref().is_err_and(|none| none.silent) {
            note_found_closed(&lease);
        }
        let Replied { mut reply, open } = replied?;
        if reply.failure.is_some()
            && let Some(failure) = lease.connection().verdict()
        {
            reply.failure = Some(failure);
        }
        if let Some(refusal) = lease.connection().refusal(reply.head.status) {
            reply.failure = Some(refusal);
        }
        let remote_addr = lease.remote_addr().clone();
        let is_outside = lease.connection().remote.is_outside;
        if let Some(open) = open {
            let open = Some(OpenBody::of_http1(open, lease, &reply.head, context));
            return Ok(ReceivedResponse { reply, remote_addr, is_outside, open });
        }
        if reply.reusable {
            lane.take_back(lease);
        }
        Ok(ReceivedResponse { reply, remote_addr, is_outside, open: None })
    }

    async fn finish_http2(
        &self,
        translated: Translated,
        context: &ExchangeContext<'_>,
        lane: &mut LaneState,
    ) -> Result<ReceivedResponse, NoReply> {
        let stream = lane.stream.take().ok_or_else(NoReply::unsent)?;
        let Translated { site, request, body, upload, saving } = translated;
        let connection = stream.connection.clone();
        let replied = match StreamExchange::begin(&stream, request, body, upload, saving) {
            Ok(sending) => sending.finish(stream, context, &mut lane.deadline).await,
            Err(none) => Err(none),
        };
        match replied {
            Ok(Replied { reply, open }) => {
                let open = open.map(|open| OpenBody::of_http2(open, &reply.head, context));
                let remote_addr = connection.remote_addr.clone();
                Ok(ReceivedResponse { reply, remote_addr, is_outside: connection.remote.is_outside, open })
            }
            Err(Http2Error::WantsHttp1(failure)) => {
                site.route.record_version(Speaks::OnlyHttp1);
                Err(NoReply { failure, unsent: true, silent: false })
            }
            Err(Http2Error::NoReply(none)) => Err(none),
        }
    }

    /// Gives the lane a stream of this route that it may use, and returns whether there is one.
    fn hold_stream(&self, route: &Route, lane: &mut LaneState) -> bool {
        let held = lane.stream.take().filter(|stream| route.streams.has(stream));
        if held.is_none() {
            self.rest(lane);
        }
        let stream = held.or_else(|| route.streams.try_open());
        lane.stream = stream.filter(|stream| lane.may_use(stream.connection.remote));
        lane.stream.is_some()
    }

    /// Gives the lane an open connection of this route, or none.
    fn reuse(&self, route: &Rc<Route>, lane: &mut LaneState, cx: &mut Context<'_>) {
        if route.host.connections.are_wanted() && lane.held.as_ref().is_some_and(Lease::try_cede) {
            lane.held = None;
        }
        if lane.held.as_ref().is_none_or(|held| !Rc::ptr_eq(&held.route, route)) {
            self.rest(lane);
            lane.held = self.pool.borrow_mut().pop(route);
        }
        let from_outside = lane.from_outside;
        while let Some(lease) = &mut lane.held {
            let is_alive = lease.connection().is_alive(cx);
            if is_alive && (lease.connection().remote.takes_redirects || !from_outside) {
                return;
            }
            if !is_alive {
                note_found_closed(lease);
            }
            lane.held = self.pool.borrow_mut().pop(route);
        }
    }
}
