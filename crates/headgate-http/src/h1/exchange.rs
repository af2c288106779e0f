//! One request and its response over one connection.
//!
//! The connection has no buffers. The lanes of a worker share two buffers, one for requests and one for responses, because
//! only one lane runs at a time. A lane copies what it needs of a response before the next lane runs. Measured beside
//! hyper's client on one core, 1,000 connections have 1.5 times the throughput, because their state stays in the cache, and
//! 10,000 connections take a tenth of the memory.
//!
//! Most requests are sent by one write, and most responses arrive in one read. Then only the connection is kept
//! (`client/send_receive.rs`). Any other request needs an [`Exchange`], which has the state between two reads.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use headgate_core::body_stream::BodyChunk;
use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::message::OptionName;

use crate::deadline::Deadline;
use crate::dial::connect::Connection;
use crate::exchange_context::ExchangeContext;
use crate::h1::read_reservation::READ_BYTES;
use crate::h1::response::ResponseReader;
use crate::h1::transfer::UnsentRequest;
use crate::incoming::{BodySource, Fill, IncomingBody, WantedBody, next_piece, receive};
use crate::reply::{NoReply, Replied, Reply};
use crate::response_timeouts::{ExchangePhase, Limit, ResponseTimeouts, caller_timed_out, timed_out};
use crate::save::saving::Saving;

/// The maximum time to wait for the rest of an unwanted body, so that the connection can be reused.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// An exchange that is not over.
#[derive(Debug)]
pub struct Exchange {
    outgoing: UnsentRequest,
    received: bool,
    reader: ResponseReader,
    first_byte: Option<Instant>,
    /// The failure that follows the received bytes.
    failure: Option<Failure>,
}

impl Exchange {
    /// Returns the exchange of a request that was sent as far as `outgoing` says. `to_head`: its method is HEAD; `saving` saves
    /// the body of a response whose body is to be saved.
    pub fn new(
        outgoing: UnsentRequest,
        to_head: bool,
        saving: Option<Box<Saving>>,
        context: &ExchangeContext<'_>,
    ) -> Self {
        let failure = outgoing.unsent();
        // A caller that takes a body while it comes bounds it.
        let wanted = WantedBody::of_exchange(context);
        let mut body = IncomingBody::new(wanted, context.limits.memory.reservation());
        body.saving = saving;
        let reader = ResponseReader::new(to_head, body, context.redirects.clone());
        Self { outgoing, received: false, reader, first_byte: None, failure }
    }

    /// Records why the connection failed, if it did.
    pub fn fail(&mut self, failure: Option<Failure>) {
        self.failure = failure;
    }

    /// Takes in what was read at that time, for which memory is reserved. No data: the connection has ended.
    pub(crate) fn take_in(&mut self, data: &[u8], context: &ExchangeContext<'_>, now: Instant) {
        let Self { reader, .. } = self;
        let read = if data.is_empty() { reader.finish() } else { reader.feed(data) };
        self.failure = read.err();
        self.received |= !data.is_empty();
        let held = reader.held_bytes() as u64;
        let is_done = reader.is_done();
        let body = &mut reader.body;
        let missing = held.saturating_sub(body.reservation.bytes());
        context.read_reservation.transfer(&mut body.reservation, missing);
        debug_assert!(body.reservation.bytes() >= held, "no memory was reserved for a read");
        if is_done {
            body.reservation.shrink_to(held);
        }
        if let (None, Some(head)) = (self.first_byte, &reader.head) {
            self.first_byte = Some(now);
            body.saving = body.saving.take().filter(|saving| saving.applies_to(head, context.limits));
        }
    }

    /// Goes on until the response is whole, and decodes it.
    ///
    /// # Errors
    /// There was no response: `timeout`, `connection_closed`, `protocol`, `tls`. Do not use the connection again after an error here, or
    /// after a reply that is not `reusable`.
    ///
    /// Cancelling it leaves the connection in the middle of an exchange: drop it.
    pub async fn finish(
        mut self,
        connection: &mut Connection,
        context: &ExchangeContext<'_>,
        deadline: &mut Deadline,
    ) -> Result<Replied<OpenExchange>, NoReply> {
        let mut source = Http1Body { exchange: &mut self, connection, stops_behind_head: context.streams };
        let failure = receive(&mut source, context, deadline).await.err();
        let failure = failure.or(source.exchange.failure.take());
        if failure.is_none() && source.exchange.reader.is_draining() {
            source.drain(context, deadline).await;
        }
        deadline.expect(None);
        let Some(head) = self.reader.head.take() else {
            let failure = failure.unwrap_or_else(|| Failure::new(ErrorKind::ConnectionClosed, "no response came"));
            let silent = !self.received && failure.kind == ErrorKind::ConnectionClosed;
            return Err(NoReply { failure, unsent: silent && !self.outgoing.has_begun(), silent });
        };
        // The headers keep what is reserved for them, whatever becomes of the body.
        let mut memory = context.limits.memory.reservation();
        let body = &mut self.reader.body;
        body.reservation.transfer(&mut memory, head.headers.bytes() as u64);
        let keep_alive = head.keep_alive;
        let mut reply = Reply::headed(head, memory, self.first_byte.unwrap_or_else(clock::now));
        if context.streams && failure.is_none() && body.wanted != WantedBody::Nothing {
            // It may be long until the caller takes what has come of the body.
            body.reservation.end_overdrawing();
            if body.bytes.is_empty() {
                body.bytes = Vec::new();
            }
            return Ok(Replied { reply, open: Some(OpenExchange { exchange: self, keep_alive }) });
        }
        body.reservation.shrink_to(body.bytes.capacity() as u64);
        reply.reusable = keep_alive && failure.is_none() && self.is_at_end();
        Ok(Replied { reply: self.reader.body.conclude(reply, failure, context, deadline).await, open: None })
    }

