//! From an origin to a connection: its name's addresses or a proxy, TCP, TLS.

pub mod ask_proxy;
pub mod connect;
mod handshake;
mod identity;
pub mod in_process;
mod local;
pub mod names;
mod no_proxy;
mod overrides;
pub mod policy;
mod proxy;
mod race;
pub mod resolve;
mod special_ranges;
pub mod stream;
pub mod tls;
pub mod tls_errors;
pub mod transport;
mod tunnel;
mod verifier;
