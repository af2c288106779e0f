//! The destination of outcomes. A sink runs on a thread of its own and writes whole batches; what it has not taken yet
//! delays the workers.

pub mod none;
pub mod open;
mod stream;

use std::ops::ControlFlow;

use headgate_core::error::JobError;

use crate::columns::builder::OutcomeBatch;

/// Takes outcomes, batch by batch.
pub trait Sink: Send {
    /// Returns whether it needs the outcomes; if not, no columns are built.
    fn wants_results(&self) -> bool {
        true
    }

    /// Writes a batch. `Break`: the reader has gone (a closed pipe) and the job should end quietly.
    ///
    /// # Errors
    /// `Output`: the message names the file and the cause.
    fn write(&mut self, batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError>;

    /// Called at least once a second, also when nothing was written: to close a part that has grown old, to flush.
    ///
    /// # Errors
    /// As [`Sink::write`].
    fn tick(&mut self) -> Result<(), JobError> {
        Ok(())
    }

    /// Makes everything written so far final. Nothing is written after it. After an error of `write` or `tick` it
    /// still saves what that error left intact.
    ///
    /// # Errors
    /// As [`Sink::write`].
    fn finish(&mut self, _ending: &Ending) -> Result<(), JobError> {
        Ok(())
    }
}

/// The end of a run.
pub struct Ending<'a> {
    /// Rows of the input, if its end was reached.
    pub input_rows: Option<u64>,
    /// Returns whether the job is stopping: then work that can wait is left for the next run.
    pub stopped: &'a dyn Fn() -> bool,
}
