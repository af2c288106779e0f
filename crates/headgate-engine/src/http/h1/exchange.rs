//! One request and its response over one connection.
//!
//! The connection has no buffers: a request is put together in, and a response read into, two pieces of memory that the
//! worker's lanes share, since only one of them is ever at it. What a response leaves behind is copied out before
//! the next lane has its turn. Measured beside hyper's client on one core, this makes 1,000 connections half as fast again,
//! because their state stays in the cache, and 10,000 of them take a tenth of the memory.
//!
//! Most requests are sent by one write, and most answers come in one read; then nothing of an exchange is kept but the
//! connection (`client/mod.rs`). An [`Exchange`] is for all others: it has what must be known from one read to the next.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::http::deadline::{Deadline, OwnWait};
use crate::http::decode::Decoder;
use crate::http::dial::connect::Connection;
use crate::http::h1::allowance::{Allowance, READ_BYTES};
use crate::http::h1::head::Head;
use crate::http::h1::response::{ResponseReader, Wanted};
use crate::http::h1::transfer::Outgoing;
use crate::http::patience::{Limit, Patience, Progress, timed_out};
use crate::http::received::{Kept, Received};
use crate::http::redirect::Redirects;
use crate::http::reply::{NoReply, Replied, Reply, ResponseLimits};
use crate::http::save::saving::{PIECE_BYTES, Saving};
use crate::model::body_stream::BodyPiece;
use crate::model::error::{ErrorKind, Failure};
use crate::model::memory::Reservation;
use crate::model::message::OptionName;
use crate::model::outcome::Body;

/// How long the rest of a body that nobody wants is waited for, rather than making a new connection.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// Memory that all lanes of a worker use in turn.
#[derive(Debug)]
pub struct Scratch {
    pub read: RefCell<Vec<u8>>,
    pub write: RefCell<Vec<u8>>,
    pub decoder: Decoder,
}

impl Scratch {
    pub fn new(decoder: Decoder) -> Self {
        Self { read: RefCell::new(vec![0; READ_BYTES]), write: RefCell::default(), decoder }
    }
}

/// What lanes of a worker exchange with, for one run.
#[derive(Debug, Clone)]
pub struct Means<'a> {
    pub scratch: &'a Scratch,
    pub limits: &'a ResponseLimits,
    /// As they are followed for the row that is asked: those of `limits` are the run's.
    pub redirects: Redirects,
    /// The body is handed out as it comes: the exchange stops behind the head.
    pub streams: bool,
    pub allowance: &'a Allowance,
}

/// An exchange that is not over.
#[derive(Debug)]
pub struct Exchange {
    outgoing: Outgoing,
    received: bool,
    reader: ResponseReader,
    /// For what `reader` holds.
    reservation: Reservation,
    first_byte: Option<Instant>,
    /// Where the body goes, if it is saved.
    saving: Option<Box<Saving>>,
    /// Why it can't go on.
    failure: Option<Failure>,
}

impl Exchange {
    /// Of a request that was sent so far.
    pub fn new(outgoing: Outgoing, to_head: bool, means: &Means<'_>) -> Self {
        let failure = outgoing.unsent();
        // Who takes a body while it comes bounds it.
        let wanted = if means.streams { Wanted::AtMost(u64::MAX) } else { Wanted::of(means.limits) };
        Self {
            outgoing,
            received: false,
            reader: ResponseReader::new(to_head, wanted, means.redirects.clone()),
            reservation: means.limits.memory.reservation(),
            first_byte: None,
            saving: None,
            failure,
        }
    }

    /// Has the body saved, if its answer is one whose body is.
    pub fn save(&mut self, saving: Option<Box<Saving>>) {
        self.saving = saving;
    }

    /// The connection failed for this reason, if for any.
    pub fn fail(&mut self, failure: Option<Failure>) {
        self.failure = failure;
    }

    /// Takes in what was read at that time, which was set aside. No data: the connection has ended.
    pub fn take_in(&mut self, data: &[u8], means: &Means<'_>, now: Instant) {
        let read = if data.is_empty() { self.reader.end() } else { self.reader.feed(data) };
        self.failure = read.err();
        self.received |= !data.is_empty();
        let held = self.reader.held_bytes() as u64;
        let missing = held.saturating_sub(self.reservation.bytes());
        means.allowance.give(&mut self.reservation, missing);
        debug_assert!(self.reservation.bytes() >= held, "a read was not set aside");
        if self.reader.is_done() {
            self.reservation.shrink_to(held);
        }
        if self.first_byte.is_none() && self.reader.head.is_some() {
            self.first_byte = Some(now);
        }
    }

