//! HTTP/1.1: one request and its response at a time over one connection (RFC 9112).

pub mod chunked;
pub mod exchange;
pub mod framing;
pub mod head;
mod lenient;
pub mod parse;
pub mod read_reservation;
pub mod response;
pub mod transfer;
