//! The generic cell rate algorithm (ITU-T I.371, annex A), which limits a rate exactly: a token bucket without the bucket.
//! Its only state is the time at which the bucket would be empty again. Over any stretch of time `t`, at most
//! `burst + rate * t` are let through.
//!
//! A request may cost more than one. A cost above the burst could never be let through at once: it starts when the bucket
//! is full, and is paid off before anything else is let through.

use std::time::{Duration, Instant};

use crate::limits::Rate;

/// The default burst after a pause: this much time's worth, and at least one. It makes up for a machine that wakes late.
const DEFAULT_BURST: Duration = Duration::from_millis(10);
/// A wait may be this much longer, if nothing is lost by it: otherwise each of 50,000 a second would be a wake-up.
const WAKE_EVERY: Duration = Duration::from_millis(1);
/// A correction is paid off within this time, or within the period of the rate.
const MAX_CORRECTION: Duration = Duration::from_mins(1);

/// Times are counted from `epoch` in parts of a nanosecond, as many as the rate has in its period: so none is rounded.
#[derive(Debug, Clone)]
pub(crate) struct RateLimiter {
    epoch: Instant,
    /// The number of parts of a nanosecond.
    parts: u128,
    /// The cost of one request, in parts.
    one: u128,
    burst: u128,
    /// When everything that was let through is paid off.
    paid_off: u128,
}

impl RateLimiter {
    /// Creates a limiter with a full burst. `burst`: how many may start at once; `None`: those of 10 ms.
    pub(crate) fn new(rate: Rate, burst: Option<u32>, epoch: Instant) -> Self {
        let mut limiter = Self { epoch, parts: 1, one: 1, burst: 1, paid_off: 0 };
        limiter.set(rate, burst, epoch);
        limiter
    }

    /// Applies another rate from now on. What has been let through is paid off at the new rate.
    pub(crate) fn set(&mut self, rate: Rate, burst: Option<u32>, now: Instant) {
        let owed = self.paid_off.saturating_sub(self.at(now)) as f64 / self.one as f64;
        self.parts = u128::from(rate.count.get());
        self.one = rate.per.as_nanos();
        let default = DEFAULT_BURST.as_nanos() * self.parts;
        self.burst = burst.map_or(default, |burst| u128::from(burst) * self.one).max(self.one);
        self.paid_off = self.at(now) + (owed * self.one as f64).ceil() as u128;
    }

    /// Returns the limiter that replaces `earlier` from now on; `None`: no rate.
    pub(crate) fn changed(earlier: Option<Self>, rate: Option<Rate>, burst: Option<u32>, now: Instant) -> Option<Self> {
        let rate = rate?;
        let Some(mut limiter) = earlier else { return Some(Self::new(rate, burst, now)) };
        limiter.set(rate, burst, now);
        Some(limiter)
    }

    fn at(&self, time: Instant) -> u128 {
        time.saturating_duration_since(self.epoch).as_nanos() * self.parts
    }

    /// Returns when `cost` may be let through, which is `now` or later.
    pub(crate) fn when(&self, cost: u64, now: Instant) -> Instant {
        let needed = (u128::from(cost) * self.one).min(self.burst);
        let from = (self.paid_off + needed).saturating_sub(self.burst);
        let at = self.at(now);
        if from <= at { now } else { now + self.time(from - at) }
    }

    /// Spends `cost` at this time, which must not be before [`RateLimiter::when`].
    pub(crate) fn spend_at(&mut self, cost: u64, when: Instant) {
        self.paid_off = self.paid_off.max(self.at(when)) + u128::from(cost) * self.one;
    }

    /// Replaces the estimate `estimate` by the final `cost`: the difference is refunded, or paid off before anything else is
    /// let through. A refund has no effect if all is paid off already. Costs come from servers and may be wrong: paying one
    /// off takes no longer than the period of the rate, or [`MAX_CORRECTION`].
    pub(crate) fn correct(&mut self, estimate: u64, cost: u64, now: Instant) {
        if cost > estimate {
            let most = MAX_CORRECTION.as_nanos().max(self.one) * self.parts;
            let parts = (u128::from(cost - estimate) * self.one).min(most);
            self.paid_off = self.paid_off.max(self.at(now)) + parts;
        } else {
            self.paid_off = self.paid_off.saturating_sub(u128::from(estimate - cost) * self.one);
        }
    }

