//! The figures of one worker, and their sum over all workers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use headgate_core::clock;
use headgate_core::error::ErrorKind;
use headgate_core::failed_by::status_key;
use headgate_core::message::Message;
use headgate_core::row::OutcomeRef;
use headgate_core::schedule::retry::AttemptEnd;
use headgate_http::method::lacks_capitals;
use tokio::runtime::RuntimeMetrics;

use crate::stats::extracted::Extracted;
use crate::stats::failures::{Failures, STATUS_CODES};
use crate::stats::lanes::{LaneClock, Wait};

/// The longest latency that is distinguished, in microseconds: one hour.
const MAX_LATENCY_US: u64 = 3_600_000_000;

/// Counters and a histogram: some 200 KB, however many rows.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub succeeded: u64,
    pub failed: u64,
    pub abandoned: u64,
    pub received_bytes: u64,
    /// The total time of all attempts that were sent, in microseconds.
    pub elapsed_us: u64,
    /// The number of attempts that were sent.
    pub attempted: u64,
    /// Connections that were made for requests.
    pub connections: u64,
    /// Statuses of succeeded rows.
    statuses: Box<[u64; STATUS_CODES]>,
    /// Rows that failed.
    pub failures: Failures,
    pub latency_us: Histogram<u64>,
    pub retries: Retries,
    /// Requests that were sent a second time within an attempt, as their connection turned out to be closed.
    pub resent: u64,
    /// Headers that are missing from results, because they violate the grammar.
    pub headers_skipped: u64,
    pub lowercase_methods: LowercaseMethods,
    pub extracted: Extracted,
}

/// Rows whose requests have a standard method in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LowercaseMethods {
    pub rows: u64,
    /// One of these methods.
    pub example: Box<str>,
}

/// Attempts that were retried, and rows that were not retried though it might have helped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Retries {
    /// By kind of error, or by status as `status:503`.
    pub causes: BTreeMap<String, u64>,
    /// Rows that the server may have acted on, and whose retry it could not distinguish from the first request.
    pub not_retried: u64,
}

impl LowercaseMethods {
    fn add(&mut self, other: &Self) {
        if self.rows == 0 {
            self.example.clone_from(&other.example);
        }
        self.rows += other.rows;
    }

    /// Returns the note for the user, if there are such rows.
    pub(crate) fn note(&self) -> Option<Message> {
        let Self { rows, example } = self;
        (*rows > 0).then(|| {
            format!(
                "{rows} rows were requested with a method in lower case, such as {example}: servers treat it as another method"
            )
            .into()
        })
    }
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            succeeded: 0,
            failed: 0,
            abandoned: 0,
            received_bytes: 0,
            elapsed_us: 0,
            attempted: 0,
            connections: 0,
            statuses: Box::new([0; STATUS_CODES]),
            failures: Failures::default(),
            retries: Retries::default(),
            resent: 0,
            headers_skipped: 0,
            lowercase_methods: LowercaseMethods::default(),
            extracted: Extracted::default(),
            latency_us: Histogram::new_with_max(MAX_LATENCY_US, 3).expect("3 digits up to an hour can be told apart"),
        }
    }
}

impl Figures {
    pub(crate) fn rows(&self) -> u64 {
        self.succeeded + self.failed
    }

    /// Counts a row; `failed`: it failed.
    pub(crate) fn record(&mut self, outcome: OutcomeRef<'_>, failed: bool) {
        if let Some(response) = &outcome.response {
            self.received_bytes += response.received_bytes;
            self.statuses[usize::from(response.status) % STATUS_CODES] += u64::from(!failed);
        }
        self.extracted.record(outcome);
        if failed {
            self.failed += 1;
            self.failures.record(outcome);
        } else {
            self.succeeded += 1;
        }
        // A row that fails while it waits for its next attempt has no last attempt to measure.
        if outcome.attempts > 0 && outcome.failure.is_none_or(|failure| failure.kind != ErrorKind::HostDown) {
            if lacks_capitals(outcome.method) {
                self.lowercase_methods.add(&LowercaseMethods { rows: 1, example: outcome.method.into() });
            }
            self.attempted += 1;
            self.elapsed_us += outcome.elapsed_us;
            self.latency_us.saturating_record(outcome.elapsed_us);
        }
    }

