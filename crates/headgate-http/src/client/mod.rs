//! A worker's HTTP client: its connections, and the memory that its lanes use in turn.

mod exchange;
mod lane;
mod limits;
mod open;
mod open_body;
mod send_receive;

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;

pub use self::exchange::{Awaited, Expected, LaneReadiness, Pending, Read, ReceivedResponse};
pub use self::lane::LaneState;
pub use self::limits::{AttemptLimits, Opening};
pub use self::open_body::OpenBody;
use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::stall::Stalls;
use headgate_core::virtual_clock::Working;

use crate::decode::Decoder;
use crate::decode::pool::ThreadPool;
use crate::dial::connect::{ConnectBy, Connector};
use crate::dial::transport::RouteKey;
use crate::exchange_context::{ExchangeContext, Scratch};
use crate::h1::read_reservation::ReadReservation;
use crate::h1::transfer::UnsentRequest;
use crate::h2::request::Translator;
use crate::idle_limits::IdleLimits;
use crate::pool::{Lease, Pool, Route};
use crate::recall::Recalls;
use crate::reply::NoReply;
use crate::site::Site;

/// One worker's client, for all runs.
#[derive(Debug)]
pub struct Client {
    connector: Arc<Connector>,
    recalls: Arc<Recalls>,
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

    /// Returns the address of a host; see [`Connector::address_of`].
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

    /// Returns the context of a run's exchanges on this worker.
    pub fn exchange_context<'a>(
        &'a self,
        limits: &'a AttemptLimits,
        read_reservation: &'a ReadReservation,
    ) -> ExchangeContext<'a> {
        let limits = &limits.response;
        ExchangeContext {
            scratch: &self.scratch,
            limits,
            redirects: limits.redirects.clone(),
            streams: false,
            max_body_size: limits.max_body_size,
            read_reservation,
        }
    }

    /// Sends one request to a site, on an idle connection or a new one. `wire` contains the whole request. Returns what
    /// [`Client::finish`] returns.
    ///
    /// # Errors
    /// There is no connection, or the request can't be sent.
    ///
    /// Cancelling it closes the connection, or resets the stream.
    pub async fn request(
        &self,
        site: &Rc<Site>,
        wire: &[u8],
        limits: &AttemptLimits,
        context: &ExchangeContext<'_>,
        lane: &mut LaneState,
    ) -> Result<Result<ReceivedResponse, NoReply>, Failure> {
        let mut is_new = false;
        loop {
            let sent = poll_fn(|cx| {
                Poll::Ready((self.ready(site, is_new, || true, lane, cx) == LaneReadiness::Ready).then(|| {
                    let expected = || Expected { context: context.clone(), to_head: false, saving: None };
                    let request = (wire, Bytes::new(), &mut None);
                    let sent = self.send(site, request, &context.limits.timeouts, expected, lane, cx)?;
                    Ok(sent.unwrap_or_else(|| Pending::Http1(expected().exchange(UnsentRequest::done()))))
                }))
            });
            if let Some(pending) = sent.await.transpose()? {
                let finished = self.finish(pending, context, lane).await;
                // A connection that the server closes at once is not replaced.
                return Ok(finished.map_err(|none| NoReply { silent: none.silent && !is_new, ..none }));
            }
            self.open(site, limits, Opening { timeout: limits.connect_timeout, record: &|_| () }, lane).await?;
            is_new = true;
        }
    }

    /// Returns the connection of a lane that sends nothing for now to the pool.
    pub fn rest(&self, lane: &mut LaneState) {
        lane.stream = None;
        lane.deadline.release();
        lane.on_network = Working::default();
        if let Some(held) = lane.held.take() {
            self.pool.borrow_mut().put(held, clock::now());
        }
    }
}

/// Notes that the host has closed a connection while it was idle, or perhaps when its next request came.
fn note_found_closed(lease: &Lease) {
    if let Some(since) = lease.idle_since() {
        lease.route.keep_alive.record_close(since, clock::now());
    }
}
