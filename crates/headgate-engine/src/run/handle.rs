//! The handle of a run, for the caller that started it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::error::JobError;
use headgate_core::live::Settings;
use headgate_core::row::Row;
use headgate_core::schedule::rows_to_cancel::RowsToCancel;
use headgate_core::selected::SelectValues;
use headgate_core::virtual_clock;
use headgate_http::defaults::HeaderChange;
use headgate_http::live_defaults::{LiveDefaults, LiveHeader};

use super::live::LiveRun;
use super::reporter::Reporter;
use super::sink_thread::Done;
use crate::engine::Assigned;
use crate::engine::completion_queue::CompletionQueue;
use crate::engine::shared_scheduler::SharedScheduler;
use crate::engine::waker::WakeCaller;
use crate::job::control::SettingsChange;
use crate::queue::rows::RowFeeder;
use crate::stats::report::{Snapshot, Summary};

/// The longest time that an aborted run may take to write what it has received.
const LONGEST_ABORT: Duration = Duration::from_secs(1);

/// The handle of a run. Dropping it does not stop the run.
#[derive(Debug)]
pub struct Run {
    pub(super) grace: Duration,
    pub(super) done: Arc<Done>,
    /// The time at which the run was aborted.
    pub(super) aborted: OnceLock<Instant>,
    /// The run's assignment to the workers; `None`: there was nothing to do.
    pub(super) assigned: Option<Assigned>,
    /// The common parts of its requests.
    pub(super) defaults: Arc<LiveDefaults>,
    pub(super) reporter: Arc<Reporter>,
    /// `None`: there was nothing to do.
    pub(super) live: Option<Arc<LiveRun>>,
    /// Accepts the caller's rows; `None`: rows come from a source, or feeding has ended.
    pub(super) feeder: Mutex<Option<RowFeeder>>,
    /// The ordinal of the next row that is fed.
    pub(super) next_ordinal: AtomicU64,
    /// The completion queues of fed rows. Adding one removes those that were dropped.
    pub(super) queues: Mutex<Vec<Weak<CompletionQueue>>>,
}

impl Run {
    /// Queues rows of the caller, each with the completion queue for its outcome, and returns the first of their consecutive
    /// ordinals. It does not wait: the caller bounds the number of rows. `None`: the run has ended, and the rows are dropped.
    pub fn feed(&self, mut rows: Vec<Row>) -> Option<u64> {
        virtual_clock::note_activity();
        let first = self.next_ordinal.fetch_add(rows.len() as u64, Ordering::Relaxed);
        for (row, ordinal) in rows.iter_mut().zip(first..) {
            row.ordinal = ordinal;
        }
        let feeder = self.feeder.lock().unwrap_or_else(PoisonError::into_inner);
        feeder.as_ref().is_some_and(|feeder| feeder.feed(rows)).then_some(first)
    }

    /// Returns what shows the requests of its rows as they are sent.
    pub fn defaults(&self) -> &Arc<LiveDefaults> {
        &self.defaults
    }

