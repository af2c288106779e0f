//! Record batches in, record batches of results out: one call, on a run that it shares with others (see [`FedRuns`]).
//!
//! Whoever has the call does all of its work, in one thread: its rows are made of the input when there is room for them, and its
//! outcomes become columns when they are asked for. So no thread and no queue is in between, and nothing happens while nobody
//! asks, but for what is in flight. Rows are fed 1,024 at a time, whatever batches they come in, as soon as there are no more than
//! twice the concurrency outstanding: so there are always rows that wait for a lane, and there is no barrier between batches.

use std::collections::VecDeque;
use std::mem;
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{Fields, SchemaRef};

use super::fed_runs::FedRuns;
use super::handle::Run;
use crate::columns::builder::{OutcomeBatch, OutcomeBuilder};
use crate::columns::result::ResultColumns;
use crate::engine::inbox::{Arrived, Bell, Inbox};
use crate::model::error::JobError;
use crate::model::memory::MemoryBudget;
use crate::model::options::JobOptions;
use crate::model::row::MAX_BATCH_ROWS;
use crate::source::record_batches::{self, BatchRows};

/// A row that has come waits no longer than this for others to make a batch with.
const LONGEST_GATHERING: Duration = Duration::from_millis(100);

/// Record batches on their way through the engine.
pub struct BatchFlow {
    options: JobOptions,
    runs: Arc<FedRuns>,
    run: Arc<Run>,
    inbox: Arc<Inbox>,
    bell: Arc<Waiting>,
    /// Where it was begun: a process that was forked off has none of its threads.
    process: u32,
    /// `None`: no batch has come that says which columns there are.
    begun: Option<Begun>,
    /// What batches come from, and the one that they are taken of, from this row on.
    reader: Option<Box<dyn RecordBatchReader + Send>>,
    batch: Option<(RecordBatch, usize)>,
    is_at_end: bool,
    is_closed: bool,
    next_row: u64,
    /// Fed, and not in a batch yet.
    outstanding: usize,
    max_outstanding: usize,
    arrived: VecDeque<Arrived>,
    /// When the first outcome came of those that make the next batch.
    gathered_since: Option<Instant>,
    is_full: bool,
}

/// What follows from the columns of the input.
struct Begun {
    rows: BatchRows,
    builder: OutcomeBuilder,
    schema: SchemaRef,
}

/// What a call has come to.
#[derive(Debug)]
pub enum Step {
    /// Results.
    Batch(RecordBatch),
    /// There is room for rows, and no batch to take them of.
    WantsBatch,
    /// Nothing yet.
    Waits,
    /// All is done.
    Ended,
}

impl BatchFlow {
    /// Begins a call. `options.source.input` is what the batches are called in messages; nothing is read of it, and of what
    /// `options` say of an output nothing is done.
    ///
    /// # Errors
    /// `Usage`: an option that can't be, or more in flight than this process may have files open.
    pub fn new(runs: Arc<FedRuns>, options: JobOptions) -> Result<Self, JobError> {
        record_batches::check(&options.source)?;
        let columns = ResultColumns::new(&options.source, &options.answer, Fields::empty())?;
        let run = runs.run_for(&options, &columns)?;
        let bell = Arc::<Waiting>::default();
        let max_outstanding = options.run.concurrency.saturating_mul(2).saturating_add(MAX_BATCH_ROWS);
        Ok(Self {
            options,
            runs,
            run,
            inbox: Inbox::new(Box::new(bell.clone())),
            bell,
            process: process::id(),
            begun: None,
            reader: None,
            batch: None,
            is_at_end: false,
            is_closed: false,
            next_row: 0,
            outstanding: 0,
            max_outstanding,
            arrived: VecDeque::new(),
            gathered_since: None,
            is_full: false,
        })
    }

