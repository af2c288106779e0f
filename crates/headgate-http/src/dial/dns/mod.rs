//! DNS: the addresses of hostnames, without blocking an event loop.
//!
//! A client of the system's DNS servers (a stub resolver, RFC 1034 section 5.3.1), on a thread of its own. Queries of all
//! workers go out over a few sockets, and a lookup outlives the worker that started it. With `--dns-server system`, the system's
//! resolver is used instead, on a bounded number of threads.
//!
//! - `cache` has the results, bounded in number and time. There is one pending lookup for a hostname at most.
//! - `lookup` looks one hostname up: search domains, both families. `servers` sends and retries one query. `sockets` sends
//!   and receives packets. `message` takes the result from a reply that `hickory_proto` decodes.
//! - `files` watches the system's configuration: a change affects all lookups that start at least 5 s later.
//! - Bounds: cached hostnames ([`cache::MAX_HOSTNAMES`]), lookups (by the lanes, since a lookup without a waiting lane is
//!   cancelled), lookups without a first response ([`MAX_AWAITING_FIRST_RESPONSE`]), packets for each ([`servers`]), sockets
//!   ([`sockets::MAX_SOCKETS`] and [`servers::MAX_CONNECTIONS`]), addresses and lifetimes (`lookup`, `lookup_result`).
//! - Hostnames without a response do not slow other lookups down: nothing is concluded from them, and after a second they
//!   release their permit of [`MAX_AWAITING_FIRST_RESPONSE`].
//!
//! Why not `hickory_resolver`: it took 86 to 114 µs of processor time for a hostname where this takes some 30. It also concludes
//! that a server has failed if a hostname gets no response or has addresses of one family only.
//!
//! What it does not do: NSS modules and mDNS, DNSSEC, encrypted transports.

pub mod cache;
pub mod config;
pub mod files;
pub mod hosts;
pub(crate) mod lookup;
pub(crate) mod lookup_result;
pub(crate) mod message;
pub(crate) mod servers;
pub mod sockets;
pub(crate) mod system;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

use self::cache::Lookup;
use self::config::ResolverConfig;
use self::files::{ConfigWatch, Files};
use self::lookup::lookup;
use self::lookup_result::{DnsResult, LookupResult, NO_SUCH_NAME};
use self::message::AddressFamily;
use self::servers::{FIRST_ANSWER_WAIT, Servers};
use self::system::SystemResolver;

use headgate_core::clock;

/// The bound of lookups that wait for their first response: of a larger burst, the kernel would drop packets. At 50 ms for a
/// response it allows 20,000 lookups a second.
pub(crate) const MAX_AWAITING_FIRST_RESPONSE: usize = 1024;

/// The thread that runs lookups. Dropping it cancels them.
#[derive(Debug)]
pub struct DnsClient {
    backend: Arc<Backend>,
    handle: Handle,
    _running: oneshot::Sender<()>,
}

/// The resolver of lookups.
#[derive(Debug)]
enum Backend {
    Servers(Box<StubResolver>),
    System(SystemResolver),
}

/// A client of the configured DNS servers.
#[derive(Debug)]
struct StubResolver {
    current: Mutex<CurrentConfig>,
    awaiting_first_response: Semaphore,
}

/// The configuration for lookups to come.
#[derive(Debug)]
struct CurrentConfig {
    active: Arc<ActiveConfig>,
    /// `None` if the configuration cannot change.
    watch: Option<ConfigWatch>,
}

/// A configuration with its servers. Pending lookups keep the one that they started with.
#[derive(Debug)]
struct ActiveConfig {
    servers: Servers,
    config: ResolverConfig,
    /// The address family to connect to first.
    prefer: AddressFamily,
}

impl DnsClient {
    /// Starts a client with a configuration that does not change.
    ///
    /// # Errors
    /// A readable reason why the thread cannot start.
    pub fn with_config(config: ResolverConfig) -> Result<Self, String> {
        Self::start_stub_resolver(config, None)
    }

    /// Starts a client with the configuration of these files, and follows their changes.
    ///
    /// # Errors
    /// As [`DnsClient::with_config`].
    pub fn with_files(files: Files, now: Instant) -> Result<Self, String> {
        let (config, watch) = ConfigWatch::start(files, now);
        Self::start_stub_resolver(config, Some(watch))
    }