    /// Returns whether the request was sent and the response has come, and nothing else.
    fn is_at_end(&self) -> bool {
        self.reader.is_at_end() && self.outgoing.is_done()
    }

    /// Returns the memory that the next read takes at the most, with what there is.
    fn needed_bytes(&self) -> u64 {
        (self.reader.held_bytes() + READ_BYTES + self.reader.body.growth_bytes()) as u64
    }

    fn poll_outgoing(
        &mut self,
        connection: &mut Connection,
        timeouts: &ResponseTimeouts,
        deadline: &mut Deadline,
        cx: &mut Context<'_>,
    ) -> Result<(), Failure> {
        if self.outgoing.is_pending() {
            let has_moved = self.outgoing.poll(connection, cx);
            self.outgoing.excuse(deadline);
            if has_moved && !self.received && timeouts.is_bounded() {
                let progress = if self.outgoing.is_pending() { ExchangePhase::Sending } else { ExchangePhase::Waiting };
                deadline.expect(timeouts.limit(progress, clock::now()));
            }
        }
        self.outgoing.unsent().map_or(Ok(()), Err)
    }
}

/// An exchange with the connection that it goes over.
struct Http1Body<'a> {
    exchange: &'a mut Exchange,
    connection: &'a mut Connection,
    /// Its caller takes the body while it comes.
    stops_behind_head: bool,
}

impl BodySource for Http1Body<'_> {
    fn body(&mut self) -> &mut IncomingBody {
        &mut self.exchange.reader.body
    }

    fn held_bytes(&self) -> u64 {
        self.exchange.reader.held_bytes() as u64
    }

    fn is_done(&self) -> bool {
        let reader = &self.exchange.reader;
        reader.is_done() || reader.is_draining() || self.stops_behind_head && reader.has_wanted_body()
    }

    fn is_receiving(&self) -> bool {
        self.exchange.received
    }

    fn poll_fill(
        &mut self,
        context: &ExchangeContext<'_>,
        deadline: &mut Deadline,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Fill, Failure>> {
        let Self { exchange, connection, .. } = self;
        if let Some(failure) = exchange.failure.take() {
            return Poll::Ready(Err(failure));
        }
        exchange.poll_outgoing(connection, &context.limits.timeouts, deadline, cx)?;
        let needed = exchange.needed_bytes();
        let growth = needed - exchange.reader.held_bytes() as u64;
        let reserved = exchange.reader.body.reservation.bytes();
        let read = if needed <= reserved || context.read_reservation.try_reserve(growth as usize) {
            connection.poll_read(&mut context.scratch.read.borrow_mut(), cx).map_ok(Some)
        } else {
            connection.poll_readable(cx).map(|()| Ok(None))
        };
        if read.is_pending() {
            if !exchange.outgoing.is_reading() && deadline.poll_passed(cx) {
                return Poll::Ready(Err(self.timed_out(deadline)));
            }
            // Nothing is reserved for a server that takes its time.
            let held = exchange.reader.held_bytes() as u64;
            exchange.reader.body.reservation.shrink_to(held);
        }
        let Some(length) = ready!(read)? else { return Poll::Ready(Ok(Fill::NeedsMemory(needed - reserved))) };
        let now = clock::now();
        let came = now.checked_sub(deadline.excused()).unwrap_or(now);
        exchange.take_in(&context.scratch.read.borrow()[..length], context, came);
        Poll::Ready(Ok(Fill::Came))
    }

    fn timed_out(&self, deadline: &Deadline) -> Failure {
        let Exchange { outgoing, received, reader, .. } = &self.exchange;
        if outgoing.is_awaiting_caller() && reader.head.is_none() {
            return caller_timed_out(deadline.due().option);
        }
        timed_out(deadline.due().option, outgoing.is_pending() && !received, reader.head.is_some())
    }
}

impl Http1Body<'_> {
    /// Reads the rest of a body that is not wanted, so that the connection can take another request.
    async fn drain(&mut self, context: &ExchangeContext<'_>, deadline: &mut Deadline) {
        let at = clock::now() + DRAIN_TIME;
        while self.exchange.reader.is_draining() {
            deadline.expect(Some(Limit { at, option: OptionName::NoBody }));
            let is_late = deadline.has_passed(clock::now());
            match poll_fn(|cx| self.poll_fill(context, deadline, cx)).await {
                Ok(Fill::NeedsMemory(bytes)) if !is_late => self.body().reserve(bytes, deadline).await,
                Ok(Fill::Came) if !is_late && self.exchange.failure.is_none() => {}
                _ => self.exchange.reader.abandon(),
            }
        }
    }
}

/// An exchange behind the head of its response.
#[derive(Debug)]
pub struct OpenExchange {
    exchange: Exchange,
    keep_alive: bool,
}

impl OpenExchange {
    /// Returns the next piece of the body; see [`next_piece`].
    ///
    /// # Errors
    /// As [`Exchange::finish`], behind all that has come.
    pub async fn next(
        &mut self,
        connection: &mut Connection,
        context: &ExchangeContext<'_>,
        deadline: &mut Deadline,
    ) -> Result<Option<BodyChunk>, Failure> {
        let mut source = Http1Body { exchange: &mut self.exchange, connection, stops_behind_head: false };
        next_piece(&mut source, context, deadline).await
    }

    /// Returns whether the connection can take another request.
    pub(crate) fn is_reusable(&self) -> bool {
        self.keep_alive && self.exchange.failure.is_none() && self.exchange.is_at_end()
    }
}
