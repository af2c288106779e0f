//! The time by which an exchange must end, at next to no cost for those that end in time.
//!
//! Arming a timer for each request would cost more than parsing its answer, and even asking one means a look into memory
//! that is cold by then. A lane keeps one timer, lets it run, and looks at the clock instead. When the timer fires and the
//! deadline has moved on meanwhile, it is set again: so it is touched once in a timeout's length, not once in a request.

use std::pin::{Pin, pin};
use std::task::Context;
use std::time::{Duration, Instant};

use tokio::task::unconstrained;
use tokio::time::Sleep;

use crate::http::patience::Limit;
use crate::model::message::OptionName;

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
}

const OWN_WAITS: usize = 4;

/// A lane's timer.
#[derive(Debug)]
pub struct Deadline {
    at: Instant,
    /// What says so.
    option: OptionName,
    /// What comes sooner unless something happens.
    limit: Option<Limit>,
    /// When the timer will wake the lane; `None`: it will not.
    wakes_at: Option<Instant>,
    /// By how much it was moved on for what was not the server's fault.
    excused: [Duration; OWN_WAITS],
    sleep: Pin<Box<Sleep>>,
}

impl Deadline {
    pub fn new(at: Instant) -> Self {
        Self {
            at,
            option: OptionName::TimeoutS,
            limit: None,
            wakes_at: None,
            excused: [Duration::ZERO; OWN_WAITS],
            sleep: Box::pin(tokio::time::sleep_until(at.into())),
        }
    }

    /// Begins anew, with a time that this option sets.
    pub fn set(&mut self, at: Instant, option: OptionName) {
        self.at = at;
        self.option = option;
        self.limit = None;
    }

    /// Ends before its time, too, unless something happens until then: whoever sees it happen says so here.
    pub fn expect(&mut self, limit: Option<Limit>) {
        self.limit = limit;
    }

    /// When it passes as things are, and the option that says so.
    pub fn due(&self) -> Limit {
        match self.limit {
            Some(limit) if limit.at < self.at => limit,
            _ => Limit { at: self.at, option: self.option },
        }
    }

    /// Moves it on by the time that was spent on waiting for ourselves.
    pub fn excuse(&mut self, wait: OwnWait, time: Duration) {
        self.at += time;
        if let Some(limit) = &mut self.limit {
            limit.at += time;
        }
        self.excused[wait as usize] += time;
    }

    /// How much is excused.
    pub fn excused(&self) -> Duration {
        self.excused.iter().sum()
    }

    /// How much was excused for this since that was asked last.
    pub fn take_excused(&mut self, wait: OwnWait) -> Duration {
        std::mem::take(&mut self.excused[wait as usize])
    }

    pub fn at(&self) -> Instant {
        self.at
    }

    /// Whether the deadline has passed; if not, the task of `cx`, always the same one, is woken when it has.
    pub fn poll_passed(&mut self, cx: &mut Context<'_>) -> bool {
        self.poll_passed_at(Instant::now(), cx)
    }

    /// As [`Deadline::poll_passed`], for one who knows what time it is.
    pub fn poll_passed_at(&mut self, now: Instant, cx: &mut Context<'_>) -> bool {
        let due = self.due().at;
        if due <= now {
            return true;
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

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
}
