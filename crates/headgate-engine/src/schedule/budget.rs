//! How much more a host may be asked because of what failed: a fifth of what it is asked anyway (as the retry budgets of
//! Finagle and tower; their default is the same). So an outage is not made worse by those who wait for its end. A retry for
//! which nothing is left waits; it does not fail.
//!
//! When nothing new is left to ask, retries are the only load. Then they may be a fifth of what the host was asked before in
//! the same time, and one that is answered makes room for another.

use std::time::{Duration, Instant};

/// What one first attempt adds, in parts of a retry.
const SHARE: f64 = 0.2;
/// What there is to begin with, and what is added in any case: few rows are asked again without a delay.
const RESERVE: f64 = 10.0;
const RESERVE_PER_S: f64 = 10.0;
/// What can be saved up at the most.
const MOST: f64 = 1000.0;

#[derive(Debug, Clone)]
pub struct Budget {
    left: f64,
    counted: Instant,
    /// First attempts, and from when to when they were made.
    firsts: u64,
    began: Instant,
    last: Instant,
}

impl Budget {
    pub fn new(now: Instant) -> Self {
        Self { left: RESERVE, counted: now, firsts: 0, began: now, last: now }
    }

    /// What comes by itself: it fills up the reserve, and no more.
    fn count(&mut self, per_s: f64, now: Instant) {
        let reserve = RESERVE.max(per_s / 10.0);
        if self.left < reserve {
            let came = now.saturating_duration_since(self.counted).as_secs_f64() * per_s;
            self.left = (self.left + came).min(reserve);
        }
        self.counted = self.counted.max(now);
    }

    fn per_s(&self, nothing_new_is_left: bool) -> f64 {
        let time = self.last.saturating_duration_since(self.began).max(Duration::from_secs(1));
        let usual = self.firsts as f64 / time.as_secs_f64();
        if nothing_new_is_left { RESERVE_PER_S.max(SHARE * usual) } else { RESERVE_PER_S }
    }

    /// A row was asked for the first time.
    pub fn first_attempt(&mut self, now: Instant) {
        self.count(RESERVE_PER_S, now);
        self.left = (self.left + SHARE).min(MOST);
        if self.firsts == 0 {
            self.began = now;
        }
        self.firsts += 1;
        self.last = now;
    }

    /// A retry was answered, and nothing new is left to ask.
    pub fn useful_retry(&mut self) {
        self.left = (self.left + 1.0).min(MOST);
    }

    /// When the next retry may start, which is `now` or later.
    pub fn when(&mut self, nothing_new_is_left: bool, now: Instant) -> Instant {
        let per_s = self.per_s(nothing_new_is_left);
        self.count(per_s, now);
        let missing = (1.0 - self.left).max(0.0);
        // Rounded up, so that it is there by then.
        if missing > 0.0 { now + Duration::from_secs_f64(missing / per_s) + Duration::from_nanos(1) } else { now }
    }

    /// A retry starts.
    pub fn retry(&mut self) {
        self.left -= 1.0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn retries_are_a_fifth_of_first_attempts_and_a_reserve(
            steps in proptest::collection::vec((0_u64..300, 0_u32..30), 1..200),
        ) {
            let start = Instant::now();
            let (mut budget, mut now) = (Budget::new(start), start);
            let (mut firsts, mut retries) = (0_u32, 0_u32);
            for (pause_ms, new) in steps {
                now += Duration::from_millis(pause_ms);
                (0..new).for_each(|_| budget.first_attempt(now));
                firsts += new;
                // As many as may be: an outage.
                while budget.when(false, now) == now {
                    budget.retry();
                    retries += 1;
                }
                let reserve = RESERVE + (now - start).as_secs_f64() * RESERVE_PER_S;
                prop_assert!(f64::from(retries) <= SHARE * f64::from(firsts) + reserve + 1e-6);
                // And whoever waits as told is not kept waiting.
                let when = budget.when(false, now);
                prop_assert!(when - now <= Duration::from_millis(101));
                prop_assert_eq!(when, budget.clone().when(false, when));
            }
        }
    }

    #[test]
    fn where_only_retries_are_left_they_are_a_fifth_of_the_usual_load() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        for number in 0..5000_u32 {
            budget.first_attempt(start + Duration::from_millis(2) * number);
        }
        let (mut now, mut retries) = (start + Duration::from_secs(10), 0_u32);
        let until = now + Duration::from_secs(20);
        while now < until {
            now = budget.when(true, now);
            budget.retry();
            retries += 1;
        }
        // What was saved up, and 100 a second.
        assert!((2900..3120).contains(&retries), "{retries}");
    }
}
