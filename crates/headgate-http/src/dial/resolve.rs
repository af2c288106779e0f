//! Resolves an origin to the addresses to connect to.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::options::Dns;
use headgate_core::origin::{HostName, Origin};
use headgate_core::reason::Reason;
use headgate_core::timer::timeout_at;
use headgate_core::virtual_clock::Working;

use crate::dial::dns::DnsClient;
use crate::dial::dns::cache::{Cache, Cached, MAX_HOSTNAMES};
use crate::dial::dns::config::ResolverConfig;
use crate::dial::dns::files::Files;
use crate::dial::dns::lookup_result::{DnsResult, is_lasting};

/// Looks hostnames up for all workers.
#[derive(Debug)]
pub struct Resolver {
    cache: Arc<Cache>,
    source: DnsSource,
    /// Started with the first hostname, since runs without one need no thread.
    client: OnceLock<Result<DnsClient, String>>,
}

/// The source of the client's configuration.
#[derive(Debug)]
enum DnsSource {
    Option(Dns),
    Config(ResolverConfig),
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new(Dns::default())
    }
}

impl Resolver {
    pub fn new(dns: Dns) -> Self {
        Self::with_source(DnsSource::Option(dns))
    }

    /// Creates a resolver with this configuration instead of the system's.
    pub fn with_config(config: ResolverConfig) -> Self {
        Self::with_source(DnsSource::Config(config))
    }

    fn with_source(source: DnsSource) -> Self {
        Self { cache: Arc::new(Cache::new(MAX_HOSTNAMES)), source, client: OnceLock::new() }
    }

    /// Returns the addresses to connect to for an origin: at least one, in order of preference.
    ///
    /// # Errors
    /// `dns`: the hostname has no address, or no response came until `by`.
    ///
    /// Cancelling it cancels the lookup, unless other callers wait for the same hostname.
    pub async fn resolve(&self, origin: &Origin, by: Instant) -> Result<Vec<SocketAddr>, Failure> {
        let name = match &origin.name {
            HostName::V4(address) => return Ok(vec![SocketAddr::new((*address).into(), origin.port)]),
            HostName::V6(address) => return Ok(vec![SocketAddr::new((*address).into(), origin.port)]),
            HostName::Domain(name) => name,
        };
        match self.lookup(name, by).await {
            Ok(addresses) => Ok(addresses.iter().map(|address| SocketAddr::new(*address, origin.port)).collect()),
            Err(reason) => {
                let failure = Failure::new(ErrorKind::Dns, Reason::clone(&reason));
                Err(if is_lasting(&reason) { failure.lasting() } else { failure })
            }
        }
    }

    async fn lookup(&self, name: &str, by: Instant) -> DnsResult {
        let now = clock::now();
        let client = self.client.get_or_init(|| self.source.start_client(now)).as_ref();
        let client = client.map_err(|error| Arc::new(error.clone().into()))?;
        if let Some(result) = client.local_result(name, now) {
            return result;
        }
        let pending = match self.cache.get_or_join(name, now) {
            Cached::Known(result) => return result,
            Cached::Pending(pending) => pending,
            Cached::Missing(lookup, pending) => {
                client.spawn(lookup);
                pending
            }
        };
        let _working = Working::begin();
        let result = timeout_at(by, pending.wait()).await;
        result.unwrap_or_else(|_| Err(Arc::new("the hostname was not resolved in time".into())))
    }

    /// Returns the numbers of cached hostnames and of pending lookups.
    pub fn hostname_counts(&self) -> (usize, usize) {
        self.cache.counts()
    }
}

impl DnsSource {
    fn start_client(&self, now: Instant) -> Result<DnsClient, String> {
        match self {
            Self::Option(Dns::Configured) => DnsClient::with_files(Files::of_system(None), now),
            Self::Option(Dns::Server(server)) => DnsClient::with_files(Files::of_system(Some(*server)), now),
            Self::Option(Dns::System) => DnsClient::with_system(),
            Self::Config(config) => DnsClient::with_config(config.clone()),
        }
    }
}
