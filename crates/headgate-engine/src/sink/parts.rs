//! Results as files in a directory: answered rows in one series of parts, given-up rows in another.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter_record_batch;

use super::directory::ResultDirectory;
use super::ndjson::{LineEncoder, NdjsonPart};
use super::parquet::ParquetPart;
use super::part::{PartKind, PartName, PartWriter};
use super::{Clock, Sink, cause};
use crate::error::JobError;
use crate::options::{Format, SinkOptions};
use crate::outcome::OutcomeBatch;

pub(super) struct DirectorySink {
    answered: Series,
    failed: Series,
    parts: Parts,
}

/// What both series need: where parts go, how they are written, when they end.
struct Parts {
    directory: ResultDirectory,
    form: Form,
    max_bytes: u64,
    max_age: Duration,
    clock: Clock,
}

enum Form {
    Parquet(SchemaRef),
    Ndjson(Arc<LineEncoder>),
}

/// The parts of one kind, of which one is open at the most.
struct Series {
    kind: PartKind,
    published: u64,
    open: Option<OpenPart>,
}

struct OpenPart {
    name: PartName,
    writer: Box<dyn PartWriter>,
    opened_at: Instant,
}

impl DirectorySink {
    pub(super) fn open(path: &Path, options: &SinkOptions, schema: &SchemaRef, clock: Clock) -> Result<Self, JobError> {
        // The directory comes last: what is refused leaves no trace.
        let form = match options.format {
            Format::Ndjson => Form::Ndjson(NdjsonPart::checked_encoder(schema)?),
            Format::Parquet | Format::None => Form::Parquet(ParquetPart::checked_schema(schema)?),
        };
        let directory = ResultDirectory::claim(path, options.format, options.fresh)?;
        let parts = Parts { directory, form, max_bytes: options.part_bytes, max_age: options.commit_every, clock };
        Ok(Self { answered: Series::new(PartKind::Answered), failed: Series::new(PartKind::Failed), parts })
    }
}

impl Sink for DirectorySink {
    fn write(&mut self, batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        match &batch.failed {
            None => self.answered.write(&batch.records, &self.parts)?,
            Some(failed) => {
                let answered = BooleanArray::new(!failed.values(), None);
                self.answered.write(&select(&batch.records, &answered)?, &self.parts)?;
                self.failed.write(&select(&batch.records, failed)?, &self.parts)?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn tick(&mut self) -> Result<(), JobError> {
        self.answered.close_if_due(&self.parts)?;
        self.failed.close_if_due(&self.parts)
    }

    fn finish(&mut self) -> Result<(), JobError> {
        if [&self.answered, &self.failed].iter().all(|series| series.published == 0 && series.open.is_none()) {
            // A job without rows leaves a table without rows, so that `OUT/*.parquet` is always something to read.
            self.answered.open(&self.parts)?;
        }
        let answered = self.answered.close(&self.parts);
        let failed = self.failed.close(&self.parts);
        answered.and(failed)
    }
}

impl Series {
    fn new(kind: PartKind) -> Self {
        Self { kind, published: 0, open: None }
    }

    fn write(&mut self, records: &RecordBatch, parts: &Parts) -> Result<(), JobError> {
        if records.num_rows() == 0 {
            return Ok(());
        }
        let part = match &mut self.open {
            Some(part) => part,
            None => self.open(parts)?,
        };
        if let Err(error) = part.writer.write(records) {
            return Err(self.give_up(&error, parts));
        }
        self.close_if_due(parts)
    }

    fn open(&mut self, parts: &Parts) -> Result<&mut OpenPart, JobError> {
        let name = PartName::new(self.kind, self.published + 1, parts.form.format());
        let writer = parts.directory.create(name).and_then(|file| parts.form.writer(file));
        let writer = writer.map_err(|error| parts.cannot_write(name, &error))?;
        Ok(self.open.insert(OpenPart { name, writer, opened_at: (parts.clock)() }))
    }

    fn close_if_due(&mut self, parts: &Parts) -> Result<(), JobError> {
        let due = self.open.as_ref().is_some_and(|part| {
            part.writer.bytes() >= parts.max_bytes
                || (parts.clock)().saturating_duration_since(part.opened_at) >= parts.max_age
        });
        if due { self.close(parts) } else { Ok(()) }
    }

    fn close(&mut self, parts: &Parts) -> Result<(), JobError> {
        let Some(OpenPart { name, writer, .. }) = self.open.take() else { return Ok(()) };
        let published = writer.finish().and_then(|part| parts.directory.publish(&part.file, name));
        published.map_err(|error| {
            parts.directory.discard(name);
            parts.cannot_write(name, &error)
        })?;
        self.published += 1;
        Ok(())
    }

    /// A part that could not be written has no end and is no use; without it there may be room for the others.
    fn give_up(&mut self, error: &io::Error, parts: &Parts) -> JobError {
        match self.open.take() {
            Some(OpenPart { name, writer, .. }) => {
                drop(writer);
                parts.directory.discard(name);
                parts.cannot_write(name, error)
            }
            None => JobError::internal(format!("a part that is not open failed: {error}")),
        }
    }
}

impl Parts {
    fn cannot_write(&self, name: PartName, error: &io::Error) -> JobError {
        JobError::output(format!("cannot write {}: {}", self.directory.path_of(name).display(), cause(error)))
    }
}

impl Form {
    fn format(&self) -> Format {
        match self {
            Form::Parquet(_) => Format::Parquet,
            Form::Ndjson(_) => Format::Ndjson,
        }
    }

    fn writer(&self, file: File) -> io::Result<Box<dyn PartWriter>> {
        Ok(match self {
            Form::Parquet(schema) => Box::new(ParquetPart::new(file, schema)?),
            Form::Ndjson(encoder) => Box::new(NdjsonPart::new(file, encoder.clone())),
        })
    }
}

fn select(records: &RecordBatch, mask: &BooleanArray) -> Result<RecordBatch, JobError> {
    if mask.true_count() == records.num_rows() {
        return Ok(records.clone());
    }
    filter_record_batch(records, mask)
        .map_err(|error: ArrowError| JobError::internal(format!("a batch of results cannot be split: {error}")))
}
