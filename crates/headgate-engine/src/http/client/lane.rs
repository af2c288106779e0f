//! What a lane keeps from request to request, and the short way of its exchanges.

use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::http::deadline::Deadline;
use crate::http::dial::ask_proxy::PROXY_WANTS_CREDENTIALS;
use crate::http::h1::transfer::Outgoing;
use crate::http::h2::again::Again;
use crate::http::h2::streams::Stream;
use crate::http::keeping::May;
use crate::http::patience::{Patience, Progress};
use crate::http::pool::{Lease, Route};
use crate::http::reply::NoReply;
use crate::http::upload::Upload;

/// What a lane keeps from request to request.
#[derive(Debug)]
pub struct LaneState {
    pub deadline: Deadline,
    /// The connection of the last request: mostly the next one can use it, without a look into the pool.
    pub(super) held: Option<Lease>,
    /// Where the next request goes, if that is to HTTP/2.
    pub(super) stream: Option<Stream>,
    /// What has become of its request over HTTP/2 so far.
    pub(super) again: Again,
    pub(super) waited_for_names: Duration,
    pub(super) waited_for_stream: Duration,
}

impl Default for LaneState {
    /// For a lane that begins. Needs the event loop.
    fn default() -> Self {
        Self {
            deadline: Deadline::new(Instant::now()),
            held: None,
            stream: None,
            again: Again::default(),
            waited_for_names: Duration::ZERO,
            waited_for_stream: Duration::ZERO,
        }
    }
}

impl LaneState {
    /// How long it has waited for names since it was asked last.
    pub fn take_waited_for_names(&mut self) -> Duration {
        std::mem::take(&mut self.waited_for_names)
    }

    /// How long it has waited for a stream since it was asked last.
    pub fn take_waited_for_stream(&mut self) -> Duration {
        std::mem::take(&mut self.waited_for_stream)
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
    pub fn expect_answer(&mut self, outgoing: &Outgoing, patience: &Patience) {
        if patience.is_bounded() {
            let progress = if outgoing.is_done() { Progress::Waiting } else { Progress::Sending };
            self.deadline.expect(patience.limit(progress, Instant::now()));
        }
    }

    /// Has the connection again that a body came over, to its end.
    pub fn take_back(&mut self, mut lease: Lease) {
        lease.rests_since(Instant::now());
        self.held = Some(lease);
    }

    /// Another request begins.
    pub fn begin(&mut self) {
        self.again = Again::default();
    }

    /// Whether a request over HTTP/2 that ended so may be sent once more, if its method does not speak against it.
    pub fn may_be_sent_again(&mut self, none: &NoReply, route: &Route) -> bool {
        self.again.may_follow(none, &route.streams.turns)
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
        status == PROXY_WANTS_CREDENTIALS
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
        let may = lease.idle_since().map_or(May::Yes, |since| lease.route.keeping.may_carry(since, now));
        if may == May::No {
            self.held = None;
        }
        may
    }
}
