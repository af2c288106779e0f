//! Where outcomes go. A sink runs on a thread of its own and writes whole batches; what it has not taken yet
//! holds back the workers.

use std::ops::ControlFlow;

use arrow_schema::SchemaRef;

use crate::error::JobError;
use crate::options::SinkOptions;
use crate::outcome::OutcomeBatch;

/// Takes outcomes, batch by batch.
pub trait Sink: Send {
    /// Writes a batch. `Break`: the reader has gone (a closed pipe) and the job should end quietly.
    ///
    /// # Errors
    /// `Output`: the message names the file and the cause.
    fn write(&mut self, batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError>;

    /// Called at least once a second, also when nothing was written: to close a part that has grown old, to flush.
    fn tick(&mut self) -> Result<(), JobError>;

    /// Makes everything written so far final. Nothing is written after it.
    fn finish(&mut self) -> Result<(), JobError>;
}

/// Opens the sink that the options ask for; `schema` is that of the batches to come.
///
/// # Errors
/// `Output`: a directory that is not ours and not empty, holds another job, or cannot be written.
pub fn open(options: &SinkOptions, schema: &SchemaRef) -> Result<Box<dyn Sink>, JobError> {
    let _ = (options, schema);
    Err(JobError::output("no sink yet"))
}
