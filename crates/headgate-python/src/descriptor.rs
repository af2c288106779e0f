//! A file descriptor that an event loop watches, to be woken by the engine.

use std::sync::Arc;

use headgate_engine::WakeCaller;
use pyo3::PyResult;
use pyo3::exceptions::PyOSError;

pub(crate) use self::system::Descriptor;

impl Descriptor {
    /// Creates a descriptor if `watched`: only an event loop needs one.
    pub fn watched(watched: bool) -> PyResult<Option<Arc<Self>>> {
        let descriptor = watched.then(Self::new).transpose().map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(descriptor.map(Arc::new))
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
    pub struct Descriptor(EventFd);

    impl Descriptor {
        pub fn new() -> io::Result<Self> {
            let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
            Ok(Self(EventFd::from_value_and_flags(0, flags)?))
        }

        pub fn number(&self) -> i32 {
            self.0.as_fd().as_raw_fd()
        }

        /// Wakes the event loop. The write fails only if earlier wake-ups filled the descriptor, which then is readable.
        pub fn wake(&self) {
            let _ = self.0.write(1);
        }

        pub fn clear(&self) {
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
    pub struct Descriptor {
        watched: UnixStream,
        sender: UnixStream,
    }

    impl Descriptor {
        pub fn new() -> io::Result<Self> {
            let (watched, sender) = UnixStream::pair()?;
            watched.set_nonblocking(true)?;
            sender.set_nonblocking(true)?;
            Ok(Self { watched, sender })
        }

        pub fn number(&self) -> i32 {
            self.watched.as_raw_fd()
        }

        /// Wakes the event loop. The write fails only if earlier wake-ups filled the descriptor, which then is readable.
        pub fn wake(&self) {
            let _ = (&self.sender).write(&[1]);
        }

        pub fn clear(&self) {
            let mut wakeups = [0; 64];
            while matches!((&self.watched).read(&mut wakeups), Ok(64)) {}
        }
    }
}
