//! The reasons that throttle rows while lanes are free, and the time that each takes.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Why a row can't start yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(usize)]
pub enum ThrottledBy {
    /// The rate limiter of the whole run.
    Rate,
    /// The limit on costs.
    Cost,
    /// A budget: more must be reserved first, or what is in flight decides whether it is used up.
    Budget,
    HostRate,
    HostConcurrency,
    /// The host requested a pause.
    Pause,
    /// The circuit breaker of the host is open: the host does not respond, or is overloaded, and is only probed.
    CircuitBreaker,
    /// No host can be reached.
    Network,
    /// Retries wait for their backoff.
    Backoff,
    /// Retries wait until they are at most 20 % of first attempts.
    RetryBudget,
    /// Head-of-line blocking: all rows that were read ahead belong to throttled hosts, and the input can't be read again.
    HeadOfLine,
    /// The user has paused the job.
    Paused,
    /// Hosts that get credentials wait for a new token.
    Credentials,
}

impl ThrottledBy {
    pub const ALL: [ThrottledBy; 13] = [
        ThrottledBy::Rate,
        ThrottledBy::Cost,
        ThrottledBy::Budget,
        ThrottledBy::HostRate,
        ThrottledBy::HostConcurrency,
        ThrottledBy::Pause,
        ThrottledBy::CircuitBreaker,
        ThrottledBy::Network,
        ThrottledBy::Backoff,
        ThrottledBy::RetryBudget,
        ThrottledBy::HeadOfLine,
        ThrottledBy::Paused,
        ThrottledBy::Credentials,
    ];
}

/// The state of one host, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFigures {
    pub name: Box<str>,
    /// Why none of its rows may start now.
    pub throttled_by: Option<ThrottledBy>,
    pub waiting: u64,
    pub in_flight: u32,
    /// Until when none of its rows may start.
    pub until: Option<Instant>,
    /// The minimum time that its rows take; `None`: not known.
    pub time_left: Option<Duration>,
}

/// The time in which nothing could start, by what throttled it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThrottledTime([Duration; ThrottledBy::ALL.len()]);

impl ThrottledTime {
    pub fn by(&self, by: ThrottledBy) -> Duration {
        self.0[by as usize]
    }

    #[must_use]
    pub fn since(&self, earlier: &ThrottledTime) -> ThrottledTime {
        ThrottledTime(std::array::from_fn(|by| self.0[by].saturating_sub(earlier.0[by])))
    }

    /// Returns what throttled rows for most of the time, and that time.
    pub fn most(&self) -> (ThrottledBy, Duration) {
        let all = ThrottledBy::ALL.into_iter().map(|by| (by, self.by(by)));
        all.max_by_key(|(_, time)| *time).unwrap_or((ThrottledBy::Rate, Duration::ZERO))
    }
}

/// Measures the time in which nothing can start.
#[derive(Debug, Default)]
pub struct ThrottledClock {
    time: ThrottledTime,
    now: Option<(ThrottledBy, Instant)>,
}

impl ThrottledClock {
    /// Records that from now on nothing starts for this reason; `None`: something does, or there is nothing to start.
    pub fn set(&mut self, by: Option<ThrottledBy>, now: Instant) {
        if self.now.map(|(by, _)| by) != by {
            self.time = self.time(now);
            self.now = by.map(|by| (by, now));
        }
    }

    pub fn time(&self, now: Instant) -> ThrottledTime {
        let mut time = self.time;
        if let Some((by, since)) = self.now {
            time.0[by as usize] += now.saturating_duration_since(since);
        }
        time
    }

    /// Returns what throttles everything now.
    pub fn now(&self) -> Option<ThrottledBy> {
        self.now.map(|(by, _)| by)
    }
}
