//! Bounded hand-overs from thread to thread. They may block.

pub mod again;
pub mod host_connections;
mod passed;
pub mod responders;
pub mod rows;
mod shared;
pub mod window;
