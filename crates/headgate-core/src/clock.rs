//! The monotonic clock, and wall-clock times from it, at the price of one reading for both.
//!
//! A virtual clock moves it ahead of the system's: so times of this clock are never compared with `Instant::now` or
//! `Instant::elapsed`, and timers of the event loop are those of `timer`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far virtual clocks have moved the time ahead of the system's, in nanoseconds. It never decreases, since an `Instant`
/// must not go back.
static AHEAD_NS: AtomicU64 = AtomicU64::new(0);

/// Returns the time that all rules go by. Everything in the engine reads it here and nowhere else, so that a test can move it.
#[inline]
pub fn now() -> Instant {
    match AHEAD_NS.load(Ordering::Relaxed) {
        0 => Instant::now(),
        ahead_ns => Instant::now() + Duration::from_nanos(ahead_ns),
    }
}

/// Returns the time since then.
pub fn elapsed(since: Instant) -> Duration {
    now().saturating_duration_since(since)
}

/// Returns how far the clock is ahead of the system's.
pub(crate) fn ahead() -> Duration {
    Duration::from_nanos(AHEAD_NS.load(Ordering::Relaxed))
}

/// Converts a time of the clock to one of the system's.
pub(crate) fn of_system(at: Instant) -> Instant {
    at.checked_sub(ahead()).unwrap_or_else(Instant::now)
}

/// Moves the clock ahead, by 584 years in all at the most.
pub(crate) fn advance(time: Duration) {
    let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let further = |ahead_ns: u64| Some(ahead_ns.saturating_add(time_ns));
    // It never fails, as there is always a new value.
    let _ = AHEAD_NS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, further);
}

/// Returns the time of day that belongs to `now`, by which cookies expire.
pub fn system_now() -> SystemTime {
    SystemTime::now() + ahead()
}

/// Converts an instant to microseconds since 1970. A step of the system's clock during a job does not show.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    started_at: Duration,
}

impl Clock {
    pub fn start() -> Self {
        let started_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: now(), started_at }
    }

    pub fn started(&self) -> Instant {
        self.started
    }

    pub fn unix_us(&self, instant: Instant) -> i64 {
        (self.started_at + instant.saturating_duration_since(self.started)).as_micros() as i64
    }
}

/// Formats a second since 1970 as RFC 3339 in UTC: `2026-05-14T09:30:00Z`.
pub fn second_text(second: u64) -> String {
    let (day, second) = (second / 86_400, second % 86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // In years that begin in March, the leap day is the last one (Hinnant, "chrono-compatible low-level date algorithms",
    // civil_from_days).
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_those_of_the_calendar() {
        for (expected, second) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1999-12-31T23:59:59Z", 946_684_799),
            ("2000-02-29T00:00:00Z", 951_782_400),
            ("2026-05-14T09:30:00Z", 1_778_751_000),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(expected, second_text(second));
        }
    }
}
