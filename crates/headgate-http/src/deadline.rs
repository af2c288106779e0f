//! The deadline of an exchange, at nearly no cost for exchanges that end in time.
//!
//! Arming a timer for each request would cost more than parsing its response, and even polling one means a cache miss. So a
//! lane has one timer, lets it run, and reads the clock instead. If the deadline has moved when the timer fires, the timer is
//! reset: so it is touched once per timeout, not once per request.

use std::pin::pin;
use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::message::OptionName;
use headgate_core::stall::{STALL, Stalls};
use headgate_core::timer::{Sleep, sleep_until};
use tokio::task::unconstrained;

use crate::response_timeouts::Limit;

/// The waits of a row for which the server is not responsible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum OwnWait {
    /// Waiting for memory for the response.
    Memory,
    /// Waiting for a thread that decodes the response.
    Decoder,
    /// Waiting until files of the request are read.
    Files,
    /// Waiting until a saved body is written.
    Disk,
    /// Waiting until the process continues after a stall.
    Stall,
}

const OWN_WAITS: usize = 5;

/// The deadline and the timer of a lane.
#[derive(Debug)]
pub struct Deadline {
    at: Instant,
    /// The option that sets `at`.
    option: OptionName,
    /// An earlier limit that holds until the exchange makes progress.
    limit: Option<Limit>,
    /// The row's own deadline if a caller waits for the row: stalls do not extend it.
    latest: Option<Instant>,
    /// The stalls of the event loop.
    stalls: Rc<Stalls>,
    /// The total time of stalls when they were last excused, in nanoseconds.
    stalled_ns: u64,
    /// The time at which the timer will wake the lane; `None`: it will not.
    wakes_at: Option<Instant>,
    /// The time by which each kind of wait has extended the deadline, in nanoseconds to save memory: there are many lanes.
    excused_ns: [u64; OWN_WAITS],
    sleep: Sleep,
}

impl Deadline {
    pub fn new(at: Instant) -> Self {
        Self::excusing(at, &Rc::default())
    }

    /// Returns a deadline that these stalls extend.
    pub(crate) fn excusing(at: Instant, stalls: &Rc<Stalls>) -> Self {
        Self {
            at,
            option: OptionName::Timeout,
            limit: None,
            latest: None,
            stalls: stalls.clone(),
            stalled_ns: stalls.stalled_ns(),
            wakes_at: None,
            excused_ns: [0; OWN_WAITS],
            sleep: sleep_until(at),
        }
    }

    /// Resets the deadline to a time that this option sets.
    pub fn set(&mut self, at: Instant, option: OptionName) {
        self.at = at;
        self.option = option;
        self.limit = None;
        self.latest = None;
        self.stalled_ns = self.stalls.stalled_ns();
    }

    /// Sets the row's own deadline, which stalls do not extend.
    pub fn set_latest(&mut self, latest: Option<Instant>) {
        self.latest = latest;
    }

    /// Sets the limit by which the exchange must make progress; the caller replaces it at each progress.
    pub fn expect(&mut self, limit: Option<Limit>) {
        self.limit = limit;
    }

    /// Returns when the deadline passes without progress, and the option that sets this time.
    pub fn due(&self) -> Limit {
        match (self.limit, self.latest) {
            (Some(limit), _) if limit.at < self.at() => limit,
            (_, Some(latest)) if latest < self.at => Limit { at: latest, option: OptionName::TotalTimeout },
            _ => Limit { at: self.at, option: self.option },
        }
    }

    /// Extends the deadline by a wait for which the server is not responsible.
    pub fn excuse(&mut self, wait: OwnWait, time: Duration) {
        if let Some(latest) = &mut self.latest {
            *latest += time;
        }
        self.extend(wait, time);
    }

    fn extend(&mut self, wait: OwnWait, time: Duration) {
        self.at += time;
        if let Some(limit) = &mut self.limit {
            limit.at += time;
        }
        let excused = &mut self.excused_ns[wait as usize];
        *excused = excused.saturating_add(nanoseconds(time));
    }

    /// Extends the deadline by the stalls since the last call, and so far that bytes which arrived meanwhile are read first.
    pub fn excuse_stalls(&mut self, now: Instant) {
        self.stalls.observe(now);
        let stalled_ns = self.stalls.stalled_ns();
        if stalled_ns != self.stalled_ns {
            let time = Duration::from_nanos(stalled_ns.saturating_sub(self.stalled_ns));
            self.stalled_ns = stalled_ns;
            self.extend(OwnWait::Stall, time);
            let earliest = self.stalls.last_ended().map_or(now, |ended| ended + STALL);
            self.at = self.at.max(earliest);
            self.latest = self.latest.map(|latest| latest.max(earliest));
            if let Some(limit) = &mut self.limit {
                limit.at = limit.at.max(earliest);
            }
        }
    }

    /// Returns whether the event loop has stalled since `time`.
    pub fn has_stalled_since(&self, time: Instant, now: Instant) -> bool {
        self.stalls.observe(now);
        self.stalls.has_stalled_since(time)
    }

    /// Returns whether the deadline has passed, after excusing stalls.
    pub(crate) fn has_passed(&mut self, now: Instant) -> bool {
        if self.due().at > now {
            return false;
        }
        self.excuse_stalls(now);
        self.due().at <= now
    }

    /// Returns by how much all waits have extended the deadline.
    pub fn excused(&self) -> Duration {
        Duration::from_nanos(self.excused_ns.iter().fold(0, |sum, excused| sum.saturating_add(*excused)))
    }

