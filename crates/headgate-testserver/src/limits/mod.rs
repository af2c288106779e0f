//! What a server does with a client that asks for too much: it slows down, or it refuses, as APIs that are sold do.
//!
//! All limits are kept over all threads and connections. A request counts from its head until just before the end of its
//! answer, as in [`crate::statistics`], so that a client that keeps a limit is never refused for it.

pub(crate) mod api;
mod bucket;
pub(crate) mod capacity;
mod keys;
