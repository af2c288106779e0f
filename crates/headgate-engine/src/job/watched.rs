//! The progress of a job, for other threads while the job runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::commit::Commit;

/// The progress of a running job, shared between threads.
#[derive(Debug)]
pub struct JobProgress {
    commit: Mutex<Commit>,
    merged_parts: AtomicU64,
    parts_to_merge: AtomicU64,
    /// When the sink was last called, or last finished a write, while it has not returned.
    writing_since: Mutex<Option<Instant>>,
    /// The number of rows of the input, once it is known.
    input_rows: OnceLock<u64>,
    kept_until: Mutex<Option<Instant>>,
    left_replaced: AtomicU64,
    kept_since: OnceLock<Instant>,
}

impl JobProgress {
    pub fn new(commit: Commit) -> Self {
        Self {
            commit: Mutex::new(commit),
            merged_parts: AtomicU64::new(0),
            parts_to_merge: AtomicU64::new(0),
            writing_since: Mutex::default(),
            input_rows: OnceLock::new(),
            kept_until: Mutex::default(),
            left_replaced: AtomicU64::new(0),
            kept_since: OnceLock::new(),
        }
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

    /// Notes that the sink is called at this time; `None`: it has returned.
    pub(crate) fn set_writing(&self, since: Option<Instant>) {
        *self.writing_since() = since;
    }

    /// Notes that a write has ended. A call of the sink may rewrite many files.
    pub(super) fn note_write(&self, now: Instant) {
        if let Some(since) = &mut *self.writing_since() {
            *since = now;
        }
    }

    /// Returns for how long the sink, while it is called, has not finished a write.
    pub(crate) fn writing_for(&self, now: Instant) -> Option<Duration> {
        self.writing_since().map(|since| now.saturating_duration_since(since))
    }

    fn writing_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.writing_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the number of rows of the input. Commits have it from now on.
    pub(crate) fn set_input_rows(&self, rows: u64) {
        let _ = self.input_rows.set(rows);
    }

    pub(super) fn input_rows(&self) -> Option<u64> {
        self.input_rows.get().copied()
    }

    /// Returns until when the next replaced file stays, once the run only keeps them for readers: all else has ended in order.
    pub(crate) fn kept_until(&self) -> Option<Instant> {
        *self.kept_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns since when the run only keeps files for readers, if it has.
    pub(crate) fn kept_since(&self) -> Option<Instant> {
        self.kept_since.get().copied()
    }

    /// Notes at this time that replaced files stay until then.
    pub(super) fn keep_until(&self, until: Instant, now: Instant) {
        self.kept_since.get_or_init(|| now);
        *self.kept_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    pub(super) fn end_keeping(&self) {
        *self.kept_until.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the number of replaced files that the run has left, because it was stopped while it kept them for readers.
    pub(crate) fn left_replaced(&self) -> u64 {
        self.left_replaced.load(Ordering::Relaxed)
    }

    pub(super) fn leave_replaced(&self, files: usize) {
        self.left_replaced.store(files as u64, Ordering::Relaxed);
    }

    pub(super) fn begin_merge(&self, parts: usize) {
        self.merged_parts.store(0, Ordering::Relaxed);
        self.parts_to_merge.store(parts as u64, Ordering::Relaxed);
    }

    pub(super) fn count_merged_part(&self) {
        self.merged_parts.fetch_add(1, Ordering::Relaxed);
    }
}
