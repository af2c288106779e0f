//! What keeps rows from being started while there are places for them, and how much time that took.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Why a row can't start yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(usize)]
pub enum Hold {
    /// The rate of the whole run.
    Rate,
    /// The limit on costs.
    Cost,
    HostRate,
    HostConcurrency,
    /// The host asked for a pause.
    Pause,
    /// The host does not respond, or is overloaded, and is only probed.
    Refusing,
    /// No host can be reached.
    Network,
    /// Retries wait for their time.
    Backoff,
    /// Retries wait until they are no more than a fifth of the rest.
    Budget,
    /// The rows that were read are all of hosts that are held back, and no more can be read.
    LookAhead,
    /// Somebody has paused the job.
    Paused,
}

impl Hold {
    pub const ALL: [Hold; 11] = [
        Hold::Rate,
        Hold::Cost,
        Hold::HostRate,
        Hold::HostConcurrency,
        Hold::Pause,
        Hold::Refusing,
        Hold::Network,
        Hold::Backoff,
        Hold::Budget,
        Hold::LookAhead,
        Hold::Paused,
    ];
}

/// Time by what it was lost to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost([Duration; Hold::ALL.len()]);

impl Lost {
    pub fn to(&self, hold: Hold) -> Duration {
        self.0[hold as usize]
    }

    #[must_use]
    pub fn since(&self, earlier: &Lost) -> Lost {
        Lost(std::array::from_fn(|hold| self.0[hold].saturating_sub(earlier.0[hold])))
    }

    /// What most was lost to, and how much.
    pub fn most(&self) -> (Hold, Duration) {
        let all = Hold::ALL.into_iter().map(|hold| (hold, self.to(hold)));
        all.max_by_key(|(_, time)| *time).unwrap_or((Hold::Rate, Duration::ZERO))
    }
}

/// The clock of what is lost.
#[derive(Debug, Default)]
pub struct Waits {
    lost: Lost,
    now: Option<(Hold, Instant)>,
}

impl Waits {
    /// From now on nothing starts for this reason; `None`: something does, or there is nothing to start.
    pub fn held_by(&mut self, hold: Option<Hold>, now: Instant) {
        if self.now.map(|(hold, _)| hold) != hold {
            self.lost = self.lost(now);
            self.now = hold.map(|hold| (hold, now));
        }
    }

    pub fn lost(&self, now: Instant) -> Lost {
        let mut lost = self.lost;
        if let Some((hold, since)) = self.now {
            lost.0[hold as usize] += now.saturating_duration_since(since);
        }
        lost
    }

    /// What holds everything back now.
    pub fn now(&self) -> Option<Hold> {
        self.now.map(|(hold, _)| hold)
    }
}
