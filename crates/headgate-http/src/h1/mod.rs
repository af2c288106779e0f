//! HTTP/1.1: one request and its response at a time over one connection (RFC 9112).

pub(crate) mod chunked;
pub(crate) mod exchange;
pub(crate) mod framing;
pub(crate) mod head;
mod lenient;
pub(crate) mod parse;
pub mod read_reservation;
pub(crate) mod response;
pub(crate) mod transfer;
