//! One HTTP/2 connection: how many requests it takes, whether it is alive, and when it is closed.
//!
//! Each connection has a task ([`Http2Driver`]) that moves frames between the socket and the streams. Requests are passed to it
//! through the crate `h2`; requests of the same turn of the event loop are sent with one write.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, SendStream};
use headgate_core::error::{ErrorKind, Failure};
use http::Request;

use crate::dial::connect::Connection;
use crate::dial::policy::Remote;
use crate::h1::head::MAX_HEAD_BYTES;
use crate::h2::errors;
use crate::h2::meter::{AwaitedStream, CloseReason, FrameMeter};
use crate::h2::metered::Metered;
use crate::open::OpenPermit;

/// The number of ticks without a read, while requests wait, after which a PING is sent.
const SILENT_TICKS: u32 = 10;
/// The most ticks until the reply to a PING: a server that was sent a hundred thousand requests at once may be slow.
const PING_TICKS: u32 = 30;
/// The most reset streams of which `h2` ignores late frames.
const MAX_RESET_STREAMS: usize = 128;
/// How long `h2` ignores late frames of a reset stream.
const RESET_STREAM_DURATION: Duration = Duration::from_secs(10);

/// The memory that unread DATA frames may take beyond their bytes, as a multiple of the windows. The crate `h2` counts a frame
/// as at least 256 bytes, so that one of 32 bytes takes seven times its own.
const SMALL_FRAMES: usize = 8;
/// The bound of this memory.
const MAX_FRAMING_BYTES: usize = 16 * 1024 * 1024;

/// The options of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http2Options {
    /// The most concurrent requests on the connection.
    pub max_streams: usize,
    /// The flow-control window of each stream.
    pub window_bytes: u32,
}

/// An HTTP/2 connection, as its requests and the pool use it.
#[derive(Debug)]
pub struct Http2Connection {
    /// `None`: the connection is closed.
    sender: RefCell<Option<SendRequest<Bytes>>>,
    meter: Rc<FrameMeter>,
    pub remote_addr: Arc<str>,
    pub remote: Remote,
    max_streams: usize,
    /// The most concurrent requests that the server allows.
    allowed_by_peer: Cell<usize>,
    streams: Cell<usize>,
    /// The number of successive ticks during which the connection was idle, or silent.
    ticks: Cell<u32>,
    ping: RefCell<Option<PingPong>>,
    /// Wakes the driver.
    waker: RefCell<Option<Waker>>,
    permit: RefCell<Option<OpenPermit>>,
    /// The connection is in [`Streams`](super::streams::Streams)' list of connections with free streams.
    pub(super) is_listed: Cell<bool>,
    has_responded: Cell<bool>,
    /// The number of reads when a request timed out after which nothing had come. The connection takes no requests until more
    /// comes.
    suspect_since: Cell<Option<u32>>,
    /// [`Streams`](super::streams::Streams) counts the connection among those whose SETTINGS have not come.
    awaits_settings: Cell<bool>,
}

/// Moves the bytes of a connection.
pub struct Http2Driver {
    h2: h2::client::Connection<Metered, Bytes>,
    connection: Rc<Http2Connection>,
}

/// A change that a driver reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DriverEvent {
    /// The number of concurrent requests that the connection takes has changed.
    LimitChanged,
    Closed,
}

impl Http2Connection {
    /// Starts HTTP/2 on a connection.
    ///
    /// # Errors
    /// `connection_closed`, `tls`: the connection has failed.
    pub async fn begin(
        connection: Connection,
        options: Http2Options,
        permit: OpenPermit,
    ) -> Result<(Rc<Self>, Http2Driver), Failure> {
        let (stream, meter) = Metered::new(connection.stream, options.max_streams, options.window_bytes);
        // The window of the connection is that of all streams together, so that no stream blocks another one.
        let all = u64::from(options.window_bytes) * options.max_streams as u64;
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(options.window_bytes)
            .initial_connection_window_size(u32::try_from(all).unwrap_or(u32::MAX).clamp(1 << 16, (1 << 31) - 1))
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            // The SETTINGS of the server come before there is a second stream.
            .initial_max_send_streams(1)
            .max_concurrent_reset_streams(MAX_RESET_STREAMS)
            .reset_stream_duration(RESET_STREAM_DURATION)
            // Frames for other reset streams are no error of the server, and `FrameMeter` bounds them.
            .max_local_error_reset_streams(None)
            .data_frame_budget((SMALL_FRAMES * all as usize).min(MAX_FRAMING_BYTES));
        let handshake = builder.handshake(stream).await;
        let (sender, mut h2) =
            handshake.map_err(|error| errors::failure(&error, meter.close_reason(), "without a response"))?;
        permit.set_idle(true);
        let http2 = Rc::new(Self {
            sender: RefCell::new(Some(sender)),
            meter,
            remote_addr: connection.remote_addr,
            remote: connection.remote,
            max_streams: options.max_streams,
            allowed_by_peer: Cell::new(usize::MAX),
            streams: Cell::new(0),
            ticks: Cell::new(0),
            ping: RefCell::new(h2.ping_pong()),
            waker: RefCell::new(None),
            permit: RefCell::new(Some(permit)),
            is_listed: Cell::new(false),
            has_responded: Cell::new(false),
            suspect_since: Cell::new(None),
            awaits_settings: Cell::new(true),
        });
        Ok((http2.clone(), Http2Driver { h2, connection: http2 }))
    }

    /// Returns how many concurrent requests the connection takes now.
    pub(super) fn stream_limit(&self) -> usize {
        if self.is_retired() || self.is_suspect() {
            0
        } else if self.meter.has_settings() {
            self.max_streams.min(self.allowed_by_peer.get())
        } else {
            1
        }
    }

