//! A job is changed by another process than the one that runs it, if one does.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use headgate_core::error::{JobError, cause};
use headgate_core::files::Directory;

use super::control::{Change, Control, ControlError, ControlFiles};
use super::lock::{self, Holder};
use super::status;
use super::storage::Storage;

/// How often it is looked for the answer.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The running job keeps to it.
    Taken,
    /// The running job can't keep to it, and goes on as before: why, as JSON.
    Refused(String),
    /// No job is running: it holds from the next run.
    NextRun,
    /// The running job has not looked yet.
    NotYet,
}

/// Changes a job through its directory, and waits until the process that runs it has taken that, for `patience` at the
/// most.
///
/// # Errors
/// `Output`: there is no job, or it is damaged, or can't be written to. `Usage`: it has finished.
pub fn send(path: &Path, change: &Change, timeout: Duration, storage: Arc<dyn Storage>) -> Result<Reply, JobError> {
    let is_running = || Directory::open(path).is_ok_and(|directory| lock::holder(&directory) != Holder::None);
    let shown = path.display();
    status::manifest(path)?;
    if !is_running() && status::is_finished(path)? {
        return Err(JobError::usage(format!("the job in {shown} is finished: there is nothing to change")));
    }
    let files = ControlFiles::new(path, storage);
    if let Err(ControlError::Newer(message)) = files.read() {
        return Err(JobError::output(message));
    }
    let before = files.read().unwrap_or_default();
    let unusable = |error: io::Error| JobError::output(format!("can't write to {shown}: {}", cause(&error)));
    let sent = files.change(|control| control.apply(change)).map_err(unusable)?;
    let until = Instant::now() + timeout;
    loop {
        // First, so that an answer of a job that has just ended is seen.
        let runs = is_running();
        if let Some(taken) = files.last_reply().filter(|taken| taken.sequence >= sent.sequence) {
            let Some(refused) = taken.refused.filter(|_| taken.sequence == sent.sequence) else {
                return Ok(Reply::Taken);
            };
            // It is as it was, unless somebody else has set something since.
            let restore = |control: &mut Control| {
                if control.sequence == sent.sequence {
                    control.restore(before);
                }
            };
            files.change(restore).map_err(unusable)?;
            return Ok(Reply::Refused(refused.to_string()));
        }
        if !runs {
            return Ok(Reply::NextRun);
        }
        if Instant::now() >= until {
            return Ok(Reply::NotYet);
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}
