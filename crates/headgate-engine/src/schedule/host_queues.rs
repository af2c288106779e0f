//! The hosts that a scheduler knows: found by name, numbered, bounded.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::host_queue::HostQueue;

/// Hosts at the most, at some 300 bytes each: those that can be forgotten go first.
pub const MAX_HOSTS: usize = 131_072;

/// Looking through all of them takes a millisecond.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// A host's number, as long as something of it is in flight or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostIndex(u32);

#[derive(Debug)]
pub(super) struct HostQueues {
    places: Vec<Option<HostQueue>>,
    by_name: HashMap<Box<str>, HostIndex>,
    free: Vec<HostIndex>,
    most: usize,
    /// With fewer than this many, hosts that can be forgotten are not looked for.
    sweep_at: usize,
    /// Not before, where the last look found too few.
    sweep_after: Option<Instant>,
}

impl HostQueues {
    pub(super) fn new(max_hosts: usize) -> Self {
        let max_hosts = max_hosts.max(1);
        Self {
            places: Vec::new(),
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
            self.places.push(None);
            HostIndex((self.places.len() - 1) as u32)
        });
        self.places[index.0 as usize] = Some(host);
        self.by_name.insert(name, index);
        index
    }

    /// # Panics
    /// It was forgotten, which no host is that is in use.
    pub(super) fn at(&mut self, index: HostIndex) -> &mut HostQueue {
        self.places[index.0 as usize].as_mut().expect("a host in use is not forgotten")
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn indices(&self) -> impl Iterator<Item = HostIndex> + use<> {
        (0..self.places.len() as u32).map(HostIndex)
    }

    pub(super) fn get(&mut self, index: HostIndex) -> Option<&mut HostQueue> {
        self.places[index.0 as usize].as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HostQueue> {
        self.places.iter().flatten()
    }

    /// Returns when to look again for hosts that can be forgotten, if there is no room for another one.
    pub(super) fn look_again_at(&self, now: Instant) -> Option<Instant> {
        (self.len() >= self.most).then(|| now + SWEEP_EVERY)
    }

    /// Forgets hosts that can be forgotten, if there are too many; how many of them were unhealthy is added to `unhealthy`.
    /// Returns whether there is room for another one.
    pub(super) fn make_room(&mut self, now: Instant, unhealthy: &mut usize) -> bool {
        if self.len() < self.sweep_at {
            return true;
        }
        if self.sweep_after.is_some_and(|after| now < after) {
            return self.len() < self.most;
        }
        self.sweep_after = Some(now + SWEEP_EVERY);
        let Self { places, by_name, free, .. } = self;
        for (index, place) in places.iter_mut().enumerate() {
            if let Some(host) = place.take_if(|host| host.may_be_forgotten(now)) {
                by_name.remove(&host.name);
                *unhealthy += usize::from(host.breaker.is_some());
                free.push(HostIndex(index as u32));
            }
        }
        // Looking through all of them again has to be worth it.
        let margin = (self.most / 16).max(1);
        self.sweep_at = (self.len() + margin).max(self.most / 2).min(self.most);
        self.len() < self.most
    }
}
