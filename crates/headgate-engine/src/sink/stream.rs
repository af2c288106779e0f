//! Results as NDJSON into a pipe.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use super::ndjson::{BUFFER_BYTES, LineEncoder};
use super::{Sink, cause};
use crate::error::JobError;
use crate::outcome::OutcomeBatch;

/// Writes answered and given-up rows alike, as they come.
pub(super) struct StreamSink<W: Write + Send> {
    out: BufWriter<W>,
    encoder: Arc<LineEncoder>,
    /// What the stream is called in messages.
    name: &'static str,
}

impl StreamSink<File> {
    pub(super) fn standard_output(encoder: Arc<LineEncoder>) -> Result<Self, JobError> {
        // Not `io::stdout`: that looks for line ends in what is long buffered, and says nothing when it is closed.
        let descriptor = io::stdout().as_fd().try_clone_to_owned();
        let descriptor = descriptor
            .map_err(|error| JobError::output(format!("cannot write to standard output: {}", cause(&error))))?;
        Ok(Self::new(File::from(descriptor), encoder, "standard output"))
    }
}

impl<W: Write + Send> StreamSink<W> {
    pub(super) fn new(out: W, encoder: Arc<LineEncoder>, name: &'static str) -> Self {
        Self { out: BufWriter::with_capacity(BUFFER_BYTES, out), encoder, name }
    }

    fn checked(&self, result: io::Result<()>) -> Result<ControlFlow<()>, JobError> {
        match result {
            Ok(()) => Ok(ControlFlow::Continue(())),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
            Err(error) => Err(JobError::output(format!("cannot write to {}: {}", self.name, cause(&error)))),
        }
    }
}

impl<W: Write + Send> Sink for StreamSink<W> {
    fn write(&mut self, batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        let written = self.encoder.write(&batch.records, &mut self.out).and_then(|()| self.out.flush());
        self.checked(written)
    }

    fn tick(&mut self) -> Result<(), JobError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), JobError> {
        let flushed = self.out.flush();
        self.checked(flushed).map(|_| ())
    }
}
