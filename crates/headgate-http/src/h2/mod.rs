//! HTTP/2 (RFC 9113): many concurrent exchanges over one connection. The crate `h2` handles frames, header compression and
//! flow control. This module selects the connection of a request, bounds what a server may cost, and closes dead connections.

pub(crate) mod connection;
mod errors;
pub(crate) mod exchange;
mod frames;
mod meter;
mod metered;
pub(crate) mod request;
pub(crate) mod resends;
pub(crate) mod streams;
