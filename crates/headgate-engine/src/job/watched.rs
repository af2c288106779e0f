//! The progress of a job, for other threads while the job runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::commit::Commit;

/// The progress of a running job, shared between threads.
#[derive(Debug)]
pub struct JobProgress {
    commit: Mutex<Commit>,
    merged_parts: AtomicU64,
    parts_to_merge: AtomicU64,
}

impl JobProgress {
    pub fn new(commit: Commit) -> Self {
        Self { commit: Mutex::new(commit), merged_parts: AtomicU64::new(0), parts_to_merge: AtomicU64::new(0) }
    }

    /// Returns the newest commit.
    pub fn commit(&self) -> MutexGuard<'_, Commit> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of merged parts and of all parts to merge, while small parts are merged.
    pub(crate) fn merge_progress(&self) -> Option<(u64, u64)> {
        let parts = self.parts_to_merge.load(Ordering::Relaxed);
        (parts > 0).then(|| (self.merged_parts.load(Ordering::Relaxed), parts))
    }

    pub(super) fn begin_merge(&self, parts: usize) {
        self.merged_parts.store(0, Ordering::Relaxed);
        self.parts_to_merge.store(parts as u64, Ordering::Relaxed);
    }

    pub(super) fn count_merged_part(&self) {
        self.merged_parts.fetch_add(1, Ordering::Relaxed);
    }
}
