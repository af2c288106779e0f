//! Record batches or requests in, record batches of results out: one call, on a run that it shares with other calls.
//!
//! The caller's thread does all work of the call: it makes rows of the input when the call may have more of them, and
//! builds columns of outcomes when it requests a batch. No thread and no queue is in between. Between two calls only
//! requests in flight proceed. Rows are fed 1,024 at a time, whatever batches they come in, as soon as at most twice the
//! concurrency is outstanding: so there are always rows that wait for a lane, and there is no barrier between batches.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{Field, Fields, SchemaRef};
use headgate_core::clock;
use headgate_core::error::JobError;
use headgate_core::memory::MemoryBudget;
use headgate_core::options::{JobOptions, SelectionOptions};
use headgate_core::row::{MAX_BATCH_ROWS, Outcome, Row};
use headgate_table::columns::builder::{OutcomeBatch, OutcomeBuilder};
use headgate_table::columns::kept::KeptCodec;

use super::batch_input::{BatchInput, join_template};
use super::checks::check;
use super::fed_runs::{FedRuns, RunUse};
use super::handle::Run;
use crate::engine::completion_queue::{Arrived, CompletionQueue, WAKE_AT_OF_MANY};
use crate::engine::waker::{WakeCaller, Waker};
use crate::job::credential_scope;
use crate::stats::report::Snapshot;

/// The column of the tags of requests.
const TAG: &str = "tag";
/// The longest time that an outcome waits for further ones of its batch.
const LONGEST_GATHERING: Duration = Duration::from_millis(100);

/// One call with record batches or requests.
pub struct BatchFlow {
    input: BatchInput,
    selection: SelectionOptions,
    run: Arc<Run>,
    /// `None`: the run belongs to a client and outlives its calls, or the call is closed.
    run_use: Option<RunUse>,
    completions: Arc<CompletionQueue>,
    waker: Arc<Waker>,
    /// `None`: no batch has arrived, and so the columns are unknown.
    results: Option<BatchColumns>,
    /// `None`: the requests have no tags.
    tag_codec: Option<KeptCodec>,
    is_closed: bool,
    next_row: u64,
    /// The number of rows that were fed, and are not in a batch yet.
    outstanding: usize,
    max_outstanding: usize,
    arrived: VecDeque<Arrived>,
    /// When the first outcome of the next batch arrived.
    gathered_since: Option<Instant>,
    is_full: bool,
}

/// The state that depends on the columns of the input.
struct BatchColumns {
    builder: OutcomeBuilder,
    schema: SchemaRef,
}

/// The result of one step of a call.
#[derive(Debug)]
pub enum Step {
    /// A batch of results.
    Batch(RecordBatch),
    /// The caller should provide a batch or requests.
    WantsBatch,
    /// The caller should wait.
    Wait,
    /// The call has ended.
    Ended,
}

impl BatchFlow {
    /// Begins a call. `options.source.input` is the name of the batches in messages; the output of `options` is ignored.
    /// `waker` is also woken when an outcome arrives and none was waiting.
    ///
    /// # Errors
    /// `Usage`: an invalid option, or a concurrency beyond the number of files that this process may open.
    pub fn new(
        runs: &Arc<FedRuns>,
        mut options: JobOptions,
        waker: Option<Arc<dyn WakeCaller>>,
    ) -> Result<Self, JobError> {
        credential_scope::complete(&mut options, &[])?;
        let input = BatchInput::new(options.source)?;
        let columns = input.columns(&options.selection, Fields::empty())?;
        let options = JobOptions { source: input.options().clone(), ..options };
        let run_use = runs.run_for(&options, &columns)?;
        let waker = Waker::new(waker);
        let completions = run_use.run.completions(waker.clone(), WAKE_AT_OF_MANY, None);
        Ok(Self::begin_with(input, options, (run_use.run.clone(), Some(run_use)), (completions, waker)))
    }

    /// Begins a call on a run that is shared with other requests. `options` are those of the run, except those of rows and
    /// columns. `base_url` is the base of relative URLs. `waker`: as in [`BatchFlow::new`].
    ///
    /// # Errors
    /// `Usage`: an invalid option.
    pub fn on(
        run: Arc<Run>,
        mut options: JobOptions,
        base_url: String,
        waker: Option<Arc<dyn WakeCaller>>,
    ) -> Result<Self, JobError> {
        if let Some(template) = &mut options.source.url {
            join_template(&base_url, template);
        }
        check(&options)?;
        credential_scope::of_base_url(&mut options.request, &base_url);
        credential_scope::check_call(&mut options)?;
        let input = BatchInput::new(options.source.clone())?.with_defaults(base_url, &options.request);
        let columns = input.columns(&options.selection, Fields::empty())?;
        let waker = Waker::new(waker);
        let completions =
            run.completions(waker.clone(), WAKE_AT_OF_MANY, columns.selection.map(|selection| selection as _));
        Ok(Self::begin_with(input, options, (run, None), (completions, waker)))
    }

