//! Outcomes into a job that survives: written, counted, committed.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_table::columns::builder::OutcomeBatch;
use headgate_table::sink::{Ending, Sink};

use super::done_rows::DoneRows;
use super::manifest::Manifest;
use super::records::rows;
use super::writer::{Change, JobWriter};
use crate::queue::window::Window;

pub(super) struct DurableSink {
    writer: JobWriter,
    done_rows: DoneRows,
    window: Arc<Window>,
    /// What the job begins with, when its first outcome is there: until then, results are kept that it takes the place of.
    begins_with: Option<Manifest>,
    /// Its input is compared before anything is done.
    compares: bool,
    /// Something could not be written: rows count as done that are not on the disk, and nothing may be committed any more.
    failed: bool,
}

impl DurableSink {
    pub(super) fn new(
        writer: JobWriter,
        done_rows: DoneRows,
        window: Arc<Window>,
        begins_with: Option<Manifest>,
        compares: bool,
    ) -> Self {
        Self { writer, done_rows, window, begins_with, compares, failed: false }
    }

    fn add(&mut self, batch: &OutcomeBatch) -> Result<(), JobError> {
        if let Some(manifest) = self.begins_with.take() {
            self.writer.directory.begin(&manifest)?;
        }
        let rows = rows(&batch.records)?;
        self.done_rows.add(&rows).map_err(|row| JobError::internal(format!("row {row} ended twice")))?;
        self.writer.write(&batch.records, batch.failed.as_ref())?;
        self.window.advance(self.done_rows.watermark());
        self.commit_if_due()
    }

    fn commit_if_due(&mut self) -> Result<(), JobError> {
        if self.writer.is_due() { self.writer.commit(&self.done_rows, &Change::default()) } else { Ok(()) }
    }
}

impl Sink for DurableSink {
    fn write(&mut self, batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        let added = self.add(&batch);
        self.failed |= added.is_err();
        added.map(|()| ControlFlow::Continue(()))
    }

    fn tick(&mut self) -> Result<(), JobError> {
        let committed = self.commit_if_due();
        self.failed |= committed.is_err();
        committed
    }

    fn finish(&mut self, ending: &Ending) -> Result<(), JobError> {
        if self.failed {
            self.writer.give_up();
            return Ok(());
        }
        if let Some(manifest) = &self.begins_with {
            let is_empty = ending.input_rows == Some(0);
            let input = &manifest.input.name;
            return if is_empty { Err(no_rows_for(input, self.writer.directory.root())) } else { Ok(()) };
        }
        if self.compares && self.writer.run_rows() == 0 && ending.input_rows.is_none() {
            // It may be another input: the job stays as it is.
            return Ok(());
        }
        self.writer.end(&self.done_rows, ending.input_rows, ending.stopped)
    }
}

/// The error where an input without rows would take the place of results.
pub(crate) fn no_rows_for(input: &str, output: &Path) -> JobError {
    let (input, output) = (if input == "-" { "standard input" } else { input }, output.display());
    JobError::input(message!(
        "{input} has no rows, and ",
        OptionName::Fresh.set(true),
        " would remove the results in {output} for it: nothing was removed; delete {output} if you want that"
    ))
}
