//! Writes results as NDJSON to a pipe.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use headgate_core::error::{JobError, cause};

use super::{Ending, Sink};
use crate::columns::builder::OutcomeBatch;
use crate::parts::checksum::BUFFER_BYTES;
use crate::parts::ndjson::encode::LineEncoder;

/// Writes succeeded and failed rows alike, in the order in which they arrive.
pub(super) struct StreamSink<W: Write + Send> {
    out: BufWriter<W>,
    encoder: Arc<LineEncoder>,
    /// The name of the stream in messages.
    name: &'static str,
}

impl StreamSink<File> {
    pub(super) fn standard_output(encoder: Arc<LineEncoder>) -> Result<Self, JobError> {
        // `io::stdout` would search buffered data for line ends, and would not report that the output is closed.
        let descriptor = io::stdout().as_fd().try_clone_to_owned();
        let descriptor = descriptor.map_err(|error| unwritable("standard output", &error))?;
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
            Err(error) => Err(unwritable(self.name, &error)),
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

    fn finish(&mut self, _ending: &Ending) -> Result<(), JobError> {
        let flushed = self.out.flush();
        self.checked(flushed).map(|_| ())
    }
}

/// Returns the error of a stream. The same command can't continue a job that has written to one.
fn unwritable(name: &str, error: &io::Error) -> JobError {
    JobError::storage(format!("can't write to {name}: {}", cause(error)))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use arrow_schema::Fields;
    use headgate_core::memory::MemoryBudget;
    use headgate_core::row::{Outcome, Row};

    use super::*;
    use crate::columns::builder::OutcomeBuilder;
    use crate::columns::result::ResultColumns;
    use crate::columns::schema::schema;

    fn sink<W: Write + Send>(out: W) -> StreamSink<W> {
        let encoder = LineEncoder::new(&schema(&Fields::empty())).expect("plain columns");
        StreamSink::new(out, Arc::new(encoder), "standard output")
    }

    fn batch() -> OutcomeBatch {
        let mut builder =
            OutcomeBuilder::new(&ResultColumns::default(), MemoryBudget::new(0)).expect("nothing is kept");
        builder.push(
            Outcome {
                row: Row::new(0, "http://127.0.0.1/"),
                method: "GET".into(),
                attempts: 1,
                started_at_us: 0,
                elapsed_us: 0,
                remote_addr: None,
                response: None,
                selected: None,
                failure: None,
            }
            .as_ref(),
            false,
        );
        builder.finish_batch().expect("one row")
    }

    #[test]
    fn a_batch_can_be_read_as_soon_as_it_was_written() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let mut sink = sink(writer);
        assert_eq!(Ok(ControlFlow::Continue(())), sink.write(batch()));

        let mut start = [0; 29];
        reader.read_exact(&mut start).expect("a line");
        assert_eq!(br#"{"row":0,"url":"http://127.0.0"#[..29], start);
    }

    #[test]
    fn a_closed_pipe_ends_the_job_quietly() {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let mut sink = sink(writer);
        assert_eq!(Ok(ControlFlow::Break(())), sink.write(batch()));
        assert_eq!(
            Ok(()),
            sink.finish(&Ending {
                input_rows: None,
                undone: &[],
                stopped: &|| true,
                stopped_by: None,
                by_failures: false
            })
        );
    }

    #[test]
    fn any_other_fault_is_named() {
        let mut sink = sink(File::options().write(true).open("/dev/full").expect("Linux"));
        let error = sink.write(batch()).expect_err("it is full");
        assert_eq!(JobError::storage("can't write to standard output: no space left on device"), error);
    }
}
