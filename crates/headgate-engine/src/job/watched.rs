//! How far a job is, for whoever looks while it is written to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::commit::Commit;

/// What others may know of a job while it is written to.
#[derive(Debug)]
pub struct Watched {
    commit: Mutex<Commit>,
    merged_parts: AtomicU64,
    parts_to_merge: AtomicU64,
}

impl Watched {
    pub fn new(commit: Commit) -> Self {
        Self { commit: Mutex::new(commit), merged_parts: AtomicU64::new(0), parts_to_merge: AtomicU64::new(0) }
    }

    /// The newest commit.
    pub fn commit(&self) -> MutexGuard<'_, Commit> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// While small parts are merged: how many have been, and of how many.
    pub fn merging(&self) -> Option<(u64, u64)> {
        let parts = self.parts_to_merge.load(Ordering::Relaxed);
        (parts > 0).then(|| (self.merged_parts.load(Ordering::Relaxed), parts))
    }

    pub(super) fn begin_merge(&self, parts: usize) {
        self.merged_parts.store(0, Ordering::Relaxed);
        self.parts_to_merge.store(parts as u64, Ordering::Relaxed);
    }

    pub(super) fn merged_part(&self) {
        self.merged_parts.fetch_add(1, Ordering::Relaxed);
    }
}
