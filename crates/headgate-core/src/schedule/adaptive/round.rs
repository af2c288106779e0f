//! Measurements at one concurrency limit.

use std::time::{Duration, Instant};

const MIN_SAMPLES: f64 = 16.0;
/// If latencies scatter so much that more samples would be needed, the round does not wait for them.
const MAX_SAMPLES: f64 = 1000.0;
/// A round is long enough when the error of its mean is a step divided by this.
const PRECISION: f64 = 6.0;
/// The number of responses over which the mean latency is taken.
const RECENT: u32 = 256;

/// Recent latencies, which estimate a round trip.
#[derive(Debug, Default)]
pub(super) struct Recent {
    responses: u32,
    mean_s: f64,
    squares: f64,
}

impl Recent {
    pub(super) fn add(&mut self, seconds: f64) {
        self.responses = (self.responses + 1).min(RECENT);
        let weight = 1.0 / f64::from(self.responses);
        self.mean_s += (seconds - self.mean_s) * weight;
        self.squares += (seconds * seconds - self.squares) * weight;
    }

    pub(super) fn round_trip_s(&self) -> f64 {
        self.mean_s
    }

    /// Returns the time until a change of the limit takes effect. Nearly all attempts have ended by then, including slow
    /// ones, so that those that end afterwards are a fair mixture.
    pub(super) fn settling(&self) -> Duration {
        let variance = (self.squares - self.mean_s * self.mean_s).max(0.0);
        Duration::try_from_secs_f64(self.mean_s + 2.0 * variance.sqrt()).unwrap_or_default()
    }
}

/// The sum of logarithms of latencies. An overloaded server multiplies all latencies, so that their mean shows this alike
/// for quick and slow requests. A request that takes ten times longer does not dominate it.
#[derive(Debug)]
pub(super) struct LatencyRound {
    settled: Instant,
    /// The limit when it began.
    pub limit: u32,
    samples: f64,
    ln_sum: f64,
    ln_squares: f64,
    in_flight: f64,
}

impl LatencyRound {
    pub(super) fn new(limit: u32, settled: Instant) -> Self {
        Self { settled, limit, samples: 0.0, ln_sum: 0.0, ln_squares: 0.0, in_flight: 0.0 }
    }

    pub(super) fn add(&mut self, seconds: f64, in_flight: u32, now: Instant) {
        if now >= self.settled {
            let ln = seconds.ln();
            self.samples += 1.0;
            self.ln_sum += ln;
            self.ln_squares += ln * ln;
            self.in_flight += f64::from(in_flight);
        }
    }

    /// Returns whether the round lasted a round trip, and long enough to show the effect of a step of this size.
    pub(super) fn is_over(&self, step_ln: f64, round_trip_s: f64, now: Instant) -> bool {
        self.samples >= MIN_SAMPLES
            && now.saturating_duration_since(self.settled).as_secs_f64() >= round_trip_s
            && self.samples >= (self.variance() * (PRECISION / step_ln).powi(2)).min(MAX_SAMPLES)
    }

    /// Returns the mean of the logarithms of latencies in seconds.
    pub(super) fn ln(&self) -> f64 {
        self.ln_sum / self.samples
    }

    fn variance(&self) -> f64 {
        (self.ln_squares / self.samples - self.ln().powi(2)).max(0.0)
    }

    /// Returns whether latencies exceed `ln` significantly (two standard errors).
    pub(super) fn exceeds(&self, ln: f64) -> bool {
        let excess = self.ln() - ln;
        self.samples >= MIN_SAMPLES && excess > 0.0 && excess * excess * self.samples > 4.0 * self.variance()
    }

    /// Returns whether the limit was the bottleneck.
    pub(super) fn is_limit_reached(&self) -> bool {
        self.in_flight >= 0.8 * f64::from(self.limit) * self.samples
    }
}
