//! The parts of a job, checked before it begins.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use headgate_core::boundary_salt::BoundarySalt;
use headgate_core::clock;
use headgate_core::error::JobError;
use headgate_core::files::storage::{OpenStorage, Storage};
use headgate_core::grouped::grouped;
use headgate_core::message::Message;
use headgate_core::options::{JobOptions, SourceOptions};
use headgate_core::schedule::budget::{Budget, Budgets};
use headgate_http::idempotency_key::KeySalt;
use headgate_table::columns::result::ResultColumns;
use headgate_table::sink;
use headgate_table::sink::Sink;
use headgate_table::source::compared::{Beyond, Comparison};
use headgate_table::source::content::Unread;
use headgate_table::source::{self, Source};

use super::job_state::JobState;
use super::launch::StartedOutput;
use crate::job::look::kept_columns;
use crate::job::retry::OpenRetry;
use crate::job::{DoneRows, JobProgress, OpenJob, RunningJob, TrackedInput, no_rows_for};
use crate::queue::window::Window;

pub(super) struct PreparedJob {
    /// `None`: there is nothing left to read.
    pub(super) source: Option<Box<dyn Source>>,
    pub(super) rows_known: Option<u64>,
    /// The number of rows to read; `None`: all.
    pub(super) max_rows: Option<u64>,
    pub(super) columns: ResultColumns,
    /// Rows that earlier runs have done.
    pub(super) done: DoneRows,
    pub(super) output: PreparedOutput,
}

/// The output of a job, before the job begins.
pub(super) enum PreparedOutput {
    /// An output that can't be resumed.
    Streamed(Box<dyn Sink>),
    Durable(Box<OpenJob>),
    Retry(Box<OpenRetry>),
}

impl PreparedJob {
    /// Prepares a job that writes its outcomes to a pipe, or nowhere.
    pub(super) fn streamed(options: &JobOptions) -> Result<Self, JobError> {
        let own = SourceOptions { boundary_salt: BoundarySalt::default(), ..options.source.clone() };
        let mut source = source::open::open(&own)?;
        source.peek()?;
        let columns = result_columns(options, source.as_ref())?;
        let sink = sink::open::open(&options.sink, &columns.schema())?;
        let max_rows = options.source.max_rows;
        Ok(Self {
            rows_known: first(source.size().rows, max_rows),
            max_rows,
            source: Some(source),
            columns,
            done: DoneRows::default(),
            output: PreparedOutput::Streamed(sink),
        })
    }

    /// Prepares a job with a directory that stores its state.
    pub(super) fn durable(path: &Path, options: &JobOptions, storage: &dyn OpenStorage) -> Result<Self, JobError> {
        let options = &of_job(path, options)?;
        let mut source = source::open::open(&options.source)?;
        let columns = result_columns(options, source.as_ref())?;
        let input_rows = source.size().rows;
        let schema: SchemaRef = columns.schema();
        let fingerprint = source.fingerprint();
        let mut job = OpenJob::open(path, options, &schema, fingerprint.clone(), input_rows, storage)?;
        options.source.boundary_salt.set(job.key_salt().bytes());
        let done = job.done_rows().clone();
        let input = &*options.source.name();
        if let Some(fingerprint) = fingerprint {
            let then = job.last_commit().input.as_ref().map(|then| &then.content);
            if let Some(read) = source.track(input, then, Unread::Trusted)? {
                job.track(TrackedInput { fingerprint, rows: input_rows, read });
            }
        }
        let commit = job.last_commit();
        let max_rows = commit.max_rows;
        let source: Option<Box<dyn Source>> = if job.is_new() {
            // An input that is unreadable, or has no rows, is noticed before an earlier job is replaced.
            if !source.peek()? && job.replaces_results() {
                return Err(no_rows_for(input, path));
            }
            Some(source)
        } else if let Some(then) = job.earlier_input() {
            let beyond = if options.sink.allow_append { Beyond::Grown } else { Beyond::Same };
            let comparison = Comparison { options: options.source.clone(), then: then.clone(), beyond };
            source.check_first(comparison.into_check());
            Some(source)
        } else if commit.end() == Some(done.watermark()) {
            None
        } else {
            Some(source)
        };
        // What an earlier run has counted holds for the input that it had.
        let counted = || commit.end().filter(|_| job.earlier_input().is_none());
        let rows_known = first(input_rows.or_else(counted), max_rows);
        let output = PreparedOutput::Durable(Box::new(job));
        Ok(Self { source, rows_known, max_rows, columns, done, output })
    }

    /// Prepares a retry of failed rows.
    pub(super) fn retry(retry: OpenRetry, source: Box<dyn Source>, columns: ResultColumns) -> Self {
        Self {
            rows_known: source.size().rows,
            max_rows: None,
            columns,
            source: Some(source),
            done: DoneRows::default(),
            output: PreparedOutput::Retry(Box::new(retry)),
        }
    }
}

/// Returns the number of rows of an input whose first `max_rows` are read.
fn first(rows: Option<u64>, max_rows: Option<u64>) -> Option<u64> {
    rows.map(|rows| max_rows.map_or(rows, |max_rows| rows.min(max_rows)))
}

