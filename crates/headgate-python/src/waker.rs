//! Wakes a thread that waits, or a loop that watches a file descriptor.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headgate_engine::engine::inbox::Bell;

pub use self::descriptor::Descriptor;

/// Rings wherever somebody waits.
pub struct Waker {
    is_rung: Mutex<bool>,
    changed: Condvar,
    descriptor: Option<Descriptor>,
}

/// The end of it that the engine has.
pub struct Ring(pub Arc<Waker>);

impl Waker {
    /// `descriptor`: what a loop watches.
    pub fn new(descriptor: Option<Descriptor>) -> Arc<Self> {
        Arc::new(Self { is_rung: Mutex::new(false), changed: Condvar::new(), descriptor })
    }

    pub fn descriptor(&self) -> Option<&Descriptor> {
        self.descriptor.as_ref()
    }

    /// Waits for a ring that nobody has waited for yet, for `timeout` at the most. Whether there was one.
    pub fn wait(&self, timeout: Duration) -> bool {
        let rung = self.changed.wait_timeout_while(self.rung(), timeout, |is_rung| !*is_rung);
        let (mut is_rung, _) = rung.unwrap_or_else(PoisonError::into_inner);
        mem::take(&mut *is_rung)
    }

    pub fn ring(&self) {
        if let Some(descriptor) = &self.descriptor {
            descriptor.ring();
        }
        *self.rung() = true;
        self.changed.notify_all();
    }

    fn rung(&self) -> MutexGuard<'_, bool> {
        self.is_rung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell for Ring {
    fn ring(&self) {
        self.0.ring();
    }
}

#[cfg(target_os = "linux")]
mod descriptor {
    use std::io;
    use std::os::fd::{AsFd as _, AsRawFd as _};

    use nix::sys::eventfd::{EfdFlags, EventFd};

    /// Readable from a ring until it is quieted.
    pub struct Descriptor(EventFd);

    impl Descriptor {
        pub fn new() -> io::Result<Self> {
            let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
            Ok(Self(EventFd::from_value_and_flags(0, flags)?))
        }

        pub fn number(&self) -> i32 {
            self.0.as_fd().as_raw_fd()
        }

        /// It can't fail but where it is full of rings, and then it is readable.
        pub fn ring(&self) {
            let _ = self.0.write(1);
        }

        pub fn quiet(&self) {
            let _ = self.0.read();
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod descriptor {
    use std::io::{self, Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    /// Readable from a ring until it is quieted.
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

        /// It can't fail but where it is full of rings, and then it is readable.
        pub fn ring(&self) {
            let _ = (&self.rung).write(&[1]);
        }

        pub fn quiet(&self) {
            let mut rings = [0; 64];
            while matches!((&self.watched).read(&mut rings), Ok(64)) {}
        }
    }
}