    /// Counts an attempt whose row is retried.
    pub(crate) fn record_retry(&mut self, end: AttemptEnd, elapsed: Duration) {
        let cause = match (end.error, end.status) {
            (Some(kind), _) => kind.name().to_owned(),
            (None, status) => status_key(status.unwrap_or_default()),
        };
        *self.retries.causes.entry(cause).or_default() += 1;
        self.attempted += 1;
        self.elapsed_us += elapsed.as_micros() as u64;
    }

    pub(crate) fn add(&mut self, other: &Figures) {
        for (cause, count) in &other.retries.causes {
            *self.retries.causes.entry(cause.clone()).or_default() += count;
        }
        self.retries.not_retried += other.retries.not_retried;
        self.resent += other.resent;
        self.headers_skipped += other.headers_skipped;
        self.lowercase_methods.add(&other.lowercase_methods);
        self.extracted.add(&other.extracted);
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.abandoned += other.abandoned;
        self.received_bytes += other.received_bytes;
        self.elapsed_us += other.elapsed_us;
        self.attempted += other.attempted;
        self.connections += other.connections;
        for (mine, theirs) in self.statuses.iter_mut().zip(other.statuses.iter()) {
            *mine += theirs;
        }
        self.failures.add(&other.failures);
        // Both have the same range, so that nothing can fall outside.
        let _ = self.latency_us.add(&other.latency_us);
    }

    /// Returns the number of succeeded rows for each status that occurred.
    pub(crate) fn statuses(&self) -> BTreeMap<u16, u64> {
        let counts = self.statuses.iter().enumerate();
        counts.filter(|(_, count)| **count > 0).map(|(status, count)| (status as u16, *count)).collect()
    }
}

/// A row that keeps the window full, and its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlowRow {
    pub ordinal: u64,
    pub host: Box<str>,
}

/// The figures that a worker shares with the monitor. The worker locks them for each row, the monitor a few times a second.
#[derive(Debug)]
pub(crate) struct WorkerStats {
    pub figures: Figures,
    pub lanes: LaneClock,
    /// The row that keeps the window full, if this worker has it in flight.
    pub slow_row: Option<SlowRow>,
    pub busy: BusyClock,
}

/// How long a worker's event loop was busy since a run began, for whatever run.
#[derive(Debug, Default)]
pub(crate) enum BusyClock {
    #[default]
    NotStarted,
    Running {
        runtime: RuntimeMetrics,
        before: Duration,
    },
    Stopped(Duration),
}

impl BusyClock {
    pub(crate) fn start(&mut self, runtime: RuntimeMetrics) {
        *self = Self::Running { before: runtime.worker_total_busy_duration(0), runtime };
    }

    pub(crate) fn stop(&mut self) {
        *self = Self::Stopped(self.busy());
    }

    /// Returns whether the worker has a share of the run.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }

    pub(crate) fn busy(&self) -> Duration {
        match self {
            Self::NotStarted => Duration::ZERO,
            Self::Running { runtime, before } => runtime.worker_total_busy_duration(0).saturating_sub(*before),
            Self::Stopped(busy) => *busy,
        }
    }
}

impl WorkerStats {
    pub(crate) fn new(now: Instant) -> Self {
        Self { figures: Figures::default(), lanes: LaneClock::new(now), slow_row: None, busy: BusyClock::default() }
    }
}

/// Counts a lane as waiting while this guard exists: a lane may be dropped while it waits.
pub(crate) struct WaitingLane<'a> {
    stats: &'a Mutex<WorkerStats>,
    wait: Wait,
}

impl<'a> WaitingLane<'a> {
    pub(crate) fn new(stats: &'a Mutex<WorkerStats>, wait: Wait) -> Self {
        let waiting = Self { stats, wait };
        waiting.lock().lanes.enter(wait, clock::now());
        waiting
    }

    fn lock(&self) -> MutexGuard<'_, WorkerStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WaitingLane<'_> {
    fn drop(&mut self) {
        let wait = self.wait;
        self.lock().lanes.leave(wait, clock::now());
    }
}
