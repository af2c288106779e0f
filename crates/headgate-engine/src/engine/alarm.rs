//! Waiting for a time, exactly. The event loop's own timers are as fine as a millisecond; with 100 requests a second to be
//! kept, that alone would lose five of them. On Linux a timer of the kernel wakes the loop within some 50 µs.

#[cfg(target_os = "linux")]
pub(super) use self::linux::Alarm;
#[cfg(not(target_os = "linux"))]
pub(super) use self::other::Alarm;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::fd::{AsFd as _, AsRawFd, RawFd};
    use std::time::{Duration, Instant};

    use headgate_core::timer::sleep_until;
    use headgate_core::{clock, virtual_clock};
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// Waits of this length and more use the event loop's own timers, which are fine enough for them.
    const FAR: Duration = Duration::from_secs(10);

    /// An alarm of one event loop, which waits for one time at once.
    #[derive(Debug)]
    pub(crate) struct Alarm {
        /// `None`: the system has no timer left.
        timer: Option<AsyncFd<Timer>>,
    }

    #[derive(Debug)]
    struct Timer(TimerFd);

    impl AsRawFd for Timer {
        fn as_raw_fd(&self) -> RawFd {
            self.0.as_fd().as_raw_fd()
        }
    }

    impl Alarm {
        /// Returns an alarm. Needs the event loop.
        #[expect(
            deprecated,
            reason = "what takes its place is unsafe; a timer keeps its descriptor as long as it lives"
        )]
        pub(crate) fn new() -> Self {
            let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC);
            let timer = timer.ok().and_then(|timer| AsyncFd::with_interest(Timer(timer), Interest::READABLE).ok());
            Self { timer }
        }

        /// Waits until `time`; `None`: not at all. Cancel safe.
        pub(crate) async fn until(&self, time: Option<Instant>) {
            let Some(time) = time else { return };
            let left = time.saturating_duration_since(clock::now());
            if left.is_zero() {
                // Other tasks of the loop have their turn.
                tokio::task::yield_now().await;
                return;
            }
            match &self.timer {
                Some(timer) if left < FAR && !virtual_clock::is_active() && set(timer, left).is_ok() => {
                    let _ = timer.async_io(Interest::READABLE, read).await;
                }
                _ => sleep_until(time).await,
            }
        }
    }

    fn set(timer: &AsyncFd<Timer>, left: Duration) -> nix::Result<()> {
        timer.get_ref().0.set(Expiration::OneShot(left.into()), TimerSetTimeFlags::empty())
    }

    /// `WouldBlock`: it has not gone off since it was set.
    fn read(timer: &Timer) -> io::Result<()> {
        timer.0.wait().map_err(io::Error::from)
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::time::Instant;

    use headgate_core::timer::sleep_until;

    #[derive(Debug)]
    pub(crate) struct Alarm;

    impl Alarm {
        pub(crate) fn new() -> Self {
            Self
        }

        /// Waits until `time`; `None`: not at all.
        pub(crate) async fn until(&self, time: Option<Instant>) {
            if let Some(time) = time {
                sleep_until(time).await;
            }
        }
    }
}
