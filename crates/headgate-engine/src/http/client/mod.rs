//! What a worker asks with: its connections, and the memory that its lanes use in turn.
//!
//! There are two ways through an exchange. The short way is what nearly all take: there is a connection, the request is
//! written to it at once ([`LaneState::send`]), and the answer comes in one read ([`Client::poll_read`]). In between, a lane
//! keeps next to nothing, which is what makes ten thousand of them fast. Whatever turns out otherwise goes the long way
//! from there ([`Client::open`], [`Client::finish`]).

mod lane;
mod limits;
mod open;
mod open_body;

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::Request;

pub use self::lane::LaneState;
pub use self::limits::AttemptLimits;
pub use self::open_body::OpenBody;
use crate::http::decode::Decoder;
use crate::http::decode::pool::ThreadPool;
use crate::http::dial::connect::{ConnectBy, Connector};
use crate::http::dial::transport::RouteKey;
use crate::http::exchange_context::{ExchangeContext, Scratch};
use crate::http::h1::allowance::{Allowance, READ_BYTES};
use crate::http::h1::exchange::Exchange;
use crate::http::h2::exchange::{NoAnswer, Sending};
use crate::http::h2::request::Translator;
use crate::http::idle_limits::IdleLimits;
use crate::http::pool::{Lease, Pool, Route};
use crate::http::recall::Recalls;
use crate::http::reply::{NoReply, Replied, Reply};
use crate::http::save::saving::Saving;
use crate::http::site::Site;
use crate::http::upload::Upload;
use crate::model::error::{ErrorKind, Failure};
use crate::model::stall::Stalls;
use crate::schedule::hosts::Speaks;

/// A request as it goes over HTTP/2.
#[derive(Debug)]
pub struct Translated {
    pub site: Rc<Site>,
    pub request: Request<()>,
    pub body: Bytes,
    /// What comes after `body`.
    pub files: Option<Box<Upload>>,
}

/// What an exchange came to.
#[derive(Debug)]
pub struct Answered {
    pub reply: Reply,
    /// Where it came from.
    pub remote_addr: Arc<str>,
    /// See [`Remote::is_outside`](crate::http::dial::policy::Remote).
    pub is_outside: bool,
    /// The body has still to come, and is handed out as it does.
    pub open: Option<Box<OpenBody>>,
}

/// One worker's client, for all runs. Its lanes ask in turn; none holds it while it waits.
#[derive(Debug)]
pub struct Client {
    connector: Arc<Connector>,
    recalls: Arc<Recalls>,
    /// Also of those who look for a route to a host.
    pub pool: Rc<RefCell<Pool>>,
    pub scratch: Scratch,
    /// Of the worker's event loop.
    pub stalls: Rc<Stalls>,
    translator: RefCell<Translator>,
}

impl Client {
    /// Connects to a host and sends nothing. Returns whether it accepted the connection in time.
    pub async fn reaches(&self, route: &Route, by: ConnectBy) -> bool {
        match self.connector.find(&route.key, false, by.time).await {
            // A host whose TLS fails has accepted the connection.
            Ok(found) => match self.connector.connect(&route.key, &route.host, found, by).await {
                Ok(_) => true,
                Err(failure) => failure.kind == ErrorKind::Tls,
            },
            Err(_) => false,
        }
    }

    /// See [`Connector::address_of`].
    pub async fn address_of(&self, route: &RouteKey, by: Instant) -> Option<IpAddr> {
        self.connector.address_of(route, by).await
    }

    pub fn new(
        connector: Arc<Connector>,
        decoders: Arc<ThreadPool>,
        recalls: Arc<Recalls>,
        idle_limits: IdleLimits,
    ) -> Self {
        let scratch = Scratch::new(Decoder::new(decoders));
        let pool = Rc::new(RefCell::new(Pool::new(idle_limits)));
        Self { connector, recalls, pool, scratch, stalls: Rc::default(), translator: RefCell::default() }
    }

