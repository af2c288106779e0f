//! What a lane keeps from request to request.

use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::error::Failure;
use headgate_core::message::OptionName;
use headgate_core::stall::Stalls;
use headgate_core::virtual_clock::Working;

use crate::deadline::Deadline;
use crate::dial::forward::PROXY_AUTHENTICATION_REQUIRED;
use crate::dial::policy::{REDIRECTED_INSIDE, Remote, blocked};
use crate::dial::stream::Stream;
use crate::h1::transfer::UnsentRequest;
use crate::h2::resends::Resends;
use crate::h2::streams::StreamPermit;
use crate::keep_alive::Reuse;
use crate::pool::{Lease, Route};
use crate::reply::NoReply;
use crate::response_timeouts::{ExchangePhase, ResponseTimeouts};

/// The state that a lane keeps from request to request.
#[derive(Debug)]
pub struct LaneState {
    pub deadline: Deadline,
    /// The connection of the last request: mostly the next one uses it, without a look into the pool.
    pub(super) held: Option<Lease>,
    /// The stream for the next request, if that goes over HTTP/2.
    pub(super) stream: Option<StreamPermit>,
    /// How often its request was sent over HTTP/2 so far.
    pub(super) resends: Resends,
    /// A server outside has redirected its request, which may not lead to an address that is not public.
    pub from_outside: bool,
    /// Its request was sent once more, as its connection had died in a stall.
    was_resent: bool,
    pub(super) waited_for_dns: Duration,
    pub(super) waited_for_stream: Duration,
    /// Connections that were made for its requests, and how long that took.
    pub(super) connected: Connected,
    /// Its exchange over the network: a virtual clock does not know how long that takes.
    pub(super) on_network: Working,
}

/// Connections that were made, and how long that took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Connected {
    pub connections: u64,
    pub time: Duration,
}

impl LaneState {
    /// Returns the state of a new lane. Needs the event loop, whose stalls these are.
    pub fn new(stalls: &Rc<Stalls>) -> Self {
        Self {
            deadline: Deadline::excusing(clock::now(), stalls),
            held: None,
            stream: None,
            resends: Resends::default(),
            from_outside: false,
            was_resent: false,
            waited_for_dns: Duration::ZERO,
            waited_for_stream: Duration::ZERO,
            connected: Connected::default(),
            on_network: Working::default(),
        }
    }

    /// Returns how long it has waited for DNS since the last call.
    pub fn take_waited_for_dns(&mut self) -> Duration {
        std::mem::take(&mut self.waited_for_dns)
    }

    /// Returns how long it has waited for a stream since the last call.
    pub fn take_waited_for_stream(&mut self) -> Duration {
        std::mem::take(&mut self.waited_for_stream)
    }

    /// Returns what connections were made since the last call.
    pub fn take_connected(&mut self) -> Connected {
        std::mem::take(&mut self.connected)
    }

    /// Sets the timeout of what comes next: the rest of a request, or its response.
    pub(super) fn expect_response(&mut self, outgoing: &UnsentRequest, timeouts: &ResponseTimeouts) {
        if timeouts.is_bounded() {
            let progress = if outgoing.is_done() { ExchangePhase::Waiting } else { ExchangePhase::Sending };
            self.deadline.expect(timeouts.limit(progress, clock::now()));
        }
    }

    /// Returns the route of the connection that it holds.
    pub fn route(&self) -> Option<&Rc<Route>> {
        self.held.as_ref().map(|lease| &lease.route)
    }

    /// Takes a connection back whose exchange has ended, and which can take another request.
    pub(crate) fn take_back(&mut self, mut lease: Lease) {
        self.on_network = Working::default();
        lease.set_idle_since(clock::now());
        self.held = (!lease.is_single_use()).then_some(lease);
    }

    /// Begins another request.
    pub fn begin(&mut self) {
        self.on_network = Working::default();
        self.resends = Resends::default();
        self.was_resent = false;
    }

    /// Returns whether a request that was begun at `started` is resent because its connection may have died in a stall: once.
    pub fn try_resend_after_stall(&mut self, started: Instant, now: Instant) -> bool {
        self.deadline.has_stalled_since(started, now) && !mem::replace(&mut self.was_resent, true)
    }

    /// Returns whether a request over HTTP/2 that had no response may be sent once more, if its method does not speak against it.
    pub fn try_resend_http2(&mut self, none: &NoReply, route: &Route) -> bool {
        self.resends.try_resend(none, &route.streams.turns)
    }

    /// Returns whether its request may be sent there.
    pub(super) fn may_use(&self, remote: Remote) -> bool {
        !self.from_outside || remote.takes_redirects
    }

    /// Holds this stream.
    ///
    /// # Errors
    /// `blocked_by_network_policy`: its request may not be sent there.
    pub(super) fn hold(&mut self, stream: StreamPermit) -> Result<(), Failure> {
        if !self.may_use(stream.connection.remote) {
            return Err(blocked(REDIRECTED_INSIDE, &stream.connection.remote_addr, OptionName::AllowNet));
        }
        self.stream = Some(stream);
        Ok(())
    }

    /// Returns a stream that it does not use after all.
    pub fn leave_stream(&mut self) {
        self.stream = None;
    }

    /// Returns the remote address of the connection that it holds.
    pub fn remote_addr(&self) -> &str {
        self.held.as_ref().map_or("", |lease| lease.remote_addr())
    }

    /// Returns the remote address of the connection that it holds, or has a stream on.
    pub fn connected_to(&self) -> Option<Arc<str>> {
        let stream = self.stream.as_ref().map(|stream| &stream.connection.remote_addr);
        self.held.as_ref().map(Lease::remote_addr).or(stream).cloned()
    }

    /// Returns whether a response with this status is a proxy's, which did not forward the request.
    pub(super) fn is_refused_by_proxy(&mut self, status: u16) -> bool {
        status == PROXY_AUTHENTICATION_REQUIRED
            && self.held.as_mut().is_some_and(|lease| lease.connection().refusal(status).is_some())
    }

    /// Returns the work of an exchange on what it holds, if that is not a mock transport.
    pub(super) fn work_on_network(&mut self) -> Working {
        let is_mock = |lease: &mut Lease| matches!(lease.connection().stream, Stream::InProcess(_));
        if self.held.as_mut().is_some_and(is_mock) { Working::default() } else { Working::begin() }
    }

    /// Ends an exchange whose response was whole; `reusable`: the connection can take another request.
    pub(super) fn end_exchange(&mut self, reusable: bool, now: Instant) {
        self.on_network = Working::default();
        match &mut self.held {
            Some(lease) if reusable && !lease.is_single_use() => lease.set_idle_since(now),
            _ => self.held = None,
        }
    }

    /// Returns whether the idle connection that it holds may carry a request that can't be sent twice. Closes the connection if
    /// it may not.
    pub(super) fn check_single_use(&mut self, now: Instant) -> Reuse {
        let Some(lease) = &self.held else { return Reuse::Now };
        let may = lease.idle_since().map_or(Reuse::Now, |since| {
            // The end of the connection may not have been read yet, or was lost while the machine was suspended.
            if self.deadline.has_stalled_since(since, now) {
                Reuse::Never
            } else {
                lease.route.keep_alive.check_reuse(since, now)
            }
        });
        if may == Reuse::Never {
            self.held = None;
        }
        may
    }
}
