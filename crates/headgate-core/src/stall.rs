//! Times in which a process did not run, though it had something to do: it was stopped (SIGSTOP, Ctrl-Z, `docker pause`),
//! its machine was suspended, or a long computation blocked the event loop.
//!
//! An event loop beats: it wakes every [`BEAT`] while a run continues. A beat that comes [`STALL`] late ends a *stall*. A
//! failure in a stall is no server's fault, so time that is measured against a server, its *awake time*, stands still in
//! it. [`StallClock`] derives awake time from real time: a moment of both clocks goes in, and nothing is read or waited
//! for.
//!
//! Lateness is measured on the monotonic clock, which the timers of the event loop follow. It stands still while the machine
//! is suspended; `CLOCK_BOOTTIME` does not (`clock_gettime(2)`), so the difference of both is the time in suspend.
//!
//! [`Stalls`] is the clock of one event loop. A run has another one, behind the lock of what its workers share: it beats
//! when any of them does, so it stalls only if all of them do.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::clock;

/// The interval of an event loop's heartbeats during a run.
pub const BEAT: Duration = Duration::from_millis(100);
/// A beat this late ends a stall. For as long after it, deadlines are not judged: what arrived meanwhile is read first, and
/// an event loop that needs longer for that stalls once more.
pub const STALL: Duration = Duration::from_millis(250);
/// Stalls that are remembered one by one. Of earlier ones only the sum is known.
const MAX_REMEMBERED: usize = 64;

/// One moment on two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    pub monotonic: Instant,
    /// The time since the machine was started, including suspend.
    pub boot: Duration,
    /// How far virtual clocks have moved the monotonic clock ahead: a jump of the time is no stall.
    pub jumped: Duration,
}

impl ClockReading {
    pub fn now() -> Self {
        let monotonic = clock::now();
        Self { monotonic, boot: boot_time(monotonic), jumped: clock::ahead() }
    }

    fn after(self, time: Duration) -> Self {
        Self { monotonic: self.monotonic + time, boot: self.boot + time, ..self }
    }
}

#[cfg(target_os = "linux")]
fn boot_time(_: Instant) -> Duration {
    use nix::time::{ClockId, clock_gettime};

    // Linux 2.6.39 and later have it: without it, no time in suspend is seen.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::ZERO, Duration::from)
}

#[cfg(not(target_os = "linux"))]
fn boot_time(monotonic: Instant) -> Duration {
    use std::sync::OnceLock;

    static FIRST: OnceLock<Instant> = OnceLock::new();
    monotonic.saturating_duration_since(*FIRST.get_or_init(|| monotonic))
}

/// A time in which nothing ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// On the monotonic clock.
    pub ended: Instant,
    /// The length on the monotonic clock.
    pub monotonic: Duration,
    /// The length including suspend.
    pub total: Duration,
}

impl Stall {
    /// Returns the part of it in which the machine was suspended.
    pub fn suspended(&self) -> Duration {
        self.total.saturating_sub(self.monotonic)
    }
}

/// How long a machine was suspended until a moment of the monotonic clock, which stands still in suspend.
#[derive(Debug, Default)]
pub struct Suspends {
    /// When each of the latest ended, with the sum up to then; and the sum of those before them.
    latest: VecDeque<(Instant, Duration)>,
    before: Duration,
}

impl Suspends {
    /// Adds a stall that has just ended.
    pub fn add(&mut self, stall: &Stall) {
        let sum = self.until(stall.ended) + stall.suspended();
        if self.latest.len() == MAX_REMEMBERED {
            self.before = self.latest.pop_front().map_or(self.before, |(_, sum)| sum);
        }
        self.latest.push_back((stall.ended, sum));
    }

    /// Returns the time in suspend until `moment`.
    pub fn until(&self, moment: Instant) -> Duration {
        let ended = self.latest.iter().rev().find(|(ended, _)| *ended <= moment);
        ended.map_or(self.before, |(_, sum)| *sum)
    }
}

/// The time lost to stalls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StallFigures {
    pub count: u64,
    pub total: Duration,
}

/// Finds stalls, and derives awake time from real time. The default one never stalls.
#[derive(Debug, Clone, Default)]
pub(crate) struct StallClock {
    /// The time of the next beat; `None`: none is planned, and an idle loop does not stall.
    planned: Option<ClockReading>,
    /// The latest stalls, in order; and the sum of those before them.
    stalls: VecDeque<Stall>,
    before: Duration,
    /// The total on the monotonic clock.
    stalled: Duration,
    figures: StallFigures,
}

impl StallClock {
    /// Records a beat, and plans the next one. Returns the stall that it ends, if any.
    pub(crate) fn beat(&mut self, now: ClockReading) -> Option<Stall> {
        let stall = self.observe(now);
        let next = now.after(BEAT);
        if self.planned.is_none_or(|planned| planned.monotonic < next.monotonic) {
            self.planned = Some(next);
        }
        stall
    }

