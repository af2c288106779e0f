//! Names to addresses, without blocking anybody.
//!
//! A client of the system's name servers (a stub resolver, RFC 1034 section 5.3.1), on a thread of its own: questions of all
//! workers go out over a few sockets, and a look-up outlives the worker that asked first. Beside it, `--dns system` asks the
//! system instead, on a bounded number of threads.
//!
//! - What is known already is in `cache`, bounded in number and time. A name is asked for once, whoever waits.
//! - `look_up` is one name: search domains, both families. `servers` is one question: who is asked, and again. `sockets` is a
//!   packet on its way. `message` is what is believed of an answer, whose bytes `hickory_proto` reads.
//! - `files` follows the system's configuration: a look-up that begins 5 s after a change, or later, obeys it.
//! - Bounded are: names remembered ([`cache::MAX_NAMES`]), look-ups (by the lanes: one that nobody waits for any more is given
//!   up), those whose first answer is awaited ([`MAX_BEGINNING`]), packets for each ([`servers`]), sockets
//!   ([`sockets::MAX_SOCKETS`] and [`servers::MAX_CONNECTIONS`]), addresses and lifetimes (`look_up`).
//! - Names that a server does not answer cost the others nothing: nothing is concluded from them, and they give up their
//!   place among those that begin after a second.
//!
//! Why not `hickory_resolver`: it took 86 to 114 µs of processor time for a name where this takes some 30, and it concludes
//! from names that are never answered, or that have addresses of one family only, that their server has failed.
//!
//! What it does not do: NSS modules and mDNS, DNSSEC, encrypted transports.

pub mod answer;
pub mod cache;
pub mod config;
pub mod files;
pub mod hosts;
pub mod look_up;
pub mod message;
pub mod servers;
pub mod sockets;
pub mod system;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

use self::answer::{Answer, Settled};
use self::cache::LookUp;
use self::config::Config;
use self::files::{Files, Watch};
use self::look_up::look_up;
use self::message::Family;
use self::servers::{FIRST_WAIT, Servers};
use self::system::System;

/// Look-ups that wait for their first answer: a burst of more would only be packets that the kernel has no room for. At 50 ms
/// for an answer it allows 20,000 names a second.
pub const MAX_BEGINNING: usize = 1024;

/// The thread that looks names up. Dropping it ends what is under way.
#[derive(Debug)]
pub struct Names {
    way: Arc<Way>,
    handle: Handle,
    _running: oneshot::Sender<()>,
}

/// Who is asked.
#[derive(Debug)]
enum Way {
    Servers(Box<Client>),
    System(System),
}

/// A client of name servers.
#[derive(Debug)]
struct Client {
    current: Mutex<Current>,
    beginning: Semaphore,
}

/// Whom it asks for names to come.
#[derive(Debug)]
struct Current {
    configured: Arc<Configured>,
    /// `None`: it does not change.
    watch: Option<Watch>,
}

/// A configuration at work. Look-ups under way keep theirs.
#[derive(Debug)]
struct Configured {
    servers: Servers,
    config: Config,
    /// The family to connect to first.
    prefer: Family,
}

impl Names {
    /// Asks the servers of `config`.
    ///
    /// # Errors
    /// Why there can be no thread, for a person.
    pub fn of_servers(config: Config) -> Result<Self, String> {
        Self::of_client(config, None)
    }

    /// Asks as the files say, also when they change.
    ///
    /// # Errors
    /// As [`Names::of_servers`].
    pub fn of_files(files: Files, now: Instant) -> Result<Self, String> {
        let (config, watch) = Watch::start(files, now);
        Self::of_client(config, Some(watch))
    }

    fn of_client(config: Config, watch: Option<Watch>) -> Result<Self, String> {
        let current = Mutex::new(Current { configured: Configured::new(config), watch });
        Self::start(Way::Servers(Box::new(Client { current, beginning: Semaphore::new(MAX_BEGINNING) })))
    }

    /// Asks the system.
    ///
    /// # Errors
    /// As [`Names::of_servers`].
    pub fn of_system() -> Result<Self, String> {
        Self::start(Way::System(System::default()))
    }

    fn start(way: Way) -> Result<Self, String> {
        let failed = |error| format!("names can't be looked up: {error}");
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(system::MAX_THREADS)
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        let (running, stopped) = oneshot::channel();
        let work = move || {
            // It is never sent: what it waits for is that its sender is dropped.
            let _ = runtime.block_on(stopped);
            // A look-up may hang in the system's resolver: it is not waited for.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("headgate-names".into()).spawn(work).map_err(failed)?;
        Ok(Self { way: Arc::new(way), handle, _running: running })
    }

    /// What is known of a name without asking anybody.
    pub fn known(&self, name: &str, now: Instant) -> Option<Answer> {
        let Way::Servers(client) = &*self.way else { return None };
        if let Some(addresses) = client.configured(now).config.hosts.get(name) {
            return Some(Ok(addresses.into()));
        }
        // RFC 6761 section 6: no server is to be asked for these.
        match name.strip_suffix('.').unwrap_or(name).rsplit('.').next() {
            Some("localhost") => Some(Ok([Ipv4Addr::LOCALHOST.into(), IpAddr::from(Ipv6Addr::LOCALHOST)].into())),
            Some("invalid") => Some(Err(Arc::new("there is no such name".into()))),
            _ => None,
        }
    }

    /// Begins to find out about a name, for as long as somebody waits for it.
    pub fn begin(&self, look_up: LookUp) {
        let way = self.way.clone();
        self.handle.spawn(async move {
            let settled = tokio::select! {
                settled = way.look_up(&look_up.name) => settled,
                () = look_up.unwanted() => return,
            };
            look_up.settle(settled, Instant::now());
        });
    }
}

impl Way {
    async fn look_up(&self, name: &str) -> Settled {
        let client = match self {
            Self::Servers(client) => client,
            Self::System(system) => return system.look_up(name).await,
        };
        let beginning = client.beginning.acquire().await;
        let configured = client.configured(Instant::now());
        let mut settled = pin!(look_up(&configured.servers, &configured.config, name, configured.prefer));
        tokio::select! {
            settled = &mut settled => settled,
            () = sleep(FIRST_WAIT) => {
                drop(beginning);
                settled.await
            }
        }
    }
}

impl Client {
    /// As the files say, which are read here if they have changed: small ones, in general.
    fn configured(&self, now: Instant) -> Arc<Configured> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = current.watch.as_mut().and_then(|watch| watch.changed(now)) {
            current.configured = Configured::new(config);
        }
        current.configured.clone()
    }
}

impl Configured {
    fn new(config: Config) -> Arc<Self> {
        Arc::new(Self { servers: Servers::new(&config), config, prefer: preferred_family() })
    }
}

/// IPv6 where a way leads out of this machine over it (RFC 6724 section 6, rule 1). Sends nothing.
fn preferred_family() -> Family {
    const ANYWHERE: (Ipv6Addr, u16) = (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 53);
    let routed = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).and_then(|socket| socket.connect(ANYWHERE));
    if routed.is_ok() { Family::V6 } else { Family::V4 }
}
