//! What a worker asks with: its connections, and the memory that its lanes use in turn.
//!
//! There are two ways through an exchange. The short way is what nearly all take: there is a connection, the request is
//! written to it at once ([`LaneState::send`]), and the answer comes in one read ([`Client::poll_read`]). In between, a lane
//! keeps next to nothing, which is what makes ten thousand of them fast. Whatever turns out otherwise goes the long way
//! from there ([`Client::open`], [`Client::finish`]).

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::http::deadline::Deadline;
use crate::http::decode::Decoder;
use crate::http::decode::pool::Pool as DecoderPool;
use crate::http::dial::connect::{ConnectBy, Connector};
use crate::http::h1::allowance::{Allowance, READ_BYTES};
use crate::http::h1::exchange::{Exchange, Means, NoReply, Reply, ResponseLimits, Scratch};
use crate::http::h1::transfer::Outgoing;
use crate::http::pool::{Lease, Pool, Route};
use crate::model::error::Failure;
use crate::model::memory::MemoryBudget;
use crate::model::message::OptionName;
use crate::model::options::RequestOptions;
use crate::model::origin::Origin;

/// What bounds the attempts of a run.
#[derive(Debug, Clone)]
pub struct AttemptLimits {
    pub response: ResponseLimits,
    /// For a whole attempt.
    pub timeout: Duration,
    /// For the part of it that makes a connection.
    pub connect_timeout: Duration,
}

impl AttemptLimits {
    /// `memory`: what bodies draw on.
    pub fn new(request: &RequestOptions, memory: MemoryBudget) -> Self {
        Self {
            response: ResponseLimits { max_body_bytes: request.max_body_bytes, memory },
            timeout: request.timeout,
            connect_timeout: request.connect_timeout,
        }
    }
}

/// One worker's client, for all runs. Its lanes ask in turn; none holds it while it waits.
#[derive(Debug)]
pub struct Client {
    connector: Arc<Connector>,
    /// Also of those who look for a route to a host.
    pub pool: Rc<RefCell<Pool>>,
    pub scratch: Scratch,
}

/// What a lane keeps from request to request.
#[derive(Debug)]
pub struct LaneState {
    pub deadline: Deadline,
    /// The connection of the last request: mostly the next one can use it, without a look into the pool.
    held: Option<Lease>,
    waited_for_names: Duration,
}

impl Default for LaneState {
    /// For a lane that begins. Needs the event loop.
    fn default() -> Self {
        Self { deadline: Deadline::new(Instant::now()), held: None, waited_for_names: Duration::ZERO }
    }
}

impl LaneState {
    /// How long it has waited for names since it was asked last.
    pub fn take_waited_for_names(&mut self) -> Duration {
        std::mem::take(&mut self.waited_for_names)
    }

    /// Sends a request on the connection that it holds, if any: what is in `wire`, and then `body`. When it is sent whole,
    /// [`Client::poll_read`] tells of the answer.
    pub fn send(&mut self, wire: &[u8], body: Bytes, cx: &mut Context<'_>) -> Option<Outgoing> {
        self.held.as_mut().map(|lease| lease.connection().send(wire, body, cx))
    }

    /// Whether it holds a connection to send on.
    pub fn is_connected(&self) -> bool {
        self.held.is_some()
    }

    /// Where the answer comes from that [`Client::poll_read`] has told of.
    pub fn remote_addr(&self) -> &str {
        self.held.as_ref().map_or("", |lease| lease.remote_addr())
    }

    /// That answer was whole; whether the connection can take another request.
    pub fn end_exchange(&mut self, reusable: bool) {
        if !reusable {
            self.held = None;
        }
    }
}

impl Client {
    /// The address that is preferred for a host, if one is found until `by`.
    pub async fn address_of(&self, origin: &Origin, by: Instant) -> Option<IpAddr> {
        let found = self.connector.resolver.resolve(origin, by).await;
        found.ok().and_then(|addresses| addresses.first().map(SocketAddr::ip))
    }

