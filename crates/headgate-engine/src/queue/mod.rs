//! Bounded queues between threads, whose operations may block.

mod deferred;
pub mod reread;
pub mod responders;
pub mod rows;
mod shared;
pub mod window;
