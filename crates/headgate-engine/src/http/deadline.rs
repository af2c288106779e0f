//! The time by which an exchange must end, at next to no cost for those that end in time.
//!
//! Arming a timer for each request would cost more than parsing its answer, and even asking one means a look into memory
//! that is cold by then. A lane keeps one timer, lets it run, and looks at the clock instead. When the timer fires and the
//! deadline has moved on meanwhile, it is set again: so it is touched once in a timeout's length, not once in a request.

use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Context;
use std::time::{Duration, Instant};

use tokio::task::unconstrained;
use tokio::time::Sleep;

use crate::http::response_timeouts::Limit;
use crate::model::message::OptionName;
use crate::model::stall::{STALL, Stalls};

/// What a row waits for that is not the server's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum OwnWait {
    /// Room for the response.
    Memory,
    /// A thread to decode it.
    Decoder,
    /// Files that are sent to be read.
    Files,
    /// What is saved to be written.
    Disk,
    /// The process to run again.
    Stall,
}

const OWN_WAITS: usize = 5;

/// A lane's timer.
#[derive(Debug)]
pub struct Deadline {
    at: Instant,
    /// What says so.
    option: OptionName,
    /// What comes sooner unless something happens.
    limit: Option<Limit>,
    /// The end of the row's own deadline, where a caller waits for the row: stalls do not move it on.
    latest: Option<Instant>,
    /// Of the event loop.
    stalls: Rc<Stalls>,
    /// How long the loop had been stalled in all when that was last excused, in nanoseconds.
    stalled_ns: u64,
    /// When the timer will wake the lane; `None`: it will not.
    wakes_at: Option<Instant>,
    /// By how much it was moved on for what was not the server's fault, in nanoseconds: lanes are many.
    excused_ns: [u64; OWN_WAITS],
    sleep: Pin<Box<Sleep>>,
}

impl Deadline {
    pub fn new(at: Instant) -> Self {
        Self::excusing(at, &Rc::default())
    }

    /// One that these stalls move on.
    pub fn excusing(at: Instant, stalls: &Rc<Stalls>) -> Self {
        Self {
            at,
            option: OptionName::TimeoutS,
            limit: None,
            latest: None,
            stalls: stalls.clone(),
            stalled_ns: stalls.stalled_ns(),
            wakes_at: None,
            excused_ns: [0; OWN_WAITS],
            sleep: Box::pin(tokio::time::sleep_until(at.into())),
        }
    }

    /// Begins anew, with a time that this option sets.
    pub fn set(&mut self, at: Instant, option: OptionName) {
        self.at = at;
        self.option = option;
        self.limit = None;
        self.latest = None;
        self.stalled_ns = self.stalls.stalled_ns();
    }

    /// Ends then at the latest, by the deadline of the row, however long a stall is.
    pub fn end_by(&mut self, latest: Option<Instant>) {
        self.latest = latest;
    }

    /// Ends before its time, too, unless something happens until then: whoever sees it happen says so here.
    pub fn expect(&mut self, limit: Option<Limit>) {
        self.limit = limit;
    }

    /// When it passes as things are, and the option that says so.
    pub fn due(&self) -> Limit {
        match (self.limit, self.latest) {
            (Some(limit), _) if limit.at < self.at() => limit,
            (_, Some(latest)) if latest < self.at => Limit { at: latest, option: OptionName::DeadlineS },
            _ => Limit { at: self.at, option: self.option },
        }
    }

    /// Moves it on by the time that was spent on waiting for ourselves.
    pub fn excuse(&mut self, wait: OwnWait, time: Duration) {
        if let Some(latest) = &mut self.latest {
            *latest += time;
        }
        self.move_on(wait, time);
    }

    fn move_on(&mut self, wait: OwnWait, time: Duration) {
        self.at += time;
        if let Some(limit) = &mut self.limit {
            limit.at += time;
        }
        let excused = &mut self.excused_ns[wait as usize];
        *excused = excused.saturating_add(nanoseconds(time));
    }

    /// Moves it on by the stalls since that was done last, and so far that what has arrived meanwhile is read first.
    pub fn excuse_stalls(&mut self, now: Instant) {
        self.stalls.observe(now);
        let stalled_ns = self.stalls.stalled_ns();
        if stalled_ns != self.stalled_ns {
            let time = Duration::from_nanos(stalled_ns.saturating_sub(self.stalled_ns));
            self.stalled_ns = stalled_ns;
            self.move_on(OwnWait::Stall, time);
            let judged_from = self.stalls.last_ended().map_or(now, |ended| ended + STALL);
            self.at = self.at.max(judged_from);
            self.latest = self.latest.map(|latest| latest.max(judged_from));
            if let Some(limit) = &mut self.limit {
                limit.at = limit.at.max(judged_from);
            }
        }
    }

    /// Whether the event loop has stalled since then.
    pub fn has_stalled_since(&self, time: Instant, now: Instant) -> bool {
        self.stalls.observe(now);
        self.stalls.has_stalled_since(time)
    }

    /// Whether it has passed; stalls are excused before that is judged.
    pub fn has_passed(&mut self, now: Instant) -> bool {
        if self.due().at > now {
            return false;
        }
        self.excuse_stalls(now);
        self.due().at <= now
    }