    pub fn new(connector: Arc<Connector>, decoders: Arc<DecoderPool>) -> Self {
        let scratch = Scratch::new(Decoder::new(decoders));
        Self { connector, pool: Rc::new(RefCell::new(Pool::new(0))), scratch }
    }

    /// The means of this worker for a run's exchanges.
    pub fn means<'a>(&'a self, limits: &'a AttemptLimits, allowance: &'a Allowance) -> Means<'a> {
        Means { scratch: &self.scratch, limits: &limits.response, allowance }
    }

    /// Reads into the worker's memory what has come of the answer: how many bytes, or 0 at the end of the connection.
    ///
    /// # Errors
    /// The short way ends here, with nothing read: the deadline has passed, nothing is set aside for what would be read, or
    /// the connection has failed, for the reason that is given.
    pub fn poll_read(
        &self,
        lane: &mut LaneState,
        allowance: &Allowance,
        now: impl FnOnce() -> Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, Option<Failure>>> {
        let Some(lease) = &mut lane.held else { return Poll::Ready(Err(None)) };
        let connection = lease.connection();
        let read = if allowance.covers(READ_BYTES) {
            connection.poll_read(&mut self.scratch.read.borrow_mut(), cx).map_err(Some)
        } else {
            connection.poll_readable(cx).map(|()| Err(None))
        };
        if read.is_pending() && lane.deadline.poll_passed_at(now(), cx) { Poll::Ready(Err(None)) } else { read }
    }

    /// Goes on with an exchange that was begun with [`LaneState::send`], to its end. Also tells where the answer came from.
    ///
    /// # Errors
    /// There was no response.
    ///
    /// Cancelling it closes the connection.
    pub async fn finish(
        &self,
        exchange: Exchange,
        means: &Means<'_>,
        lane: &mut LaneState,
    ) -> Result<(Reply, Arc<str>), NoReply> {
        let mut lease = lane.held.take().ok_or_else(NoReply::unsent)?;
        let reply = exchange.finish(lease.connection(), means, &mut lane.deadline).await?;
        let remote_addr = lease.remote_addr().clone();
        if reply.reusable {
            lane.held = Some(lease);
        }
        Ok((reply, remote_addr))
    }

    /// Leaves a lane's connection to the others, while it has nothing to ask.
    pub fn rest(&self, lane: &mut LaneState) {
        if let Some(held) = lane.held.take() {
            self.pool.borrow_mut().put(held, Instant::now());
        }
    }

    /// Has the lane hold a connection of this route that is there and alive, or none.
    pub fn reuse(&self, route: &Rc<Route>, lane: &mut LaneState, cx: &mut Context<'_>) {
        if lane.held.as_ref().is_none_or(|held| !Rc::ptr_eq(&held.route, route)) {
            self.rest(lane);
            lane.held = self.pool.borrow_mut().take(route);
        }
        while lane.held.as_mut().is_some_and(|lease| !lease.connection().is_alive(cx)) {
            lane.held = self.pool.borrow_mut().take(route);
        }
    }

    /// Has the lane hold a new connection of this route.
    ///
    /// # Errors
    /// `resolve`, `connect`, `connect_timeout`, `tls`.
    ///
    /// Cancelling it gives up the connection.
    pub async fn open(&self, route: &Rc<Route>, limits: &AttemptLimits, lane: &mut LaneState) -> Result<(), Failure> {
        lane.held = None;
        let permit = self.pool.borrow_mut().make_room();
        let connect_by = Instant::now() + limits.connect_timeout;
        let by = if connect_by < lane.deadline.at() {
            ConnectBy { time: connect_by, option: OptionName::ConnectTimeoutS }
        } else {
            ConnectBy { time: lane.deadline.at(), option: OptionName::TimeoutS }
        };
        let begun = Instant::now();
        let addresses = self.connector.resolver.resolve(&route.key.origin, by.time).await;
        lane.waited_for_names += begun.elapsed();
        // Boxed: connecting needs far more room than an exchange, and lanes rarely do it.
        let connection = Box::pin(self.connector.connect(&route.key, &route.host, addresses?, by)).await?;
        lane.held = Some(Pool::lease(route.clone(), connection, permit));
        Ok(())
    }
}
