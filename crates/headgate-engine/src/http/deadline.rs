//! The time by which an exchange must end, at next to no cost for those that end in time.
//!
//! Arming a timer for each request would cost more than parsing its answer. A lane keeps one timer instead and lets it
//! run: when it fires and the deadline has moved on meanwhile, it is set again. So a timer is touched once in a
//! timeout's length, not once in a request.

use std::pin::Pin;
use std::task::Context;
use std::time::Instant;

use tokio::time::Sleep;

/// A lane's timer.
#[derive(Debug)]
pub struct Deadline {
    sleep: Pin<Box<Sleep>>,
    at: Instant,
}

impl Deadline {
    pub fn new(at: Instant) -> Self {
        Self { sleep: Box::pin(tokio::time::sleep_until(at.into())), at }
    }

    /// Moves the deadline.
    pub fn set(&mut self, at: Instant) {
        self.at = at;
        if self.sleep.deadline() > at.into() {
            self.sleep.as_mut().reset(at.into());
        }
    }

    pub fn at(&self) -> Instant {
        self.at
    }

    /// Whether the deadline has passed; if not, `cx` is woken when it has.
    pub fn poll_passed(&mut self, cx: &mut Context<'_>) -> bool {
        while self.sleep.as_mut().poll(cx).is_ready() {
            if self.at <= Instant::now() {
                return true;
            }
            self.sleep.as_mut().reset(self.at.into());
        }
        false
    }
}
