//! What a worker asks with: its idle connections, and the rule for asking once more.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::task::unconstrained;
use tokio::time::timeout_at;

use crate::http::deadline::Deadline;
use crate::http::decode::Decoder;
use crate::http::decode::pool::Pool as DecoderPool;
use crate::http::dial::connect::Connector;
use crate::http::h1::exchange::{Reply, ResponseLimits, Scratch};
use crate::http::pool::{Lease, Pool, Route};
use crate::http::request::Prepared;
use crate::model::error::{ErrorKind, Failure};
use crate::model::message::OptionName;

/// What bounds the attempts of a run.
#[derive(Debug, Clone)]
pub struct AttemptLimits {
    pub response: ResponseLimits,
    /// For a whole attempt.
    pub timeout: Duration,
    /// For the part of it that makes a connection.
    pub connect_timeout: Duration,
}

/// One worker's client, for all runs. Its lanes ask in turn; none holds it while it waits.
#[derive(Debug)]
pub struct Client {
    connector: Arc<Connector>,
    /// Also of those who look for a route to a host.
    pub pool: Rc<RefCell<Pool>>,
    scratch: Scratch,
}

/// What a lane keeps from request to request.
#[derive(Debug)]
pub struct LaneState {
    deadline: Deadline,
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
    /// How long its requests have waited for names since it was asked last.
    pub fn take_waited_for_names(&mut self) -> Duration {
        std::mem::take(&mut self.waited_for_names)
    }
}

impl Client {
    pub fn new(connector: Arc<Connector>, decoders: Arc<DecoderPool>) -> Self {
        let scratch = Scratch::new(Decoder::new(decoders));
        Self { connector, pool: Rc::new(RefCell::new(Pool::new(0))), scratch }
    }

    /// Performs the exchange, on a connection that is there or a new one. Also tells where the answer came from.
    ///
    /// A server may close an idle connection at the very moment a request goes out on it. So a request that had no byte of
    /// an answer on a connection used before is sent once more, on a new one, if none of it was written or if its
    /// method is idempotent (RFC 9110 section 9.2.2, RFC 9112 section 9.3.1); that is no other attempt.
    ///
    /// # Errors
    /// There was no response: any kind but `invalid_request`, `body_too_large` and `decode`.
    ///
    /// Cancelling it closes the connection.
    pub async fn ask(
        &self,
        prepared: &Prepared,
        limits: &AttemptLimits,
        started: Instant,
        lane: &mut LaneState,
    ) -> Result<(Reply, Arc<str>), Failure> {
        lane.deadline.set(started + limits.timeout);
        let route = &prepared.site.route;
        let mut lease = match self.reuse(route, lane).await {
            Some(lease) => lease,
            None => self.open(route, limits, lane).await?,
        };
        loop {
            let connection = lease.connection();
            match connection.exchange(prepared, &self.scratch, &limits.response, &mut lane.deadline).await {
                Ok(reply) => {
                    let remote_addr = connection.remote_addr.clone();
                    if reply.reusable {
                        connection.reused = true;
                        lane.held = Some(lease);
                    }
                    return Ok((reply, remote_addr));
                }
                Err(none) if connection.reused && (none.unsent || (none.silent && prepared.method.is_idempotent())) => {
                    drop(lease);
                    lease = self.open(route, limits, lane).await?;
                }
                Err(none) => return Err(none.failure),
            }
        }
    }

    /// Leaves a lane's connection to the others, while it has nothing to ask.
    pub fn rest(&self, lane: &mut LaneState) {
        if let Some(held) = lane.held.take() {
            self.pool.borrow_mut().put(held, Instant::now());
        }
    }

    /// A connection of this route that is there and alive.
    async fn reuse(&self, route: &Rc<Route>, lane: &mut LaneState) -> Option<Lease> {
        let held = lane.held.take_if(|held| Rc::ptr_eq(&held.route, route));
        self.rest(lane);
        let mut candidate = held.or_else(|| self.pool.borrow_mut().take(route));
        while let Some(mut lease) = candidate {
            // Unconstrained: a task that has used up its share of polls would take any connection for alive.
            if unconstrained(poll_fn(|cx| Poll::Ready(lease.connection().poll_alive(cx)))).await {
                return Some(lease);
            }
            candidate = self.pool.borrow_mut().take(route);
        }
        None
    }

    async fn open(&self, route: &Rc<Route>, limits: &AttemptLimits, lane: &mut LaneState) -> Result<Lease, Failure> {
        let permit = self.pool.borrow_mut().make_room();
        let connect_by = Instant::now() + limits.connect_timeout;
        let (by, option) = if connect_by < lane.deadline.at() {
            (connect_by, OptionName::ConnectTimeoutS)
        } else {
            (lane.deadline.at(), OptionName::TimeoutS)
        };
        let begun = Instant::now();
        let addresses = self.connector.resolver.resolve(&route.key.origin, by).await;
        lane.waited_for_names += begun.elapsed();
        // Boxed: connecting needs far more room than an exchange, and lanes rarely do it.
        let connecting = Box::pin(self.connector.connect(&route.key, &route.host, addresses?));
        let connection = timeout_at(by.into(), connecting).await.map_err(|_| {
            let message = format!("no connection to {} in time", route.key.origin.authority());
            Failure::new(ErrorKind::Timeout, message).with_option(option)
        })?;
        Ok(Pool::lease(route.clone(), connection?, permit))
    }
}