    /// Returns whether its state equals that of a new limiter.
    pub(crate) fn is_as_new(&self, now: Instant) -> bool {
        self.paid_off <= self.at(now)
    }

    /// Returns when to wake up for what may start at `when`: later, as far as nothing is lost by it.
    pub(crate) fn wake_at(&self, when: Instant) -> Instant {
        when + WAKE_EVERY.min(self.time((self.burst - self.one) / 4))
    }

    /// Returns how long it takes to let `count` requests through, at a cost of one each.
    pub(crate) fn time_for(&self, count: u64) -> Duration {
        self.time(u128::from(count) * self.one)
    }

    /// Rounds up, so that nothing starts too early.
    fn time(&self, parts: u128) -> Duration {
        Duration::from_nanos(u64::try_from(parts.div_ceil(self.parts)).unwrap_or(u64::MAX))
    }
}

/// Rate limiters of requests: of those that are started, and of those that are sent. A request is started when its turn
/// comes, and sent when it has a connection. If only starts were limited, slow connections would let many be sent at once.
#[derive(Debug, Clone)]
pub(crate) struct RequestLimiter {
    pub starts: RateLimiter,
    pub sends: RateLimiter,
}

impl RequestLimiter {
    pub(crate) fn new(rate: Rate, burst: Option<u32>, now: Instant) -> Self {
        let limiter = RateLimiter::new(rate, burst, now);
        Self { starts: limiter.clone(), sends: limiter }
    }

    /// Returns both limiters with another rate; see [`RateLimiter::changed`].
    pub(crate) fn changed(earlier: Option<Self>, rate: Option<Rate>, burst: Option<u32>, now: Instant) -> Option<Self> {
        let (starts, sends) = earlier.map(|Self { starts, sends }| (starts, sends)).unzip();
        let changed = |limiter| RateLimiter::changed(limiter, rate, burst, now);
        Some(Self { starts: changed(starts)?, sends: changed(sends)? })
    }

