//! The destination of outcomes. A sink runs on a thread of its own and writes whole batches. The workers wait if it is
//! slower than they are.

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

    /// Writes a batch. `Break`: the reader has closed the pipe, and the job should end quietly.
    ///
    /// # Errors
    /// `Output`: the message names the file and the cause.
    fn write(&mut self, batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError>;

    /// Closes a part that has grown old, or flushes. The engine calls it at least once a second, also if nothing was written.
    ///
    /// # Errors
    /// The errors of [`Sink::write`].
    fn tick(&mut self) -> Result<(), JobError> {
        Ok(())
    }

    /// Returns what is wrong if the output has too little space for further rows. The run then stops in order.
    fn shortage(&self) -> Option<Shortage> {
        None
    }

    /// Makes everything written so far final; the engine writes nothing afterwards. After an error of `write` or `tick`, it
    /// still saves the rows that the error left intact.
    ///
    /// # Errors
    /// The errors of [`Sink::write`].
    fn finish(&mut self, _ending: &Ending) -> Result<(), JobError> {
        Ok(())
    }
}

/// Too little space for further rows; there is still enough to commit those that were received.
#[derive(Debug)]
pub struct Shortage {
    pub error: JobError,
    /// The space may not suffice for the attempts in flight, either.
    pub is_urgent: bool,
}

/// The end of a run.
pub struct Ending<'a> {
    /// Rows of the input, if its end was reached.
    pub input_rows: Option<u64>,
    /// Rows that are left undone, each with the number of attempts that were made at it.
    pub undone: &'a [(u64, u16)],
    /// Returns whether the job is stopping, so that work that can wait is left for the next run.
    pub stopped: &'a dyn Fn() -> bool,
    /// Why the run stopped by itself, if it did.
    pub stopped_by: Option<&'a str>,
    /// That is because its rows failed.
    pub by_failures: bool,
}
