//! How many idle connections a worker may keep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Idle connections for each connection in use, where no option says how many there may be. With 1,000 in use and 1,000
/// hosts in random order, 10,000 of them leave next to no request without a connection.
pub const DEFAULT_IDLE_FOR_EACH: usize = 10;

/// One worker's share of the idle connections of an engine.
#[derive(Debug, Clone, Default)]
pub struct IdleLimits {
    /// From the option; `None`: [`DEFAULT_IDLE_FOR_EACH`] for each connection in use.
    pub connections: Option<usize>,
    /// What open files leave room for. It changes with the connections that runs may have in use.
    pub fitting: Arc<AtomicUsize>,
    /// Bytes that idle connections may hold.
    pub bytes: usize,
}

impl IdleLimits {
    /// The most idle connections beside `in_use` others.
    pub fn connections(&self, in_use: usize) -> usize {
        let wanted = self.connections.unwrap_or(in_use.saturating_mul(DEFAULT_IDLE_FOR_EACH));
        wanted.min(self.fitting.load(Ordering::Relaxed))
    }
}
