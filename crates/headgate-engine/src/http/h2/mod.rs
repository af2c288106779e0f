//! HTTP/2 (RFC 9113): many exchanges at once over one connection. Frames, header compression and flow control are the crate
//! `h2`'s; which connection a request goes to, what a server may do to us, and when to give up is decided here.

pub mod connection;
mod errors;
pub mod exchange;
mod frames;
mod meter;
mod metered;
pub mod request;
pub mod resends;
pub mod streams;
