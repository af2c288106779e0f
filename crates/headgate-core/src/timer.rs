//! Timers of an event loop that follow the [clock], a virtual one included.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Instant;

use crate::clock;
use crate::virtual_clock::{self, RegisteredTimer};

/// A timer of the event loop that follows the clock.
#[derive(Debug)]
pub struct Sleep {
    timer: Pin<Box<tokio::time::Sleep>>,
    /// The wait for a virtual clock, which is in place of `timer`; boxed, because there are many sleeps.
    registered: Option<Box<RegisteredTimer>>,
}

/// Returns a future that waits until this time.
pub fn sleep_until(at: Instant) -> Sleep {
    let registered = virtual_clock::register(at);
    Sleep { timer: Box::pin(tokio::time::sleep_until(clock::of_system(at).into())), registered }
}

impl Sleep {
    /// Changes the time until which it waits.
    pub fn reset(&mut self, at: Instant) {
        self.registered = virtual_clock::register(at);
        if self.registered.is_none() {
            self.timer.as_mut().reset(clock::of_system(at).into());
        }
    }

    /// Removes it from a virtual clock, because nothing waits for this time any more. Returns whether it was there: then only
    /// a reset makes it wait.
    pub fn release(&mut self) -> bool {
        self.registered.take().is_some()
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &self.registered {
            Some(registered) => registered.poll(cx),
            None => self.timer.as_mut().poll(cx),
        }
    }
}

/// The time has passed before the future was ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedOut;

/// Waits for a future until this time.
///
/// # Errors
/// It was not ready in time.
pub async fn timeout_at<F: Future>(at: Instant, future: F) -> Result<F::Output, TimedOut> {
    let (mut future, mut sleep) = (pin!(future), sleep_until(at));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => Pin::new(&mut sleep).poll(cx).map(|()| Err(TimedOut)),
    })
    .await
}
