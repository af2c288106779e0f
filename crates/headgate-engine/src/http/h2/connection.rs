//! One connection that speaks HTTP/2: who may use it, whether it is alive, and when it is closed.
//!
//! A task of its own drives it ([`Driver`]): it moves frames between the socket and the streams. Requests are handed to it
//! through the crate `h2`, and several of them that come in the same turn of the event loop go out in one write.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, SendStream};
use http::Request;

use crate::http::dial::connect::Connection as Dialled;
use crate::http::dial::policy::Remote;
use crate::http::h1::head::MAX_HEAD_BYTES;
use crate::http::h2::errors;
use crate::http::h2::meter::{Awaited, End, FrameMeter};
use crate::http::h2::metered::Metered;
use crate::http::open::OpenPermit;
use crate::model::error::{ErrorKind, Failure};

/// How long nothing may come while requests wait, before the server is asked whether it is there.
const SILENT_TICKS: u32 = 10;
/// How long it may take to say so: one that was given a hundred thousand requests at once has other things to do.
const PING_TICKS: u32 = 30;
/// Streams that we gave up and whose late frames are still known for what they are.
const MAX_GIVEN_UP: usize = 128;
/// How long they are.
const GIVEN_UP_FOR: Duration = Duration::from_secs(10);

/// What the pieces of bodies may take beyond their bytes, while nobody has taken them: so many times what the server may send.
/// The crate `h2` reckons a piece as 256 bytes at the least, so that one of 32 bytes takes seven times its own.
const SMALL_FRAMES: usize = 8;
/// The most that this may be.
const MAX_FRAMING_BYTES: usize = 16 * 1024 * 1024;

/// What a connection is opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Requests on it at once, at the most.
    pub max_streams: usize,
    /// What a server may send for each of them before we have taken it.
    pub window_bytes: u32,
}

/// What those who use a connection know of it.
#[derive(Debug)]
pub struct Connection {
    /// `None`: it is closed.
    sender: RefCell<Option<SendRequest<Bytes>>>,
    meter: Rc<FrameMeter>,
    pub remote_addr: Arc<str>,
    pub remote: Remote,
    max_streams: usize,
    /// Requests that the server allows at once.
    allowed_by_peer: Cell<usize>,
    streams: Cell<usize>,
    /// How often [`Connection::tick`] found it idle, or silent, in a row.
    ticks: Cell<u32>,
    ping: RefCell<Option<PingPong>>,
    /// Wakes the driver.
    waker: RefCell<Option<Waker>>,
    permit: RefCell<Option<OpenPermit>>,
    /// Whether it is among those that are known to have room.
    pub(super) is_listed: Cell<bool>,
    has_answered: Cell<bool>,
    /// How often something had come when a request timed out that nothing came after: it takes no others until something does.
    doubted_at: Cell<Option<u32>>,
    /// It counts as one of which is not known yet how many requests it takes.
    is_unsettled: Cell<bool>,
}

/// Moves the bytes of a connection.
pub struct Driver {
    h2: h2::client::Connection<Metered, Bytes>,
    connection: Rc<Connection>,
}

/// What a driver tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The server allows another number of requests at once, or none any more.
    Room,
    Ended,
}

impl Connection {
    /// Begins to speak HTTP/2.
    ///
    /// # Errors
    /// `closed`, `tls`: the connection has failed.
    pub async fn begin(dialled: Dialled, terms: Terms, permit: OpenPermit) -> Result<(Rc<Self>, Driver), Failure> {
        let (stream, meter) = Metered::new(dialled.stream, terms.max_streams, terms.window_bytes);
        // All streams together can't have more to come than each by itself: none keeps the others waiting.
        let all = u64::from(terms.window_bytes) * terms.max_streams as u64;
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(terms.window_bytes)
            .initial_connection_window_size(u32::try_from(all).unwrap_or(u32::MAX).clamp(1 << 16, (1 << 31) - 1))
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            // What the server allows is known before there is a second stream.
            .initial_max_send_streams(1)
            .max_concurrent_reset_streams(MAX_GIVEN_UP)
            .reset_stream_duration(GIVEN_UP_FOR)
            // What comes for others that we gave up is no error of the server, and `FrameMeter` bounds it.
            .max_local_error_reset_streams(None)
            .data_frame_budget((SMALL_FRAMES * all as usize).min(MAX_FRAMING_BYTES));
        let begun = builder.handshake(stream).await;
        let (sender, mut h2) = begun.map_err(|error| errors::failure(&error, meter.end(), "without an answer"))?;
        permit.set_idle(true);
        let connection = Rc::new(Self {
            sender: RefCell::new(Some(sender)),
            meter,
            remote_addr: dialled.remote_addr,
            remote: dialled.remote,
            max_streams: terms.max_streams,
            allowed_by_peer: Cell::new(usize::MAX),
            streams: Cell::new(0),
            ticks: Cell::new(0),
            ping: RefCell::new(h2.ping_pong()),
            waker: RefCell::new(None),
            permit: RefCell::new(Some(permit)),
            is_listed: Cell::new(false),
            has_answered: Cell::new(false),
            doubted_at: Cell::new(None),
            is_unsettled: Cell::new(true),
        });
        Ok((connection.clone(), Driver { h2, connection }))
    }