    /// Returns the stall that ends now, if any. Call it before judging anything by its time.
    pub(crate) fn observe(&mut self, now: ClockReading) -> Option<Stall> {
        let planned = self.planned?;
        let total = now.boot.saturating_sub(planned.boot);
        let monotonic = now.monotonic.saturating_duration_since(planned.monotonic);
        let monotonic = monotonic.saturating_sub(now.jumped.saturating_sub(planned.jumped));
        let total = total.max(monotonic);
        if total < STALL {
            return None;
        }
        let stall = Stall { ended: now.monotonic, monotonic, total };
        if self.stalls.len() == MAX_REMEMBERED {
            self.before += self.stalls.pop_front().map_or(Duration::ZERO, |oldest| oldest.monotonic);
        }
        self.stalls.push_back(stall);
        self.stalled += monotonic;
        self.figures.count += 1;
        self.figures.total += total;
        self.planned = Some(now.after(BEAT));
        Some(stall)
    }

    /// Stops the beats.
    pub(crate) fn rest(&mut self) {
        self.planned = None;
    }

    /// Returns the time from which on a moment lies in a stall, or after one, that was not observed yet.
    pub(crate) fn late_from(&self) -> Option<Instant> {
        self.planned.map(|planned| planned.monotonic + STALL)
    }

    /// Returns by how much the next beat is late.
    pub(crate) fn late_by(&self, now: Instant) -> Duration {
        self.planned.map_or(Duration::ZERO, |planned| now.saturating_duration_since(planned.monotonic))
    }

    /// Returns the last stall.
    pub(crate) fn last(&self) -> Option<&Stall> {
        self.stalls.back()
    }

    /// Returns how far awake time is behind the monotonic clock.
    pub(crate) fn stalled(&self) -> Duration {
        self.stalled
    }

    pub(crate) fn figures(&self) -> StallFigures {
        self.figures
    }

    /// Converts real time to awake time.
    pub(crate) fn awake(&self, real: Instant) -> Instant {
        if self.stalls.is_empty() {
            return real;
        }
        let mut lag = self.stalled;
        for stall in self.stalls.iter().rev() {
            if stall.ended <= real {
                break;
            }
            lag -= stall.monotonic;
            // In a stall awake time stands still.
            let real_lag = lag + (real + stall.monotonic).saturating_duration_since(stall.ended);
            if real_lag > lag {
                return real.checked_sub(real_lag).unwrap_or(real);
            }
        }
        real.checked_sub(lag).unwrap_or(real)
    }

    /// Converts awake time to real time: the time after a stall, if it is the moment of one.
    pub(crate) fn real(&self, awake: Instant) -> Instant {
        if self.stalls.is_empty() {
            return awake;
        }
        let mut lag = self.before;
        for stall in &self.stalls {
            if stall.ended.checked_sub(stall.monotonic + lag).is_some_and(|began| awake < began) {
                break;
            }
            lag += stall.monotonic;
        }
        awake + lag
    }
}

/// The stalls of one event loop, for all that runs in it.
#[derive(Debug, Default)]
pub struct Stalls {
    clock: RefCell<StallClock>,
    /// Copies of the values that are read most, so that no borrow is needed: see [`StallClock::late_from`], and so on.
    late_from: Cell<Option<Instant>>,
    last_ended: Cell<Option<Instant>>,
    stalled_ns: Cell<u64>,
    suspended: Cell<Duration>,
}

impl Stalls {
    /// Records a beat of the event loop.
    pub fn beat(&self, now: ClockReading) {
        let stall = self.clock.borrow_mut().beat(now);
        self.note(stall);
    }

    /// Stops the beats when no run is active: the event loop may sleep for any time.
    pub fn rest(&self) {
        self.clock.borrow_mut().rest();
        self.note(None);
    }

    /// Looks for a stall that ends now. Call it before judging anything by its time.
    pub fn observe(&self, now: Instant) {
        if self.late_from.get().is_some_and(|late| late <= now) {
            self.observe_late();
        }
    }

    #[cold]
    fn observe_late(&self) {
        let stall = self.clock.borrow_mut().observe(ClockReading::now());
        self.note(stall);
    }

    fn note(&self, stall: Option<Stall>) {
        let clock = self.clock.borrow();
        self.late_from.set(clock.late_from());
        if let Some(stall) = stall {
            self.last_ended.set(Some(stall.ended));
            self.stalled_ns.set(u64::try_from(clock.stalled().as_nanos()).unwrap_or(u64::MAX));
            self.suspended.update(|suspended| suspended + stall.suspended());
        }
    }

    /// Returns how long the loop was stalled in total, in nanoseconds.
    pub fn stalled_ns(&self) -> u64 {
        self.stalled_ns.get()
    }

    /// Returns when the last observed stall ended.
    pub fn last_ended(&self) -> Option<Instant> {
        self.last_ended.get()
    }

    /// Returns whether a stall has ended since `time`.
    pub fn has_stalled_since(&self, time: Instant) -> bool {
        self.last_ended.get().is_some_and(|ended| time < ended)
    }