    /// Takes rows of these batches next. To be called when it wants some.
    ///
    /// # Errors
    /// `Input`: columns that are missing or can't be used, naming them, or others than before.
    pub fn take_from(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<(), JobError> {
        self.begin(&reader.schema())?;
        self.reader = Some(reader);
        Ok(())
    }

    /// There are no more batches.
    pub fn end(&mut self) {
        self.is_at_end = true;
    }

    /// The columns of results, as far as they are known: without those of the input before there was some.
    ///
    /// # Errors
    /// As [`BatchFlow::new`].
    pub fn schema(&self) -> Result<SchemaRef, JobError> {
        match &self.begun {
            Some(begun) => Ok(begun.schema.clone()),
            None => self.columns(Fields::empty()).map(|columns| columns.schema()),
        }
    }

    /// Goes on, until there is something to tell or this time has come.
    ///
    /// # Errors
    /// `Input`: a batch can't be read. `Internal`: the run has ended.
    pub fn step(&mut self, until: Instant) -> Result<Step, JobError> {
        if self.process != process::id() {
            return Err(JobError::usage("it was begun in another process: begin it after the fork"));
        }
        if self.is_closed {
            return Ok(Step::Ended);
        }
        loop {
            self.gather()?;
            // What comes next of a reader may take a while. What is to be handed on now does not wait for it.
            let was_fed = (self.batch.is_some() || !self.is_due(Instant::now())) && self.feed()?;
            let now = Instant::now();
            if let Some(batch) = self.ready(now)? {
                return Ok(Step::Batch(batch));
            }
            let has_input = self.batch.is_some() || self.reader.is_some();
            if !has_input && self.is_at_end && self.outstanding == 0 {
                return Ok(Step::Ended);
            }
            if !has_input && !self.is_at_end && self.has_room() {
                return Ok(Step::WantsBatch);
            }
            if now >= until {
                return Ok(Step::Waits);
            }
            if !was_fed {
                let ready_at = self.gathered_since.map(|since| since + LONGEST_GATHERING);
                self.bell.wait(ready_at.map_or(until, |at| at.min(until)).saturating_duration_since(now));
            }
        }
    }

    /// Cancels what is in flight.
    pub fn close(&mut self) {
        if mem::replace(&mut self.is_closed, true) || self.process != process::id() {
            return;
        }
        (self.reader, self.batch) = (None, None);
        if self.outstanding > 0 {
            self.inbox.close();
            self.run.cancel_unwanted();
            self.runs.gave_up(&self.run);
        }
        self.arrived.clear();
    }

    fn columns(&self, kept: Fields) -> Result<ResultColumns, JobError> {
        ResultColumns::new(&self.options.source, &self.options.answer, kept)
    }

    /// Knows the columns of the input from here on.
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), JobError> {
        if let Some(begun) = &self.begun {
            return begun.rows.check_schema(schema);
        }
        let rows = BatchRows::new(&self.options.source, schema.clone())?;
        let columns = self.columns(rows.kept_fields().clone())?;
        // What is set aside for bodies comes with them.
        let builder = OutcomeBuilder::new(&columns, MemoryBudget::new(0))
            .map_err(|error| JobError::internal(format!("columns of results: {error}")))?;
        self.begun = Some(Begun { rows, builder, schema: columns.schema() });
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.outstanding + MAX_BATCH_ROWS <= self.max_outstanding
    }

    /// Feeds rows for which there is room. Whether there were some.
    fn feed(&mut self) -> Result<bool, JobError> {
        if !self.has_room() {
            return Ok(false);
        }
        let Some((batch, at)) = self.next_batch()? else { return Ok(false) };
        let Some(begun) = &self.begun else { return Ok(false) };
        let count = BatchRows::rows_at_a_time(&batch).min(batch.num_rows() - at);
        let mut rows = begun.rows.rows(self.next_row, &batch.slice(at, count))?;
        for (row, number) in rows.iter_mut().zip(self.next_row..) {
            row.extra.get_or_insert_default().reply_to = self.inbox.reply_to(number);
        }
        self.next_row += count as u64;
        self.outstanding += count;
        if at + count < batch.num_rows() {
            self.batch = Some((batch, at + count));
        }
        if self.run.feed(rows).is_none() {
            return Err(self.run_has_ended());
        }
        Ok(count > 0)
    }

