//! The source's thread: reads the rows of the input that are not done yet. It reads no faster than the workers need rows, and
//! no further than the window beyond the oldest unfinished row, or than the rows of a trial.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use headgate_core::error::JobError;
use headgate_core::message::Message;
use headgate_core::row::RowBatch;
use headgate_core::virtual_clock::Working;
use headgate_table::source::{SKIP_STEP, Source};

use crate::engine::failure::FirstFailure;
use crate::engine::spawn;
use crate::job::DoneRows;
use crate::queue::rows::RowSender;
use crate::queue::window::Window;
use crate::run::weighing::Weighing;
use crate::stats::progress::RowCount;

/// The state of the source's thread.
pub(super) struct SourceThread {
    pub(super) source: Box<dyn Source>,
    /// The number of rows to read; `None`: all.
    pub(super) max_rows: Option<u64>,
    /// Rows that earlier runs have done.
    pub(super) done: DoneRows,
    pub(super) rows: RowSender,
    pub(super) window: Arc<Window>,
    pub(super) row_count: Arc<Mutex<RowCount>>,
    /// The number of rows, once all were read.
    pub(super) input_rows: Arc<OnceLock<u64>>,
    pub(super) failure: Arc<FirstFailure>,
    pub(super) weighing: Weighing,
    /// Notes for the user.
    pub(super) notes: Arc<Mutex<Vec<Message>>>,
}

/// Starts the thread, which is never waited for: it may block in a read of standard input.
pub(super) fn start(mut thread: SourceThread) -> Result<(), JobError> {
    spawn("headgate-source".into(), move || {
        // Dropped before `rows`, whose end would look like the end of the input.
        let failure = thread.failure.clone();
        let _guard = failure.on_panic("source");
        match thread.run() {
            Ok(()) => {
                // Before another thread can notice that there are no more rows.
                thread.notes.lock().unwrap_or_else(PoisonError::into_inner).extend(thread.source.note());
                thread.rows.finish();
            }
            Err(error) => failure.set(error),
        }
    })
}

impl SourceThread {
    fn run(&mut self) -> Result<(), JobError> {
        let (mut next, end) = (0, self.max_rows.unwrap_or(u64::MAX));
        while next < self.done.watermark() {
            next = (next + SKIP_STEP).min(self.done.watermark());
            self.source.skip_to(next)?;
            if self.rows.is_closed() {
                return Ok(());
            }
        }
        let mut bytes_read = self.source.size().bytes_read;
        while next < end
            && let Some(mut batch) = self.next_batch()?
        {
            if batch.is_empty() {
                self.rows.note_stall();
            }
            next = batch.last().map_or(next, |row| row.ordinal + 1).min(end);
            bytes_read = self.estimate(next, bytes_read);
            batch.retain(|row| row.ordinal < end && !self.done.is_done(row.ordinal));
            self.weighing.weigh(&mut batch);
            if !self.send(batch) {
                return Ok(());
            }
        }
        self.row_count.lock().unwrap_or_else(PoisonError::into_inner).known.get_or_insert(next);
        let _ = self.input_rows.set(next);
        Ok(())
    }

    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError> {
        let _working = Working::begin();
        self.source.next_batch()
    }

    /// Sends a batch. Returns `false` if no rows are needed any more.
    fn send(&self, batch: RowBatch) -> bool {
        self.window.pass(batch, || self.rows.note_stall(), |rows| self.rows.send(rows))
    }

    /// Estimates the number of rows, and returns the bytes that are read now. `bytes_read`: before the newest batch.
    fn estimate(&self, rows: u64, bytes_read: u64) -> u64 {
        let size = self.source.size();
        // Bytes are read in large blocks, and only when those before them are used up: that was within this batch.
        if size.bytes_read > bytes_read
            && let Some(bytes) = size.bytes.filter(|_| bytes_read > 0)
        {
            let estimated = (rows as f64 * bytes as f64 / bytes_read as f64) as u64;
            let estimated = Some(estimated.min(self.max_rows.unwrap_or(u64::MAX)));
            self.row_count.lock().unwrap_or_else(PoisonError::into_inner).estimated = estimated;
        }
        size.bytes_read
    }
}
