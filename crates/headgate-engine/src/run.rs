//! A job: source -> rows -> workers -> outcomes -> sink, each on threads of its own, with bounded queues between
//! them. A slow sink so holds back the workers, and those the source.

mod checks;
mod drain;
mod feed;
mod plan;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use self::checks::{check, check_ports, note_window};
use self::drain::{Done, Drain};
use self::feed::Feed;
use self::plan::{Begun, JobState, Plan};
use crate::engine::failure::FirstFailure;
use crate::engine::machine;
use crate::http::client::ClientOptions;
use crate::http::dial::connect::Connector;
use crate::http::dial::resolve::Resolver;
use crate::http::dial::tls;
use crate::http::h1::exchange::ResponseLimits;
use crate::http::request::Defaults;
use crate::job::retry::{OpenRetry, Retry, RetryOptions};
use crate::job::storage::{Disk, Storage};
use crate::model::clock::Clock;
use crate::model::error::JobError;
use crate::model::memory::MemoryBudget;
use crate::model::options::{Format, JobOptions, Output};
use crate::queue::rows::{RowReceiver, row_queue};
use crate::stats::bottleneck::merging;
use crate::stats::monitor::{Monitor, Setting};
use crate::stats::report::{Snapshot, Summary};
use crate::stats::worker::WorkerStats;
use crate::worker::{self, Phase, Shared};

/// Batches of outcomes that may wait for the sink, over all workers.
const MAX_WAITING_BATCHES: usize = 4;
/// How often the sink is told that time passes.
const SINK_TICK: Duration = Duration::from_millis(500);
const SHORTEST_TICK: Duration = Duration::from_millis(10);
/// How long an aborted job may take to write what it has received.
const LONGEST_ABORT: Duration = Duration::from_secs(1);

/// A job that runs. Dropping it lets the job go on to its end.
#[derive(Debug)]
pub struct Job {
    options: JobOptions,
    phase: watch::Sender<Phase>,
    rows: RowReceiver,
    failure: Arc<FirstFailure>,
    done: Arc<Done>,
    /// When it was asked to end at once.
    aborted: OnceLock<Instant>,
    monitor: Mutex<Monitor>,
    /// What its directory knows, if it has one.
    state: Option<JobState>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Job {
    /// Checks everything, opens both ends and starts the threads. Nothing is sent or written if it fails.
    ///
    /// A job that was begun before in the same output directory goes on where it stopped; of one that is finished nothing is
    /// done again.
    ///
    /// # Errors
    /// `Usage`, `Input` or `Output`, naming the option or file.
    pub fn start(options: JobOptions) -> Result<Self, JobError> {
        Self::start_on(options, Arc::new(Disk))
    }

    /// [`Job::start`], with another way to the disk.
    ///
    /// # Errors
    /// As [`Job::start`].
    pub fn start_on(options: JobOptions, storage: Arc<dyn Storage>) -> Result<Self, JobError> {
        check(&options)?;
        let plan = match &options.sink.output {
            Output::Directory(path) if options.sink.format != Format::None => Plan::durable(path, &options, storage)?,
            _ => Plan::passing(&options)?,
        };
        launch(plan, options)
    }

    /// Asks rows again that a job gave up, and replaces their results.
    ///
    /// # Errors
    /// As [`Job::start`]; `Output` where there is no such job.
    pub fn retry(options: RetryOptions) -> Result<Self, JobError> {
        Self::retry_on(options, Arc::new(Disk))
    }

    /// [`Job::retry`], with another way to the disk.
    ///
    /// # Errors
    /// As [`Job::retry`].
    pub fn retry_on(options: RetryOptions, storage: Arc<dyn Storage>) -> Result<Self, JobError> {
        check(&options.job)?;
        let Retry { job, source, options } = OpenRetry::open(options, storage)?;
        launch(Plan::retrying(job, source), options)
    }

    /// Waits for the job to end, for `timeout` at the most. Whether it has ended. After [`Job::abort`] it has after a second,
    /// even if the output cannot be written because nobody reads it.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.done.wait(timeout) || self.aborted.get().is_some_and(|aborted| aborted.elapsed() >= LONGEST_ABORT)
    }

    /// Starts nothing new; what is in flight has the grace that was asked for.
    pub fn stop(&self) {
        self.drain_until(Instant::now() + self.options.run.grace);
    }

    /// Ends what is in flight, too. What has been received is written.
    pub fn abort(&self) {
        let _ = self.aborted.set(Instant::now());
        self.drain_until(Instant::now());
    }

    fn drain_until(&self, until: Instant) {
        stop_at(&self.phase, &self.rows, until);
    }

    pub fn snapshot(&self) -> Snapshot {
        let stopping = *self.phase.borrow() != Phase::Running;
        let mut snapshot =
            self.monitor.lock().unwrap_or_else(PoisonError::into_inner).snapshot(Instant::now(), stopping);
        if let Some((merged, parts)) = self.state.as_ref().and_then(|state| state.watched.merging()) {
            snapshot.bound_by = merging(merged, parts);
        }
        snapshot
    }

