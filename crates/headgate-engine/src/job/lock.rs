//! One writer at a time: an advisory lock, which the system releases however its holder ends.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::error::JobError;
use crate::sink::cause;

/// Somebody who only looks whether the lock is held, holds it for an instant; a writer asks again.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// Digits of a process id, and to spare.
const MAX_ID_BYTES: u64 = 20;

/// The lock of a job, held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child that was forked meanwhile has it open, too.
        let _ = self.0.unlock();
    }
}

/// Takes the lock of a job.
pub(super) fn acquire(path: &Path) -> Result<Lock, JobError> {
    let failed = |error: &io::Error| JobError::output(format!("cannot lock {}: {}", path.display(), cause(error)));
    let mut options = File::options();
    let mut file =
        options.read(true).write(true).create(true).truncate(false).open(path).map_err(|error| failed(&error))?;
    let mut looks = 1;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if looks < LOOKS => {
                looks += 1;
                thread::sleep(BETWEEN_LOOKS);
            }
            Err(TryLockError::WouldBlock) => {
                let holder = holder(&mut file).map_or(String::new(), |id| format!(" (pid {id})"));
                let directory = path.parent().and_then(Path::parent).unwrap_or(path).display();
                return Err(JobError::output(format!(
                    "another headgate{holder} is writing to {directory}: wait for it, or choose another -o"
                )));
            }
            // Without it, two writers could take each other's files for what a crash left.
            Err(TryLockError::Error(error)) => {
                return Err(JobError::output(format!(
                    "cannot lock {}: {}; where a file system has no locks, choose an -o on another",
                    path.display(),
                    cause(&error)
                )));
            }
        }
    }
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(|error| failed(&error))?;
    Ok(Lock(file))
}

/// Whether somebody writes to a job now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Nobody,
    /// This process, where it can be told.
    Process(Option<u32>),
}

pub(super) fn look(path: &Path) -> Holder {
    let Ok(mut file) = File::open(path) else { return Holder::Nobody };
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Holder::Process(holder(&mut file)),
        _ => Holder::Nobody,
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(MAX_ID_BYTES).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
