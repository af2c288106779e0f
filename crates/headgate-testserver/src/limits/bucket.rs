//! A token bucket, on times that are passed in.

use std::time::{Duration, Instant};

/// The tolerance for the rounding of times, in tokens.
const ROUNDING: f64 = 1e-6;

/// A token bucket, which fills at a constant rate up to a bound.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_s: f64,
    max_level: f64,
    /// Negative after a request that costs more than the bucket holds.
    level: f64,
    at: Instant,
}

impl Bucket {
    /// Creates a full bucket. It holds what accumulates in `burst`, and at least 1.
    pub(super) fn new(per_s: f64, burst: Duration, now: Instant) -> Self {
        let max_level = (per_s * burst.as_secs_f64()).max(1.0);
        Self { per_s, max_level, level: max_level, at: now }
    }

    /// Returns whether `amount` can be taken. More than the bucket holds can be taken when it is full.
    pub(super) fn has(&mut self, amount: f64, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at);
        self.level = (self.level + passed.as_secs_f64() * self.per_s).min(self.max_level);
        self.at = self.at.max(now);
        self.level + ROUNDING >= amount.min(self.max_level)
    }

    /// Takes an amount for which [`Self::has`] has returned true.
    pub(super) fn take(&mut self, amount: f64) {
        self.level -= amount;
    }

    /// Returns the seconds, rounded up, from the last check until the bucket is full: then any amount can be taken.
    pub(super) fn seconds_until_full(&self) -> u64 {
        ((self.max_level - self.level) / self.per_s).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns how many of `count` requests, one each `step`, are admitted.
    fn admitted(bucket: &mut Bucket, from: Instant, count: u32, step: Duration) -> u32 {
        (0..count).filter(|index| bucket.has(1.0, from + *index * step).then(|| bucket.take(1.0)).is_some()).count()
            as u32
    }

    #[test]
    fn exactly_burst_and_rate_are_admitted() {
        let now = Instant::now();
        let mut bucket = Bucket::new(500.0, 50 * MS, now);
        // 25 tokens are in the bucket, and 500 are added in the second until the last request.
        assert_eq!(525, admitted(&mut bucket, now, 10_001, MS / 10));
    }

    #[test]
    fn unused_tokens_accumulate_up_to_the_burst() {
        let now = Instant::now();
        let mut bucket = Bucket::new(2.5, Duration::from_secs(2), now);
        assert_eq!(5, admitted(&mut bucket, now, 100, Duration::ZERO));
        assert_eq!(5, admitted(&mut bucket, now + Duration::from_secs(3600), 100, Duration::ZERO));
    }

    #[test]
    fn one_request_is_always_admitted_in_the_end() {
        let now = Instant::now();
        let mut bucket = Bucket::new(0.1, 50 * MS, now);
        assert_eq!(1, admitted(&mut bucket, now, 2, 9_999 * MS));
        assert!(bucket.has(1.0, now + 10_000 * MS));
    }

    #[test]
    fn a_cost_above_the_burst_makes_the_level_negative() {
        let now = Instant::now();
        let mut bucket = Bucket::new(1000.0, 50 * MS, now);
        assert!(bucket.has(3_000.0, now));
        bucket.take(3_000.0);
        assert!(!bucket.has(1.0, now + 2_950 * MS));
        assert!(bucket.has(1.0, now + 2_951 * MS));
    }

    #[test]
    fn a_request_after_the_returned_wait_is_admitted() {
        let now = Instant::now();
        let mut bucket = Bucket::new(2.5, Duration::from_secs(2), now);
        assert_eq!(5, admitted(&mut bucket, now, 6, Duration::ZERO));
        assert_eq!(2, bucket.seconds_until_full());
        assert!(bucket.has(5.0, now + Duration::from_secs(2)));
    }
}
