//! Wall-clock times from the monotonic clock, at the price of one reading for both.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells when an instant was, in microseconds since 1970. A step of the system's clock during a job does not show.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    started_at: Duration,
}

impl Clock {
    pub fn start() -> Self {
        let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_at }
    }

    pub fn started(&self) -> Instant {
        self.started
    }

    pub fn unix_us(&self, instant: Instant) -> i64 {
        (self.started_at + instant.saturating_duration_since(self.started)).as_micros() as i64
    }
}
