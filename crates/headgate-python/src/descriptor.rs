//! A file descriptor that an event loop watches, to be woken by the engine.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use headgate_core::virtual_clock::{LoopOf, Participant};
use headgate_engine::WakeCaller;
use pyo3::PyResult;
use pyo3::exceptions::PyOSError;

use self::system::Wakeup;

/// Readable from a wake-up until it is cleared. With a virtual clock, the loop that watches it takes part in that.
pub(crate) struct Descriptor {
    wakeup: Arc<Wakeup>,
    participant: Mutex<Option<Participant>>,
}

impl Descriptor {
    pub(crate) fn new(loop_of: LoopOf) -> io::Result<Self> {
        let wakeup = Arc::new(Wakeup::new()?);
        let wakes = wakeup.clone();
        let participant = Participant::new(loop_of, move || wakes.wake());
        Ok(Self { wakeup, participant: Mutex::new(participant) })
    }

    /// Creates a descriptor if `watched`: only an event loop needs one.
    pub(crate) fn watched(watched: bool) -> PyResult<Option<Arc<Self>>> {
        let descriptor = watched.then(|| Self::new(LoopOf::Caller)).transpose();
        Ok(descriptor.map_err(|error| PyOSError::new_err(error.to_string()))?.map(Arc::new))
    }

    pub(crate) fn number(&self) -> i32 {
        self.wakeup.number()
    }

    /// Wakes the event loop.
    pub(crate) fn wake(&self) {
        self.wakeup.wake();
    }

    /// Makes it unreadable. The loop then handles what has come, and other events of the same iteration.
    pub(crate) fn clear(&self) {
        self.wakeup.clear();
        if let Some(participant) = &*self.participant.lock().unwrap_or_else(PoisonError::into_inner) {
            participant.respond(participant.question());
        }
    }

    /// Ends the part of the loop in a virtual clock, because it no longer watches the descriptor.
    pub(crate) fn end_part(&self) {
        drop(self.participant.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl WakeCaller for Descriptor {
    fn wake(&self) {
        Self::wake(self);
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::os::fd::{AsFd as _, AsRawFd as _};

    use nix::sys::eventfd::{EfdFlags, EventFd};

    /// Readable from a wake-up until it is cleared.
    pub(super) struct Wakeup(EventFd);

    impl Wakeup {
        pub(super) fn new() -> io::Result<Self> {
            let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
            Ok(Self(EventFd::from_value_and_flags(0, flags)?))
        }

        pub(super) fn number(&self) -> i32 {
            self.0.as_fd().as_raw_fd()
        }

        /// The write fails only if earlier wake-ups filled the descriptor, which then is readable.
        pub(super) fn wake(&self) {
            let _ = self.0.write(1);
        }

        pub(super) fn clear(&self) {
            let _ = self.0.read();
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io::{self, Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    /// Readable from a wake-up until it is cleared.
    pub(super) struct Wakeup {
        watched: UnixStream,
        sender: UnixStream,
    }

    impl Wakeup {
        pub(super) fn new() -> io::Result<Self> {
            let (watched, sender) = UnixStream::pair()?;
            watched.set_nonblocking(true)?;
            sender.set_nonblocking(true)?;
            Ok(Self { watched, sender })
        }

        pub(super) fn number(&self) -> i32 {
            self.watched.as_raw_fd()
        }

        /// The write fails only if earlier wake-ups filled the descriptor, which then is readable.
        pub(super) fn wake(&self) {
            let _ = (&self.sender).write(&[1]);
        }

        pub(super) fn clear(&self) {
            let mut wakeups = [0; 64];
            while matches!((&self.watched).read(&mut wakeups), Ok(64)) {}
        }
    }
}
