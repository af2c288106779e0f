//! Makes connections to origins: DNS, proxies, TCP, TLS.

mod authorities;
pub mod connect;
pub mod dns;
pub(crate) mod forward;
mod handshake;
mod identity;
pub(crate) mod in_process;
mod local;
mod no_proxy;
mod overrides;
pub(crate) mod policy;
mod proxy;
mod race;
pub mod resolve;
mod special_ranges;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod tls_errors;
pub mod transport;
mod tunnel;
mod verifier;
