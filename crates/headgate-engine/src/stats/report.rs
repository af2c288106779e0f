//! A job's figures as they are reported: a [`Snapshot`] at any moment, a [`Summary`] at the end. Python reads both as JSON,
//! under these names.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use headgate_core::error::JobError;
use headgate_core::live::Settings;
use headgate_core::message::Message;
use headgate_core::schedule::throttled::{HostFigures, ThrottledBy};
use serde::{Deserialize, Serialize};

use crate::stats::bottleneck::Bottleneck;
use crate::stats::failures::FailureExample;
use crate::stats::lanes::Wait;
use crate::stats::series::Point;

/// What a run does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No request has been sent yet: the input is read, or compared with what was read before.
    Starting,
    Running,
    /// Nothing has been in flight for a second: something throttles every row, or the input has no row yet.
    Waiting,
    /// The user has paused it.
    Paused,
    /// It is being stopped: requests in flight finish, and results are written.
    Stopping,
    /// All rows are done, and small part files are merged.
    Merging,
    /// All results are committed, and replaced files are kept for readers.
    Keeping,
    Ended,
}

/// Upper bounds of latencies, in microseconds, up to which [`LatencyCounts`] counts.
const LATENCY_BOUNDS_US: [u64; 14] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 10_000_000,
    30_000_000, 60_000_000,
];

/// The latencies of rows as a cumulative histogram: two of them give the latencies of the time in between.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyCounts {
    /// Upper bounds in microseconds, each with the number of latencies up to it.
    pub up_to_us: Vec<(u64, u64)>,
    pub count: u64,
    pub sum_us: u64,
}

impl From<&Histogram<u64>> for LatencyCounts {
    fn from(histogram: &Histogram<u64>) -> Self {
        let mut up_to_us = LATENCY_BOUNDS_US.map(|bound| (bound, 0));
        let mut sum_us = 0;
        for recorded in histogram.iter_recorded() {
            let (latency, count) = (recorded.value_iterated_to(), recorded.count_at_value());
            sum_us += latency * count;
            for (_, counted) in up_to_us.iter_mut().filter(|(bound, _)| latency <= *bound) {
                *counted += count;
            }
        }
        Self { up_to_us: up_to_us.into(), count: histogram.len(), sum_us }
    }
}

/// The current state of a job.
#[derive(Debug, Clone, Serialize)]
pub struct Snapshot {
    pub phase: Phase,
    pub elapsed_s: f64,
    /// Rows done.
    pub rows: u64,
    /// Rows done by earlier runs of the job; `rows` are beyond them.
    pub rows_before: u64,
    /// The number of rows, if it is known.
    pub rows_known: Option<u64>,
    /// The share of the input that is done, if it is known.
    pub fraction: Option<f64>,
    pub succeeded: u64,
    pub failed: u64,
    pub in_flight: u64,
    pub concurrency: u64,
    /// Over the last seconds.
    pub requests_per_s: f64,
    /// Since the start.
    pub requests_per_s_mean: f64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub latencies: LatencyCounts,
    pub received_bytes: u64,
    pub time_left_s: Option<f64>,
    /// The host that determines `time_left_s`, if its rows take longer than all rows.
    pub slowest_host: Option<SlowestHost>,
    /// The hosts whose rows take the longest, the slowest first: at most 10.
    pub slowest_hosts: Vec<SlowestHost>,
    /// What throttles every row now, so that nothing starts.
    pub throttled_by: Option<ThrottledBy>,
    /// Seconds in which nothing could be started, by what throttled it.
    pub throttled_s: BTreeMap<ThrottledBy, f64>,
    /// Attempts that were sent and have ended.
    pub attempts: u64,
    /// Lanes that wait now instead of exchanging bytes with a server, by what they wait for.
    pub lanes_waiting: BTreeMap<Wait, u64>,
    /// How often hosts requested a pause, by host; `others` beyond the first ones.
    pub pauses: BTreeMap<Box<str>, u64>,
    /// Hosts that are paused now.
    pub paused_hosts: u64,
    /// How often circuit breakers opened, by host; `others` beyond the first ones.
    pub breakers_opened: BTreeMap<Box<str>, u64>,
    /// Hosts whose circuit breakers are open now.
    pub open_breakers: u64,
    /// Seconds for which no host could be reached, while that throttles the run.
    pub network_down_s: Option<f64>,
    /// The newest commit, if this is a run of a job.
    pub commit: Option<CommitFigures>,
    /// Seconds since a row last ended, or since the start.
    pub since_last_row_s: f64,
    /// Seconds for which the event loops have not run, though they should have.
    pub unresponsive_s: f64,
    /// Seconds since the sink, which writes results now, has last finished a write. `None`: it writes nothing.
    pub writing_s: Option<f64>,
    /// The options that were set while the job ran, as text.
    pub set: Settings,
    /// Requests of all runs of the job, as far as they count for its budget.
    pub requests: u64,
    pub max_requests: Option<u64>,
    /// What rows have cost, in all runs of the job. `None`: they have no costs.
    pub cost: Option<u64>,
    pub max_cost: Option<u64>,
    pub stopping: bool,
    /// Seconds in which the process was stopped, or its machine suspended.
    pub stalled_s: f64,
    pub bottleneck: Bottleneck,
    /// What the run has done since its start, for the series of its job.
    #[serde(skip)]
    pub since_start: Point,
}

