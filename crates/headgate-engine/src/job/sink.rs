//! The sink of a durable job: writes, counts and commits outcomes.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_table::columns::builder::OutcomeBatch;
use headgate_table::sink::{Ending, Shortage, Sink};

use super::done_rows::DoneRows;
use super::manifest::Manifest;
use super::records::rows;
use super::writer::{CommitChange, JobWriter};
use crate::queue::window::Window;

pub(super) struct DurableSink {
    writer: JobWriter,
    done_rows: DoneRows,
    window: Arc<Window>,
    /// The manifest to begin the job with when the first outcome arrives. Until then, the results that it replaces are kept.
    begins_with: Option<Manifest>,
    /// Whether the input is compared before the first row is done.
    compares_input: bool,
    /// No row is left to do. Only replaced files are kept for as long as they should be.
    is_over: bool,
    /// A write failed: rows that are not on the disk count as done, so nothing may be committed any more.
    failed: bool,
}

impl DurableSink {
    pub(super) fn new(
        writer: JobWriter,
        done_rows: DoneRows,
        window: Arc<Window>,
        begins_with: Option<Manifest>,
        compares_input: bool,
        is_over: bool,
    ) -> Self {
        Self { writer, done_rows, window, begins_with, compares_input, is_over, failed: false }
    }

    fn add(&mut self, batch: &OutcomeBatch) -> Result<(), JobError> {
        if let Some(manifest) = self.begins_with.take() {
            self.writer.directory.begin(&manifest)?;
        }
        let rows = rows(&batch.records)?;
        self.done_rows.add(&rows).map_err(|row| JobError::internal(format!("row {row} ended twice")))?;
        let records = self.writer.with_earlier_attempts(&batch.records, &rows)?;
        self.writer.write(&records, batch.failed.as_ref())?;
        self.window.advance(self.done_rows.watermark());
        self.commit_if_due()
    }

    fn commit_if_due(&mut self) -> Result<(), JobError> {
        if !self.writer.is_due() {
            return Ok(());
        }
        let input_rows = self.writer.input_rows(self.writer.progress().input_rows());
        self.writer.commit(&self.done_rows, &CommitChange { input_rows, ..CommitChange::default() })
    }
}

impl Sink for DurableSink {
    fn write(&mut self, batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        let added = self.add(&batch);
        self.failed |= added.is_err();
        added.map(|()| ControlFlow::Continue(()))
    }

    fn tick(&mut self) -> Result<(), JobError> {
        if self.is_over {
            return self.writer.remove_replaced(0);
        }
        let committed = self.commit_if_due().and_then(|()| self.writer.reserve_if_due(&self.done_rows));
        let committed = committed.and_then(|()| self.writer.remove_replaced(0));
        self.failed |= committed.is_err();
        committed
    }

    fn shortage(&self) -> Option<Shortage> {
        self.writer.shortage(0)
    }

    fn finish(&mut self, ending: &Ending) -> Result<(), JobError> {
        if self.failed {
            self.writer.discard_uncommitted();
            return Ok(());
        }
        if self.is_over {
            return self.writer.wait_for_readers(ending.stopped);
        }
        if let Some(manifest) = &self.begins_with {
            let is_empty = ending.input_rows == Some(0);
            let input = &manifest.input.name;
            return if is_empty { Err(no_rows_for(input, self.writer.directory.root())) } else { Ok(()) };
        }
        let has_news = self.writer.run_rows() > 0 || !ending.undone.is_empty() || self.writer.has_used_budgets();
        if self.compares_input && !has_news && ending.input_rows.is_none() {
            // The input may be a different one, so the job stays as it is.
            return Ok(());
        }
        self.writer.leave_undone(ending.undone);
        self.writer.keep_settings();
        self.writer.finish(&self.done_rows, ending.input_rows, ending)
    }
}

/// Returns the error for an input without rows that would replace results.
pub(crate) fn no_rows_for(input: &str, output: &Path) -> JobError {
    let (input, output) = (if input == "-" { "standard input" } else { input }, output.display());
    JobError::input(message!(
        "{input} has no rows, and ",
        OptionName::IfExists.set("overwrite"),
        " would remove the results in {output} for it: nothing was removed; delete {output} if you want that"
    ))
}
