//! Makes connections to origins: DNS, proxies, TCP, TLS.

pub mod connect;
pub mod dns;
pub mod forward;
mod handshake;
mod identity;
pub mod in_process;
mod local;
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
