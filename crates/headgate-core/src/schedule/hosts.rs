//! The hosts of an engine: one entry for each scheme, name and port, shared by all of its runs.
//!
//! An entry has the limits of requests to a host and what was learned of it; header blocks belong to a run, and idle
//! connections to a worker. A worker looks up each site once, so that no row takes the lock.
//!
//! The table is bounded. When it is full, hosts are evicted that are not in use and of which nothing valid is known; then
//! those not in use; then those looked up the longest ago. An evicted host that comes back begins anew.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::host_connections::HostConnections;
use crate::origin::Origin;

/// The maximum number of hosts in the table: some 15 MB.
pub const MAX_HOSTS: usize = 65_536;
/// The fraction of the table that is evicted at a time, so that searches of all of it are rare.
const EVICTED_FRACTION: usize = 4;
/// The time for which an address is preferred to those before it (RFC 6555 section 4.1 names 10 minutes).
const ADDRESS_FOR: Duration = Duration::from_secs(600);
/// The time for which a host's HTTP version is remembered. Each new connection renews it.
const VERSION_FOR: Duration = Duration::from_secs(3600);
/// A host that has refused so many HEADs, and accepted none since the first of them, gets no more of them.
const MAX_REFUSED_HEADS: u8 = 8;

/// The version of HTTP that a host speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    Http1,
    /// It has declined any other version.
    OnlyHttp1,
    Http2,
}

/// The state of one host.
#[derive(Debug)]
pub struct Host {
    pub connections: Arc<HostConnections>,
    learned: Mutex<Learned>,
    created: Instant,
    /// Whole seconds from `created` to the last response, plus 1; 0: there was none.
    responded: AtomicU32,
    /// The number of HEADs that it has refused since it last accepted one.
    refused_heads: AtomicU8,
}

/// Each fact has a time until which it is valid.
#[derive(Debug, Default)]
struct Learned {
    address: Option<(IpAddr, Instant)>,
    speaks: Option<(Speaks, Instant)>,
}

impl Learned {
    /// Returns until when a fact is valid.
    fn valid_until(&self) -> Option<Instant> {
        self.address.map(|(_, until)| until).max(self.speaks.map(|(_, until)| until))
    }
}

impl Host {
    pub fn new(now: Instant) -> Self {
        Self {
            connections: Arc::default(),
            learned: Mutex::default(),
            created: now,
            responded: AtomicU32::new(0),
            refused_heads: AtomicU8::new(0),
        }
    }

    /// Records that response headers came. Returns whether they are the first of their second.
    pub fn note_response(&self, now: Instant) -> bool {
        let second = now.saturating_duration_since(self.created).as_secs() as u32 + 1;
        // All workers read this for each response. It is written once a second, so that it stays in their caches.
        let is_first = self.responded.load(Ordering::Relaxed) < second;
        if is_first {
            self.responded.store(second, Ordering::Relaxed);
        }
        is_first
    }

