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

/// What a row waits for that is not the server's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum OwnWait {
    /// Room for the response.
    Memory,
    /// A thread to decode it.
    Decoder,
}

/// A lane's timer.
#[derive(Debug)]
pub struct Deadline {
    at: Instant,
    /// When the timer will wake the lane; `None`: it will not.
    wakes_at: Option<Instant>,
    /// By how much it was moved on for what was not the server's fault.
    excused: [Duration; 2],
    sleep: Pin<Box<Sleep>>,
}

impl Deadline {
    pub fn new(at: Instant) -> Self {
        Self { at, wakes_at: None, excused: [Duration::ZERO; 2], sleep: Box::pin(tokio::time::sleep_until(at.into())) }
    }

    /// Moves the deadline.
    pub fn set(&mut self, at: Instant) {
        self.at = at;
    }

    /// Moves it on by the time that was spent on waiting for ourselves.
    pub fn excuse(&mut self, wait: OwnWait, time: Duration) {
        self.at += time;
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
        if self.at <= now {
            return true;
        }
        if self.wakes_at.is_none_or(|wakes_at| wakes_at <= now || wakes_at > self.at) {
            self.sleep.as_mut().reset(self.at.into());
            // Pending, but for the moment that has passed since the clock was read: then the task is woken at once.
            // Unconstrained: a task that has used up its share of polls would not be registered.
            let passed = pin!(unconstrained(self.sleep.as_mut())).poll(cx).is_ready();
            self.wakes_at = (!passed).then_some(self.at);
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
            deadline.set(Instant::now() + ahead);
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
        deadline.set(sooner);
        let woken = passed(&mut deadline).await;
        assert!((sooner..far).contains(&woken), "woken by its own timer, not by the one before");

        let later = set_and_ask(&mut deadline, Duration::from_millis(30)).await + Duration::from_millis(30);
        deadline.set(later);
        assert!(passed(&mut deadline).await >= later);
    }
}
