//! What bounds the attempts of a run.

use std::sync::Arc;
use std::time::Duration;

use headgate_core::call::CallStage;
use headgate_core::live::Live;
use headgate_core::memory::MemoryBudget;
use headgate_core::options::RequestOptions;
use tokio::sync::watch;

use crate::reply::ResponseLimits;
use crate::save::saver::Saver;

/// What a server may send on a stream of HTTP/2 before it is taken: as much as there is memory for all of them, within these
/// bounds.
const WINDOW_BYTES: (u64, u64) = (8 * 1024, 1024 * 1024);

/// The limits of the attempts of a run.
#[derive(Debug, Clone)]
pub struct AttemptLimits {
    pub response: ResponseLimits,
    /// For a whole attempt.
    pub timeout: Duration,
    /// For the part of it that makes a connection.
    pub connect_timeout: Duration,
    /// Attempts need no connection each, so more of them than files may be open is fine.
    pub shares_connections: bool,
    /// See [`WINDOW_BYTES`].
    pub window_bytes: u32,
    /// The options of the run that may change, with their current values.
    pub live: watch::Receiver<Arc<Live>>,
}

/// How a connection is opened.
#[derive(Clone, Copy)]
pub struct Opening<'a> {
    /// For the part of the attempt that makes a connection.
    pub timeout: Duration,
    /// Records what it waits for.
    pub record: &'a dyn Fn(CallStage),
}

impl AttemptLimits {
    /// Creates the limits of a run. `memory`: the budget of its bodies; `concurrency`: how many attempts there may be at
    /// once.
    pub fn new(
        request: &RequestOptions,
        memory: MemoryBudget,
        concurrency: usize,
        live: watch::Receiver<Arc<Live>>,
    ) -> Self {
        let each = memory.limit() / concurrency.max(1) as u64;
        Self {
            shares_connections: request.http2_prior_knowledge,
            window_bytes: each.clamp(WINDOW_BYTES.0, WINDOW_BYTES.1) as u32,
            response: ResponseLimits::new(request, memory),
            timeout: request.timeout,
            connect_timeout: request.connect_timeout,
            live,
        }
    }

    /// Returns how many connections there may be over HTTP/1.1 to a host, which limits know by this key.
    pub(crate) fn max_connections_to(&self, limit_key: &str) -> usize {
        self.live.borrow().limits.most_of(limit_key).map_or(usize::MAX, |most| most as usize)
    }

    /// Returns the same limits for a run whose bodies `saver` saves, if there is one.
    #[must_use]
    pub fn saving(mut self, saver: Option<Arc<Saver>>) -> Self {
        self.response.saver = saver;
        self
    }
}
