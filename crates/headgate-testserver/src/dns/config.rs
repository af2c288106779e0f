//! The configuration of the DNS server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The configuration of a DNS server.
#[derive(Debug, Clone)]
pub struct DnsConfig {
    /// The address to listen on; port 0 stands for a free port.
    pub address: SocketAddr,
    /// The delay of each response.
    pub delay: Duration,
    /// The number of addresses, from 127.0.0.1 on, that names are distributed over.
    pub addresses: u8,
    /// The lifetime of an address in seconds, unless the name has its own.
    pub seconds: u32,
    /// A label that replaces the first label of each name.
    pub always: Option<String>,
}

impl Default for DnsConfig {
    fn default() -> Self {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Self { address, delay: Duration::ZERO, addresses: 1, seconds: 60, always: None }
    }
}
