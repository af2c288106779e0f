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
use crate::http::dial::connect::Connector;
use crate::http::h1::exchange::{Reply, ResponseLimits, Scratch};
use crate::http::pool::{Pool, Pooled};
use crate::http::request::Prepared;
use crate::http::target::Origin;
use crate::model::error::{ErrorKind, Failure};

/// What the clients of all workers have in common.
#[derive(Debug)]
pub struct ClientOptions {
    pub connector: Connector,
    pub limits: ResponseLimits,
    /// For a whole attempt.
    pub timeout: Duration,
    /// For the part of it that makes a connection.
    pub connect_timeout: Duration,
}

/// One worker's client. Its lanes ask in turn; none holds it while it waits.
#[derive(Debug)]
pub struct Client {
    options: Arc<ClientOptions>,
    pool: RefCell<Pool>,
    scratch: Scratch,
}

/// What a lane keeps from request to request.
#[derive(Debug)]
pub struct Line {
    deadline: Deadline,
    /// The connection of the last request: mostly the next one can use it, without a look into the pool.
    held: Option<Box<Pooled>>,
    waited_for_names: Duration,
}

impl Line {
    /// How long its requests have waited for names since it was asked last.
    pub fn take_waited_for_names(&mut self) -> Duration {
        std::mem::take(&mut self.waited_for_names)
    }
}

impl Client {
    /// A client that has up to `max_open` connections, idle ones included.
    pub fn new(options: Arc<ClientOptions>, max_open: usize) -> Self {
        Self { options, pool: RefCell::new(Pool::new(max_open)), scratch: Scratch::default() }
    }

    /// For a lane that begins. Needs the event loop.
    pub fn line(&self) -> Line {
        Line {
            deadline: Deadline::new(Instant::now() + self.options.timeout),
            held: None,
            waited_for_names: Duration::ZERO,
        }
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
        started: Instant,
        line: &mut Line,
    ) -> Result<(Reply, Arc<str>), Failure> {
        line.deadline.set(started + self.options.timeout);
        let origin = &prepared.origin;
        let mut pooled = match self.reuse(origin, line).await {
            Some(pooled) => pooled,
            None => self.open(origin, line).await?,
        };
        loop {
            let connection = &mut pooled.connection;
            match connection.exchange(prepared, &self.scratch, &self.options.limits, &mut line.deadline).await {
                Ok(reply) => {
                    let remote_addr = connection.remote_addr.clone();
                    if reply.reusable {
                        connection.reused = true;
                        line.held = Some(pooled);
                    }
                    return Ok((reply, remote_addr));
                }
                Err(none) if connection.reused && (none.unsent || (none.silent && prepared.method.is_idempotent())) => {
                    drop(pooled);
                    pooled = self.open(origin, line).await?;
                }
                Err(none) => return Err(none.failure),
            }
        }
    }

    /// Leaves a line's connection to the others, while it has nothing to ask.
    pub fn rest(&self, line: &mut Line) {
        if let Some(held) = line.held.take() {
            self.pool.borrow_mut().put(held, Instant::now());
        }
    }

    /// Closes connections that have been idle for too long.
    pub fn sweep(&self) {
        self.pool.borrow_mut().sweep(Instant::now());
    }

    /// A connection to `origin` that is there and alive.
    async fn reuse(&self, origin: &Rc<Origin>, line: &mut Line) -> Option<Box<Pooled>> {
        let held = line.held.take_if(|held| Rc::ptr_eq(&held.origin, origin) || held.origin == *origin);
        self.rest(line);
        let mut candidate = held.or_else(|| self.pool.borrow_mut().take(origin));
        while let Some(mut pooled) = candidate {
            // Unconstrained: a task that has used up its share of polls would take any connection for alive.
            if unconstrained(poll_fn(|cx| Poll::Ready(pooled.connection.poll_alive(cx)))).await {
                return Some(pooled);
            }
            candidate = self.pool.borrow_mut().take(origin);
        }
        None
    }

    async fn open(&self, origin: &Rc<Origin>, line: &mut Line) -> Result<Box<Pooled>, Failure> {
        let permit = self.pool.borrow_mut().make_room();
        let connect_by = Instant::now() + self.options.connect_timeout;
        let (by, flag) = if connect_by < line.deadline.at() {
            (connect_by, "--connect-timeout-s")
        } else {
            (line.deadline.at(), "--timeout-s")
        };
        let connector = &self.options.connector;
        let begun = Instant::now();
        let addresses = connector.resolver.resolve(origin, by).await;
        line.waited_for_names += begun.elapsed();
        // Boxed: connecting needs far more room than an exchange, and lanes rarely do it.
        let connecting = Box::pin(connector.connect(origin, addresses?));
        let connection = timeout_at(by.into(), connecting).await.map_err(|_| {
            let message = format!("no connection to {} in time; see {flag}", origin.authority());
            Failure::new(ErrorKind::Timeout, message)
        })?;
        Ok(Pool::adopt(origin.clone(), connection?, permit))
    }
}
