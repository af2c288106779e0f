//! The hosts that an engine knows: one entry for each scheme, name and port, shared by all of its runs.
//!
//! What limits requests to a host and what was learned of it is kept here; header blocks belong to a run, and idle
//! connections to a worker. A worker looks here once for each site that it has not met before, so that no row takes the
//! lock.
//!
//! The table is bounded. When it is full, hosts are evicted that are not in use and of which nothing is known that still holds;
//! then those not in use; then those looked up the longest ago. A host that was evicted and comes back begins anew.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::model::origin::Origin;
use crate::queue::host_connections::HostConnections;

/// Hosts in the table at the most: some 15 MB.
pub const MAX_HOSTS: usize = 65_536;
/// The share of the table that makes room at a time, so that looking through all of it is rare.
const SHARE_THAT_GOES: usize = 4;
/// The time for which an address is preferred to those before it (RFC 6555 section 4.1 names 10 minutes).
const ADDRESS_FOR: Duration = Duration::from_secs(600);
/// The time for which a host's HTTP version is remembered. Each new connection renews it.
const VERSION_FOR: Duration = Duration::from_secs(3600);

/// The version of HTTP that a host speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    Http1,
    /// It has said that it wants no other.
    OnlyHttp1,
    Http2,
}

/// The state of one host.
#[derive(Debug)]
pub struct Host {
    pub connections: Arc<HostConnections>,
    learned: Mutex<Learned>,
    created: Instant,
    /// Whole seconds from `created` to the last response, and 1; 0: there was none.
    responded: AtomicU32,
}

/// Each fact has a time until which it holds.
#[derive(Debug, Default)]
struct Learned {
    address: Option<(IpAddr, Instant)>,
    speaks: Option<(Speaks, Instant)>,
}

impl Learned {
    /// Until when something of it holds.
    fn holds_until(&self) -> Option<Instant> {
        self.address.map(|(_, until)| until).max(self.speaks.map(|(_, until)| until))
    }
}

impl Host {
    pub fn new(now: Instant) -> Self {
        Self { connections: Arc::default(), learned: Mutex::default(), created: now, responded: AtomicU32::new(0) }
    }

    /// Notes that a response head came. Returns whether it is the first of its second.
    pub fn note_response(&self, now: Instant) -> bool {
        let second = now.saturating_duration_since(self.created).as_secs() as u32 + 1;
        // All workers look here for each response. It is written once a second, so that it stays in their caches.
        let is_first = self.responded.load(Ordering::Relaxed) < second;
        if is_first {
            self.responded.store(second, Ordering::Relaxed);
        }
        is_first
    }

    /// When a response head came last, to the second.
    pub fn responded_at(&self) -> Option<Instant> {
        let second = self.responded.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.created + Duration::from_secs(second.into()))
    }

    /// The address that a connection was last made to, where those before it failed or were too slow.
    pub fn address(&self, now: Instant) -> Option<IpAddr> {
        self.learned().address.filter(|(_, until)| now < *until).map(|(address, _)| address)
    }

    /// A connection was made to this address; `is_first`: it is the one that the resolver prefers.
    pub fn connected_to(&self, address: IpAddr, is_first: bool, now: Instant) {
        self.learned().address = (!is_first).then_some((address, now + ADDRESS_FOR));
    }

    /// The version of HTTP that a connection to it was last found to speak, where it was asked.
    pub fn speaks(&self, now: Instant) -> Option<Speaks> {
        self.learned().speaks.filter(|(_, until)| now < *until).map(|(speaks, _)| speaks)
    }

    /// It was found to speak this.
    pub fn spoke(&self, speaks: Speaks, now: Instant) {
        // One that wants no other speaks HTTP/1.1 because nothing else is offered.
        if speaks != Speaks::Http1 || self.speaks(now) != Some(Speaks::OnlyHttp1) {
            self.learned().speaks = Some((speaks, now + VERSION_FOR));
        }
    }

    fn holds(&self, now: Instant) -> bool {
        self.learned().holds_until().is_some_and(|until| now < until)
    }

    fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the top of this file.
#[derive(Debug)]
pub struct HostTable {
    hosts: HashMap<Origin, Entry>,
    max_hosts: usize,
    looked_up: u64,
}

#[derive(Debug)]
struct Entry {
    host: Arc<Host>,
    /// The number of the look-up that last found it.
    used: u64,
}

