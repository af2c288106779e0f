//! Faults of a hostile or broken server, by name. A fault is a row of a table: its name, a description, and the steps that
//! replace a response.
//!
//! Every fault that waits ends when the client closes or the server stops. A fault that sends without end sends as fast as the
//! client reads, from one small block of memory.

mod connection;
mod content;
mod fault;
mod frames;
mod framing;
mod headers;
mod http2;
pub(crate) mod play;
mod redirect;
pub(crate) mod table;

pub(crate) use self::fault::{Fault, FaultStep, Scope};