    fn begin_with(
        input: BatchInput,
        options: JobOptions,
        (run, run_use): (Arc<Run>, Option<RunUse>),
        (completions, waker): (Arc<CompletionQueue>, Arc<Waker>),
    ) -> Self {
        Self {
            input,
            max_outstanding: options.run.concurrency.saturating_mul(2).saturating_add(MAX_BATCH_ROWS),
            selection: options.selection,
            run,
            run_use,
            completions,
            waker,
            results: None,
            tag_codec: None,
            is_closed: false,
            next_row: 0,
            outstanding: 0,
            arrived: VecDeque::new(),
            gathered_since: None,
            is_full: false,
        }
    }

    /// Sets the reader of the next batches, after [`Step::WantsBatch`].
    ///
    /// # Errors
    /// `Input`: columns are missing or unusable (the message names them), or differ from earlier ones.
    pub fn set_reader(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<(), JobError> {
        let kept = self.input.set_columns(&reader.schema())?;
        self.begin(kept)?;
        self.input.set_reader(reader);
        Ok(())
    }

    /// Feeds at most [`MAX_BATCH_ROWS`] requests in place of batches, after [`Step::WantsBatch`]. If the first ones have
    /// tags, these are a column of the results, and must have the same type later.
    ///
    /// # Errors
    /// `Internal`: the run has ended. `Input`: another column has the name of the tags.
    pub fn feed_requests(&mut self, mut rows: Vec<Row>, tags: Option<ArrayRef>) -> Result<(), JobError> {
        if self.is_closed {
            return Ok(());
        }
        let internal = |error| JobError::internal(format!("tags of requests: {error}"));
        if self.results.is_none() {
            let field = |tags: &ArrayRef| Field::new(TAG, tags.data_type().clone(), true);
            let fields: Fields = tags.iter().map(field).collect();
            self.begin(fields.clone())?;
            self.tag_codec = tags.is_some().then(|| KeptCodec::new(&fields)).transpose().map_err(internal)?;
        }
        if let (Some(codec), Some(tags)) = (&self.tag_codec, tags) {
            for (row, tag) in rows.iter_mut().zip(codec.encode(&[tags]).map_err(internal)?) {
                row.extra.get_or_insert_default().kept = Some(tag);
            }
        }
        self.send(rows)
    }

    /// Ends the input: there are no more batches, or requests.
    pub fn end(&mut self) {
        self.input.end();
    }

    /// Returns a snapshot of the run that the call is part of.
    pub fn snapshot(&self) -> Snapshot {
        self.run.snapshot()
    }

    /// Returns when a batch is due if no more outcomes arrive: a caller that waits for its waker waits no longer than that.
    pub fn ready_at(&self) -> Option<Instant> {
        self.gathered_since.map(|since| since + LONGEST_GATHERING)
    }

    /// Returns the columns of results, as far as they are known: before the first batch, without those of the input.
    ///
    /// # Errors
    /// As [`BatchFlow::new`].
    pub fn schema(&self) -> Result<SchemaRef, JobError> {
        match &self.results {
            Some(results) => Ok(results.schema.clone()),
            None => self.input.columns(&self.selection, Fields::empty()).map(|columns| columns.schema()),
        }
    }

    /// Continues until there is a result for the caller, or until this time.
    ///
    /// # Errors
    /// `Input`: a batch can't be read. `Internal`: the run has ended.
    pub fn step(&mut self, until: Instant) -> Result<Step, JobError> {
        if self.is_closed {
            return Ok(Step::Ended);
        }
        let mut has_waited = false;
        loop {
            self.gather()?;
            // Reading the next batch may take a while. Results that are due do not wait for it.
            let was_fed = (self.input.has_batch() || !self.is_due(clock::now())) && self.feed()?;
            let now = clock::now();
            if let Some(batch) = self.ready(now)? {
                return Ok(Step::Batch(batch));
            }
            if self.input.has_ended() && self.outstanding == 0 {
                return Ok(Step::Ended);
            }
            if self.input.needs_batch() && self.can_feed() {
                return Ok(Step::WantsBatch);
            }
            if !was_fed {
                self.completions.want(self.wanted());
            }
            if now >= until && !was_fed {
                if has_waited {
                    self.release_memory();
                }
                return Ok(Step::Wait);
            }
            if !was_fed {
                has_waited = true;
                self.waker.wait(self.ready_at().map_or(until, |at| at.min(until)).saturating_duration_since(now));
            }
        }
    }

    /// Releases memory reservations; see [`Run::release_memory`]. A caller that waits without [`BatchFlow::step`] must call
    /// it.
    pub fn release_memory(&self) {
        self.run.release_memory();
    }

    /// Cancels requests in flight.
    pub fn close(&mut self) {
        if mem::replace(&mut self.is_closed, true) {
            return;
        }
        self.input.close();
        if self.outstanding > 0 {
            self.completions.close();
            self.run.cancel_unwanted();
            if let Some(run_use) = self.run_use.take() {
                run_use.abandon();
            }
        }
        self.arrived.clear();
    }

    /// Begins the results, whose columns are now known, including those of the input.
    fn begin(&mut self, kept: Fields) -> Result<(), JobError> {
        if self.results.is_some() {
            return Ok(());
        }
        let columns = self.input.columns(&self.selection, kept)?;
        // Bodies bring their own reservations.
        let builder = OutcomeBuilder::new(&columns, MemoryBudget::new(0))
            .map_err(|error| JobError::internal(format!("columns of results: {error}")))?;
        self.results = Some(BatchColumns { builder, schema: columns.schema() });
        Ok(())
    }

    fn can_feed(&self) -> bool {
        self.outstanding + MAX_BATCH_ROWS <= self.max_outstanding
    }

    /// Returns how many more outcomes let the call proceed: the first one sets the time of the batch, and others fill it, are
    /// the last ones, or leave so few outstanding that more can be fed.
    fn wanted(&self) -> usize {
        if self.gathered_since.is_none() {
            return 1;
        }
        let to_feed = if self.input.has_ended() {
            self.outstanding
        } else {
            (self.outstanding + MAX_BATCH_ROWS).saturating_sub(self.max_outstanding)
        };
        let to_fill = self.results.as_ref().map_or(1, |results| results.builder.missing_rows());
        to_feed.min(to_fill)
    }

    /// Feeds rows if more may be outstanding, and returns whether it did.
    fn feed(&mut self) -> Result<bool, JobError> {
        if !self.can_feed() {
            return Ok(false);
        }
        let Some(rows) = self.input.rows(self.next_row)? else { return Ok(false) };
        self.send(rows)?;
        Ok(true)
    }

    fn send(&mut self, mut rows: Vec<Row>) -> Result<(), JobError> {
        let count = rows.len();
        for (row, number) in rows.iter_mut().zip(self.next_row..) {
            row.reply_to = self.completions.reply_to(number, None, false);
        }
        self.next_row += count as u64;
        self.outstanding += count;
        if self.run.feed(rows).is_none() {
            return Err(self.run_has_ended());
        }
        Ok(())
    }

    /// Adds the outcomes that have arrived to the columns, until a batch is full.
    fn gather(&mut self) -> Result<(), JobError> {
        let Some(results) = &mut self.results else { return Ok(()) };
        while !self.is_full {
            if self.arrived.is_empty() {
                let mut arrived = Vec::new();
                self.completions.take(MAX_BATCH_ROWS, &mut arrived);
                // The caller owns the memory of its bodies from here on.
                let outcomes = arrived.iter_mut().filter_map(|arrived| arrived.outcome.as_mut());
                outcomes.for_each(Outcome::release_memory);
                self.arrived = arrived.into();
            }
            let Some(Arrived { number, outcome, failed }) = self.arrived.pop_front() else { return Ok(()) };
            let Some(mut outcome) = outcome else { return Err(self.run_has_ended()) };
            if !results.builder.has_capacity_for(outcome.as_ref().bytes()) {
                self.arrived.push_front(Arrived { number, outcome: Some(outcome), failed });
                self.is_full = true;
                return Ok(());
            }
            self.outstanding -= 1;
            // The run numbers the rows of all its callers.
            outcome.row.ordinal = number;
            results.builder.push_owned(outcome, failed);
            self.gathered_since.get_or_insert_with(clock::now);
            self.is_full = results.builder.is_full();
        }
        Ok(())
    }

    /// Returns whether the gathered outcomes are due, even if the batch is not full.
    fn is_due(&self, now: Instant) -> bool {
        self.gathered_since.is_some_and(|since| self.outstanding == 0 || now >= since + LONGEST_GATHERING)
    }

    /// Returns a batch, if it is full or due.
    fn ready(&mut self, now: Instant) -> Result<Option<RecordBatch>, JobError> {
        if !self.is_full && !self.is_due(now) {
            return Ok(None);
        }
        let Some(results) = &mut self.results else { return Ok(None) };
        (self.gathered_since, self.is_full) = (None, false);
        let OutcomeBatch { records, .. } = results
            .builder
            .finish_batch()
            .map_err(|error| JobError::internal(format!("results can't be put in columns: {error}")))?;
        Ok(Some(records))
    }

    fn run_has_ended(&self) -> JobError {
        if self.run_use.is_none() {
            return JobError::usage("the client is closed: it makes no more requests");
        }
        let why = self.run.summary().failure.map(|failure| failure.message.to_string());
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        JobError::internal(format!("the run that makes the requests has ended{why}"))
    }
}

impl Drop for BatchFlow {
    fn drop(&mut self) {
        self.close();
    }
}
