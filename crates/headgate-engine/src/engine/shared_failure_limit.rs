//! The failure limit of a run as its workers share it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use headgate_core::limits::MaxFailures;
use headgate_core::message::Message;
use headgate_core::schedule::failure_limit::{EndedRow, FailedWith, FailureLimit};

/// Why a run stopped itself.
#[derive(Debug, Clone)]
pub(crate) struct StoppedBy {
    pub(crate) why: Message,
    /// Its rows failed: the next run of the job begins with a probe.
    pub(crate) by_failures: bool,
}

/// The failure limit of a run, for all of its workers.
#[derive(Debug)]
pub(crate) struct SharedFailureLimit {
    limit: Mutex<FailureLimit>,
    /// See [`FailureLimit::is_settled`].
    is_settled: AtomicBool,
    /// The first rows are a probe, until one of them succeeds.
    is_probing: AtomicBool,
    /// Why the run stopped itself.
    stopped_by: Arc<OnceLock<StoppedBy>>,
}

impl SharedFailureLimit {
    /// `is_probing`: the job has stopped itself before, so that its first rows are a probe.
    pub(crate) fn new(rule: MaxFailures, is_probing: bool, stopped_by: Arc<OnceLock<StoppedBy>>) -> Self {
        let limit = FailureLimit::new(rule).probing(is_probing);
        Self {
            is_settled: AtomicBool::new(limit.is_settled()),
            is_probing: AtomicBool::new(limit.is_probing()),
            limit: Mutex::new(limit),
            stopped_by,
        }
    }

    /// Returns whether the first rows are a probe.
    pub(super) fn is_probing(&self) -> bool {
        self.is_probing.load(Ordering::Relaxed)
    }

    /// Ends the probe. Returns whether there was one.
    pub(super) fn end_probe(&self) -> bool {
        self.is_probing() && self.is_probing.swap(false, Ordering::Relaxed)
    }

    /// Applies another rule from now on, which ends a probe. Returns whether there was one.
    pub(super) fn set(&self, rule: MaxFailures) -> bool {
        self.change(|limit| limit.set(rule)) && self.end_probe()
    }

    /// Returns whether later outcomes no longer matter.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Relaxed)
    }

    /// Counts a row that has ended; `failed`: why it failed, if it did. Returns why the run stops, if it does.
    pub(super) fn count(&self, failed: Option<FailedWith>, row: &impl EndedRow) -> Option<Message> {
        self.change(|limit| limit.count(failed, row))
    }

    /// Notes why the run stops itself. Returns whether it did not before.
    pub(super) fn note_stop(&self, stopped_by: StoppedBy) -> bool {
        self.stopped_by.set(stopped_by).is_ok()
    }

    fn change<T>(&self, change: impl FnOnce(&mut FailureLimit) -> T) -> T {
        let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut limit);
        self.is_settled.store(limit.is_settled(), Ordering::Relaxed);
        changed
    }
}
