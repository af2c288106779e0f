//! The server's statistics. Each worker counts in its own memory; the counts are added up on request.
//!
//! Only the requests in progress have one counter for all workers, because their maximum must be exact: it proves a client's
//! bound. A request is in progress from the moment its headers were read until just before the last piece of its response
//! is written. So every request in progress is in flight for the client, and a client that keeps its bound never exceeds it here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use crate::config::STATUSES;
use crate::faults::table;

/// Statistics since the server was started. Requests for `/stats` are not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    pub connections_accepted: u64,
    pub connections_open: u64,
    pub requests: u64,
    /// Requests from their headers until just before the end of their response.
    pub requests_in_progress: u64,
    /// The maximum of requests in progress.
    pub max_requests_in_progress: u64,
    /// Responses that were started, by status, without faults: not all of these have a status.
    pub responses: BTreeMap<u16, u64>,
    /// Requests for faults, by name; only those above 0.
    pub faults: BTreeMap<&'static str, u64>,
    /// The effects of limits, by name; only those above 0.
    pub limits: BTreeMap<&'static str, u64>,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

/// The effect of a limit on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limited {
    Capacity,
    ApiRate,
    ApiConcurrency,
    ApiTokens,
    FailedFirst,
    HtmlFirst,
    CutFirst,
    /// The request has no valid bearer token.
    Bearer,
    /// Not refused: a request for a bearer token.
    BearerIssued,
    /// Not refused: a request with the same key has already got its response.
    RetriedAfterResponse,
}

impl Limited {
    const ALL: [Self; 10] = [
        Self::Capacity,
        Self::ApiRate,
        Self::ApiConcurrency,
        Self::ApiTokens,
        Self::FailedFirst,
        Self::HtmlFirst,
        Self::CutFirst,
        Self::Bearer,
        Self::BearerIssued,
        Self::RetriedAfterResponse,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::ApiRate => "api_rate",
            Self::ApiConcurrency => "api_concurrency",
            Self::ApiTokens => "api_tokens",
            Self::FailedFirst => "api_failed_first",
            Self::HtmlFirst => "api_html_first",
            Self::CutFirst => "api_cut_first",
            Self::Bearer => "api_bearer",
            Self::BearerIssued => "api_bearer_issued",
            Self::RetriedAfterResponse => "api_retried_after_response",
        }
    }
}

/// The counters of a server.
#[derive(Debug)]
pub(crate) struct Counters {
    workers: Box<[WorkerCounters]>,
    in_progress: AtomicU64,
    max_in_progress: AtomicU64,
}

/// The counters of one worker, in separate cache lines, so that cores don't wait for each other.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct WorkerCounters {
    accepted: AtomicU64,
    open: AtomicU64,
    requests: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    /// By status, from the first of [`STATUSES`].
    responses: Box<[AtomicU64]>,
    /// In the order of [`table::all`].
    faults: Box<[AtomicU64]>,
    /// In the order of [`Limited::ALL`].
    limited: [AtomicU64; Limited::ALL.len()],
}

fn zeros(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl Counters {
    pub(crate) fn new(workers: usize) -> Self {
        let workers = (0..workers).map(|_| WorkerCounters::new()).collect();
        Self { workers, in_progress: AtomicU64::new(0), max_in_progress: AtomicU64::new(0) }
    }

    pub(crate) fn worker(&self, index: usize) -> &WorkerCounters {
        &self.workers[index]
    }

    pub(crate) fn start_request(&self) {
        let now = self.in_progress.fetch_add(1, Relaxed) + 1;
        if now > self.max_in_progress.load(Relaxed) {
            self.max_in_progress.fetch_max(now, Relaxed);
        }
    }

    pub(crate) fn end_request(&self) {
        self.in_progress.fetch_sub(1, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Statistics {
        let mut sum = Statistics {
            requests_in_progress: self.in_progress.load(Relaxed),
            max_requests_in_progress: self.max_in_progress.load(Relaxed),
            ..Statistics::default()
        };
        for worker in &self.workers {
            sum.connections_accepted += worker.accepted.load(Relaxed);
            sum.connections_open += worker.open.load(Relaxed);
            sum.requests += worker.requests.load(Relaxed);
            sum.bytes_read += worker.bytes_read.load(Relaxed);
            sum.bytes_written += worker.bytes_written.load(Relaxed);
            add_up(&mut sum.responses, STATUSES.zip(&worker.responses));
            add_up(&mut sum.faults, table::all().map(|fault| fault.name).zip(&worker.faults));
            add_up(&mut sum.limits, Limited::ALL.map(Limited::name).into_iter().zip(&worker.limited));
        }
        sum
    }
}

fn add_up<'a, K: Ord>(sums: &mut BTreeMap<K, u64>, counters: impl Iterator<Item = (K, &'a AtomicU64)>) {
    for (key, counter) in counters {
        let count = counter.load(Relaxed);
        if count > 0 {
            *sums.entry(key).or_default() += count;
        }
    }
}

impl WorkerCounters {
    fn new() -> Self {
        Self {
            accepted: AtomicU64::new(0),
            open: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            responses: zeros(STATUSES.len()),
            faults: zeros(table::all().count()),
            limited: Default::default(),
        }
    }

    /// Counts a connection, which is open until the returned value is dropped.
    pub(crate) fn open(&self) -> ConnectionGuard<'_> {
        self.accepted.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
        ConnectionGuard { open: &self.open }
    }

    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn response(&self, status: u16) {
        if let Some(counter) = self.responses.get(usize::from(status.wrapping_sub(*STATUSES.start()))) {
            counter.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn fault(&self, index: usize) {
        self.faults[index].fetch_add(1, Relaxed);
    }

    pub(crate) fn limited(&self, what: Limited) {
        self.limited[what as usize].fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn wrote(&self, bytes: usize) {
        self.bytes_written.fetch_add(bytes as u64, Relaxed);
    }
}

/// A connection that is counted as open.
#[derive(Debug)]
pub(crate) struct ConnectionGuard<'a> {
    open: &'a AtomicU64,
}

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Relaxed);
    }
}
