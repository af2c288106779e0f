//! The system's resolver (getaddrinfo) with all its sources (NSS modules, mDNS, …), at the cost of a thread for each lookup.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use headgate_core::reason::Reason;
use tokio::sync::Semaphore;

use crate::dial::dns::lookup_result::{LookupResult, NO_ADDRESS};

/// The bound of lookups that run at once, each on a thread; further lookups wait.
pub(crate) const MAX_THREADS: usize = 32;
/// The lifetime of addresses, since getaddrinfo returns none.
const LIFETIME: Duration = Duration::from_secs(60);
/// The bound of addresses kept for one hostname.
const MAX_ADDRESSES: usize = 16;

#[derive(Debug)]
pub(crate) struct SystemResolver {
    threads: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { threads: Arc::new(Semaphore::new(MAX_THREADS)) }
    }
}

impl SystemResolver {
    /// Looks a hostname up. If it is cancelled, its thread remains occupied until getaddrinfo returns.
    pub(crate) async fn lookup(&self, name: &str) -> LookupResult {
        let permit = self.threads.clone().acquire_owned().await;
        let name = name.to_owned();
        let found = tokio::task::spawn_blocking(move || {
            let _permit = permit;
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
                if addresses.is_empty() {
                    return LookupResult::no_address(NO_ADDRESS, None);
                }
                LookupResult::addresses(addresses, LIFETIME)
            }
            Ok(Err(error)) => LookupResult::no_address(error.to_string(), None),
            Err(error) => {
                LookupResult::no_address(Reason::new("the lookup was cancelled").with(error.to_string()), None)
            }
        }
    }
}