    /// Goes on until the response is whole, and decodes it.
    ///
    /// # Errors
    /// There was no response: `timeout`, `closed`, `protocol`, `tls`. Do not use the connection again after an error here, or
    /// after a reply that is not `reusable`.
    ///
    /// Cancelling it leaves the connection in the middle of an exchange: drop it.
    pub async fn finish(
        mut self,
        connection: &mut Connection,
        means: &Means<'_>,
        deadline: &mut Deadline,
    ) -> Result<Replied<OpenExchange>, NoReply> {
        self.read(connection, means, deadline).await;
        deadline.expect(None);
        if means.streams
            && self.failure.is_none()
            && self.reader.has_wanted_body()
            && let Some(head) = self.reader.head.take()
        {
            return Ok(self.open(head, means));
        }
        let Exchange { outgoing, received, reader, mut reservation, first_byte, saving, failure } = self;
        let reusable = failure.is_none() && reader.is_at_end() && outgoing.is_done();
        let body_bytes = reader.came();
        let ResponseReader { head, body: bytes, cut, .. } = reader;
        let Some(head) = head else {
            let failure = failure.unwrap_or_else(|| Failure::new(ErrorKind::Closed, "no answer came"));
            let silent = !received && failure.kind == ErrorKind::Closed;
            return Err(NoReply { failure, unsent: silent && !outgoing.has_begun(), silent });
        };
        // Who has the head has what was set aside for it, whatever becomes of the body.
        let mut memory = means.limits.memory.reservation();
        reservation.give(&mut memory, head.headers.bytes() as u64);
        reservation.shrink_to(bytes.capacity() as u64);
        let reusable = reusable && head.keep_alive;
        let first_byte = first_byte.unwrap_or_else(Instant::now);
        let received = Received { body: Body { bytes, reservation }, cut, failure };
        let kept = match saving.filter(|saving| saving.takes(&head, means.limits)) {
            Some(saving) => Box::pin(saving.end(received, &head, means.limits, deadline)).await,
            None => received.kept(&head, &means.redirects, means.limits, &means.scratch.decoder, deadline).await,
        };
        let Kept { body, body_encoding, truncated, saved, failure } = kept;
        let reply =
            Reply { head, memory, first_byte, body, body_encoding, truncated, body_bytes, saved, failure, reusable };
        Ok(Replied { reply, open: None })
    }

    /// The reply as far as its head, with the rest of the exchange.
    fn open(mut self, head: Head, means: &Means<'_>) -> Replied<OpenExchange> {
        let mut memory = means.limits.memory.reservation();
        self.reservation.give(&mut memory, head.headers.bytes() as u64);
        // It may be long until somebody takes what has come of the body.
        self.reservation.end_overdrawing();
        if self.reader.body.is_empty() {
            self.reader.body = Vec::new();
        }
        let first_byte = self.first_byte.unwrap_or_else(Instant::now);
        let keep_alive = head.keep_alive;
        let open = Some(OpenExchange { exchange: self, keep_alive });
        Replied { reply: Reply::headed(head, memory, first_byte), open }
    }

    /// Reads until the response is whole, or can't be.
    async fn read(&mut self, connection: &mut Connection, means: &Means<'_>, deadline: &mut Deadline) {
        let patience = &means.limits.patience;
        let mut drains_by = None;
        if self.received && patience.is_bounded() {
            deadline.expect(patience.limit(Progress::Receiving, Instant::now()));
        }
        while self.failure.is_none() && !self.reader.is_done() && !(means.streams && self.reader.has_wanted_body()) {
            let drains = self.reader.is_draining();
            if drains {
                let at = *drains_by.get_or_insert_with(|| Instant::now() + DRAIN_TIME);
                deadline.expect(Some(Limit { at, option: OptionName::NoBody }));
            }
            // While bytes keep coming, nothing waits, and nothing but this looks at the clock.
            if self.received && deadline.has_passed(Instant::now()) {
                self.failure = Some(self.timed_out(deadline));
            } else {
                match poll_fn(|cx| self.poll_fill(connection, means, deadline, cx)).await {
                    Ok(Some(length)) => {
                        let mut now = Instant::now();
                        let came = now.checked_sub(deadline.excused()).unwrap_or(now);
                        self.take_in(&means.scratch.read.borrow()[..length], means, came);
                        if self.saving.is_some() && self.reader.body.len() >= PIECE_BYTES {
                            Box::pin(self.hand_over(means, deadline)).await;
                            now = Instant::now();
                        }
                        deadline.expect(patience.limit(Progress::Receiving, now));
                    }
                    Ok(None) => self.set_aside(deadline).await,
                    Err(failure) => self.failure = Some(failure),
                }
            }
            // What is wanted has come.
            if drains && self.failure.take().is_some() {
                self.reader.leave_off();
            }
        }
    }

