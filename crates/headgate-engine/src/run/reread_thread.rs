//! The thread that reads deferred rows again, beside the source, from the same input.

use std::sync::Arc;

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::row::RowBatch;
use headgate_table::source::selected::MAX_READ_GAP;
use headgate_table::source::{Reopener, SKIP_STEP, Source};

use crate::engine::failure::FirstFailure;
use crate::engine::spawn;
use crate::queue::reread::RereadSender;
use crate::queue::rows::Deferring;
use crate::run::weighing::Weighing;

/// Returns the parameters for reading deferred rows of this input again. The thread starts at the first request.
pub(super) fn deferring(reopener: Reopener, window: u64, weighing: Weighing, failure: Arc<FirstFailure>) -> Deferring {
    let start = move |rows: RereadSender| {
        let thread_failure = failure.clone();
        let started = spawn("headgate-reread".into(), move || {
            // Dropped before `rows`, whose end would look like that of the run.
            let _guard = thread_failure.on_panic("source");
            if let Err(error) = (RereadThread { reopener, rows: &rows, weighing, input: None }).run() {
                thread_failure.set(error);
            }
        });
        if let Err(error) = started {
            failure.set(error);
        }
    };
    Deferring { start: Box::new(start), window }
}

struct RereadThread<'a> {
    reopener: Reopener,
    rows: &'a RereadSender,
    weighing: Weighing,
    /// Stays open, as the next request may continue from there.
    input: Option<RereadInput>,
}

/// The input, as far as it was read.
struct RereadInput {
    source: Box<dyn Source>,
    /// The remaining rows of the batch that was read last.
    read: RowBatch,
    /// The ordinal after that batch.
    next: u64,
}

impl RereadThread<'_> {
    fn run(&mut self) -> Result<(), JobError> {
        while let Some(mut from) = self.rows.wait_for_request() {
            while let Some(wanted) = self.rows.next_wanted(from) {
                let input = match self.input.take_if(|input| input.position() <= wanted) {
                    Some(input) => input,
                    None => RereadInput { source: self.reopener.open()?, read: RowBatch::new(), next: 0 },
                };
                let input = self.input.insert(input);
                let is_wanted = input.read_to(wanted, self.rows, &self.reopener.name)?;
                self.weighing.weigh(&mut input.read);
                from = if is_wanted && self.rows.send(&mut input.read) { input.next } else { wanted };
            }
        }
        Ok(())
    }
}

impl RereadInput {
    /// Returns the ordinal of the first row that can still be read.
    fn position(&self) -> u64 {
        self.read.first().map_or(self.next, |row| row.ordinal)
    }

    /// Reads until the row, which is not before [`RereadInput::position`], is the first in `read`. Returns `false` if it is no
    /// longer wanted.
    fn read_to(&mut self, wanted: u64, rows: &RereadSender, name: &str) -> Result<bool, JobError> {
        while self.next <= wanted {
            self.read.clear();
            if rows.is_enough() {
                return Ok(false);
            }
            if wanted - self.next > MAX_READ_GAP {
                self.next = wanted.min(self.next + SKIP_STEP);
                self.source.skip_to(self.next)?;
                continue;
            }
            let Some(batch) = self.source.next_batch()? else { return Err(missing(name, wanted)) };
            self.next = batch.last().map_or(self.next, |row| row.ordinal + 1);
            self.read = batch;
        }
        self.read.drain(..self.read.partition_point(|row| row.ordinal < wanted));
        Ok(true)
    }
}

fn missing(name: &str, row: u64) -> JobError {
    JobError::input(message!(
        "{name}: row {row} is no longer there: the file was changed while it was read; restore the file to resume, or start over with ",
        OptionName::IfExists.set("overwrite")
    ))
}

#[cfg(test)]
mod tests;