    pub(super) fn has_free_stream(&self) -> bool {
        self.streams.get() < self.stream_limit()
    }

    /// Returns whether the SETTINGS of the server have come.
    pub(super) fn has_settings(&self) -> bool {
        self.meter.has_settings()
    }

    /// Returns whether the connection was counted among those whose SETTINGS have not come, and resets this.
    pub(super) fn take_awaits_settings(&self) -> bool {
        self.awaits_settings.take()
    }

    /// Returns whether the connection takes no more requests.
    pub(super) fn is_retired(&self) -> bool {
        self.meter.is_retired()
    }

    /// Returns how many reads brought bytes.
    pub(super) fn reads(&self) -> u32 {
        self.meter.reads()
    }

    /// Suspects that the connection is dead, after a request has timed out that was sent after `reads` reads. If nothing came
    /// since, the connection takes no requests, and a PING is sent.
    pub(super) fn suspect(&self, reads: u32) {
        if self.reads() == reads && !self.is_suspect() {
            self.suspect_since.set(Some(reads));
            self.send_ping();
        }
    }

    fn is_suspect(&self) -> bool {
        self.suspect_since.get() == Some(self.reads())
    }

    /// Returns whether bytes have come since the connection was suspected, and resets this.
    fn take_sign_of_life(&self) -> bool {
        !self.is_suspect() && self.suspect_since.take().is_some()
    }

    fn send_ping(&self) {
        if let Some(ping) = &mut *self.ping.borrow_mut() {
            // This fails if another PING is on its way, or if the connection has failed, which its driver detects.
            let _ = ping.send_ping(Ping::opaque());
        }
    }

    /// Counts one more request on the connection.
    pub(super) fn add_stream(&self) {
        self.streams.update(|streams| streams + 1);
        self.ticks.set(0);
        self.set_idle(false);
    }

    /// Counts one request less on the connection, and closes a retired connection after its last one.
    pub(super) fn remove_stream(&self) {
        self.streams.update(|streams| streams - 1);
        if self.streams.get() == 0 {
            self.ticks.set(0);
            self.set_idle(true);
            if self.is_retired() {
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
    /// The request was not sent, and the connection takes no others.
    pub(super) fn send(
        &self,
        request: Request<()>,
        is_whole: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>, AwaitedStream), Failure> {
        // A clone does not know of pending streams of other clones, and so is never refused for them.
        let sender = self.sender.borrow().clone();
        let Some(mut sender) = sender else {
            return Err(Failure::new(ErrorKind::ConnectionClosed, "the HTTP/2 connection is closed"));
        };
        let (response, body) = sender.send_request(request, is_whole).map_err(|error| {
            self.meter.retire();
            errors::failure(&error, self.meter.close_reason(), "without a response")
        })?;
        let awaited = self.meter.await_stream(response.stream_id().into());
        Ok((response, body, awaited))
    }

    pub(super) fn record_response(&self) {
        self.has_responded.set(true);
    }

    /// Returns whether a response has come on the connection.
    pub(super) fn has_responded(&self) -> bool {
        self.has_responded.get()
    }

    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        self.meter.close_reason()
    }

    /// Sends GOAWAY and closes the connection.
    pub fn close(&self) {
        self.meter.retire();
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

    /// Sends a PING to a silent server, closes the connection if it does not reply, and closes one that was idle for
    /// `max_idle_ticks`. The pool calls it once a second, so that connections need no timers.
    pub fn tick(&self, max_idle_ticks: u32) {
        let was_read = self.meter.take_was_read();
        if was_read && !self.is_idle() {
            self.ticks.set(0);
            return;
        }
        self.ticks.update(|ticks| ticks + 1);
        if self.is_idle() {
            let max_ticks = if self.is_suspect() { PING_TICKS.min(max_idle_ticks) } else { max_idle_ticks };
            if self.ticks.get() > max_ticks {
                self.close();
            }
        } else if self.ticks.get() == SILENT_TICKS {
            self.send_ping();
        } else if self.ticks.get() == SILENT_TICKS + PING_TICKS {
            let message = "the HTTP/2 connection is dead: the server has not acknowledged a PING in time";
            self.meter.set_close_reason(CloseReason::Failed(Failure::new(ErrorKind::Timeout, message)));
            self.close();
        }
    }
}

impl Http2Driver {
    pub(super) fn connection(&self) -> &Rc<Http2Connection> {
        &self.connection
    }

    /// Moves frames as far as possible, and returns what has changed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<DriverEvent> {
        let was_retired = self.connection.is_retired();
        let polled = Pin::new(&mut self.h2).poll(cx);
        let connection = &self.connection;
        match polled {
            Poll::Ready(result) => {
                if let Err(error) = result {
                    let failure = errors::failure(&error, None, "without a response");
                    connection.meter.set_close_reason(CloseReason::Failed(failure));
                }
                return Poll::Ready(DriverEvent::Closed);
            }
            // A closed connection does not wait to write what is left.
            Poll::Pending if connection.is_closed() => return Poll::Ready(DriverEvent::Closed),
            Poll::Pending => {}
        }
        let mut waker = connection.waker.borrow_mut();
        if waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        if connection.meter.take_new_settings() {
            connection.allowed_by_peer.set(self.h2.max_concurrent_send_streams());
            return Poll::Ready(DriverEvent::LimitChanged);
        }
        if was_retired == connection.is_retired() && !connection.take_sign_of_life() {
            Poll::Pending
        } else {
            Poll::Ready(DriverEvent::LimitChanged)
        }
    }
}

#[cfg(test)]
mod tests;
