//! What a waiting row waits for.

use std::time::Instant;

use super::Scheduler;
use crate::schedule::host_queue::{HostQueue, Readiness};
use crate::schedule::throttled::ThrottledBy;

/// What a row waits for that no attempt is made of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowWait {
    /// The address of its host, as limits are per address.
    Dns,
    /// A lane: nothing else keeps it from starting.
    Lane,
    /// Something throttles it, until this time if that is known.
    Throttled(ThrottledBy, Option<Instant>),
}

impl Scheduler {
    /// Returns what a row waits for here; `None`: it is not here. Times are awake times.
    ///
    /// It finds most rows by the order of ordinals at each host, and otherwise looks at all rows.
    pub fn wait_of(&mut self, ordinal: u64, now: Instant) -> Option<RowWait> {
        if self.addresses.rows().any(|row| row.ordinal == ordinal) {
            return Some(RowWait::Dns);
        }
        let mut find = |is_here: fn(&HostQueue, u64) -> bool| {
            self.hosts.indices().find(|index| self.hosts.get(*index).is_some_and(|host| is_here(host, ordinal)))
        };
        let index = find(HostQueue::has_new_row)
            .or_else(|| find(|host, ordinal| host.rows().any(|row| row.ordinal == ordinal)))?;
        let host = self.hosts.at(index);
        let due = host.retries.iter().find(|(_, row)| row.ordinal == ordinal).map(|((due, _), _)| *due);
        let (readiness, next) = host.evaluate(now);
        Some(match (readiness, due.filter(|due| *due > now)) {
            (Readiness::Until(until, by), _) => RowWait::Throttled(by, Some(until)),
            (Readiness::Blocked(by), _) => RowWait::Throttled(by, None),
            (_, Some(due)) => RowWait::Throttled(ThrottledBy::Backoff, Some(due)),
            (Readiness::Idle | Readiness::Ready(_), None) => {
                let by_network = self.network.throttled(now).map(|until| (ThrottledBy::Network, until));
                let by_run = || {
                    let (by, until) = self.throttled_by_run(index, next?, now)?;
                    Some((by, Some(until)))
                };
                by_network.or_else(by_run).map_or(RowWait::Lane, |(by, until)| RowWait::Throttled(by, until))
            }
        })
    }

    /// Returns what throttles rows that have not come here yet.
    pub fn throttled_by(&self) -> Option<ThrottledBy> {
        self.throttled.now()
    }
}