    /// What was done, up to now or to the end.
    pub fn summary(&self) -> Summary {
        let ended = self.done.at().unwrap_or_else(Instant::now);
        let interrupted = *self.phase.borrow() != Phase::Running;
        let output = match &self.options.sink.output {
            Output::Directory(path) => path.display().to_string(),
            Output::Stdout => "-".into(),
            Output::Nowhere => String::new(),
        };
        let monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner);
        let mut summary = monitor.summary(ended);
        summary.job = self.state.as_ref().map(|state| state.figures(summary.rows_known));
        summary.output = output;
        summary.interrupted = interrupted;
        summary.notes.clone_from(&self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        summary.failure = self.failure.get().as_ref().map(Into::into);
        summary
    }
}

/// Starts the threads of a job.
fn launch(plan: Plan, options: JobOptions) -> Result<Job, JobError> {
    let Plan { source, size, kept, done: progress, output } = plan;
    let defaults = Defaults::new(&options.request)?;
    let tls = tls::client_config(&options.request)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let workers = options.run.threads.unwrap_or(cores).min(options.run.concurrency);
    // More connections than rows are never open.
    let rows_left = size.rows.unwrap_or(u64::MAX).saturating_sub(progress.rows_done());
    let needed = options.run.concurrency.min(usize::try_from(rows_left).unwrap_or(usize::MAX));
    machine::raise_open_files()?.check(needed, workers)?;
    let notes = [check_ports(&options, needed)?, note_window(&options.run), output.note()];
    let notes = Arc::new(Mutex::new(notes.into_iter().flatten().collect()));

    let setting = Setting {
        concurrency: options.run.concurrency,
        cores,
        input_is_pipe: options.source.input == "-",
        output_is_pipe: options.sink.output == Output::Stdout,
        rows_before: progress.rows_done(),
    };
    let (row_sender, rows) = row_queue();
    let (phase, phase_receiver) = watch::channel(Phase::Running);
    let failure = Arc::<FirstFailure>::default();
    let done = Arc::<Done>::default();
    let clock = Clock::start();
    let started = clock.started();
    let size = Arc::new(Mutex::new(size));
    let window = Arc::new(output.window(&options));
    let (stats, job) = match output.begin(&options, &window)? {
        Begun::Finished(job) => {
            done.set();
            (Vec::new(), Some(job))
        }
        Begun::Running { sink, job } => {
            let (outcome_sender, outcomes) = async_channel::bounded(MAX_WAITING_BATCHES);
            let shared = Arc::new(Shared {
                clock,
                client: Arc::new(ClientOptions {
                    connector: Connector { resolver: Resolver::new(options.run.dns), tls },
                    limits: ResponseLimits {
                        max_body_bytes: options.request.max_body_bytes,
                        memory: MemoryBudget::new(options.request.body_memory_bytes),
                    },
                    timeout: options.request.timeout,
                    connect_timeout: options.request.connect_timeout,
                }),
                defaults,
                kept,
                fail_on: options.request.fail_on.clone(),
                rows: rows.clone(),
                outcomes: outcome_sender,
                phase: phase_receiver,
                failure: failure.clone(),
                window: window.clone(),
            });
            let stats = start_workers(&shared, workers, options.run.concurrency)?;
            drop(shared);
            let input_rows = Arc::<OnceLock<u64>>::default();
            match source {
                Some(source) => feed::start(Feed {
                    source,
                    done: progress,
                    rows: row_sender,
                    window: window.clone(),
                    size: size.clone(),
                    input_rows: input_rows.clone(),
                    failure: failure.clone(),
                    notes: notes.clone(),
                })?,
                None => input_rows.set(progress.watermark()).unwrap_or_default(),
            }
            drain::start(Drain {
                sink,
                outcomes,
                tick: SINK_TICK.min(options.sink.commit_every).max(SHORTEST_TICK),
                phase: phase.clone(),
                rows: rows.clone(),
                input_rows,
                window: window.clone(),
                failure: failure.clone(),
                done: done.clone(),
            })?;
            (stats, job)
        }
    };
    let monitor = Mutex::new(Monitor::new(started, setting, stats, size, window));
    Ok(Job { options, phase, rows, failure, done, aborted: OnceLock::new(), monitor, state: job, notes })
}

fn start_workers(
    shared: &Arc<Shared>,
    workers: usize,
    concurrency: usize,
) -> Result<Vec<Arc<Mutex<WorkerStats>>>, JobError> {
    let mut stats = Vec::new();
    for index in 0..workers {
        let own = Arc::new(Mutex::new(WorkerStats::new(Instant::now())));
        stats.push(own.clone());
        let shared = shared.clone();
        // The shares add up to the concurrency exactly.
        let lanes = concurrency / workers + usize::from(index < concurrency % workers);
        spawn(format!("headgate-work-{index}"), move || worker::run(&shared, lanes, own))?;
    }
    Ok(stats)
}

fn stop_at(phase: &watch::Sender<Phase>, rows: &RowReceiver, until: Instant) {
    phase.send_modify(|phase| {
        *phase = match *phase {
            // Asking again may shorten the grace, never lengthen it.
            Phase::Draining { until: earlier } => Phase::Draining { until: until.min(earlier) },
            Phase::Running => Phase::Draining { until },
        };
    });
    rows.stop();
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<(), JobError> {
    match thread::Builder::new().name(name).spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => Err(JobError::internal(format!("a thread cannot be started: {error}"))),
    }
}
