//! A file descriptor that an event loop watches.

use std::sync::Arc;

use headgate_engine::WakeCaller;
use pyo3::PyResult;
use pyo3::exceptions::PyOSError;

pub use self::system::Descriptor;

impl Descriptor {
    /// Creates a descriptor, if an event loop watches it.
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

    /// Readable from a wake-up until it is quieted.
    pub struct Descriptor(EventFd);

    impl Descriptor {
        pub fn new() -> io::Result<Self> {
            let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
            Ok(Self(EventFd::from_value_and_flags(0, flags)?))
        }

        pub fn number(&self) -> i32 {
            self.0.as_fd().as_raw_fd()
        }

        /// Wakes the event loop. It can only fail if wake-ups have filled it, and then it is readable.
        pub fn wake(&self) {
            let _ = self.0.write(1);
        }

        pub fn quiet(&self) {
            let _ = self.0.read();
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io::{self, Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    /// Readable from a wake-up until it is quieted.
    pub struct Descriptor {
        watched: UnixStream,
        rung: UnixStream,
    }

    impl Descriptor {
        pub fn new() -> io::Result<Self> {
            let (watched, rung) = UnixStream::pair()?;
            watched.set_nonblocking(true)?;
            rung.set_nonblocking(true)?;
            Ok(Self { watched, rung })
        }

        pub fn number(&self) -> i32 {
            self.watched.as_raw_fd()
        }

        /// Wakes the event loop. It can only fail if wake-ups have filled it, and then it is readable.
        pub fn wake(&self) {
            let _ = (&self.rung).write(&[1]);
        }

        pub fn quiet(&self) {
            let mut rings = [0; 64];
            while matches!((&self.watched).read(&mut rings), Ok(64)) {}
        }
    }
}
