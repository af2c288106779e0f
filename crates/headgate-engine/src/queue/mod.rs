//! Bounded queues between threads, whose operations may block.

mod deferred;
pub(crate) mod reread;
pub(crate) mod responders;
pub(crate) mod rows;
mod shared;
pub(crate) mod window;
