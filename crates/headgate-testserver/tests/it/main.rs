//! The server as a client sees it: bytes over a socket.

mod client;
mod default_answer;
mod faults;
mod helpers;
mod http2;
mod lifecycle;
mod limits;
mod statistics;