    /// Has written what came of a body that is saved.
    async fn hand_over(&mut self, means: &Means<'_>, deadline: &mut Deadline) {
        let (Some(saving), Some(head)) = (&mut self.saving, &self.reader.head) else { return };
        if !saving.takes(head, means.limits) {
            return;
        }
        saving.hand_over(&mut self.reader.body, deadline).await;
        self.reader.handed_over = saving.handed_over();
        if saving.has_failed() {
            self.failure = Some(Failure::new(ErrorKind::Closed, "the body can't be written"));
        }
    }

    /// What the next read takes at the most, with what there is.
    fn needed_bytes(&self) -> u64 {
        (self.reader.held_bytes() + READ_BYTES + self.reader.growth_bytes()) as u64
    }

    /// Sets aside what the next read may bring. Where there is no memory for it, the server waits, too.
    async fn set_aside(&mut self, deadline: &mut Deadline) {
        let missing = self.needed_bytes().saturating_sub(self.reservation.bytes());
        if !self.reservation.try_grow(missing) {
            let since = Instant::now();
            self.reservation.grow(missing).await;
            // That the memory was full is not the server's fault.
            deadline.excuse(OwnWait::Memory, since.elapsed());
        }
    }

    fn poll_outgoing(
        &mut self,
        connection: &mut Connection,
        patience: &Patience,
        deadline: &mut Deadline,
        cx: &mut Context<'_>,
    ) -> Result<(), Failure> {
        if self.outgoing.is_pending() {
            let has_moved = self.outgoing.poll(connection, cx);
            self.outgoing.excuse(deadline);
            if has_moved && !self.received && patience.is_bounded() {
                let progress = if self.outgoing.is_pending() { Progress::Sending } else { Progress::Waiting };
                deadline.expect(patience.limit(progress, Instant::now()));
            }
        }
        self.outgoing.unsent().map_or(Ok(()), Err)
    }

    fn timed_out(&self, deadline: &Deadline) -> Failure {
        let is_sending = self.outgoing.is_pending() && !self.received;
        timed_out(deadline.due().option, is_sending, self.reader.head.is_some())
    }

    /// One read: how many bytes, 0 at the end of the connection; `None`: there is something, and nothing is set aside for it.
    /// That is asked at each poll, since others may have taken meanwhile what there was.
    fn poll_fill(
        &mut self,
        connection: &mut Connection,
        means: &Means<'_>,
        deadline: &mut Deadline,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<usize>, Failure>> {
        self.poll_outgoing(connection, &means.limits.patience, deadline, cx)?;
        let needed = self.needed_bytes();
        let growth = needed - self.reader.held_bytes() as u64;
        let read = if needed <= self.reservation.bytes() || means.allowance.covers(growth as usize) {
            connection.poll_read(&mut means.scratch.read.borrow_mut(), cx).map_ok(Some)
        } else {
            connection.poll_readable(cx).map(|()| Ok(None))
        };
        if read.is_pending() {
            if !self.outgoing.is_reading() && deadline.poll_passed(cx) {
                return Poll::Ready(Err(self.timed_out(deadline)));
            }
            // Nothing is set aside for a server that takes its time.
            self.reservation.shrink_to(self.reader.held_bytes() as u64);
        }
        read
    }
}

/// An exchange behind the head of its response.
#[derive(Debug)]
pub struct OpenExchange {
    exchange: Exchange,
    keep_alive: bool,
}

impl OpenExchange {
    /// Waits for more of the body; `None`: it is whole.
    ///
    /// # Errors
    /// As [`Exchange::finish`], behind all that has come.
    ///
    /// Cancelling it loses nothing.
    pub async fn next(
        &mut self,
        connection: &mut Connection,
        means: &Means<'_>,
        deadline: &mut Deadline,
    ) -> Result<Option<BodyPiece>, Failure> {
        let Self { exchange, .. } = self;
        loop {
            if !exchange.reader.body.is_empty() {
                let bytes = exchange.reader.take_body();
                let mut reservation = means.limits.memory.reservation();
                exchange.reservation.give(&mut reservation, bytes.capacity() as u64);
                // What others may wait for is not kept from piece to piece.
                exchange.reservation.shrink_to(exchange.reader.held_bytes() as u64);
                exchange.reservation.settle();
                return Ok(Some(BodyPiece { bytes, reservation }));
            }
            if let Some(failure) = exchange.failure.take() {
                return Err(failure);
            }
            if exchange.reader.is_done() {
                return Ok(None);
            }
            if let Some(length) = poll_fn(|cx| exchange.poll_fill(connection, means, deadline, cx)).await? {
                exchange.take_in(&means.scratch.read.borrow()[..length], means, Instant::now());
            } else {
                exchange.set_aside(deadline).await;
                // While nothing comes, others may overdraw.
                exchange.reservation.settle();
            }
        }
    }

    /// Whether the connection can take another request.
    pub fn is_reusable(&self) -> bool {
        let Self { exchange, keep_alive } = self;
        *keep_alive && exchange.failure.is_none() && exchange.reader.is_at_end() && exchange.outgoing.is_done()
    }
}
