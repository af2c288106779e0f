//! A DNS server, and a resolver that queries it.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use headgate_core::error::ErrorKind;
use headgate_core::origin::{HostName, Origin};
use headgate_http::dial::dns::config::ResolverConfig;
use headgate_http::dial::resolve::Resolver;
use headgate_testserver::{DnsConfig, DnsServer};

/// How long to wait for an expected event: far longer than it takes on a loaded machine.
pub const MAX_WAIT: Duration = Duration::from_secs(120);

pub fn server() -> DnsServer {
    DnsServer::start(DnsConfig::default()).unwrap()
}

/// Starts a DNS server that treats all hostnames alike.
pub fn server_that(always: &str) -> DnsServer {
    DnsServer::start(DnsConfig { always: Some(always.into()), ..DnsConfig::default() }).unwrap()
}

/// A DNS server that never replies, and counts the queries it receives.
pub struct Dead(UdpSocket);

impl Dead {
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        Self(socket)
    }

    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// Returns the number of queries since the last call.
    pub fn query_count(&self) -> usize {
        std::iter::from_fn(|| self.0.recv(&mut [0; 512]).ok()).count()
    }
}

/// Returns a configuration with one query to each DNS server and a long timeout, so that queries can be counted on a loaded
/// machine.
pub fn config(servers: impl IntoIterator<Item = SocketAddr>) -> ResolverConfig {
    ResolverConfig {
        servers: servers.into_iter().collect(),
        timeout: MAX_WAIT,
        attempts: 1,
        ..ResolverConfig::default()
    }
}

/// Returns a resolver with retries, for so many concurrent lookups that packets may be lost.
pub fn resolver_with_retries(server: &DnsServer) -> Resolver {
    let config = config([server.address()]);
    Resolver::with_config(ResolverConfig { timeout: Duration::from_secs(2), attempts: 3, ..config })
}

pub fn resolver(server: &DnsServer) -> Resolver {
    Resolver::with_config(config([server.address()]))
}

pub async fn resolve_by(resolver: &Resolver, name: &str, by: Instant) -> Result<Vec<IpAddr>, String> {
    let origin = Origin { https: false, name: HostName::Domain(name.into()), port: 80 };
    match resolver.resolve(&origin, by).await {
        Ok(addresses) => Ok(addresses.into_iter().map(|address| address.ip()).collect()),
        Err(failure) => {
            assert_eq!(ErrorKind::Dns, failure.kind);
            Err(failure.reason.to_string())
        }
    }
}

pub async fn resolve(resolver: &Resolver, name: &str) -> Result<Vec<IpAddr>, String> {
    resolve_by(resolver, name, Instant::now() + MAX_WAIT).await
}

/// Returns the address that all hostnames have.
pub fn loopback() -> Vec<IpAddr> {
    vec!["127.0.0.1".parse().unwrap()]
}

/// Waits until `condition` holds, and lets other tasks run meanwhile.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + MAX_WAIT;
    while !condition().await {
        assert!(Instant::now() < until, "it never came to pass that {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