    /// Requests that may be on it at once now.
    pub(super) fn allowed(&self) -> usize {
        if self.is_leaving() || self.is_doubted() {
            0
        } else if self.meter.is_settled() {
            self.max_streams.min(self.allowed_by_peer.get())
        } else {
            1
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.streams.get() < self.allowed()
    }

    /// Whether the server has told how many requests it allows.
    pub(super) fn is_settled(&self) -> bool {
        self.meter.is_settled()
    }

    /// Whether it counted as unsettled; it does no more.
    pub(super) fn take_unsettled(&self) -> bool {
        self.is_unsettled.take()
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.meter.is_leaving()
    }

    /// How often something came.
    pub(super) fn heard(&self) -> u32 {
        self.meter.reads()
    }

    /// A request has timed out that was sent when so much had come. If nothing came since, the server is asked whether it is
    /// there.
    pub(super) fn doubt(&self, heard: u32) {
        if self.heard() == heard && !self.is_doubted() {
            self.doubted_at.set(Some(heard));
            self.send_ping();
        }
    }

    fn is_doubted(&self) -> bool {
        self.doubted_at.get() == Some(self.heard())
    }

    /// Whether something has come since it was doubted. If so, it is no more.
    fn take_sign_of_life(&self) -> bool {
        !self.is_doubted() && self.doubted_at.take().is_some()
    }

    fn send_ping(&self) {
        if let Some(ping) = &mut *self.ping.borrow_mut() {
            // One may be on its way; and if the connection has failed, its driver finds that out.
            let _ = ping.send_ping(Ping::opaque());
        }
    }

    /// One more request is to go this way.
    pub(super) fn take(&self) {
        self.streams.update(|streams| streams + 1);
        self.ticks.set(0);
        self.set_idle(false);
    }

    /// One less.
    pub(super) fn give_back(&self) {
        self.streams.update(|streams| streams - 1);
        if self.streams.get() == 0 {
            self.ticks.set(0);
            self.set_idle(true);
            if self.is_leaving() {
                self.close();
            }
        }
    }

    fn set_idle(&self, idle: bool) {
        if let Some(permit) = &*self.permit.borrow() {
            permit.set_idle(idle);
        }
    }

    pub fn is_idle(&self) -> bool {
        self.streams.get() == 0
    }

    /// Sends the head of a request.
    ///
    /// # Errors
    /// It was not sent, and no other will be.
    pub(super) fn send(
        &self,
        request: Request<()>,
        is_whole: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>, Awaited), Failure> {
        // A clone knows nothing of streams of others that wait for their turn, and so is never refused for them.
        let sender = self.sender.borrow().clone();
        let Some(mut sender) = sender else {
            return Err(Failure::new(ErrorKind::Closed, "the HTTP/2 connection has gone"));
        };
        let (response, body) = sender.send_request(request, is_whole).map_err(|error| {
            self.meter.leave();
            errors::failure(&error, self.meter.end(), "without an answer")
        })?;
        let awaited = self.meter.await_stream(response.stream_id().into());
        Ok((response, body, awaited))
    }

    pub(super) fn answered(&self) {
        self.has_answered.set(true);
    }

    /// Whether it has carried an answer.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.get()
    }

    pub(super) fn end(&self) -> Option<End> {
        self.meter.end()
    }

    /// Tells the server that we go, and goes.
    pub fn close(&self) {
        self.meter.leave();
        self.permit.take();
        self.ping.take();
        self.sender.take();
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub fn is_closed(&self) -> bool {
        self.sender.borrow().is_none()
    }

    /// To be called once a second, so that nothing of it has a timer of its own: asks a silent server whether it is there,
    /// and gives up one that does not say. Closes what was idle for `max_idle_ticks`.
    pub fn tick(&self, max_idle_ticks: u32) {
        let heard = self.meter.take_heard();
        if heard && !self.is_idle() {
            self.ticks.set(0);
            return;
        }
        self.ticks.update(|ticks| ticks + 1);
        if self.is_idle() {
            let max_ticks = if self.is_doubted() { PING_TICKS.min(max_idle_ticks) } else { max_idle_ticks };
            if self.ticks.get() > max_ticks {
                self.close();
            }
        } else if self.ticks.get() == SILENT_TICKS {
            self.send_ping();
        } else if self.ticks.get() == SILENT_TICKS + PING_TICKS {
            let message = "the HTTP/2 connection is dead: the server has not answered a PING in time";
            self.meter.set_end(End::Failed(Failure::new(ErrorKind::Timeout, message)));
            self.close();
        }
    }
}

impl Driver {
    pub(super) fn connection(&self) -> &Rc<Connection> {
        &self.connection
    }

    /// Moves what can be moved, and tells what has changed by it.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let was_leaving = self.connection.is_leaving();
        let polled = Pin::new(&mut self.h2).poll(cx);
        let connection = &self.connection;
        match polled {
            Poll::Ready(ended) => {
                if let Err(error) = ended {
                    connection.meter.set_end(End::Failed(errors::failure(&error, None, "without an answer")));
                }
                return Poll::Ready(Event::Ended);
            }
            // What can't be written at once is not waited for.
            Poll::Pending if connection.is_closed() => return Poll::Ready(Event::Ended),
            Poll::Pending => {}
        }
        let mut waker = connection.waker.borrow_mut();
        if waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        if connection.meter.take_settings() {
            connection.allowed_by_peer.set(self.h2.max_concurrent_send_streams());
            return Poll::Ready(Event::Room);
        }
        if was_leaving == connection.is_leaving() && !connection.take_sign_of_life() {
            Poll::Pending
        } else {
            Poll::Ready(Event::Room)
        }
    }
}

#[cfg(test)]
mod tests;
