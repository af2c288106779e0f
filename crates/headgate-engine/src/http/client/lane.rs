//! What a lane keeps from request to request, and the short way of its exchanges.

use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::http::deadline::Deadline;
use crate::http::dial::forward::PROXY_AUTHENTICATION_REQUIRED;
use crate::http::dial::policy::{REDIRECTED_INSIDE, Remote, blocked};
use crate::http::h1::transfer::Outgoing;
use crate::http::h2::resends::Resends;
use crate::http::h2::streams::Stream;
use crate::http::keep_alive::May;
use crate::http::pool::{Lease, Route};
use crate::http::reply::NoReply;
use crate::http::response_timeouts::{Progress, ResponseTimeouts};
use crate::http::upload::Upload;
use crate::model::error::Failure;
use crate::model::message::OptionName;
use crate::model::stall::Stalls;

/// What a lane keeps from request to request.
#[derive(Debug)]
pub struct LaneState {
    pub deadline: Deadline,
    /// The connection of the last request: mostly the next one can use it, without a look into the pool.
    pub(super) held: Option<Lease>,
    /// Where the next request goes, if that is to HTTP/2.
    pub(super) stream: Option<Stream>,
    /// What has become of its request over HTTP/2 so far.
    pub(super) again: Resends,
    /// A server outside has redirected its request, which may not lead to an address that is not public.
    pub from_outside: bool,
    /// Its request was sent once more, as its connection had died in a stall.
    was_resent: bool,
    pub(super) waited_for_names: Duration,
    pub(super) waited_for_stream: Duration,
    /// Connections that were made for its requests, and how long that took.
    pub(super) connected: Connected,
}

/// Connections that were made, and how long that took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Connected {
    pub connections: u64,
    pub time: Duration,
}

impl LaneState {
    /// For a lane that begins. Needs the event loop, whose stalls these are.
    pub fn new(stalls: &Rc<Stalls>) -> Self {
        Self {
            deadline: Deadline::excusing(Instant::now(), stalls),
            held: None,
            stream: None,
            again: Resends::default(),
            from_outside: false,
            was_resent: false,
            waited_for_names: Duration::ZERO,
            waited_for_stream: Duration::ZERO,
            connected: Connected::default(),
        }
    }

    /// How long it has waited for names since it was asked last.
    pub fn take_waited_for_names(&mut self) -> Duration {
        std::mem::take(&mut self.waited_for_names)
    }

    /// How long it has waited for a stream since it was asked last.
    pub fn take_waited_for_stream(&mut self) -> Duration {
        std::mem::take(&mut self.waited_for_stream)
    }

    /// Returns what connections were made since the last call.
    pub fn take_connected(&mut self) -> Connected {
        std::mem::take(&mut self.connected)
    }

    /// Sends a request on the connection that it holds, if any: what is in `wire`, then `body`, and then `files`, which are
    /// taken. When it is sent whole, `Client::poll_read` tells of the answer.
    pub fn send(
        &mut self,
        wire: &[u8],
        body: Bytes,
        files: &mut Option<Box<Upload>>,
        cx: &mut Context<'_>,
    ) -> Option<Outgoing> {
        self.held.as_mut().map(|lease| lease.connection().send(wire, body, files.take(), cx))
    }

    /// A request was sent, or some of it: from now on its answer is waited for, as patiently as that.
    pub fn expect_answer(&mut self, outgoing: &Outgoing, timeouts: &ResponseTimeouts) {
        if timeouts.is_bounded() {
            let progress = if outgoing.is_done() { Progress::Waiting } else { Progress::Sending };
            self.deadline.expect(timeouts.limit(progress, Instant::now()));
        }
    }

    /// Where the connection leads that it holds.
    pub fn route(&self) -> Option<&Rc<Route>> {
        self.held.as_ref().map(|lease| &lease.route)
    }

    /// Has the connection again that a body came over, to its end.
    pub fn take_back(&mut self, mut lease: Lease) {
        lease.rests_since(Instant::now());
        self.held = Some(lease);
    }

    /// Another request begins.
    pub fn begin(&mut self) {
        self.again = Resends::default();
        self.was_resent = false;
    }

    /// Returns whether a request that was begun at `started` is sent again because its connection may have died in a stall: once.
    pub fn try_resend_after_stall(&mut self, started: Instant, now: Instant) -> bool {
        self.deadline.has_stalled_since(started, now) && !mem::replace(&mut self.was_resent, true)
    }

    /// Whether a request over HTTP/2 that ended so may be sent once more, if its method does not speak against it.
    pub fn may_be_sent_again(&mut self, none: &NoReply, route: &Route) -> bool {
        self.again.may_follow(none, &route.streams.turns)
    }

    /// Returns whether its request may be sent there.
    pub(super) fn may_use(&self, remote: Remote) -> bool {
        !self.from_outside || remote.takes_redirects
    }

    /// Holds this stream.
    ///
    /// # Errors
    /// `blocked_by_network_policy`: its request may not be sent there.
    pub(super) fn hold(&mut self, stream: Stream) -> Result<(), Failure> {
        if !self.may_use(stream.connection.remote) {
            return Err(blocked(REDIRECTED_INSIDE, &stream.connection.remote_addr, OptionName::AllowNet));
        }
        self.stream = Some(stream);
        Ok(())
    }

    /// Leaves a stream that it does not use after all to others.
    pub fn leave_stream(&mut self) {
        self.stream = None;
    }

    /// Whether it holds a connection to send on.
    pub fn is_connected(&self) -> bool {
        self.held.is_some()
    }

    /// Where the answer comes from that `Client::poll_read` has told of.
    pub fn remote_addr(&self) -> &str {
        self.held.as_ref().map_or("", |lease| lease.remote_addr())
    }

    /// Where the connection leads that it holds, or has a stream on.
    pub fn connected_to(&self) -> Option<Arc<str>> {
        let stream = self.stream.as_ref().map(|stream| &stream.connection.remote_addr);
        self.held.as_ref().map(Lease::remote_addr).or(stream).cloned()
    }

    /// Whether an answer with this status says that a proxy did not ask the host.
    pub fn is_refused_by_proxy(&mut self, status: u16) -> bool {
        status == PROXY_AUTHENTICATION_REQUIRED
            && self.held.as_mut().is_some_and(|lease| lease.connection().refusal(status).is_some())
    }

    /// That answer was whole, at this time; whether the connection can take another request.
    pub fn end_exchange(&mut self, reusable: bool, now: Instant) {
        match &mut self.held {
            Some(lease) if reusable => lease.rests_since(now),
            _ => self.held = None,
        }
    }

    /// Whether the connection that it holds may carry a request that can't be sent twice. If not, it holds none any more.
    pub fn may_carry_once(&mut self, now: Instant) -> May {
        let Some(lease) = &self.held else { return May::Yes };
        let may = lease.idle_since().map_or(May::Yes, |since| {
            // The end of the connection may not have been read yet, or was lost while the machine was suspended.
            if self.deadline.has_stalled_since(since, now) {
                May::No
            } else {
                lease.route.keeping.may_carry(since, now)
            }
        });
        if may == May::No {
            self.held = None;
        }
        may
    }
}