    fn next_batch(&mut self) -> Result<Option<(RecordBatch, usize)>, JobError> {
        if let Some(batch) = self.batch.take() {
            return Ok(Some(batch));
        }
        while let Some(reader) = &mut self.reader {
            match reader.next() {
                None => self.reader = None,
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => return Ok(Some((batch, 0))),
                Some(Err(error)) => {
                    let name = &self.options.source.input;
                    return Err(JobError::input(format!("{name}: can't be read further: {error}")));
                }
            }
        }
        Ok(None)
    }

    /// Makes columns of what has come, until a batch is full.
    fn gather(&mut self) -> Result<(), JobError> {
        let Some(begun) = &mut self.begun else { return Ok(()) };
        while !self.is_full {
            if self.arrived.is_empty() {
                let mut arrived = Vec::new();
                self.inbox.take(MAX_BATCH_ROWS, &mut arrived);
                self.arrived = arrived.into();
            }
            let Some(Arrived { number, outcome, failed }) = self.arrived.pop_front() else { return Ok(()) };
            let Some(mut outcome) = outcome else { return Err(self.run_has_ended()) };
            if !begun.builder.has_room(outcome.as_ref().bytes()) {
                self.arrived.push_front(Arrived { number, outcome: Some(outcome), failed });
                self.is_full = true;
                return Ok(());
            }
            self.outstanding -= 1;
            // The run numbers rows of all who feed it.
            outcome.row.ordinal = number;
            begun.builder.push_owned(outcome, failed);
            self.gathered_since.get_or_insert_with(Instant::now);
            self.is_full = begun.builder.is_full();
        }
        Ok(())
    }

    /// Whether what has been gathered is to be handed on, even if the batch is not full.
    fn is_due(&self, now: Instant) -> bool {
        self.gathered_since.is_some_and(|since| self.outstanding == 0 || now >= since + LONGEST_GATHERING)
    }

    /// A batch, if it is time to hand it on.
    fn ready(&mut self, now: Instant) -> Result<Option<RecordBatch>, JobError> {
        if !self.is_full && !self.is_due(now) {
            return Ok(None);
        }
        let Some(begun) = &mut self.begun else { return Ok(None) };
        (self.gathered_since, self.is_full) = (None, false);
        // The memory that its bodies take is the caller's from here on: what is in flight need not wait for it.
        let OutcomeBatch { records, .. } = begun
            .builder
            .take()
            .map_err(|error| JobError::internal(format!("results can't be put in columns: {error}")))?;
        Ok(Some(records))
    }

    fn run_has_ended(&self) -> JobError {
        let why = self.run.summary().failure.map(|failure| failure.message.to_string());
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        JobError::internal(format!("the run that makes the requests has ended{why}"))
    }
}

impl Drop for BatchFlow {
    fn drop(&mut self) {
        self.close();
        if self.process != process::id() {
            // Its threads are those of another process, and may have held any of its locks when this one was forked off.
            mem::forget((self.run.clone(), self.inbox.clone(), self.runs.clone()));
            mem::forget((mem::take(&mut self.arrived), self.begun.take()));
        }
    }
}

/// Who waits for outcomes.
#[derive(Default)]
struct Waiting {
    has_rung: Mutex<bool>,
    changed: Condvar,
}

impl Waiting {
    /// Waits until it rings, or has rung since it was waited for.
    fn wait(&self, timeout: Duration) {
        let waited = self.changed.wait_timeout_while(self.has_rung(), timeout, |has_rung| !*has_rung);
        let (mut has_rung, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *has_rung = false;
    }

    fn has_rung(&self) -> MutexGuard<'_, bool> {
        self.has_rung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell for Arc<Waiting> {
    fn ring(&self) {
        *self.has_rung() = true;
        self.changed.notify_one();
    }
}
