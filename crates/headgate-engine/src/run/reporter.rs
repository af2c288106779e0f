//! Reports on a run while it continues and at its end: for the caller that holds it, for its heartbeat and for its metrics.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use headgate_core::clock;
use headgate_core::grouped::grouped;
use headgate_core::message::Message;
use headgate_core::schedule::budget::Budgets;

use super::job_state::JobState;
use super::live::LiveRun;
use super::sink_thread::Done;
use crate::engine::failure::FirstFailure;
use crate::engine::shared_failure_limit::StoppedBy;
use crate::engine::shared_scheduler::SharedScheduler;
use crate::stats::bottleneck::{keeping, merging};
use crate::stats::monitor::Monitor;
use crate::stats::report::{CommitFigures, Phase, Snapshot, Summary};
use crate::stats::usage::Moment;

#[derive(Debug)]
pub(super) struct Reporter {
    pub(super) monitor: Mutex<Monitor>,
    pub(super) failure: Arc<FirstFailure>,
    pub(super) done: Arc<Done>,
    /// Set once the reader of the output has closed the stream.
    pub(super) reader_gone: Arc<OnceLock<()>>,
    /// `None`: there was nothing to do.
    pub(super) scheduler: Option<Arc<SharedScheduler>>,
    /// `None`: there was nothing to do.
    pub(super) live: Option<Arc<LiveRun>>,
    /// The state in the job's directory, if this is a run of a job.
    pub(super) state: Option<JobState>,
    /// What the run and earlier runs of its job have used.
    pub(super) budgets: Arc<Budgets>,
    /// The output, as shown to the user.
    pub(super) output: String,
    pub(super) notes: Arc<Mutex<Vec<Message>>>,
    /// The reason, if the run stopped by itself.
    pub(super) stopped_by: Arc<OnceLock<StoppedBy>>,
}

impl Reporter {
    fn monitor(&self) -> MutexGuard<'_, Monitor> {
        let mut monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = &self.live {
            monitor.set_concurrency(live.concurrency());
        }
        monitor
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let now = clock::now();
        let stopping = self.scheduler.as_ref().is_some_and(|scheduler| scheduler.is_stopped());
        let mut snapshot = self.monitor().snapshot(now, stopping);
        let progress = self.state.as_ref().map(|state| &state.progress);
        let merged = progress.and_then(|progress| progress.merge_progress());
        if let Some((merged, parts)) = merged {
            snapshot.bottleneck = merging(merged, parts);
        }
        let kept_until = progress.and_then(|progress| progress.kept_until());
        if let Some(until) = kept_until {
            snapshot.bottleneck = keeping(until.saturating_duration_since(now));
        }
        snapshot.phase = if self.done.at().is_some() {
            Phase::Ended
        } else if kept_until.is_some() {
            Phase::Keeping
        } else if merged.is_some() {
            Phase::Merging
        } else if stopping {
            Phase::Stopping
        } else if self.live.as_ref().is_some_and(|live| live.is_paused()) {
            Phase::Paused
        } else {
            snapshot.phase
        };
        if snapshot.phase == Phase::Paused {
            // The rate of the last seconds is still that of before.
            (snapshot.time_left_s, snapshot.slowest_host) = (None, None);
        }
        let writing = progress.filter(|_| kept_until.is_none()).and_then(|progress| progress.writing_for(now));
        snapshot.writing_s = writing.map(|time| time.as_secs_f64());
        snapshot.commit = progress.map(|progress| {
            let commit = progress.commit();
            let totals = &commit.totals;
            let (failed, parts, bytes) = (totals.failed, totals.parts, totals.bytes);
            CommitFigures { number: commit.number, done: commit.done, failed, parts, bytes }
        });
        snapshot.set = self.live.as_ref().map(|live| live.settings()).unwrap_or_default();
        (snapshot.requests, snapshot.max_requests) = (self.budgets.requests.used(), self.budgets.requests.max());
        (snapshot.cost, snapshot.max_cost) = self.cost();
        snapshot
    }

    /// Returns what rows have cost in all runs, unless they have no costs, and the budget for it.
    fn cost(&self) -> (Option<u64>, Option<u64>) {
        let (cost, max) = (self.budgets.cost.used(), self.budgets.cost.max());
        ((cost > 0 || max.is_some()).then_some(cost), max)
    }

    /// Returns the totals up to now, or to the end of the run. CPU time and memory are those of the whole process.
    pub(super) fn summary(&self) -> Summary {
        let mut ended = self.done.at().unwrap_or_else(Moment::now);
        // All results are committed then: what it keeps for readers takes none of its time.
        let kept_since = self.state.as_ref().and_then(|state| state.progress.kept_since());
        ended.at = kept_since.map_or(ended.at, |since| since.min(ended.at));
        let mut summary = self.monitor().summary(&ended);
        summary.job = self.state.as_ref().map(|state| state.figures(summary.rows_known));
        (summary.requests, summary.max_requests) = (self.budgets.requests.used(), self.budgets.requests.max());
        (summary.cost, summary.max_cost) = self.cost();
        summary.output.clone_from(&self.output);
        summary.stopped_by = self.stopped_by.get().map(|stopped_by| stopped_by.why.clone());
        // An interrupt that only ends the wait for readers leaves nothing undone.
        let only_keeps = self.state.as_ref().is_some_and(|state| state.progress.kept_until().is_some());
        summary.interrupted =
            !only_keeps && self.scheduler.as_ref().is_some_and(|scheduler| scheduler.is_interrupted());
        summary.reader_gone = self.reader_gone.get().is_some();
        summary.notes.splice(0..0, self.notes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        summary.notes.extend(self.note_on_replaced());
        summary.failure = self.failure.get().as_ref().map(Into::into);
        summary
    }

    /// Returns a note on the replaced files that were not removed, because the run was stopped while it kept them.
    fn note_on_replaced(&self) -> Option<Message> {
        let files = self.state.as_ref().map_or(0, |state| state.progress.left_replaced());
        let (shown, stay) = (grouped(files), if files == 1 { "replaced file stays" } else { "replaced files stay" });
        let output = &self.output;
        (files > 0).then(|| {
            format!("{shown} {stay} in {output}, so that a reader of all files there finds rows twice: headgate clean {output} removes what was replaced, and so does the same command when the time is over").into()
        })
    }
}
