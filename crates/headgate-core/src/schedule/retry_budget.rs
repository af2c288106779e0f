//! The retry budget of a host: retries are at most a fifth of first attempts (the default of Finagle and tower, too), so
//! that retries do not make an outage worse. When the budget is used up, a retry waits; it does not fail.
//!
//! Once a host has no new rows, retries are its only load. Then they may come as often as its first attempts did before, or
//! a fifth as often while the host is unhealthy. A retry that gets a response allows another one.

use std::time::{Duration, Instant};

/// The retries that each first attempt adds.
const SHARE: f64 = 0.2;
/// The initial retries, up to which some are added per second in any case: few retries wait for the budget.
const RESERVE: f64 = 10.0;
const RESERVE_PER_S: f64 = 10.0;
/// The largest number of saved retries.
const MOST: f64 = 1000.0;

/// The load of a host besides retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    NewRows,
    OnlyRetries { host_is_well: bool },
}

#[derive(Debug, Clone)]
pub(super) struct RetryBudget {
    left: f64,
    counted: Instant,
    /// The number of first attempts, and when the first and the last were made.
    firsts: u64,
    began: Instant,
    last: Instant,
}

impl RetryBudget {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: RESERVE, counted: now, firsts: 0, began: now, last: now }
    }

    /// Adds the retries that accrue over time, up to the reserve.
    fn count(&mut self, per_s: f64, now: Instant) {
        let reserve = RESERVE.max(per_s / 10.0);
        if self.left < reserve {
            let came = now.saturating_duration_since(self.counted).as_secs_f64() * per_s;
            self.left = (self.left + came).min(reserve);
        }
        self.counted = self.counted.max(now);
    }

    fn per_s(&self, load: Load) -> f64 {
        let time = self.last.saturating_duration_since(self.began).max(Duration::from_secs(1));
        let usual = self.firsts as f64 / time.as_secs_f64();
        match load {
            Load::NewRows => RESERVE_PER_S,
            Load::OnlyRetries { host_is_well: true } => RESERVE_PER_S.max(usual),
            Load::OnlyRetries { host_is_well: false } => RESERVE_PER_S.max(SHARE * usual),
        }
    }

    /// Records the first attempt at a row.
    pub(super) fn first_attempt(&mut self, now: Instant) {
        self.count(RESERVE_PER_S, now);
        self.left = (self.left + SHARE).min(MOST);
        if self.firsts == 0 {
            self.began = now;
        }
        self.firsts += 1;
        self.last = now;
    }

    /// Records that a retry got a response, if the host has no new rows.
    pub(super) fn useful_retry(&mut self) {
        self.left = (self.left + 1.0).min(MOST);
    }

    /// Returns when the next retry may start, which is `now` or later.
    pub(super) fn when(&mut self, load: Load, now: Instant) -> Instant {
        let per_s = self.per_s(load);
        self.count(per_s, now);
        let missing = (1.0 - self.left).max(0.0);
        // Rounded up, so that it is available by then.
        if missing > 0.0 { now + Duration::from_secs_f64(missing / per_s) + Duration::from_nanos(1) } else { now }
    }

    /// Records the start of a retry.
    pub(super) fn retry(&mut self) {
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
            let (mut budget, mut now) = (RetryBudget::new(start), start);
            let (mut firsts, mut retries) = (0_u32, 0_u32);
            for (pause_ms, new) in steps {
                now += Duration::from_millis(pause_ms);
                (0..new).for_each(|_| budget.first_attempt(now));
                firsts += new;
                // An outage: as many retries as possible.
                while budget.when(Load::NewRows, now) == now {
                    budget.retry();
                    retries += 1;
                }
                let reserve = RESERVE + (now - start).as_secs_f64() * RESERVE_PER_S;
                prop_assert!(f64::from(retries) <= SHARE * f64::from(firsts) + reserve + 1e-6);
                // A caller that waits until then does not wait again.
                let when = budget.when(Load::NewRows, now);
                prop_assert!(when - now <= Duration::from_millis(101));
                prop_assert_eq!(when, budget.clone().when(Load::NewRows, when));
            }
        }
    }

    #[test]
    fn without_new_rows_retries_have_the_earlier_request_rate_or_a_fifth_of_it() {
        for (host_is_well, expected) in [(true, 11_000), (false, 3_000)] {
            let load = Load::OnlyRetries { host_is_well };
            let retries = retries_in_20_s(load);
            // The saved retries, and 500 or 100 a second.
            assert!((expected - 120..expected + 120).contains(&retries), "{retries} for {load:?}");
        }
    }

    fn retries_in_20_s(load: Load) -> u32 {
        let start = Instant::now();
        let mut budget = RetryBudget::new(start);
        for number in 0..5000_u32 {
            budget.first_attempt(start + Duration::from_millis(2) * number);
        }
        let (mut now, mut retries) = (start + Duration::from_secs(10), 0_u32);
        let until = now + Duration::from_secs(20);
        while now < until {
            now = budget.when(load, now);
            budget.retry();
            retries += 1;
        }
        retries
    }
}
