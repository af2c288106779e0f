//! The open files of all runs, and the idle connections that fit beside them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headgate_core::error::JobError;

use super::machine::OpenFiles;

/// Idle connections take at most this share of the files that the process may have open.
const IDLE_SHARE: u64 = 2;

/// Counts files that runs may have open at once: one for each connection in use, and those of saved bodies.
#[derive(Debug)]
pub(super) struct FilesInUse {
    /// The open files before the first connection.
    files: OpenFiles,
    workers: usize,
    in_use: Mutex<usize>,
    /// Idle connections that each worker may keep.
    idle_fitting: Arc<AtomicUsize>,
}

impl FilesInUse {
    pub(super) fn new(files: OpenFiles, workers: usize) -> Self {
        let counted = Self { files, workers, in_use: Mutex::new(0), idle_fitting: Arc::default() };
        counted.add(0);
        counted
    }

    /// Returns where each worker reads how many idle connections it may keep.
    pub(super) fn idle_fitting(&self) -> Arc<AtomicUsize> {
        self.idle_fitting.clone()
    }

    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        *self.lock()
    }

    pub(super) fn add(&self, files: usize) {
        let mut in_use = self.lock();
        *in_use += files;
        self.adapt_idle(*in_use);
    }

    pub(super) fn remove(&self, files: usize) {
        let mut in_use = self.lock();
        *in_use -= files;
        self.adapt_idle(*in_use);
    }

    /// Counts `connections` more connections and `released` fewer.
    ///
    /// # Errors
    /// `Usage`: this process may not have so many files open. Nothing has changed.
    pub(super) fn replace(&self, released: usize, connections: usize) -> Result<(), JobError> {
        let mut in_use = self.lock();
        let others = *in_use - released;
        self.files.check(connections, others, self.workers)?;
        *in_use = others + connections;
        self.adapt_idle(*in_use);
        Ok(())
    }

    /// Returns how many connections a run may use whose requests share them: half of those that fit, so that they need not be
    /// closed as soon as they are idle.
    pub(super) fn shareable(&self, released: usize) -> usize {
        (self.files.fitting(*self.lock() - released, self.workers) / 2).max(1)
    }

    fn adapt_idle(&self, in_use: usize) {
        let half = usize::try_from(self.files.limit / IDLE_SHARE).unwrap_or(usize::MAX);
        let fitting = self.files.fitting(in_use, self.workers).min(half) / self.workers;
        self.idle_fitting.store(fitting, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_use_at_most_half_of_the_files_and_make_room_for_those_in_use() {
        let files = FilesInUse::new(OpenFiles { limit: 1024, open: 10 }, 2);
        let idle = || files.idle_fitting.load(Ordering::Relaxed);
        assert_eq!(256, idle());
        // 934 fit in all, as `machine` says.
        files.replace(0, 400).expect("they fit");
        assert_eq!(256, idle());
        files.replace(400, 900).expect("they fit");
        assert_eq!(17, idle());
        files.replace(900, 935).expect_err("one too many");
        assert_eq!((900, 17), (files.in_use(), idle()));
        files.remove(900);
        assert_eq!((256, 467), (idle(), files.shareable(0)));
    }
}