    fn start_stub_resolver(config: ResolverConfig, watch: Option<ConfigWatch>) -> Result<Self, String> {
        let current = Mutex::new(CurrentConfig { active: ActiveConfig::new(config), watch });
        let awaiting_first_response = Semaphore::new(MAX_AWAITING_FIRST_RESPONSE);
        Self::start_thread(Backend::Servers(Box::new(StubResolver { current, awaiting_first_response })))
    }

    /// Starts a client of the system's resolver.
    ///
    /// # Errors
    /// As [`DnsClient::with_config`].
    pub(crate) fn with_system() -> Result<Self, String> {
        Self::start_thread(Backend::System(SystemResolver::default()))
    }

    fn start_thread(backend: Backend) -> Result<Self, String> {
        let failed = |error| format!("hostnames can't be looked up: {error}");
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(system::MAX_THREADS)
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        let (running, stopped) = oneshot::channel();
        let work = move || {
            // Nothing is ever sent: this waits until the sender is dropped.
            let _ = runtime.block_on(stopped);
            // A lookup may hang in the system's resolver, so the thread does not wait for it.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("headgate-dns".into()).spawn(work).map_err(failed)?;
        Ok(Self { backend: Arc::new(backend), handle, _running: running })
    }

    /// Returns the result for a hostname that needs no query, from the hosts file or by RFC 6761.
    pub fn local_result(&self, name: &str, now: Instant) -> Option<DnsResult> {
        let Backend::Servers(client) = &*self.backend else { return None };
        if let Some(addresses) = client.poll_config(now).config.hosts.get(name) {
            return Some(Ok(addresses.into()));
        }
        // RFC 6761 section 6: no query is to be sent for these.
        match name.strip_suffix('.').unwrap_or(name).rsplit('.').next() {
            Some("localhost") => Some(Ok([Ipv4Addr::LOCALHOST.into(), IpAddr::from(Ipv6Addr::LOCALHOST)].into())),
            Some("invalid") => Some(Err(Arc::new(NO_SUCH_NAME.into()))),
            _ => None,
        }
    }

    /// Runs a lookup on the thread, for as long as a caller waits for it.
    pub fn spawn(&self, lookup: Lookup) {
        let backend = self.backend.clone();
        self.handle.spawn(async move {
            let result = tokio::select! {
                result = backend.lookup(&lookup.name) => result,
                () = lookup.wait_unwanted() => return,
            };
            lookup.complete(result, clock::now());
        });
    }
}

impl Backend {
    async fn lookup(&self, name: &str) -> LookupResult {
        let client = match self {
            Self::Servers(client) => client,
            Self::System(system) => return system.lookup(name).await,
        };
        let awaiting_first_response = client.awaiting_first_response.acquire().await;
        let active = client.poll_config(clock::now());
        let mut result = pin!(lookup(&active.servers, &active.config, name, active.prefer));
        tokio::select! {
            result = &mut result => result,
            () = sleep(FIRST_ANSWER_WAIT) => {
                drop(awaiting_first_response);
                result.await
            }
        }
    }
}

impl StubResolver {
    /// Returns the current configuration. Reads the files here if they have changed, since they are usually small.
    fn poll_config(&self, now: Instant) -> Arc<ActiveConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = current.watch.as_mut().and_then(|watch| watch.poll_change(now)) {
            current.active = ActiveConfig::new(config);
        }
        current.active.clone()
    }
}

impl ActiveConfig {
    fn new(config: ResolverConfig) -> Arc<Self> {
        Arc::new(Self { servers: Servers::new(&config), config, prefer: preferred_family() })
    }
}

/// Returns IPv6 if this machine has a route for it (RFC 6724 section 6, rule 1). Sends nothing.
fn preferred_family() -> AddressFamily {
    const ANYWHERE: (Ipv6Addr, u16) = (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 53);
    let routed = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).and_then(|socket| socket.connect(ANYWHERE));
    if routed.is_ok() { AddressFamily::V6 } else { AddressFamily::V4 }
}