/// Returns a note on what an earlier run has reserved of a budget and can't have used up, as it was killed.
fn note_on_reserved(job: &OpenJob) -> Option<Message> {
    let requests = &job.last_commit().requests;
    let (used, reserved, max) = (requests.used, requests.reserved, requests.max);
    let unknown = grouped(reserved.saturating_sub(used));
    let why = format!("the last run was killed, and {unknown} requests that it had reserved count as used");
    (reserved > used && max.is_some()).then(|| why.into())
}

/// Returns the options, completed for the job in this directory: with the columns that `*` stands for, as stored by the job
/// or as found in the input, and with a new boundary salt.
fn of_job(path: &Path, options: &JobOptions) -> Result<JobOptions, JobError> {
    let mut options = options.clone();
    options.source.boundary_salt = BoundarySalt::default();
    if !options.sink.overwrites() {
        options.source.kept_columns = kept_columns(path);
    }
    options.source = source::kept_columns::decided(&options.source)?.into_owned();
    Ok(options)
}

fn result_columns(options: &JobOptions, source: &dyn Source) -> Result<ResultColumns, JobError> {
    ResultColumns::new(&options.source, &options.selection, source.kept_fields())
}

impl PreparedOutput {
    /// Returns the notes for the user.
    pub(super) fn notes(&self) -> Vec<Message> {
        match self {
            Self::Durable(job) => job.note().cloned().into_iter().chain(note_on_reserved(job)).collect(),
            Self::Retry(retry) => retry.notes().to_vec(),
            Self::Streamed(_) => Vec::new(),
        }
    }

    /// Returns the files of the job, if its output is a directory.
    pub(super) fn storage(&self) -> Option<&Arc<dyn Storage>> {
        match self {
            Self::Streamed(_) => None,
            Self::Durable(job) => Some(job.storage()),
            Self::Retry(retry) => Some(retry.storage()),
        }
    }

    /// Returns whether options may be set while the job runs: it has a directory, and rows left to do.
    pub(super) fn may_be_set(&self) -> bool {
        match self {
            Self::Streamed(_) => false,
            Self::Durable(job) => !job.is_over(),
            Self::Retry(_) => true,
        }
    }

    /// Returns the salt for the rows' keys. If the job stores one, it stays the same in all its runs.
    ///
    /// # Errors
    /// `Internal`: the system has no random numbers.
    pub(super) fn key_salt(&self) -> Result<KeySalt, JobError> {
        match self {
            Self::Streamed(_) => KeySalt::random(),
            Self::Durable(job) => Ok(job.key_salt()),
            Self::Retry(retry) => Ok(retry.key_salt()),
        }
    }

    /// Returns the window of the source. It is unlimited if the output does not store which rows are done.
    pub(super) fn window(&self, options: &JobOptions) -> Window {
        match self {
            Self::Durable(job) => Window::new(options.run.read_ahead, job.done_rows().watermark()),
            Self::Streamed(_) | Self::Retry(_) => Window::new(u64::MAX, 0),
        }
    }

    /// Begins the output. If the options require it, this replaces the output of an earlier job.
    ///
    /// # Errors
    /// `Output`: the directory can't be written to.
    pub(super) fn begin(self, options: &JobOptions, window: &Arc<Window>) -> Result<StartedOutput, JobError> {
        Ok(match self {
            Self::Streamed(sink) => StartedOutput::Running { sink, state: None },
            Self::Durable(job) if job.is_over() && !job.keeps_replaced() => {
                let commit = job.last_commit().clone();
                let (rows_before, resumable) = (commit.done, job.is_resumable());
                let requests = Budget::resumed(commit.requests.reserved);
                let budgets = Arc::new(Budgets { requests, cost: Budget::resumed(commit.cost.reserved) });
                budgets.set(&options.run.limits);
                let (progress, responders) = (Arc::new(JobProgress::new(commit)), Arc::default());
                let had_failed = false;
                StartedOutput::Finished(JobState {
                    progress,
                    responders,
                    budgets,
                    heartbeat: job.heartbeat().clone(),
                    rows_before,
                    resumable,
                    had_failed,
                })
            }
            Self::Durable(job) => {
                let (rows_before, resumable) = (job.last_commit().done, job.is_resumable());
                let had_failed = job.last_commit().had_failed();
                let started = job.start(options, window.clone(), Box::new(clock::now))?;
                let RunningJob { sink, progress, responders, budgets, heartbeat } = started;
                let state = JobState { progress, responders, budgets, heartbeat, rows_before, resumable, had_failed };
                StartedOutput::Running { sink, state: Some(state) }
            }
            Self::Retry(retry) => {
                // Rows that fail whatever is done come first in each retry.
                let had_failed = false;
                let started = retry.start(options, Box::new(clock::now))?;
                let RunningJob { sink, progress, responders, budgets, heartbeat } = started;
                let state =
                    JobState { progress, responders, budgets, heartbeat, rows_before: 0, resumable: true, had_failed };
                StartedOutput::Running { sink, state: Some(state) }
            }
        })
    }
}
