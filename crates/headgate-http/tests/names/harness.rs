//! A name server, and a resolver before it.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use headgate_core::error::ErrorKind;
use headgate_core::origin::{HostName, Origin};
use headgate_http::dial::dns::config::ResolverConfig;
use headgate_http::dial::resolve::Resolver;
use headgate_testserver::{DnsConfig, DnsServer};

/// How long to wait for what must happen: far beyond what it takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub fn server() -> DnsServer {
    DnsServer::start(DnsConfig::default()).unwrap()
}

/// One to which all names are alike.
pub fn server_that(always: &str) -> DnsServer {
    DnsServer::start(DnsConfig { always: Some(always.into()), ..DnsConfig::default() }).unwrap()
}

/// One that hears and never answers, and counts what it heard.
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

    /// Questions heard since the last time.
    pub fn heard(&self) -> usize {
        std::iter::from_fn(|| self.0.recv(&mut [0; 512]).ok()).count()
    }
}

/// Each server is asked once and has all the time, so that questions can be counted on a loaded machine.
pub fn config(servers: impl IntoIterator<Item = SocketAddr>) -> ResolverConfig {
    ResolverConfig {
        servers: servers.into_iter().collect(),
        timeout: PATIENCE,
        attempts: 1,
        ..ResolverConfig::default()
    }
}

/// For so many names at once that packets may be lost.
pub fn insistent(server: &DnsServer) -> Resolver {
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
            assert_eq!(ErrorKind::Resolve, failure.kind);
            Err(failure.reason.to_string())
        }
    }
}

pub async fn resolve(resolver: &Resolver, name: &str) -> Result<Vec<IpAddr>, String> {
    resolve_by(resolver, name, Instant::now() + PATIENCE).await
}

/// The address that names stand for.
pub fn loopback() -> Vec<IpAddr> {
    vec!["127.0.0.1".parse().unwrap()]
}

/// Waits until `condition` holds, and lets others go on meanwhile.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < until, "it never came to pass that {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
