//! Names to addresses: the system's resolver (`/etc/hosts`, search domains and all), behind a cache.
//!
//! However many requests ask for a name at once, it is looked up once. What is remembered is bounded in number and time;
//! the system tells no lifetime, so ours is short. Lookups run on each worker's blocking threads, whose number is
//! bounded where the runtime is built; what waits for a thread is bounded here, since a lookup that was given up still
//! waits for its own.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;
use tokio::sync::{OnceCell, Semaphore};

use crate::model::error::{ErrorKind, Failure};
use crate::model::origin::{HostName, Origin};

/// Names remembered at the most; the least recently used go first.
const MAX_NAMES: NonZeroUsize = NonZeroUsize::new(16_384).expect("not zero");
/// How long addresses are believed.
const FOUND_FOR: Duration = Duration::from_secs(60);
/// How long a failure is believed: long enough not to ask again for each row of a dead host.
const FAILED_FOR: Duration = Duration::from_secs(5);
/// Lookups that run or wait for a thread; requests beyond them wait in line, and leave it when their time is over.
const MAX_LOOKUPS: usize = 64;
/// Addresses of one name that are kept.
const MAX_ADDRESSES: usize = 16;

type Lookup = Result<Arc<[IpAddr]>, String>;

/// A lookup and when it was done.
type Done = (Lookup, Instant);

/// The cache, shared by all workers.
#[derive(Debug)]
pub struct Resolver {
    names: Mutex<LruCache<Box<str>, Entry>>,
    lookups: Arc<Semaphore>,
}

#[derive(Debug, Clone)]
struct Entry {
    lookup: Arc<OnceCell<Done>>,
}

impl Entry {
    fn is_stale(&self, now: Instant) -> bool {
        self.lookup.get().is_some_and(|(lookup, done)| {
            now.saturating_duration_since(*done) > if lookup.is_ok() { FOUND_FOR } else { FAILED_FOR }
        })
    }
}

impl Default for Resolver {
    fn default() -> Self {
        Self { names: Mutex::new(LruCache::new(MAX_NAMES)), lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

impl Resolver {
    /// Where to connect for an origin: at least one address, in the resolver's order of preference.
    ///
    /// # Errors
    /// `resolve`: the name has no address, or the resolver could not say.
    ///
    /// Cancelling it leaves a lookup that others wait for to one of them.
    pub async fn resolve(&self, origin: &Origin) -> Result<Vec<SocketAddr>, Failure> {
        let name = match &origin.name {
            HostName::V4(address) => return Ok(vec![SocketAddr::new((*address).into(), origin.port)]),
            HostName::V6(address) => return Ok(vec![SocketAddr::new((*address).into(), origin.port)]),
            HostName::Domain(name) => name,
        };
        let lookup = self.entry(name).lookup;
        let (lookup, _) = lookup.get_or_init(async || (self.look_up(name.clone()).await, Instant::now())).await;
        match lookup {
            Ok(addresses) => Ok(addresses.iter().map(|address| SocketAddr::new(*address, origin.port)).collect()),
            Err(message) => Err(Failure::new(ErrorKind::Resolve, format!("{name}: {message}"))),
        }
    }

    fn entry(&self, name: &str) -> Entry {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match names.get(name) {
            Some(entry) if !entry.is_stale(now) => entry.clone(),
            _ => {
                let entry = Entry { lookup: Arc::default() };
                names.put(name.into(), entry.clone());
                entry
            }
        }
    }

    async fn look_up(&self, name: Box<str>) -> Lookup {
        let turn = self.lookups.clone().acquire_owned().await;
        let found = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            (&*name, 0).to_socket_addrs()
        });
        match found.await {
            Ok(Ok(found)) => {
                let mut addresses: Vec<IpAddr> = Vec::new();
                for address in found.map(|found| found.ip()) {
                    if addresses.len() < MAX_ADDRESSES && !addresses.contains(&address) {
                        addresses.push(address);
                    }
                }
                if addresses.is_empty() { Err("the name has no address".into()) } else { Ok(addresses.into()) }
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(format!("the lookup was given up: {error}")),
        }
    }
}