    pub(crate) fn is_as_new(&self, now: Instant) -> bool {
        self.starts.is_as_new(now) && self.sends.is_as_new(now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().expect("a rate")
    }

    /// Returns the maximum cost in any interval beyond the rate: it is at most the burst.
    fn worst(rate: Rate, sent: &[(Instant, u64)]) -> f64 {
        let mut worst = f64::MIN;
        // The balance of a bucket that never runs full: its highest rise above an earlier low.
        let (mut sum, mut low) = (0.0, f64::MAX);
        let first = sent[0].0;
        for (at, cost) in sent {
            let paid = (*at - first).as_secs_f64() * rate.per_second();
            low = f64::min(low, sum - paid);
            sum += *cost as f64;
            worst = f64::max(worst, sum - paid - low);
        }
        worst
    }

    impl RateLimiter {
        /// Spends `cost` at the earliest time at which that is allowed, and returns that time.
        fn spend(&mut self, cost: u64, now: Instant) -> Instant {
            let when = self.when(cost, now);
            self.spend_at(cost, when);
            when
        }
    }

    #[test]
    fn the_burst_is_the_given_one_or_10_ms_worth_and_at_least_one() {
        for (expected, text, burst) in
            [(1, "1/s", None), (1, "100/s", None), (500, "50000/s", None), (5, "10/s", Some(5)), (1, "1/10s", Some(1))]
        {
            let start = Instant::now();
            let mut limiter = RateLimiter::new(rate(text), burst, start);
            let at_once = std::iter::repeat_with(|| limiter.spend(1, start)).take_while(|when| *when == start).count();
            assert_eq!(expected, at_once, "{text}");
        }
    }

    #[test]
    fn a_cost_above_the_burst_starts_at_a_full_bucket_and_is_paid_off_later() {
        let start = Instant::now();
        let mut limiter = RateLimiter::new(rate("10/s"), Some(2), start);
        assert_eq!(start, limiter.spend(50, start));
        assert_eq!(start + Duration::from_millis(4900), limiter.when(1, start));
        assert_eq!(start + Duration::from_secs(5), limiter.when(50, start));
    }

    #[test]
    fn an_estimate_is_corrected_by_the_final_cost() {
        // At 10 a second, with a burst of 10: the estimate, the final cost, and when the next 10 may start, in
        // milliseconds.
        for (expected, estimate, cost) in [
            (1000, 10, 10),
            (0, 10, 0),
            (500, 10, 5),
            (4000, 10, 40),
            (1000, 0, 10),
            (59_000 + 1000, 0, 600),
            (60_000, 0, 601),
            (60_000, 0, u64::MAX),
            (0, u64::MAX / 2, 0),
        ] {
            let start = Instant::now();
            let mut limiter = RateLimiter::new(rate("10/s"), Some(10), start);
            limiter.spend(estimate, start);
            limiter.correct(estimate, cost, start);
            assert_eq!(start + Duration::from_millis(expected), limiter.when(10, start), "{estimate} {cost}");
        }
    }

    #[test]
    fn a_late_refund_is_at_most_a_full_burst() {
        let start = Instant::now();
        let mut limiter = RateLimiter::new(rate("10/s"), Some(10), start);
        limiter.spend(10, start);
        let later = start + Duration::from_secs(60);
        limiter.correct(10, 0, later);
        assert_eq!(later, limiter.spend(10, later));
        assert_eq!(later + Duration::from_secs(1), limiter.when(10, later));
        // The cost beyond the estimate is paid off from now on.
        let mut limiter = RateLimiter::new(rate("10/s"), Some(10), start);
        limiter.spend(10, start);
        limiter.correct(10, 20, later);
        assert_eq!(later + Duration::from_secs(1), limiter.when(10, later));
    }

    #[test]
    fn a_new_rate_applies_from_now_on_and_earlier_requests_are_paid_off() {
        let start = Instant::now();
        let mut limiter = RateLimiter::new(rate("1/s"), Some(1), start);
        limiter.spend(1, start);
        limiter.set(rate("10/s"), Some(1), start);
        assert_eq!(start + Duration::from_millis(100), limiter.spend(1, start));
        // A debt of a far slower rate is paid off at the new rate.
        let mut limiter = RateLimiter::new(rate("1/d"), Some(1), start);
        limiter.spend(7, start);
        limiter.set(rate("2/s"), Some(1), start);
        assert_eq!(start + Duration::from_millis(3500), limiter.when(1, start));
        limiter.set(rate("1/m"), Some(1), start);
        assert_eq!(start + Duration::from_secs(420), limiter.when(1, start));
    }

    proptest! {
        /// A caller that waits until the returned time is never early, and no part of the rate is lost while it waits.
        #[test]
        fn no_stretch_of_time_has_more_than_its_burst_and_its_rate_nor_much_less(
            count in 1_u32..100_000,
            per_ms in 1_u64..100_000,
            burst in proptest::option::of(1_u32..20),
            steps in proptest::collection::vec((0_u64..3, 0_u64..2_000_000_000, 1_u64..30), 1..200),
        ) {
            let rate = Rate { count: count.try_into().expect("at least one"), per: Duration::from_millis(per_ms) };
            prop_assume!(!rate.interval().is_zero());
            let start = Instant::now();
            let mut limiter = RateLimiter::new(rate, burst, start);
            let burst = burst.map_or(rate.per_second() * 0.01, f64::from).max(1.0);
            let (mut now, mut sent, mut idle) = (start, Vec::new(), false);
            for (kind, pause_ns, cost) in steps {
                if kind == 0 {
                    now += Duration::from_nanos(pause_ns);
                    idle = true;
                }
                let cost = if kind == 1 { cost } else { 1 };
                let when = limiter.spend(cost, now);
                prop_assert!(when >= now);
                now = when;
                sent.push((when, cost));
            }
            let largest = sent.iter().map(|(_, cost)| *cost).max().expect("some") as f64;
            prop_assert!(worst(rate, &sent) <= burst.max(largest) + 1e-3 * burst.max(largest), "{}", worst(rate, &sent));
            if !idle {
                let total: u64 = sent[..sent.len() - 1].iter().map(|(_, cost)| cost).sum();
                let allowed = (now - start).as_secs_f64() * rate.per_second();
                prop_assert!(total as f64 + 1e-3 * (total as f64) >= allowed, "{total} of {allowed}");
            }
        }
    }
}
