//! Bounded hand-overs from thread to thread. They may block.

pub mod again;
mod passed;
pub mod rows;
mod shared;
pub mod window;
