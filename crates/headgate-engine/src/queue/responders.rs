//! The hosts that responded most recently to a run, over all of its workers. Network checks connect to some of them, and a job
//! stores them with each commit, so that its next run begins with them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use headgate_core::origin::Origin;
use headgate_core::random::Rng;

/// The maximum number of hosts: more than one check needs, so that a single provider does not represent all hosts.
const MAX_RESPONDERS: usize = 30;

/// The hosts that responded most recently.
#[derive(Debug, Default)]
pub struct Responders {
    /// The hosts, the most recent one last.
    recent: Mutex<VecDeque<Origin>>,
    /// A host has responded in this run.
    has_responded: AtomicBool,
}

impl Responders {
    /// Begins with the hosts that responded in an earlier run of the job, the most recent one last.
    pub fn new(earlier: impl IntoIterator<Item = Origin>) -> Self {
        let responders = Self::default();
        earlier.into_iter().for_each(|origin| responders.put(&origin));
        responders
    }

    /// Notes that a host has responded in this run.
    pub fn note(&self, origin: &Origin) {
        self.has_responded.store(true, Ordering::Relaxed);
        self.put(origin);
    }

    fn put(&self, origin: &Origin) {
        let mut recent = self.lock();
        let known = recent.iter().position(|other| other == origin).and_then(|at| recent.remove(at));
        if recent.len() == MAX_RESPONDERS {
            recent.pop_front();
        }
        recent.push_back(known.unwrap_or_else(|| origin.clone()));
    }

    /// Returns whether a host has responded in this run.
    pub(crate) fn has_responded(&self) -> bool {
        self.has_responded.load(Ordering::Relaxed)
    }

    /// Returns the stored hosts, the most recent one last.
    pub(crate) fn recent(&self) -> Vec<Origin> {
        self.lock().iter().cloned().collect()
    }

    /// Returns up to `count` of the stored hosts, chosen at random.
    pub fn sample(&self, count: usize, rng: &mut Rng) -> Vec<Origin> {
        let mut recent = self.recent();
        rng.shuffle(&mut recent);
        recent.truncate(count);
        recent
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Origin>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use headgate_core::origin::HostName;

    use super::*;

    #[test]
    fn the_hosts_that_responded_last_are_kept_each_once_and_no_more_than_there_is_room_for() {
        let origin = |port| Origin { https: false, name: HostName::V4(Ipv4Addr::LOCALHOST), port };
        let ports = |responders: &Responders| responders.recent().iter().map(|origin| origin.port).collect::<Vec<_>>();
        let responders = Responders::new((1..=40).map(origin));
        assert_eq!(((11..=40).collect::<Vec<_>>(), false), (ports(&responders), responders.has_responded()));
        responders.note(&origin(11));
        responders.note(&origin(41));
        let expected: Vec<_> = (13..=40).chain([11, 41]).collect();
        assert_eq!((expected, true), (ports(&responders), responders.has_responded()));
        let sample = responders.sample(3, &mut Rng::with_seed(7));
        assert_eq!(3, sample.len());
        assert!(sample.iter().all(|origin| origin.port >= 11));
    }
}