/// A commit of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommitFigures {
    /// It increases with each commit; 0: there is none yet.
    pub number: u64,
    /// Rows that are done.
    pub done: u64,
    pub failed: u64,
    /// Files of results, and their size.
    pub parts: u64,
    pub bytes: u64,
}

/// The host whose rows take the longest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowestHost {
    pub host: Box<str>,
    /// Its waiting rows, as far as they are known.
    pub rows: u64,
    pub in_flight: u32,
    /// The minimum time that its rows take.
    pub time_left_s: Option<f64>,
    /// Why none of its rows may start now.
    pub throttled_by: Option<ThrottledBy>,
}

impl From<HostFigures> for SlowestHost {
    fn from(host: HostFigures) -> Self {
        Self {
            host: host.name,
            rows: host.waiting,
            in_flight: host.in_flight,
            time_left_s: host.time_left.map(|left| left.as_secs_f64()),
            throttled_by: host.throttled_by,
        }
    }
}

/// The figures of one run of a job.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    pub rows: u64,
    /// The number of rows, if it is known.
    pub rows_known: Option<u64>,
    pub succeeded: u64,
    /// Rows that failed: with an error, or with a status in `fail_on`.
    pub failed: u64,
    /// Requests that were in flight when the grace period ended: they have no result, and can be retried.
    pub abandoned: u64,
    /// Succeeded rows by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Failed rows by kind of error, or by status as `status:503`.
    pub errors: BTreeMap<String, u64>,
    pub error_examples: BTreeMap<String, FailureExample>,
    pub elapsed_s: f64,
    pub requests_per_s: f64,
    pub latency_us: Latency,
    pub received_bytes: u64,
    pub peak_rss_bytes: u64,
    pub cpu_s: f64,
    pub bottleneck: Bottleneck,
    /// Attempts whose rows were retried, by kind of error, or by status as `status:503`.
    pub retries: BTreeMap<String, u64>,
    /// Rows that were not retried, since the server may have acted on them, and could not distinguish a second request from
    /// the first.
    pub not_retried: u64,
    /// Requests that were sent a second time within an attempt, as their connection turned out to be closed.
    pub resent: u64,
    /// Headers that are missing from results, because they violate the grammar.
    pub headers_skipped: u64,
    /// Requests of all runs of the job, as far as they count for its budget.
    pub requests: u64,
    pub max_requests: Option<u64>,
    /// What rows have cost, in all runs of the job. `None`: they have no costs.
    pub cost: Option<u64>,
    pub max_cost: Option<u64>,
    /// Seconds in which nothing could be started, by what throttled it.
    pub throttled_s: BTreeMap<ThrottledBy, f64>,
    /// How often hosts requested a pause, by host; `others` beyond the first ones.
    pub pauses: BTreeMap<Box<str>, u64>,
    /// Seconds in which the process was stopped, or its machine suspended.
    pub stalled_s: f64,
    /// Why the job stopped by itself, if it did.
    pub stopped_by: Option<Message>,
    pub output: String,
    /// The job was stopped before the input was done.
    pub interrupted: bool,
    /// The reader of the results closed the stream before the end.
    pub reader_gone: bool,
    /// Notes for the user, a sentence each.
    pub notes: Vec<Message>,
    /// Why the job could not continue, if it could not.
    pub failure: Option<FailureReport>,
    /// The durable job that this was a run of, if any.
    pub job: Option<JobFigures>,
}

/// A durable job, over all of its runs.
#[derive(Debug, Clone, Serialize)]
pub struct JobFigures {
    /// The number of rows, if it is known.
    pub rows: Option<u64>,
    /// Rows whose outcomes are written: `succeeded` and `failed`.
    pub done: u64,
    /// Rows that were done before this run.
    pub rows_before: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// Failed rows by kind of error, or by status as `status:503`.
    pub errors: BTreeMap<String, u64>,
    /// The number of rows of a trial, which continues with a larger `max_rows`; `None`: the job reads all rows.
    pub max_rows: Option<u64>,
    /// Whether every row of the input, or of the trial, is done.
    pub finished: bool,
    /// Whether the same command continues where this run has ended.
    pub resumable: bool,
    /// When the process before this one last wrote its heartbeat (RFC 3339, UTC), if it was killed, or its machine stopped.
    pub previous_killed_at: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Latency {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
}

impl From<&Histogram<u64>> for Latency {
    fn from(histogram: &Histogram<u64>) -> Self {
        Self {
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct FailureReport {
    pub kind: &'static str,
    pub message: Message,
}

impl From<&JobError> for FailureReport {
    fn from(error: &JobError) -> Self {
        Self { kind: error.kind.name(), message: error.message.clone() }
    }
}
