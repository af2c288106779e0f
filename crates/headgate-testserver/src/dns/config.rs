//! How the name server answers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How it answers.
#[derive(Debug, Clone)]
pub struct DnsConfig {
    /// What it listens on; port 0 is a free one.
    pub address: SocketAddr,
    /// How long each answer takes.
    pub delay: Duration,
    /// Names stand for this many addresses, from 127.0.0.1 on.
    pub addresses: u8,
    /// How long an address holds, where the name does not say.
    pub seconds: u32,
    /// A label that counts instead of each name's own.
    pub always: Option<String>,
}

impl Default for DnsConfig {
    fn default() -> Self {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Self { address, delay: Duration::ZERO, addresses: 1, seconds: 60, always: None }
    }
}