    /// The means of this worker for a run's exchanges.
    pub fn exchange_context<'a>(&'a self, limits: &'a AttemptLimits, allowance: &'a Allowance) -> ExchangeContext<'a> {
        let limits = &limits.response;
        ExchangeContext {
            scratch: &self.scratch,
            limits,
            redirects: limits.redirects.clone(),
            streams: false,
            allowance,
        }
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

    /// Goes on with an exchange that was begun with [`LaneState::send`], to its end.
    ///
    /// # Errors
    /// There was no response.
    ///
    /// Cancelling it closes the connection.
    pub async fn finish(
        &self,
        exchange: Exchange,
        context: &ExchangeContext<'_>,
        lane: &mut LaneState,
    ) -> Result<Answered, NoReply> {
        let mut lease = lane.held.take().ok_or_else(NoReply::unsent)?;
        let finished = exchange.finish(lease.connection(), context, &mut lane.deadline).await;
        let replied = finished.map_err(|none| match lease.connection().verdict() {
            Some(failure) => NoReply { failure, unsent: false, silent: false },
            None => none,
        });
        if replied.as_ref().is_err_and(|none| none.silent) {
            found_closed(&lease);
        }
        let Replied { mut reply, open } = replied?;
        if let Some(refusal) = lease.connection().refusal(reply.head.status) {
            reply.failure = Some(refusal);
        }
        let remote_addr = lease.remote_addr().clone();
        let is_outside = lease.connection().remote.is_outside;
        if let Some(open) = open {
            let open = Some(OpenBody::of_http1(open, lease, &reply.head, context));
            return Ok(Answered { reply, remote_addr, is_outside, open });
        }
        if reply.reusable {
            lease.rests_since(Instant::now());
            lane.held = Some(lease);
        }
        Ok(Answered { reply, remote_addr, is_outside, open: None })
    }

    /// Makes one exchange with a site, all of whose request is in `wire`, on a connection that is there or a new one: what
    /// [`Client::finish`] or
    /// [`Client::exchange`] give.
    ///
    /// # Errors
    /// There is no connection, or the request can't be sent.
    ///
    /// Cancelling it closes the connection, or resets the stream.
    pub async fn ask(
        &self,
        site: &Rc<Site>,
        wire: &[u8],
        limits: &AttemptLimits,
        context: &ExchangeContext<'_>,
        lane: &mut LaneState,
    ) -> Result<Result<Answered, NoReply>, Failure> {
        let mut is_new = false;
        loop {
            if site.route.is_http2() {
                if self.hold_stream(&site.route, lane) {
                    let sent = self.translate(wire, Bytes::new(), site)?;
                    return Ok(self.exchange(Box::new(sent), None, context, lane).await);
                }
            } else {
                let sent = poll_fn(|cx| {
                    // A new one isn't asked first whether it is alive, or one that is closed at once would be made anew for ever.
                    if !is_new {
                        self.reuse(&site.route, lane, cx);
                    }
                    Poll::Ready(lane.send(wire, Bytes::new(), &mut None, cx))
                });
                if let Some(outgoing) = sent.await {
                    lane.expect_answer(&outgoing, &context.limits.timeouts);
                    let finished = self.finish(Exchange::new(outgoing, false, context), context, lane).await;
                    // What is closed without a word when it was just made isn't made again.
                    return Ok(finished.map_err(|none| NoReply { silent: none.silent && !is_new, ..none }));
                }
            }
            self.open(site, limits, lane).await?;
            is_new = true;
        }
    }

    /// Leaves a lane's connection to the others, while it has nothing to ask.
    pub fn rest(&self, lane: &mut LaneState) {
        lane.stream = None;
        if let Some(held) = lane.held.take() {
            self.pool.borrow_mut().put(held, Instant::now());
        }
    }

    /// Has the lane hold a stream of this route. Whether it does: there may be none that it may use.
    pub fn hold_stream(&self, route: &Route, lane: &mut LaneState) -> bool {
        if !lane.stream.as_ref().is_some_and(|stream| route.streams.has(stream)) {
            self.rest(lane);
            lane.stream = route.streams.take().filter(|stream| lane.may_use(stream.connection.remote));
        }
        lane.stream.is_some()
    }

    /// Has the lane hold a connection of this route that is there and alive, or none.
    pub fn reuse(&self, route: &Rc<Route>, lane: &mut LaneState, cx: &mut Context<'_>) {
        if route.host.connections.are_wanted() && lane.held.as_ref().is_some_and(Lease::try_cede) {
            lane.held = None;
        }
        if lane.held.as_ref().is_none_or(|held| !Rc::ptr_eq(&held.route, route)) {
            self.rest(lane);
            lane.held = self.pool.borrow_mut().take(route);
        }
        let from_outside = lane.from_outside;
        while let Some(lease) = &mut lane.held {
            let is_alive = lease.connection().is_alive(cx);
            if is_alive && (lease.connection().remote.takes_redirects || !from_outside) {
                return;
            }
            if !is_alive {
                found_closed(lease);
            }
            lane.held = self.pool.borrow_mut().take(route);
        }
    }

    /// The request over HTTP/2 that `wire` begins, and `body` ends.
    ///
    /// # Errors
    /// `invalid_request`: it can't be said in HTTP/2.
    pub fn translate(&self, wire: &[u8], body: Bytes, site: &Rc<Site>) -> Result<Translated, Failure> {
        let (request, begin) = self.translator.borrow_mut().translate(wire, site.route.key.origin.https)?;
        let body = if body.is_empty() { begin } else { body };
        Ok(Translated { site: site.clone(), request, body, files: None })
    }

    /// Makes an exchange on the stream that the lane holds.
    ///
    /// # Errors
    /// There was no response.
    ///
    /// Cancelling it resets the stream.
    pub async fn exchange(
        &self,
        sent: Box<Translated>,
        saving: Option<Box<Saving>>,
        context: &ExchangeContext<'_>,
        lane: &mut LaneState,
    ) -> Result<Answered, NoReply> {
        let stream = lane.stream.take().ok_or_else(NoReply::unsent)?;
        let Translated { site, request, body, files } = *sent;
        let connection = stream.connection.clone();
        let sending = Sending::begin(&stream, request, body, files, saving);
        let reply = match sending {
            Ok(sending) => sending.finish(stream, context, &mut lane.deadline).await,
            Err(none) => Err(none),
        };
        match reply {
            Ok(Replied { reply, open }) => {
                let open = open.map(|open| OpenBody::of_http2(open, &reply.head, context));
                let remote_addr = connection.remote_addr.clone();
                Ok(Answered { reply, remote_addr, is_outside: connection.remote.is_outside, open })
            }
            Err(NoAnswer::WantsHttp1(failure)) => {
                site.route.learn(Speaks::OnlyHttp1);
                Err(NoReply { failure, unsent: true, silent: false })
            }
            Err(NoAnswer::Other(none)) => Err(none),
        }
    }
}

/// A connection was closed by the host while it was idle, or perhaps when its next request came.
fn found_closed(lease: &Lease) {
    if let Some(since) = lease.idle_since() {
        lease.route.keeping.found_closed(since, Instant::now());
    }
}
