//! Starts a run of a job, whose input and output are named by options.

use std::sync::Arc;
use std::time::Duration;

use headgate_core::error::JobError;
use headgate_core::files::storage::{Disk, OpenStorage};
use headgate_core::live::Live;
use headgate_core::options::{EngineOptions, Format, JobOptions, Output};

use super::checks::{check, check_ports, check_requests, note_window};
use super::handle::Run;
use super::launch::{Launch, SINK_TICK};
use super::live::{self, StoredSettings};
use super::named_address::named_address;
use super::plan::PreparedJob;
use super::user_in_input;
use crate::engine::{Engine, machine};
use crate::job::control::ControlFiles;
use crate::job::credential_scope;
use crate::job::look::credentials_for;
use crate::job::retry::{OpenRetry, Retry, RetryOptions};
use crate::job::save_places;

/// The shortest interval between ticks of the sink, however often results are committed.
const SHORTEST_TICK: Duration = Duration::from_millis(10);

impl Run {
    /// Checks the options, opens the input and the output, and starts the threads. If this fails, nothing was sent or written.
    ///
    /// A job that was begun before in the same output directory continues where it stopped. A finished job does nothing.
    /// The run has an engine of its own.
    ///
    /// # Errors
    /// `Usage`, `Input` or `Output`, naming the option or file.
    pub fn job(options: &JobOptions) -> Result<Self, JobError> {
        Self::job_with(options, &Disk)
    }

    /// Starts a job as [`Run::job`] does, with another implementation of storage.
    ///
    /// # Errors
    /// As [`Run::job`].
    pub fn job_with(options: &JobOptions, storage: &dyn OpenStorage) -> Result<Self, JobError> {
        check(options)?;
        let options = completed(options)?;
        let job = prepare(&options, storage)?;
        begin(None, job, options)
    }

    /// Starts a job as [`Run::job`] does, on an existing engine. The engine options of `options` are ignored.
    ///
    /// # Errors
    /// As [`Run::job`].
    pub fn job_on(engine: &Engine, options: &JobOptions, storage: &dyn OpenStorage) -> Result<Self, JobError> {
        check(options)?;
        let options = completed(options)?;
        let job = prepare(&options, storage)?;
        begin(Some(engine), job, options)
    }

    /// Retries the failed rows of a job, and replaces their results.
    ///
    /// # Errors
    /// As [`Run::job`]; `Output` if there is no such job.
    pub fn retry(options: RetryOptions) -> Result<Self, JobError> {
        Self::retry_with(options, &Disk)
    }

    /// Starts a retry as [`Run::retry`] does, with another implementation of storage.
    ///
    /// # Errors
    /// As [`Run::retry`].
    pub fn retry_with(options: RetryOptions, storage: &dyn OpenStorage) -> Result<Self, JobError> {
        // These options are invalid whatever the job is.
        check_requests(&options.job.request, &options.job.run)?;
        let Retry { job, source, columns, options } = OpenRetry::open(options, check, storage)?;
        begin(None, PreparedJob::retry(job, source, columns), options)
    }
}

/// Returns the options, completed by the input and by an earlier run of the job: the user agent, and which origins get
/// credentials.
pub(crate) fn completed(options: &JobOptions) -> Result<JobOptions, JobError> {
    let mut options = user_in_input::extract_user(options)?.into_owned();
    let stored = match &options.sink.output {
        Output::Directory(path) if options.sink.format != Format::None && !options.sink.overwrites() => {
            credentials_for(path)
        }
        _ => Vec::new(),
    };
    credential_scope::complete(&mut options, &stored)?;
    Ok(options)
}

fn prepare(options: &JobOptions, storage: &dyn OpenStorage) -> Result<PreparedJob, JobError> {
    match &options.sink.output {
        Output::Directory(path) if options.sink.format != Format::None => PreparedJob::durable(path, options, storage),
        _ => PreparedJob::streamed(options),
    }
}

/// Creates an engine for one run, with at most as many threads as rows in flight.
fn own_engine_for(options: &JobOptions) -> Result<Engine, JobError> {
    let threads = options.engine.threads.unwrap_or_else(machine::cores).min(options.run.concurrency);
    Engine::start(&EngineOptions { threads: Some(threads), ..options.engine.clone() })
}

/// Begins the run on `engine`, or on an engine of its own if there is none.
fn begin(engine: Option<&Engine>, job: PreparedJob, mut options: JobOptions) -> Result<Run, JobError> {
    let PreparedJob { source, rows_known, max_rows, columns, done, output } = job;
    let stored_settings = match output.storage() {
        Some(storage) if output.may_be_set() => {
            StoredSettings::read(ControlFiles::new(storage.clone()), &options.run, options.sink.overwrites())?
        }
        _ => StoredSettings::default(),
    };
    let named = Live::new(&options.run);
    live::with_control(&named, &stored_settings.control)?.put_into(&mut options.run);
    options.request.named_address = named_address(&options.source);
    let own_engine = engine.is_none();
    let engine = &engine.map_or_else(|| own_engine_for(&options), |engine| Ok(engine.clone()))?;
    let options = &options;
    // A run needs no more connections than it has rows.
    let rows_left = rows_known.unwrap_or(u64::MAX).saturating_sub(done.rows_done());
    let needed = options.run.concurrency.min(usize::try_from(rows_left).unwrap_or(usize::MAX));
    let capacity = engine.reserve(needed, &options.request, options.source.save_to.is_some())?;
    let notes = [check_ports(options, capacity.in_flight().connections)?, note_window(&options.run)];
    let set_notes = stored_settings.notes.clone();
    let launch = Launch {
        rows: source.into(),
        rows_known,
        max_rows,
        columns,
        done,
        window: Arc::new(output.window(options)),
        input_is_pipe: options.source.input == "-",
        output_is_pipe: options.sink.output == Output::Stdout,
        output: match &options.sink.output {
            Output::Directory(path) => path.display().to_string(),
            Output::Stdout => "-".into(),
            Output::Nowhere => String::new(),
        },
        tick: options.sink.commit_interval.map_or(SINK_TICK, |every| every.clamp(SHORTEST_TICK, SINK_TICK)),
        request: options.request.clone(),
        run: options.run.clone(),
        named,
        stored_settings,
        save_places: output
            .storage()
            .filter(|_| options.source.save_to.is_some())
            .map(|storage| save_places(storage, options.source.save_format)),
        key_salt: options.run.retrying.idempotency_key.then(|| output.key_salt()).transpose()?,
        own_engine,
        notes: notes.into_iter().flatten().chain(output.notes()).chain(set_notes).collect(),
    };
    launch.begin(engine, capacity, |window| output.begin(options, window))
}