    /// Returns when response headers last came, to the second.
    pub fn responded_at(&self) -> Option<Instant> {
        let second = self.responded.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.created + Duration::from_secs(second.into()))
    }

    /// Records the status of a response to HEAD. 501 is about the whole host, 405 only about one URL (RFC 9110 sections
    /// 15.6.2 and 15.5.6).
    pub fn note_head(&self, status: u16) {
        let before = self.refused_heads.load(Ordering::Relaxed);
        let refused = match status {
            501 => MAX_REFUSED_HEADS,
            405 => before.saturating_add(1),
            ..400 | 404 | 410 => 0,
            _ => before,
        };
        if refused != before {
            self.refused_heads.store(refused, Ordering::Relaxed);
        }
    }

    /// Returns whether it refuses HEAD, as far as is known.
    pub fn refuses_head(&self) -> bool {
        self.refused_heads.load(Ordering::Relaxed) >= MAX_REFUSED_HEADS
    }

    /// Returns the address of the last connection, if those before it failed or were too slow.
    pub fn address(&self, now: Instant) -> Option<IpAddr> {
        self.learned().address.filter(|(_, until)| now < *until).map(|(address, _)| address)
    }

    /// Records a connection to this address; `is_first`: it is the one that the resolver prefers.
    pub fn connected_to(&self, address: IpAddr, is_first: bool, now: Instant) {
        self.learned().address = (!is_first).then_some((address, now + ADDRESS_FOR));
    }

    /// Returns the HTTP version of the last connection that negotiated one.
    pub fn speaks(&self, now: Instant) -> Option<Speaks> {
        self.learned().speaks.filter(|(_, until)| now < *until).map(|(speaks, _)| speaks)
    }

    /// Records the HTTP version of a connection.
    pub fn spoke(&self, speaks: Speaks, now: Instant) {
        // A host that declined any other version speaks HTTP/1.1 because nothing else is offered.
        if speaks != Speaks::Http1 || self.speaks(now) != Some(Speaks::OnlyHttp1) {
            self.learned().speaks = Some((speaks, now + VERSION_FOR));
        }
    }

    fn has_valid_facts(&self, now: Instant) -> bool {
        self.learned().valid_until().is_some_and(|until| now < until)
    }

    fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The table of hosts of an engine.
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
    /// Creates a table of up to `max_hosts` hosts, at least one.
    pub fn new(max_hosts: usize) -> Self {
        Self { hosts: HashMap::new(), max_hosts: max_hosts.max(1), looked_up: 0 }
    }

    /// Returns the entry of a host. It is in use while a caller holds it.
    pub fn get(&mut self, origin: &Origin, now: Instant) -> Arc<Host> {
        self.looked_up += 1;
        if let Some(entry) = self.hosts.get_mut(origin) {
            entry.used = self.looked_up;
            return entry.host.clone();
        }
        if self.hosts.len() >= self.max_hosts {
            self.evict(now);
        }
        let host = Arc::new(Host::new(now));
        self.hosts.insert(origin.clone(), Entry { host: host.clone(), used: self.looked_up });
        host
    }

    /// Evicts some hosts, in the order of the least loss.
    fn evict(&mut self, now: Instant) {
        let rank = |entry: &Entry| (Arc::strong_count(&entry.host) > 1, entry.host.has_valid_facts(now), entry.used);
        let mut ranks: Vec<_> = self.hosts.values().map(rank).collect();
        let count = (self.max_hosts / EVICTED_FRACTION).max(1);
        let last_to_go = *ranks.select_nth_unstable(count - 1).1;
        self.hosts.retain(|_, entry| rank(entry) > last_to_go);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::origin::HostName;

    fn origin(number: u16) -> Origin {
        Origin { https: false, name: HostName::V4(Ipv4Addr::LOCALHOST), port: number }
    }

    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn facts_about_a_host_are_shared_until_they_expire() {
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
    fn a_full_table_first_evicts_unused_hosts_without_facts() {
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
            // The oldest host without facts is evicted, then the next one.
            (vec![1, 2, 4, 5], 5),
            (vec![1, 2, 5, 6], 6),
        ] {
            table.get(&origin(new), start);
            assert_eq!(expected, there(&table));
        }
        // An expired fact does not keep its host.
        let later = start + ADDRESS_FOR;
        table.get(&origin(7), later);
        assert_eq!(vec![1, 5, 6, 7], there(&table));
        let all = [5, 6, 7].map(|number| table.get(&origin(number), later));
        // All are in use: the host that was looked up the longest time ago is evicted.
        table.get(&origin(8), later);
        assert_eq!(vec![5, 6, 7, 8], there(&table));
        drop((used, all));
    }

    proptest! {
        #[test]
        fn the_table_never_exceeds_its_bound_and_all_users_of_a_host_share_its_entry(
            max_hosts in 1..40_usize, queries in proptest::collection::vec((0..200_u16, any::<bool>()), 0..400),
        ) {
            let now = Instant::now();
            let mut table = HostTable::new(max_hosts);
            let mut kept: HashMap<u16, Arc<Host>> = HashMap::new();
            for (number, keep) in queries {
                let host = table.get(&origin(number), now);
                if let Some(other) = kept.get(&number) {
                    prop_assert!(Arc::ptr_eq(other, &host));
                }
                // While fewer hosts are in use than the table can hold, none of them is evicted.
                if keep && kept.len() + 1 < max_hosts - (max_hosts / EVICTED_FRACTION).max(1) {
                    kept.insert(number, host);
                }
                prop_assert!(table.hosts.len() <= max_hosts);
            }
        }
    }
}
