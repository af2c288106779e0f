//! The local file system for commands that read for long, and that Ctrl-C ends.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headgate_core::files::Directory;
use headgate_core::files::storage::{OpenStorage, Storage};
use pyo3::prelude::*;

/// The minimum interval between two looks for a signal: each needs the GIL.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Files that can't be read any more once a signal handler has raised.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interruptible(Arc<Mutex<Checks>>);

#[derive(Debug, Default)]
struct Checks {
    last: Option<Instant>,
    raised: Option<PyErr>,
}

impl Interruptible {
    /// Returns what the handler has raised.
    pub(crate) fn take_raised(&self) -> Option<PyErr> {
        self.lock().raised.take()
    }

    fn check(&self) -> io::Result<()> {
        let mut checks = self.lock();
        if checks.raised.is_none() && checks.last.is_none_or(|last| last.elapsed() >= CHECK_INTERVAL) {
            checks.raised = Python::attach(|py| py.check_signals().err());
            checks.last = Some(Instant::now());
        }
        if checks.raised.is_some() { Err(io::Error::other("interrupted")) } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, Checks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenStorage for Interruptible {
    fn open(&self, directory: Directory) -> Arc<dyn Storage> {
        Arc::new(Files { directory, interruptible: self.clone() })
    }
}

#[derive(Debug)]
struct Files {
    directory: Directory,
    interruptible: Interruptible,
}

impl Storage for Files {
    fn directory(&self) -> &Directory {
        &self.directory
    }

    fn check_interrupt(&self) -> io::Result<()> {
        self.interruptible.check()
    }
}
