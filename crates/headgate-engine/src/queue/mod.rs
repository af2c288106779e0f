//! Bounded hand-overs from thread to thread. They may block.

mod deferred;
pub mod reread;
pub mod responders;
pub mod rows;
mod shared;
pub mod window;