impl HostTable {
    /// Of up to `max_hosts` hosts, at least one.
    pub fn new(max_hosts: usize) -> Self {
        Self { hosts: HashMap::new(), max_hosts: max_hosts.max(1), looked_up: 0 }
    }

    /// Returns the entry of a host. It is in use as long as a caller has it.
    pub fn get(&mut self, origin: &Origin, now: Instant) -> Arc<Host> {
        self.looked_up += 1;
        if let Some(entry) = self.hosts.get_mut(origin) {
            entry.used = self.looked_up;
            return entry.host.clone();
        }
        if self.hosts.len() >= self.max_hosts {
            self.make_room(now);
        }
        let host = Arc::new(Host::new(now));
        self.hosts.insert(origin.clone(), Entry { host: host.clone(), used: self.looked_up });
        host
    }

    /// Forgets some hosts, those first that are missed the least.
    fn make_room(&mut self, now: Instant) {
        let rank = |entry: &Entry| (Arc::strong_count(&entry.host) > 1, entry.host.holds(now), entry.used);
        let mut ranks: Vec<_> = self.hosts.values().map(rank).collect();
        let count = (self.max_hosts / SHARE_THAT_GOES).max(1);
        let last_to_go = *ranks.select_nth_unstable(count - 1).1;
        self.hosts.retain(|_, entry| rank(entry) > last_to_go);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::model::origin::HostName;

    fn origin(number: u16) -> Origin {
        Origin { https: false, name: HostName::V4(Ipv4Addr::LOCALHOST), port: number }
    }

    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn what_was_learned_of_a_host_is_known_to_all_until_it_no_longer_holds() {
        let start = Instant::now();
        let mut table = HostTable::new(2);
        table.get(&origin(1), start).connected_to(ADDRESS, false, start);
        let host = table.get(&origin(1), start);
        assert_eq!(Some(ADDRESS), host.address(start + ADDRESS_FOR.mul_f64(0.9)));
        assert_eq!(None, host.address(start + ADDRESS_FOR));
        host.connected_to(ADDRESS, true, start);
        assert_eq!(None, host.address(start), "the preferred one works again");
    }

    #[test]
    fn a_full_table_forgets_first_what_nobody_uses_and_nothing_is_known_of() {
        let start = Instant::now();
        let mut table = HostTable::new(4);
        let used = table.get(&origin(1), start);
        table.get(&origin(2), start).connected_to(ADDRESS, false, start);
        table.get(&origin(3), start);
        table.get(&origin(4), start);
        let there = |table: &HostTable| -> Vec<u16> {
            (1..=9).filter(|number| table.hosts.contains_key(&origin(*number))).collect()
        };
        for (expected, new) in [
            // The oldest of those of which nothing is known, then the next one.
            (vec![1, 2, 4, 5], 5),
            (vec![1, 2, 5, 6], 6),
        ] {
            table.get(&origin(new), start);
            assert_eq!(expected, there(&table));
        }
        // When it no longer holds, what was learned keeps no host.
        let later = start + ADDRESS_FOR;
        table.get(&origin(7), later);
        assert_eq!(vec![1, 5, 6, 7], there(&table));
        let all = [5, 6, 7].map(|number| table.get(&origin(number), later));
        // All are in use: the one that was asked for the longest time ago.
        table.get(&origin(8), later);
        assert_eq!(vec![5, 6, 7, 8], there(&table));
        drop((used, all));
    }

    proptest! {
        #[test]
        fn the_table_never_passes_its_bound_and_whoever_uses_a_host_has_the_one_of_all(
            max_hosts in 1..40_usize, asked in proptest::collection::vec((0..200_u16, any::<bool>()), 0..400),
        ) {
            let now = Instant::now();
            let mut table = HostTable::new(max_hosts);
            let mut held: HashMap<u16, Arc<Host>> = HashMap::new();
            for (number, keep) in asked {
                let host = table.get(&origin(number), now);
                if let Some(other) = held.get(&number) {
                    prop_assert!(Arc::ptr_eq(other, &host));
                }
                // As long as those in use are fewer than there is room for, none of them goes.
                if keep && held.len() + 1 < max_hosts - (max_hosts / SHARE_THAT_GOES).max(1) {
                    held.insert(number, host);
                }
                prop_assert!(table.hosts.len() <= max_hosts);
            }
        }
    }
}
