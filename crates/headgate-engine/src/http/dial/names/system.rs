//! The system's own resolver (getaddrinfo): all that it knows (NSS modules, mDNS, …), at the price of a thread for each look-up.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::http::dial::names::answer::{NO_ADDRESS, Settled};
use crate::model::reason::Reason;

/// Look-ups that run at once, each on a thread; those beyond them wait in line.
pub const MAX_THREADS: usize = 32;
/// How long addresses are believed: the system tells no lifetime.
const FOUND_FOR: Duration = Duration::from_secs(60);
/// Addresses of one name that are kept.
const MAX_ADDRESSES: usize = 16;

#[derive(Debug)]
pub struct System {
    threads: Arc<Semaphore>,
}

impl Default for System {
    fn default() -> Self {
        Self { threads: Arc::new(Semaphore::new(MAX_THREADS)) }
    }
}

impl System {
    /// Cancelling it leaves its thread to the system for as long as that takes.
    pub async fn look_up(&self, name: &str) -> Settled {
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
                    return Settled::none(NO_ADDRESS, None);
                }
                Settled::found(addresses, FOUND_FOR)
            }
            Ok(Err(error)) => Settled::none(error.to_string(), None),
            Err(error) => Settled::none(Reason::new("the look-up was cancelled").with(error.to_string()), None),
        }
    }
}