    /// Returns how long the machine was suspended since the last call.
    pub fn reset_suspended(&self) -> Duration {
        self.suspended.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn start() -> ClockReading {
        ClockReading { monotonic: Instant::now(), boot: Duration::from_secs(1000), jumped: Duration::ZERO }
    }

    /// Returns a clock that beats until `beats` have passed, then at each of these times once more; and its start.
    fn beaten(times_ms: &[u32]) -> (StallClock, ClockReading) {
        let (mut clock, start) = (StallClock::default(), start());
        for time in times_ms {
            clock.beat(start.after(*time * MS));
        }
        (clock, start)
    }

    #[test]
    fn a_moment_before_a_suspend_is_not_moved_by_it() {
        let (mut suspends, start) = (Suspends::default(), Instant::now());
        let s = Duration::from_secs;
        for number in 1..=100 {
            let total = s(10) + MS * 300;
            suspends.add(&Stall { ended: start + s(number), monotonic: MS * 300, total });
        }
        for (expected_s, moment_s) in [(1000, 1000), (1000, 100), (990, 99), (400, 40), (360, 36), (360, 0)] {
            assert_eq!(s(expected_s), suspends.until(start + s(moment_s)), "{moment_s}");
        }
        assert_eq!(Duration::ZERO, Suspends::default().until(start));
    }

    #[test]
    fn a_beat_that_is_a_quarter_of_a_second_late_ends_a_stall_and_being_idle_is_none() {
        let (mut clock, start) = beaten(&[0, 100]);
        assert_eq!(None, clock.observe(start.after(449 * MS)), "less than 250 ms after the beat of 200 ms");
        let late = [150, 449].map(|now| clock.late_by(start.after(now * MS).monotonic));
        assert_eq!([Duration::ZERO, 249 * MS], late);
        let expected = Stall { ended: start.monotonic + 450 * MS, monotonic: 250 * MS, total: 250 * MS };
        assert_eq!(Some(expected), clock.observe(start.after(450 * MS)));
        assert_eq!(None, clock.observe(start.after(451 * MS)), "it is reported once");
        clock.rest();
        assert_eq!(Duration::ZERO, clock.late_by(start.after(3_600_000 * MS).monotonic));
        assert_eq!((None, None), (clock.late_from(), clock.beat(start.after(3_600_000 * MS))));
        assert_eq!(StallFigures { count: 1, total: 250 * MS }, clock.figures());
    }

    #[test]
    fn time_in_suspend_is_a_stall_though_the_monotonic_clock_stood_still() {
        let (mut clock, start) = beaten(&[0]);
        let resumed = ClockReading { boot: start.boot + 3_600_000 * MS, ..start.after(100 * MS) };
        let stall = clock.beat(resumed).expect("an hour is a stall");
        assert_eq!((Duration::ZERO, 3_599_900 * MS), (stall.monotonic, stall.total));
        assert_eq!(resumed.monotonic, clock.awake(resumed.monotonic));
        assert_eq!(Some(resumed.monotonic + BEAT + STALL), clock.late_from());
    }

    #[test]
    fn several_loops_stall_only_if_all_of_them_do() {
        let (mut clock, start) = beaten(&[0, 50, 100, 150]);
        assert!(clock.beat(start.after(6150 * MS)).is_some());
        assert_eq!(None, clock.beat(start.after(6151 * MS)));
        (62..80).for_each(|beat| assert_eq!(None, clock.beat(start.after(beat * 100 * MS))));
        assert_eq!((1, 5900 * MS), (clock.figures().count, clock.stalled()));
    }

    #[test]
    fn awake_time_stands_still_in_stalls_and_converts_to_real_time_and_back() {
        // Stalls from 200 to 1000 and from 1200 to 3200.
        let (clock, start) = beaten(&[0, 100, 1000, 1100, 3200]);
        let at = |ms: u32| start.monotonic + ms * MS;
        for (awake, real) in [
            (0, 0),
            (199, 199),
            (200, 200),
            (200, 600),
            (200, 1000),
            (300, 1100),
            (400, 1200),
            (400, 3199),
            (400, 3200),
            (500, 3300),
        ] {
            assert_eq!(at(awake), clock.awake(at(real)), "{real} ms");
        }
        for (real, awake) in [(0, 0), (199, 199), (1000, 200), (1199, 399), (3200, 400), (4000, 1200)] {
            assert_eq!(at(real), clock.real(at(awake)), "{awake} ms");
        }
    }

    #[test]
    fn the_sum_of_many_stalls_is_correct() {
        let (mut clock, start) = beaten(&[]);
        for beat in 0..1000 {
            clock.beat(start.after(1000 * beat * MS));
        }
        assert_eq!((MAX_REMEMBERED, 999 * 900 * MS), (clock.stalls.len(), clock.stalled()));
        let later = start.monotonic + 2_000_000 * MS;
        assert_eq!(later, clock.awake(later) + 999 * 900 * MS);
        assert_eq!(later, clock.real(clock.awake(later)));
    }
}
