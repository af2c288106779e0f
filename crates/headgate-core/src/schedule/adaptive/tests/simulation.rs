//! A server and a client on a simulated clock, which show the effect of a limit on throughput.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use crate::error::LoadEvidence;
use crate::schedule::adaptive::{Adaptive, EndedAttempt};

/// How much longer slow requests take.
const SLOWER: f64 = 10.0;
/// The duration of a refusal.
const REFUSAL_S: f64 = 0.001;

/// The behaviour of a server with more requests than it can handle at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beyond {
    /// All requests in flight share its capacity, so that each takes longer.
    Shares,
    /// Requests interfere with each other: each takes longer by the square of their number.
    Thrashes,
    /// Excess requests wait in a queue.
    Queues,
    /// Excess requests are refused.
    Refuses,
}

/// Latencies of a server that is not overloaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latency {
    pub mean_s: f64,
    /// The standard deviation of its logarithm.
    pub noise: f64,
    /// This share of requests takes [`SLOWER`] times as long.
    pub slow_share: f64,
}

impl Latency {
    /// Returns the mean latency of quick and slow requests.
    pub(super) fn mean_of_all_s(self) -> f64 {
        self.mean_s * (1.0 + (SLOWER - 1.0) * self.slow_share)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    pub beyond: Beyond,
    pub capacity: u32,
    pub latency: Latency,
    /// A share of attempts whose connections are reset, whatever the load.
    pub reset_share: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start,
    End { started_us: u64, was_accepted: bool, has_responded: bool },
}

/// The figures of one second.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Second {
    pub responses: u32,
    pub refused: u32,
    /// The limit at the end of the second.
    pub limit: u32,
}

pub(super) struct Simulation {
    pub server: Server,
    /// The mean time that a lane is idle between two attempts.
    pub gap_s: f64,
    /// The number of rows that arrive per second, or `None` if rows are always available.
    pub rows_per_s: Option<f64>,
    pub adaptive: Adaptive,
    epoch: Instant,
    now_us: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    in_flight: u32,
    starting: u32,
    accepted: u32,
    line: VecDeque<u64>,
    random: Random,
    next_row_us: f64,
    seconds: Vec<Second>,
}

impl Simulation {
    pub(super) fn new(server: Server, seed: u64) -> Self {
        let epoch = Instant::now();
        Self {
            server,
            gap_s: 0.000_2,
            rows_per_s: None,
            adaptive: Adaptive::new(100_000, epoch),
            epoch,
            now_us: 0,
            events: BinaryHeap::new(),
            count: 0,
            in_flight: 0,
            starting: 0,
            accepted: 0,
            line: VecDeque::new(),
            random: Random(seed),
            next_row_us: 0.0,
            seconds: Vec::new(),
        }
    }

    /// Simulates this many seconds, and returns the figures of each.
    pub(super) fn run(&mut self, seconds: u32) -> &[Second] {
        let until = self.now_us + u64::from(seconds) * 1_000_000;
        let first = self.seconds.len();
        self.seconds.resize(first + seconds as usize, Second::default());
        self.fill();
        while let Some(Reverse((at, _, event))) = self.events.peek().copied() {
            if at >= until {
                break;
            }
            self.events.pop();
            self.now_us = at;
            match event {
                Event::Start => self.start(),
                Event::End { started_us, was_accepted, has_responded } => {
                    self.end(started_us, was_accepted, has_responded);
                }
            }
            self.fill();
            self.second().limit = self.adaptive.limit();
        }
        self.now_us = until;
        &self.seconds[first..]
    }

    fn second(&mut self) -> &mut Second {
        &mut self.seconds[(self.now_us / 1_000_000) as usize]
    }

    fn at(&self, us: u64) -> Instant {
        self.epoch + Duration::from_micros(us)
    }

    fn push(&mut self, after_s: f64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((self.now_us + (after_s * 1e6) as u64, self.count, event)));
    }

    /// Starts as many attempts as there are idle lanes.
    fn fill(&mut self) {
        while self.in_flight + self.starting < self.adaptive.limit() {
            let mut after_s = self.random.exponential(self.gap_s);
            if let Some(rows_per_s) = self.rows_per_s {
                self.next_row_us = self.next_row_us.max(self.now_us as f64) + 1e6 / rows_per_s;
                after_s += (self.next_row_us - self.now_us as f64) / 1e6;
            }
            self.starting += 1;
            self.push(after_s, Event::Start);
        }
    }

    fn start(&mut self) {
        self.starting -= 1;
        if self.in_flight >= self.adaptive.limit() {
            return;
        }
        self.in_flight += 1;
        let started_us = self.now_us;
        if self.random.fraction() < self.server.reset_share {
            return self.push(REFUSAL_S, Event::End { started_us, was_accepted: false, has_responded: false });
        }
        let Server { beyond, capacity, .. } = self.server;
        if beyond == Beyond::Refuses && self.accepted >= capacity {
            return self.push(REFUSAL_S, Event::End { started_us, was_accepted: false, has_responded: false });
        }
        if beyond == Beyond::Queues && self.accepted >= capacity {
            return self.line.push_back(started_us);
        }
        self.accepted += 1;
        let load = f64::from(self.accepted) / f64::from(capacity);
        let stretch = match beyond {
            Beyond::Shares => load.max(1.0),
            Beyond::Thrashes => 1.0 + load * load,
            Beyond::Queues | Beyond::Refuses => 1.0,
        };
        let latency_s = self.latency_s() * stretch;
        self.push(latency_s, Event::End { started_us, was_accepted: true, has_responded: true });
    }

    fn latency_s(&mut self) -> f64 {
        let Latency { mean_s, noise, slow_share } = self.server.latency;
        let noise = (noise * self.random.normal() - noise * noise / 2.0).exp();
        let kind = if self.random.fraction() < slow_share { SLOWER } else { 1.0 };
        mean_s * noise * kind
    }

    fn end(&mut self, started_us: u64, was_accepted: bool, has_responded: bool) {
        if was_accepted {
            self.accepted -= 1;
            while self.accepted < self.server.capacity
                && let Some(started_us) = self.line.pop_front()
            {
                self.accepted += 1;
                let latency_s = self.latency_s();
                self.push(latency_s, Event::End { started_us, was_accepted: true, has_responded: true });
            }
        }
        let (started, now) = (self.at(started_us), self.at(self.now_us));
        let load = if has_responded { LoadEvidence::Responded } else { LoadEvidence::MaybeOverload };
        self.adaptive.ended(EndedAttempt { started, load }, self.in_flight, now);
        self.in_flight -= 1;
        let second = self.second();
        if has_responded { second.responses += 1 } else { second.refused += 1 }
    }
}

/// `SplitMix64` (Steele, Lea, Flood, 2014).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.fraction()).ln() * mean
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.fraction()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.fraction()).cos()
    }
}
