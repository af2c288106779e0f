//! Bounds the idle connections of a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The idle connections for each connection in use, unless an option sets their number. With 1,000 connections in use and
/// 1,000 hosts in random order, 10,000 idle ones suffice for nearly every request.
pub(crate) const DEFAULT_IDLE_FOR_EACH: usize = 10;

/// One worker's share of the idle connections of an engine.
#[derive(Debug, Clone, Default)]
pub struct IdleLimits {
    /// The number from the option; `None`: [`DEFAULT_IDLE_FOR_EACH`] for each connection in use.
    pub connections: Option<usize>,
    /// The number that the limit of open files allows. It changes with the connections that runs may have in use.
    pub fitting: Arc<AtomicUsize>,
    /// The most bytes that idle connections may hold.
    pub bytes: usize,
}

impl IdleLimits {
    /// Returns the most idle connections beside `in_use` connections in use.
    pub fn connections(&self, in_use: usize) -> usize {
        let wanted = self.connections.unwrap_or(in_use.saturating_mul(DEFAULT_IDLE_FOR_EACH));
        wanted.min(self.fitting.load(Ordering::Relaxed))
    }
}
