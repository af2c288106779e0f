//! The options of an engine, which outlives its runs.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The port of DNS servers.
const DNS_PORT: u16 = 53;

/// The options of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineOptions {
    /// The number of workers, at least 1; `None`: the cores this process may use.
    pub threads: Option<usize>,
    /// The memory of responses until they are written, and of their decoders, over all runs. `None`:
    /// `MemoryLimit::default_budget`.
    pub max_memory: Option<u64>,
    /// The maximum number of idle connections, over all workers; `None`: some for each connection in use.
    pub max_idle_connections: Option<usize>,
    pub dns: Dns,
}

/// The resolver of hostnames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dns {
    /// Our own resolver, with the DNS servers that the system is configured with.
    #[default]
    Configured,
    /// The system's resolver, on threads.
    System,
    /// Another DNS server.
    Server(SocketAddr),
}

impl FromStr for Dns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "system" {
            return Ok(Self::System);
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let server = bare.parse().map(|address: IpAddr| SocketAddr::new(address, DNS_PORT)).or_else(|_| text.parse());
        match server {
            Ok(server) if server.port() > 0 => Ok(Self::Server(server)),
            _ => {
                Err(format!("must be the IP address of a DNS server, with or without a port, or system, not '{text}'"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resolver_is_the_system_or_an_address() {
        let server = |text: &str| Ok(Dns::Server(text.parse().expect("an address")));
        for (expected, text) in [
            (Ok(Dns::System), "system"),
            (server("9.9.9.9:53"), "9.9.9.9"),
            (server("127.0.0.1:5353"), "127.0.0.1:5353"),
            (server("[::1]:53"), "::1"),
            (server("[::1]:53"), "[::1]"),
            (server("[::1]:5353"), "[::1]:5353"),
        ] {
            assert_eq!(expected, text.parse::<Dns>());
        }
        for text in ["", "System", "dns.example", "1.2.3", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536", "[1.2.3.4"] {
            let message =
                format!("must be the IP address of a DNS server, with or without a port, or system, not '{text}'");
            assert_eq!(Err(message), text.parse::<Dns>());
        }
    }
}
