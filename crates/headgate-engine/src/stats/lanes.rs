//! The time of lanes. A lane usually has an attempt in flight, which costs nothing here; only the exceptions are recorded,
//! when it has to wait for something else.

use std::time::{Duration, Instant};

use serde::Serialize;

/// The reasons why a lane waits when it does not exchange bytes with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(usize)]
pub enum Wait {
    /// The next row.
    Input,
    /// Space in the queue of the sink.
    Sink,
    /// Memory for responses.
    Memory,
    /// The address of a hostname.
    Dns,
    /// A thread to decode a body.
    Decoder,
    /// The time at which the rate limiter allows a prepared request to be sent.
    RateLimiter,
    /// A stream of an HTTP/2 connection.
    Stream,
    /// The reading of files that are sent.
    Files,
    /// A new connection, after its host's address is known.
    Connection,
}

const WAITS: usize = 9;

impl Wait {
    pub(crate) const ALL: [Wait; WAITS] = [
        Wait::Input,
        Wait::Sink,
        Wait::Memory,
        Wait::Dns,
        Wait::Decoder,
        Wait::RateLimiter,
        Wait::Stream,
        Wait::Files,
        Wait::Connection,
    ];
}

/// Lane-time since the start of a job, by what it was spent on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LaneTime {
    /// The number of lanes times how long they have existed.
    pub total: Duration,
    waiting: [Duration; WAITS],
}

impl LaneTime {
    pub(crate) fn waiting(&self, wait: Wait) -> Duration {
        self.waiting[wait as usize]
    }

    /// Returns the time of attempts, which includes waiting for memory, DNS, decoders, streams, files and connections.
    pub(crate) fn in_flight(&self) -> Duration {
        self.total.saturating_sub(self.waiting(Wait::Input) + self.waiting(Wait::Sink))
    }

    #[must_use]
    pub(crate) fn since(&self, earlier: &LaneTime) -> LaneTime {
        LaneTime {
            total: self.total.saturating_sub(earlier.total),
            waiting: std::array::from_fn(|wait| self.waiting[wait].saturating_sub(earlier.waiting[wait])),
        }
    }

    pub(crate) fn add(&mut self, other: &LaneTime) {
        self.total += other.total;
        for (mine, theirs) in self.waiting.iter_mut().zip(other.waiting) {
            *mine += theirs;
        }
    }
}

/// The lanes of one worker: their number, what each waits for now, and how long they have waited so far.
#[derive(Debug, Clone)]
pub(crate) struct LaneClock {
    lanes: u32,
    waiting: [u32; WAITS],
    time: LaneTime,
    updated: Instant,
}

impl LaneClock {
    pub(crate) fn new(now: Instant) -> Self {
        Self { lanes: 0, waiting: [0; WAITS], time: LaneTime::default(), updated: now }
    }

    pub(crate) fn start(&mut self, now: Instant) {
        self.advance(now);
        self.lanes += 1;
    }

    pub(crate) fn end(&mut self, now: Instant) {
        self.advance(now);
        self.lanes -= 1;
    }

    pub(crate) fn enter(&mut self, wait: Wait, now: Instant) {
        self.advance(now);
        self.waiting[wait as usize] += 1;
    }

    pub(crate) fn leave(&mut self, wait: Wait, now: Instant) {
        self.advance(now);
        self.waiting[wait as usize] -= 1;
    }

    /// Adds a wait that is over and that [`LaneClock::enter`] did not record.
    pub(crate) fn add_waited(&mut self, wait: Wait, time: Duration) {
        self.time.waiting[wait as usize] += time;
    }

    /// Returns the number of lanes that wait for this.
    pub(crate) fn waiting(&self, wait: Wait) -> u32 {
        self.waiting[wait as usize]
    }

    /// Returns the number of attempts in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        self.lanes - self.waiting.iter().sum::<u32>()
    }

    pub(crate) fn time(&self, now: Instant) -> LaneTime {
        let mut clock = self.clone();
        clock.advance(now);
        clock.time
    }

    fn advance(&mut self, now: Instant) {
        let step = now.saturating_duration_since(self.updated);
        self.updated = self.updated.max(now);
        self.time.total += step * self.lanes;
        for (time, lanes) in self.time.waiting.iter_mut().zip(self.waiting) {
            *time += step * lanes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_time_is_split_by_what_lanes_wait_for() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut clock = LaneClock::new(start);
        clock.start(at(0));
        clock.start(at(2));
        clock.enter(Wait::Sink, at(5));
        clock.leave(Wait::Sink, at(9));
        clock.end(at(10));

        let time = clock.time(at(12));

        assert_eq!(Duration::from_secs(12 + 8), time.total);
        assert_eq!(Duration::from_secs(4), time.waiting(Wait::Sink));
        assert_eq!(Duration::from_secs(16), time.in_flight());
        assert_eq!(1, clock.in_flight());
    }
}
