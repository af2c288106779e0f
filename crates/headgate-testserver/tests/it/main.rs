//! The server from a client's point of view: bytes over a socket.

mod client;
mod default_response;
mod faults;
mod helpers;
mod http2;
mod lifecycle;
mod limits;
mod statistics;
