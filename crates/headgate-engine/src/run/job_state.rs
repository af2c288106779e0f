//! The state of a durable job during one of its runs.

use std::sync::Arc;

use headgate_core::schedule::budget::Budgets;

use crate::job::JobProgress;
use crate::job::heartbeat::Heartbeat;
use crate::queue::responders::Responders;
use crate::stats::report::JobFigures;

#[derive(Debug, Clone)]
pub(super) struct JobState {
    pub(super) progress: Arc<JobProgress>,
    pub(super) responders: Arc<Responders>,
    pub(super) budgets: Arc<Budgets>,
    pub(super) heartbeat: Arc<Heartbeat>,
    pub(super) rows_before: u64,
    pub(super) resumable: bool,
    /// The run before this one stopped by itself because its rows failed.
    pub(super) had_failed: bool,
}

impl JobState {
    /// Returns the figures of the whole job.
    pub(super) fn figures(&self, input_rows: Option<u64>) -> JobFigures {
        let commit = self.progress.commit();
        JobFigures {
            rows: commit.range.end.or(input_rows),
            done: commit.done,
            rows_before: self.rows_before,
            succeeded: commit.totals.succeeded,
            failed: commit.totals.failed,
            errors: commit.totals.errors.clone(),
            max_rows: commit.trial_rows(),
            finished: commit.finished,
            resumable: self.resumable,
            previous_killed_at: self.heartbeat.previous_killed_at().map(Into::into),
        }
    }
}
