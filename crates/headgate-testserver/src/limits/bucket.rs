//! A token bucket, on times that are passed in.

use std::time::{Duration, Instant};

/// Room for the rounding of times, in tokens.
const ROUNDING: f64 = 1e-6;

/// Fills at a constant rate up to a bound.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_s: f64,
    most: f64,
    /// Below zero after something that costs more than the bucket holds.
    level: f64,
    at: Instant,
}

impl Bucket {
    /// Full. It holds what comes in `burst`, and at least 1.
    pub fn new(per_s: f64, burst: Duration, now: Instant) -> Self {
        let most = (per_s * burst.as_secs_f64()).max(1.0);
        Self { per_s, most, level: most, at: now }
    }

    /// Whether so much can be taken; what is more than the bucket holds is given when it is full.
    pub fn has(&mut self, amount: f64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at);
        self.level = (self.level + passed.as_secs_f64() * self.per_s).min(self.most);
        self.at = self.at.max(now);
        self.level + ROUNDING >= amount.min(self.most)
    }

    /// What [`Self::has`] said can be taken.
    pub fn take(&mut self, amount: f64) {
        self.level -= amount;
    }

    /// Whole seconds, rounded up, from the last look until it is full again: then anything can be taken.
    pub fn seconds_until_full(&self) -> u64 {
        ((self.most - self.level) / self.per_s).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns how many of `times` requests, one each `step`, are let through.
    fn let_through(bucket: &mut Bucket, from: Instant, times: u32, step: Duration) -> u32 {
        (0..times).filter(|turn| bucket.has(1.0, from + *turn * step).then(|| bucket.take(1.0)).is_some()).count()
            as u32
    }

    #[test]
    fn no_more_than_burst_and_rate_get_through_and_those_do() {
        let now = Instant::now();
        let mut bucket = Bucket::new(500.0, 50 * MS, now);
        // 25 are there, and 500 come in the second that passes until the last asks
        assert_eq!(525, let_through(&mut bucket, now, 10_001, MS / 10));
    }

    #[test]
    fn what_was_not_used_is_kept_up_to_the_burst() {
        let now = Instant::now();
        let mut bucket = Bucket::new(2.5, Duration::from_secs(2), now);
        assert_eq!(5, let_through(&mut bucket, now, 100, Duration::ZERO));
        assert_eq!(5, let_through(&mut bucket, now + Duration::from_secs(3600), 100, Duration::ZERO));
    }

    #[test]
    fn one_can_always_get_through_at_last() {
        let now = Instant::now();
        let mut bucket = Bucket::new(0.1, 50 * MS, now);
        assert_eq!(1, let_through(&mut bucket, now, 2, 9_999 * MS));
        assert!(bucket.has(1.0, now + 10_000 * MS));
    }

    #[test]
    fn a_cost_above_the_burst_is_taken_whole_and_then_paid_off() {
        let now = Instant::now();
        let mut bucket = Bucket::new(1000.0, 50 * MS, now);
        assert!(bucket.has(3_000.0, now));
        bucket.take(3_000.0);
        assert!(!bucket.has(1.0, now + 2_950 * MS));
        assert!(bucket.has(1.0, now + 2_951 * MS));
    }

    #[test]
    fn whoever_waits_for_as_long_as_was_said_gets_through() {
        let now = Instant::now();
        let mut bucket = Bucket::new(2.5, Duration::from_secs(2), now);
        assert_eq!(5, let_through(&mut bucket, now, 6, Duration::ZERO));
        assert_eq!(2, bucket.seconds_until_full());
        assert!(bucket.has(5.0, now + Duration::from_secs(2)));
    }
}