    /// How much is excused.
    pub fn excused(&self) -> Duration {
        Duration::from_nanos(self.excused_ns.iter().fold(0, |sum, excused| sum.saturating_add(*excused)))
    }

    /// How much was excused for this since that was asked last.
    pub fn take_excused(&mut self, wait: OwnWait) -> Duration {
        Duration::from_nanos(std::mem::take(&mut self.excused_ns[wait as usize]))
    }

    /// When the time of the whole attempt is over.
    pub fn at(&self) -> Instant {
        self.latest.map_or(self.at, |latest| latest.min(self.at))
    }

    /// Whether the deadline has passed; if not, the task of `cx`, always the same one, is woken when it has.
    pub fn poll_passed(&mut self, cx: &mut Context<'_>) -> bool {
        self.poll_passed_at(Instant::now(), cx)
    }

    /// As [`Deadline::poll_passed`], for one who knows what time it is.
    pub fn poll_passed_at(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        let mut due = self.due().at;
        if due <= now {
            if self.has_passed(now) {
                return true;
            }
            due = self.due().at;
        }
        if self.wakes_at.is_none_or(|wakes_at| wakes_at <= now || wakes_at > due) {
            self.sleep.as_mut().reset(due.into());
            // Pending, but for the moment that has passed since the clock was read: then the task is woken at once.
            // Unconstrained: a task that has used up its share of polls would not be registered.
            let passed = pin!(unconstrained(self.sleep.as_mut())).poll(cx).is_ready();
            self.wakes_at = (!passed).then_some(due);
            return passed;
        }
        false
    }
}

/// Enough for 500 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;
    use crate::model::stall::Reading;

    /// Lets the deadline be so far ahead that somebody who asks at once comes before it, however busy the machine is.
    async fn set_and_ask(deadline: &mut Deadline, mut ahead: Duration) -> Instant {
        loop {
            deadline.set(Instant::now() + ahead, OptionName::TimeoutS);
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
    async fn a_deadline_that_moves_either_way_wakes_in_time() {
        let mut deadline = Deadline::new(Instant::now());
        let far = set_and_ask(&mut deadline, Duration::from_mins(1)).await;
        let sooner = Instant::now() + Duration::from_millis(20);
        deadline.set(sooner, OptionName::TimeoutS);
        let woken = passed(&mut deadline).await;
        assert!((sooner..far).contains(&woken), "woken by its own timer, not by the one before");

        let later = set_and_ask(&mut deadline, Duration::from_millis(30)).await + Duration::from_millis(30);
        deadline.set(later, OptionName::TimeoutS);
        assert!(passed(&mut deadline).await >= later);
    }

    #[tokio::test]
    async fn what_is_expected_sooner_ends_it_under_its_own_name_and_moves_with_what_is_excused() {
        let mut deadline = Deadline::new(Instant::now());
        let far = Instant::now() + Duration::from_mins(1);
        deadline.set(far, OptionName::DeadlineS);
        assert_eq!(Limit { at: far, option: OptionName::DeadlineS }, deadline.due());
        let sooner = Limit { at: Instant::now() + Duration::from_millis(20), option: OptionName::IdleTimeoutS };
        deadline.expect(Some(sooner));
        assert!((sooner.at..far).contains(&passed(&mut deadline).await));
        assert_eq!(sooner, deadline.due());

        deadline.excuse(OwnWait::Memory, Duration::from_mins(1));
        let due = Limit { at: sooner.at + Duration::from_mins(1), ..sooner };
        assert_eq!((due, far + Duration::from_mins(1)), (deadline.due(), deadline.at()));
        deadline.expect(Some(Limit { at: far + Duration::from_mins(2), ..sooner }));
        assert_eq!(OptionName::DeadlineS, deadline.due().option);
    }

    #[tokio::test]
    async fn a_stall_moves_it_on_but_for_the_deadline_of_a_row_that_a_caller_waits_for() {
        let (second, now) = (Duration::from_secs(1), Reading::now());
        let before = |time: Duration| Reading {
            monotonic: now.monotonic.checked_sub(time).expect("the machine runs for longer"),
            boot: now.boot.saturating_sub(time),
        };
        // The loop has run until 6 s ago, and its next beat was planned.
        let stalls = Rc::new(Stalls::default());
        stalls.beat(before(6 * second));
        let mut deadline = Deadline::excusing(now.monotonic, &stalls);
        let set = before(7 * second).monotonic;
        for (expected, latest) in [(OptionName::TimeoutS, None), (OptionName::DeadlineS, Some(set + 2 * second))] {
            deadline.set(set + 3 * second, OptionName::TimeoutS);
            deadline.stalled_ns = 0;
            deadline.end_by(latest);
            assert!(!deadline.has_passed(now.monotonic), "what has arrived is read first");
            let due = deadline.due();
            assert_eq!(expected, due.option);
            let least = now.monotonic + if latest.is_some() { STALL } else { second };
            assert!(due.at >= least && due.at <= least + 2 * second, "{:?}", due.at - now.monotonic);
            assert!(deadline.has_passed(due.at));
            deadline.take_excused(OwnWait::Stall);
        }
    }
}
