//! The common parts of a run's requests, which change when its credentials are renewed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::defaults::Defaults;

/// The current [`Defaults`] of a run, and their version.
#[derive(Debug)]
pub struct LiveDefaults {
    version: AtomicU64,
    current: Mutex<Arc<Defaults>>,
}

impl LiveDefaults {
    pub fn new(defaults: Defaults) -> Arc<Self> {
        Arc::new(Self { version: AtomicU64::new(0), current: Mutex::new(Arc::new(defaults)) })
    }

    /// Returns the version, which increases with each change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the current defaults, which are of this version or a later one.
    pub(crate) fn get(&self) -> (u64, Arc<Defaults>) {
        let version = self.version();
        (version, self.current().clone())
    }

    /// Returns the defaults for requests of robots.txt, which never change.
    #[must_use]
    pub fn of_robots(&self) -> Arc<Self> {
        Self::new(self.current().of_robots())
    }

    /// Replaces the defaults. What was learned of the origins that get credentials stays, except that they refuse them.
    pub fn renew(&self, mut defaults: Defaults) {
        let mut current = self.current();
        current.origins.renew();
        defaults.origins.clone_from(&current.origins);
        *current = Arc::new(defaults);
        self.version.fetch_add(1, Ordering::Release);
    }

    fn current(&self) -> MutexGuard<'_, Arc<Defaults>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
