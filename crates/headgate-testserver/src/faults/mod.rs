//! What a hostile or broken server may do, each by name. A fault is a row of a table: its name, a line for people, and
//! the steps that the server takes instead of an answer.
//!
//! Every fault that waits ends when the client closes or the server stops; one that sends without end sends as fast
//! as the client reads, from one small block of memory.

mod connection;
mod content;
mod fault;
mod frames;
mod framing;
mod head;
mod http2;
pub(crate) mod play;
mod redirect;
pub(crate) mod table;

pub(crate) use self::fault::{Fault, Scope, Step};
