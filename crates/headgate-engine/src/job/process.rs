//! The process that runs a job, as its heartbeats show it to other processes.

use std::time::Duration;

use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::heartbeat::Beat;
use crate::stats::report::Phase;

/// A process whose heartbeat is older, or whose event loops have not run for longer, hangs or was stopped.
const HUNG_AFTER: Duration = Duration::from_secs(5);
/// A disk that takes longer for one file or one commit hangs.
const LONGEST_WRITE: Duration = Duration::from_secs(60);

/// What a job does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// A process runs it, but its heartbeats have ended, or its event loops or its disk don't respond.
    Hung,
    /// Every row is done.
    Finished,
    /// No process runs it, and rows are left.
    Stopped,
    /// A process runs it, and this is what its heartbeats say.
    #[serde(untagged)]
    In(Phase),
}

impl Activity {
    /// Returns it as it is now that the run is paused or not: the heartbeat may be older than that.
    pub(super) fn with_pause(self, paused: bool) -> Self {
        match (self, paused) {
            (Self::In(Phase::Running | Phase::Waiting), true) => Self::In(Phase::Paused),
            (Self::In(Phase::Paused), false) => Self::In(Phase::Running),
            (activity, _) => activity,
        }
    }
}

/// The process that writes to a job now.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct JobProcess {
    /// `None`: there is no process.
    #[serde(skip)]
    pub(super) activity: Option<Activity>,
    /// Whether there is one, and its id.
    pub running: bool,
    pub pid: Option<u32>,
    /// Its command: `fetch`, `retry`, `clean` or `verify`.
    pub command: Option<String>,
    /// The time of its last heartbeat, as RFC 3339 in UTC, and how old that is.
    pub heartbeat_at: Option<String>,
    pub heartbeat_age_s: Option<f64>,
    /// The progress of its run in that heartbeat: a [`Snapshot`](crate::stats::report::Snapshot) as JSON. `None`: the run has
    /// not begun, or another version of headgate runs it.
    pub progress: Option<Value>,
}

impl JobProcess {
    /// Describes a process by its last heartbeat and the age of that. Without one, its disk may refuse heartbeats.
    pub(super) fn new(pid: Option<u32>, beat: Option<(Beat, Duration)>) -> Self {
        let Some((beat, age)) = beat else {
            return Self { activity: Some(Activity::In(Phase::Running)), running: true, pid, ..Self::default() };
        };
        let is_of_this_version = beat.headgate_version == env!("CARGO_PKG_VERSION");
        Self {
            activity: Some(activity_of(&beat, age)),
            running: true,
            pid,
            command: Some(beat.run.command),
            heartbeat_at: Some(beat.at),
            heartbeat_age_s: Some(age.as_secs_f64()),
            progress: beat.progress.filter(|_| is_of_this_version),
        }
    }

    /// Returns the number of rows of the input, if the run knows it.
    pub(super) fn rows_known(&self) -> Option<u64> {
        let progress = self.progress.as_ref().filter(|_| self.command.as_deref() == Some("fetch"));
        progress?.get("rows_known")?.as_u64()
    }
}

/// Returns what a process does whose last heartbeat has this age.
pub(super) fn activity_of(beat: &Beat, age: Duration) -> Activity {
    let of_progress = |name: &str| beat.progress.as_ref()?.get(name);
    let is_longer = |name: &str, than: Duration| {
        of_progress(name).and_then(Value::as_f64).is_some_and(|seconds| seconds > than.as_secs_f64())
    };
    if age > HUNG_AFTER || is_longer("unresponsive_s", HUNG_AFTER) || is_longer("writing_s", LONGEST_WRITE) {
        return Activity::Hung;
    }
    Activity::In(match of_progress("phase").map(Phase::deserialize) {
        // Other commands have no progress.
        None if !["fetch", "retry"].contains(&beat.run.command.as_str()) => Phase::Running,
        None => Phase::Starting,
        Some(Ok(Phase::Ended)) => Phase::Stopping,
        Some(Ok(phase)) => phase,
        // Of another version.
        Some(Err(_)) => Phase::Running,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::job::heartbeat::RunDescription;

    fn beat(progress: Value) -> Beat {
        let name = || "x".to_owned();
        Beat {
            at: "2026-11-28T03:00:00Z".into(),
            at_us: 0,
            pid: 7,
            headgate_version: env!("CARGO_PKG_VERSION").into(),
            run: RunDescription { command: "fetch".into(), input: name(), format: name(), job_started_at: None },
            progress: Some(progress),
        }
    }

    #[test]
    fn a_process_hangs_if_its_heartbeats_or_event_loops_or_disk_have_stopped() {
        for (expected, age_s, progress) in [
            (Activity::In(Phase::Running), 2, json!({"phase": "running", "unresponsive_s": 0.2, "writing_s": 40.0})),
            (Activity::Hung, 6, json!({"phase": "running"})),
            (Activity::Hung, 1, json!({"phase": "running", "unresponsive_s": 6.0})),
            (Activity::Hung, 1, json!({"phase": "merging", "writing_s": 61.0})),
            // However long nothing is in flight, it does not hang.
            (Activity::In(Phase::Waiting), 1, json!({"phase": "waiting", "since_last_row_s": 4000.0})),
            (Activity::In(Phase::Paused), 1, json!({"phase": "paused", "since_last_row_s": 4000.0})),
            (Activity::In(Phase::Running), 1, json!({"phase": "running", "since_last_row_s": 4000.0})),
            (Activity::In(Phase::Merging), 1, json!({"phase": "merging", "writing_s": 2.0})),
            (Activity::In(Phase::Keeping), 1, json!({"phase": "keeping"})),
            (Activity::In(Phase::Stopping), 1, json!({"phase": "ended"})),
            (Activity::In(Phase::Starting), 1, Value::Null),
        ] {
            assert_eq!(expected, activity_of(&beat(progress.clone()), Duration::from_secs(age_s)), "{progress}");
        }
    }

    #[test]
    fn the_progress_of_another_version_is_not_shown() {
        let mut other = beat(json!({"phase": "waiting", "rows_known": 9}));
        let process = JobProcess::new(Some(7), Some((other.clone(), Duration::ZERO)));
        assert_eq!((Some(Activity::In(Phase::Waiting)), Some(9)), (process.activity, process.rows_known()));
        other.headgate_version = "0.0.0".into();
        let process = JobProcess::new(Some(7), Some((other, Duration::ZERO)));
        assert_eq!((Some(Activity::In(Phase::Waiting)), None), (process.activity, process.progress));
    }

    #[test]
    fn a_process_whose_disk_refuses_heartbeats_runs() {
        let process = JobProcess::new(Some(7), None);
        assert_eq!(
            (Some(Activity::In(Phase::Running)), true, None),
            (process.activity, process.running, process.heartbeat_at)
        );
    }
}
