//! From an origin to a connection: its name's addresses, TCP, TLS.

pub mod connect;
pub mod names;
pub mod resolve;
pub mod route;
pub mod tls;
pub mod trouble;
mod verifier;
