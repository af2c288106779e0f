//! The reasons that throttle rows while lanes are free, and the time lost to each.

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
    HostRate,
    HostConcurrency,
    /// The host requested a pause.
    Pause,
    /// The host does not respond, or is overloaded, and is only probed.
    Refusing,
    /// No host can be reached.
    Network,
    /// Retries wait for their backoff.
    Backoff,
    /// Retries wait until they are at most a fifth of first attempts.
    #[serde(rename = "budget")]
    RetryBudget,
    /// The rows that were read are all of hosts that are throttled, and no more can be read.
    LookAhead,
    /// The user has paused the job.
    Paused,
}

impl ThrottledBy {
    pub const ALL: [ThrottledBy; 11] = [
        ThrottledBy::Rate,
        ThrottledBy::Cost,
        ThrottledBy::HostRate,
        ThrottledBy::HostConcurrency,
        ThrottledBy::Pause,
        ThrottledBy::Refusing,
        ThrottledBy::Network,
        ThrottledBy::Backoff,
        ThrottledBy::RetryBudget,
        ThrottledBy::LookAhead,
        ThrottledBy::Paused,
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

/// Lost time, by its reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostTime([Duration; ThrottledBy::ALL.len()]);

impl LostTime {
    pub fn to(&self, by: ThrottledBy) -> Duration {
        self.0[by as usize]
    }

    #[must_use]
    pub fn since(&self, earlier: &LostTime) -> LostTime {
        LostTime(std::array::from_fn(|by| self.0[by].saturating_sub(earlier.0[by])))
    }

    /// Returns the reason for most of the lost time, and that time.
    pub fn most(&self) -> (ThrottledBy, Duration) {
        let all = ThrottledBy::ALL.into_iter().map(|by| (by, self.to(by)));
        all.max_by_key(|(_, time)| *time).unwrap_or((ThrottledBy::Rate, Duration::ZERO))
    }
}

/// Measures the time that is lost.
#[derive(Debug, Default)]
pub struct ThrottledTime {
    lost: LostTime,
    now: Option<(ThrottledBy, Instant)>,
}

impl ThrottledTime {
    /// Records that from now on nothing starts for this reason; `None`: something does, or there is nothing to start.
    pub fn set(&mut self, by: Option<ThrottledBy>, now: Instant) {
        if self.now.map(|(by, _)| by) != by {
            self.lost = self.lost(now);
            self.now = by.map(|by| (by, now));
        }
    }

    pub fn lost(&self, now: Instant) -> LostTime {
        let mut lost = self.lost;
        if let Some((by, since)) = self.now {
            lost.0[by as usize] += now.saturating_duration_since(since);
        }
        lost
    }

    /// Returns what throttles everything now.
    pub fn now(&self) -> Option<ThrottledBy> {
        self.now.map(|(by, _)| by)
    }
}