    /// Returns a new completion queue for fed rows. [`Run::release_memory`] releases its memory reservations.
    /// `wake_at`, `selection`: as for [`CompletionQueue::selecting`].
    pub fn completions(
        &self,
        waker: Arc<dyn WakeCaller>,
        wake_at: usize,
        selection: Option<Arc<dyn SelectValues>>,
    ) -> Arc<CompletionQueue> {
        let completions = CompletionQueue::selecting(waker, wake_at, selection);
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|completions| completions.strong_count() > 0);
        queues.push(Arc::downgrade(&completions));
        completions
    }

    /// Releases the memory reservations of outcomes that were not taken yet. A caller that waits for a row of this run must call
    /// it from time to time: all lanes may wait for that memory, and the waiting caller may be the one to take the outcomes.
    pub fn release_memory(&self) {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.iter().filter_map(Weak::upgrade).for_each(|completions| completions.release_memory());
    }

    /// Returns the headers of requests, without those of options other than `headers`.
    pub fn headers(&self) -> Vec<LiveHeader> {
        self.defaults.headers()
    }

    /// Replaces all changes of the headers that the options give. Rows that are fed from now on are sent with them.
    ///
    /// # Errors
    /// `Usage`: a header can't be sent, is a credential without an origin, or is set by another option.
    pub fn change_headers(&self, changes: Vec<HeaderChange>) -> Result<(), JobError> {
        self.defaults.change_headers(changes)
    }

    /// Ends feeding: the run ends once all fed rows have their outcomes.
    pub fn end_feeding(&self) {
        drop(self.feeder.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Cancels all rows whose completion queue is closed (see [`CompletionQueue::close`](crate::engine::completion_queue::CompletionQueue::close)).
    pub fn cancel_unwanted(&self) {
        if let Some(assigned) = &self.assigned {
            assigned.cancel(RowsToCancel::Unwanted);
        }
    }

    /// Cancels a row, whether it waits or is in flight: it fails as `cancelled`. A row that has ended, or that the source
    /// has not delivered yet, is unaffected. Returns before the row has ended.
    pub fn cancel(&self, row: u64) {
        if let Some(assigned) = &self.assigned {
            assigned.cancel(RowsToCancel::One(row));
        }
    }

    /// Sets options while the run continues, by name, with their values as text (see [`Settings`]). They apply until the
    /// job ends, also in later runs of it that do not name these options.
    ///
    /// # Errors
    /// `Usage`: an option can't be set, or its value is invalid; the run continues as before. `Output`: the directory of
    /// the job can't be written to.
    pub fn set(&self, set: Settings) -> Result<(), JobError> {
        self.change(&SettingsChange { paused: None, set })
    }

    /// Starts no more attempts until [`Run::unpause`]; those in flight continue. Later runs of the job are paused, too.
    ///
    /// # Errors
    /// `Output`: the directory of the job can't be written to.
    pub fn pause(&self) -> Result<(), JobError> {
        self.change(&SettingsChange { paused: Some(true), ..SettingsChange::default() })
    }

    /// Continues after [`Run::pause`].
    ///
    /// # Errors
    /// As [`Run::pause`].
    pub fn unpause(&self) -> Result<(), JobError> {
        self.change(&SettingsChange { paused: Some(false), ..SettingsChange::default() })
    }

    fn change(&self, change: &SettingsChange) -> Result<(), JobError> {
        let live = self.live.as_ref().filter(|_| self.done.at().is_none());
        live.ok_or_else(|| JobError::usage("the run has ended: there is nothing to change"))?.change(change)
    }

    /// Waits until the run ends, for at most `timeout`, and returns whether it has ended. One second after [`Run::abort`] it counts
    /// as ended, even if the output can't be written because its reader does not read.
    pub fn wait(&self, timeout: Duration) -> bool {
        let aborts_at = || self.aborted.get().map(|aborted| *aborted + LONGEST_ABORT);
        self.done.wait(timeout, aborts_at) || aborts_at().is_some_and(|at| at <= Instant::now())
    }

    /// Starts no more requests; those in flight have the run's grace period to finish.
    pub fn stop(&self) {
        self.stop_at(clock::now() + self.grace);
    }

    /// Stops the run and cancels requests in flight. Outcomes received so far are written.
    pub fn abort(&self) {
        let _ = self.aborted.set(Instant::now());
        self.stop_at(clock::now());
        self.done.reevaluate();
    }

    fn scheduler(&self) -> Option<&SharedScheduler> {
        self.assigned.as_ref().map(|assigned| &*assigned.scheduler)
    }

    fn stop_at(&self, until: Instant) {
        if let Some(scheduler) = self.scheduler() {
            scheduler.interrupt(until);
        }
    }

    /// Returns the current state of the run.
    pub fn snapshot(&self) -> Snapshot {
        self.reporter.snapshot()
    }

    /// Returns the totals up to now, or to the end of the run. CPU time and memory are those of the whole process.
    pub fn summary(&self) -> Summary {
        self.reporter.summary()
    }
}
