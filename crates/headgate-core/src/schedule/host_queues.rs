//! The hosts of a scheduler: found by name, numbered, bounded.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::host_queue::HostQueue;

/// The maximum number of hosts, at some 300 bytes each: those that can be forgotten are evicted first.
pub const MAX_HOSTS: usize = 131_072;

/// Searching all of them takes a millisecond.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// The number of a host, valid while a row of it is in flight or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostIndex(u32);

#[derive(Debug)]
pub(super) struct HostQueues {
    slots: Vec<Option<HostQueue>>,
    by_name: HashMap<Box<str>, HostIndex>,
    free: Vec<HostIndex>,
    most: usize,
    /// With fewer hosts than this, none is evicted.
    sweep_at: usize,
    /// No eviction before this time, if the last one found too few.
    sweep_after: Option<Instant>,
}

impl HostQueues {
    pub(super) fn new(max_hosts: usize) -> Self {
        let max_hosts = max_hosts.max(1);
        Self {
            slots: Vec::new(),
            by_name: HashMap::new(),
            free: Vec::new(),
            most: max_hosts,
            sweep_at: max_hosts,
            sweep_after: None,
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<HostIndex> {
        self.by_name.get(name).copied()
    }

    pub(super) fn insert(&mut self, host: HostQueue) -> HostIndex {
        let name = host.name.clone();
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            HostIndex((self.slots.len() - 1) as u32)
        });
        self.slots[index.0 as usize] = Some(host);
        self.by_name.insert(name, index);
        index
    }

    /// # Panics
    /// The host was forgotten, which cannot happen while it is in use.
    pub(super) fn at(&mut self, index: HostIndex) -> &mut HostQueue {
        self.slots[index.0 as usize].as_mut().expect("a host in use is not forgotten")
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn indices(&self) -> impl Iterator<Item = HostIndex> + use<> {
        (0..self.slots.len() as u32).map(HostIndex)
    }

    pub(super) fn get(&mut self, index: HostIndex) -> Option<&mut HostQueue> {
        self.slots[index.0 as usize].as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HostQueue> {
        self.slots.iter().flatten()
    }

    /// Returns when to try another eviction, if the table is full.
    pub(super) fn next_eviction_at(&self, now: Instant) -> Option<Instant> {
        (self.len() >= self.most).then(|| now + SWEEP_EVERY)
    }

    /// Returns whether there is space for another host.
    pub(super) fn has_space(&self) -> bool {
        self.len() < self.most
    }

    /// Evicts hosts that can be forgotten, if there are too many. Returns how many of them were unhealthy.
    pub(super) fn evict(&mut self, now: Instant) -> usize {
        if self.len() < self.sweep_at || self.sweep_after.is_some_and(|after| now < after) {
            return 0;
        }
        self.sweep_after = Some(now + SWEEP_EVERY);
        let Self { slots, by_name, free, .. } = self;
        let mut unhealthy = 0;
        for (index, slot) in slots.iter_mut().enumerate() {
            if let Some(host) = slot.take_if(|host| host.may_be_forgotten(now)) {
                by_name.remove(&host.name);
                unhealthy += usize::from(host.breaker.is_some());
                free.push(HostIndex(index as u32));
            }
        }
        // Another search of all of them must be worth it.
        let margin = (self.most / 16).max(1);
        self.sweep_at = (self.len() + margin).max(self.most / 2).min(self.most);
        unhealthy
    }
}
