//! HTTP/2 (RFC 9113): many concurrent exchanges over one connection. The crate `h2` handles frames, header compression and
//! flow control. This module selects the connection of a request, bounds what a server may cost, and closes dead connections.

pub mod connection;
mod errors;
pub mod exchange;
mod frames;
mod meter;
mod metered;
pub mod request;
pub mod resends;
pub mod streams;
