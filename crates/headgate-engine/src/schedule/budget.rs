//! How much more a host may be asked because of what failed: a fifth of what it is asked anyway (as the retry budgets of
//! Finagle and tower; their default is the same). So an outage is not made worse by those who wait for its end. A retry for
//! which nothing is left waits; it does not fail.
//!
//! When nothing new is left to ask, there is no load to go by: a retry that is answered then makes room for another one.

use std::time::{Duration, Instant};

/// What one first attempt adds, in parts of a retry.
const SHARE: f64 = 0.2;
/// What there is to begin with, and what is added in any case: few rows are asked again without a delay.
const RESERVE: f64 = 10.0;
const RESERVE_EVERY: Duration = Duration::from_millis(100);
/// What can be saved up at the most.
const MOST: f64 = 1000.0;

#[derive(Debug, Clone)]
pub struct Budget {
    left: f64,
    counted: Instant,
}

impl Budget {
    pub fn new(now: Instant) -> Self {
        Self { left: RESERVE, counted: now }
    }

    fn count(&mut self, now: Instant) {
        // What comes by itself fills up the reserve, and no more.
        if self.left < RESERVE {
            let came = now.saturating_duration_since(self.counted).as_secs_f64() / RESERVE_EVERY.as_secs_f64();
            self.left = (self.left + came).min(RESERVE);
        }
        self.counted = self.counted.max(now);
    }

    /// A row was asked for the first time.
    pub fn first_attempt(&mut self, now: Instant) {
        self.count(now);
        self.left = (self.left + SHARE).min(MOST);
    }

    /// A retry was answered, and nothing new is left to ask.
    pub fn useful_retry(&mut self, now: Instant) {
        self.count(now);
        self.left = (self.left + 1.0).min(MOST);
    }

    /// When the next retry may start, which is `now` or later.
    pub fn when(&mut self, now: Instant) -> Instant {
        self.count(now);
        let missing = (1.0 - self.left).max(0.0);
        // Rounded up, so that it is there by then.
        if missing > 0.0 { now + RESERVE_EVERY.mul_f64(missing) + Duration::from_nanos(1) } else { now }
    }

    /// A retry starts.
    pub fn retry(&mut self, now: Instant) {
        self.count(now);
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
                while budget.when(now) == now {
                    budget.retry(now);
                    retries += 1;
                }
                let reserve = RESERVE + (now - start).as_secs_f64() / RESERVE_EVERY.as_secs_f64();
                prop_assert!(f64::from(retries) <= SHARE * f64::from(firsts) + reserve + 1e-6);
                // And whoever waits as told is not kept waiting.
                let when = budget.when(now);
                prop_assert!(when - now <= RESERVE_EVERY + Duration::from_nanos(1));
                prop_assert_eq!(when, budget.clone().when(when));
            }
        }
    }
}