    /// Returns the excused time of this kind of wait since the last call, and resets it.
    pub fn take_excused(&mut self, wait: OwnWait) -> Duration {
        Duration::from_nanos(std::mem::take(&mut self.excused_ns[wait as usize]))
    }

    /// Returns when the whole attempt times out.
    pub fn at(&self) -> Instant {
        self.latest.map_or(self.at, |latest| latest.min(self.at))
    }

    /// Makes a virtual clock not stop at this deadline: no exchange has one now.
    pub fn release(&mut self) {
        if self.sleep.release() {
            self.wakes_at = None;
        }
    }

    /// Returns whether the deadline has passed; if not, the task of `cx`, always the same one, is woken when it has.
    pub(crate) fn poll_passed(&mut self, cx: &mut Context<'_>) -> bool {
        self.poll_passed_at(clock::now(), cx)
    }

    /// Polls as [`Deadline::poll_passed`] does, for a caller that has read the clock.
    pub(crate) fn poll_passed_at(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        let mut due = self.due().at;
        if due <= now {
            if self.has_passed(now) {
                return true;
            }
            due = self.due().at;
        }
        if self.wakes_at.is_none_or(|wakes_at| wakes_at <= now || wakes_at > due) {
            self.sleep.reset(due);
            // This is pending, unless the deadline has passed since the clock was read.
            // Unconstrained: a task without poll budget would not be registered with the timer.
            let passed = pin!(unconstrained(&mut self.sleep)).poll(cx).is_ready();
            self.wakes_at = (!passed).then_some(due);
            return passed;
        }
        false
    }
}

/// Returns the time in nanoseconds; they suffice for 500 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use headgate_core::stall::ClockReading;

    use super::*;

    /// Sets the deadline far enough ahead that an immediate poll comes before it, however busy the machine is.
    async fn set_and_poll(deadline: &mut Deadline, mut ahead: Duration) -> Instant {
        loop {
            deadline.set(Instant::now() + ahead, OptionName::Timeout);
            if !poll_fn(|cx| Poll::Ready(deadline.poll_passed(cx))).await {
                return deadline.at();
            }
            ahead *= 2;
        }
    }

    async fn passed(deadline: &mut Deadline) -> Instant {
        poll_fn(|cx| if deadline.poll_passed(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
        Instant::now()
    }

    #[tokio::test]
    async fn a_deadline_that_moves_in_either_direction_wakes_in_time() {
        let mut deadline = Deadline::new(Instant::now());
        let far = set_and_poll(&mut deadline, Duration::from_mins(1)).await;
        let sooner = Instant::now() + Duration::from_millis(20);
        deadline.set(sooner, OptionName::Timeout);
        let woken = passed(&mut deadline).await;
        assert!((sooner..far).contains(&woken), "woken by the new deadline, not by the old one");

        let later = set_and_poll(&mut deadline, Duration::from_millis(30)).await + Duration::from_millis(30);
        deadline.set(later, OptionName::Timeout);
        assert!(passed(&mut deadline).await >= later);
    }

    #[tokio::test]
    async fn an_earlier_limit_applies_with_its_own_option_and_moves_with_excused_waits() {
        let mut deadline = Deadline::new(Instant::now());
        let far = Instant::now() + Duration::from_mins(1);
        deadline.set(far, OptionName::TotalTimeout);
        assert_eq!(Limit { at: far, option: OptionName::TotalTimeout }, deadline.due());
        let sooner = Limit { at: Instant::now() + Duration::from_millis(20), option: OptionName::IdleTimeout };
        deadline.expect(Some(sooner));
        assert!((sooner.at..far).contains(&passed(&mut deadline).await));
        assert_eq!(sooner, deadline.due());

        deadline.excuse(OwnWait::Memory, Duration::from_mins(1));
        let due = Limit { at: sooner.at + Duration::from_mins(1), ..sooner };
        assert_eq!((due, far + Duration::from_mins(1)), (deadline.due(), deadline.at()));
        deadline.expect(Some(Limit { at: far + Duration::from_mins(2), ..sooner }));
        assert_eq!(OptionName::TotalTimeout, deadline.due().option);
    }

    #[tokio::test]
    async fn a_stall_extends_the_deadline_except_for_a_row_that_a_caller_waits_for() {
        let (second, now) = (Duration::from_secs(1), ClockReading::now());
        let before = |time: Duration| ClockReading {
            monotonic: now.monotonic.checked_sub(time).expect("the machine runs for longer"),
            boot: now.boot.saturating_sub(time),
            ..now
        };
        // The loop last ran 6 s ago, when its next beat was due.
        let stalls = Rc::new(Stalls::default());
        stalls.beat(before(6 * second));
        let mut deadline = Deadline::excusing(now.monotonic, &stalls);
        let set = before(7 * second).monotonic;
        for (expected, latest) in [(OptionName::Timeout, None), (OptionName::TotalTimeout, Some(set + 2 * second))] {
            deadline.set(set + 3 * second, OptionName::Timeout);
            deadline.stalled_ns = 0;
            deadline.set_latest(latest);
            assert!(!deadline.has_passed(now.monotonic), "bytes that have arrived are read first");
            let due = deadline.due();
            assert_eq!(expected, due.option);
            let least = now.monotonic + if latest.is_some() { STALL } else { second };
            assert!(due.at >= least && due.at <= least + 2 * second, "{:?}", due.at - now.monotonic);
            assert!(deadline.has_passed(due.at));
            deadline.take_excused(OwnWait::Stall);
        }
    }
}
