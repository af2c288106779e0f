//! Changes the settings of a job from a process that does not run it.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;

use super::control::{Control, ControlError, ControlFiles, SettingsChange};
use super::lock::{self, Holder};
use super::results::{Contents, Results};
use super::status;

/// The interval at which the reply of the running job is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeResult {
    /// The running job has applied the change.
    Applied,
    /// The running job has refused the change and continues as before. The reason, as JSON.
    Refused(String),
    /// No job is running: the change applies from the next run.
    NextRun,
    /// The running job has not replied yet.
    NotYet,
}

/// Changes a job through its directory, and waits until the process that runs it has replied, for at most `timeout`.
///
/// # Errors
/// `Output`: there is no job, the job is damaged, or its directory can't be written to. `Usage`: the job has finished.
pub fn send(path: &Path, change: &SettingsChange, timeout: Duration) -> Result<ChangeResult, JobError> {
    let shown = path.display();
    let storage = status::open(path)?;
    status::manifest(&storage)?;
    let is_running = || lock::holder(storage.directory()) != Holder::None;
    if !is_running() && Results::read(&storage, Contents::None)?.newest.finished {
        return Err(JobError::usage(format!("the job in {shown} is finished: there is nothing to change")));
    }
    if !is_running() && change.set.contains_key(OptionName::Bearer.name()) {
        let why = " can only be set while the job runs: give the new one to the command that continues it";
        return Err(JobError::usage(message!(OptionName::Bearer, "{why}")));
    }
    let files = ControlFiles::new(storage.clone());
    if let Err(ControlError::Newer(message)) = files.read() {
        return Err(JobError::output(message));
    }
    let unusable = |error: io::Error| JobError::of_file("can't write to", &shown, &error);
    let mut before = Control::default();
    let apply = |control: &mut Control| {
        before = control.clone();
        control.apply(change);
    };
    let sent = files.change(apply).map_err(unusable)?;
    let until = Instant::now() + timeout;
    loop {
        // Checked first, so that the reply of a job that has just ended is seen.
        let runs = is_running();
        if let Some(reply) = files.last_reply().filter(|reply| reply.sequence >= sent.sequence) {
            match reply.refused {
                None => return Ok(ChangeResult::Applied),
                Some(refused) if reply.sequence == sent.sequence => {
                    // Restores the earlier settings, unless another process has changed them since.
                    let restore = |control: &mut Control| {
                        if control.sequence == sent.sequence {
                            control.restore(before);
                        }
                    };
                    files.change(restore).map_err(unusable)?;
                    return Ok(ChangeResult::Refused(refused.to_string()));
                }
                // A later change of another process was refused, which then restores the settings with this change.
                Some(_) => {}
            }
        }
        if !runs {
            return Ok(ChangeResult::NextRun);
        }
        if Instant::now() >= until {
            return Ok(ChangeResult::NotYet);
        }
        thread::sleep(POLL_INTERVAL);
    }
}
