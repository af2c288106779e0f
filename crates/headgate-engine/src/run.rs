//! A job: source -> rows -> workers -> outcomes -> sink, each on threads of its own, with bounded queues between
//! them. A slow sink so holds back the workers, and those the source.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::clock::Clock;
use crate::error::JobError;
use crate::failure::FirstFailure;
use crate::http::client::ClientOptions;
use crate::http::connect::Connector;
use crate::http::exchange::ResponseLimits;
use crate::http::request::Defaults;
use crate::http::resolve::Resolver;
use crate::http::target::TargetParser;
use crate::http::tls;
use crate::limit::machine;
use crate::limit::memory::MemoryBudget;
use crate::limit::rows::{RowReceiver, RowSender, row_queue};
use crate::limit::window::Window;
use crate::options::{JobOptions, Output};
use crate::outcome::{self, OutcomeBatch};
use crate::sink::{self, Sink};
use crate::source::peek::Peeked;
use crate::source::{self, Source, SourceSize};
use crate::stats::monitor::{Monitor, Setting};
use crate::stats::report::{Snapshot, Summary};
use crate::stats::worker::WorkerStats;
use crate::worker::{self, Phase, Shared};

/// Batches of outcomes that may wait for the sink, over all workers.
const MAX_WAITING_BATCHES: usize = 4;
/// How often the sink is told that time passes.
const SINK_TICK: Duration = Duration::from_millis(500);
/// How long an aborted job may take to write what it has received.
const LONGEST_ABORT: Duration = Duration::from_secs(1);
/// The largest body that fits a column of a batch, with room for others beside it.
const MAX_MAX_BODY_BYTES: u64 = 1 << 30;

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
    notes: Vec<String>,
}

/// Set once, when everything has ended.
#[derive(Debug, Default)]
struct Done {
    at: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Job {
    /// Checks everything, opens both ends and starts the threads. Nothing is sent or written if it fails.
    ///
    /// # Errors
    /// `Usage`, `Input` or `Output`, naming the option or file.
    pub fn start(options: JobOptions) -> Result<Self, JobError> {
        check(&options)?;
        let defaults = Defaults::new(&options.request)?;
        let tls = tls::client_config(&options.request)?;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers = options.run.threads.unwrap_or(cores).min(options.run.concurrency);
        let source = Peeked::new(source::open(&options.source)?, &options.source.input)?;
        let rows_known = source.size().rows.unwrap_or(u64::MAX);
        // More connections than rows are never open.
        let needed = options.run.concurrency.min(usize::try_from(rows_known).unwrap_or(usize::MAX));
        machine::raise_open_files()?.check(needed, workers)?;
        let notes = check_ports(&options, needed)?.into_iter().collect();
        let kept = source.kept_fields();
        let sink = sink::open(&options.sink, &outcome::schema(&kept))?;

        let (row_sender, rows) = row_queue();
        let (outcome_sender, outcomes) = async_channel::bounded(MAX_WAITING_BATCHES);
        let (phase, phase_receiver) = watch::channel(Phase::Running);
        let failure = Arc::<FirstFailure>::default();
        let clock = Clock::start();
        let window = Arc::new(Window::new(options.run.window, 0));
        let shared = Arc::new(Shared {
            clock,
            client: Arc::new(ClientOptions {
                connector: Connector { resolver: Resolver::default(), tls },
                limits: ResponseLimits {
                    max_body_bytes: options.request.max_body_bytes,
                    memory: MemoryBudget::new(options.request.body_memory_bytes),
                },
                timeout: options.request.timeout,
                connect_timeout: options.request.connect_timeout,
            }),
            defaults,
            fail_on: options.request.fail_on.clone(),
            kept,
            rows: rows.clone(),
            window: window.clone(),
            outcomes: outcome_sender,
            phase: phase_receiver,
            failure: failure.clone(),
        });
        let progress = Arc::new(Mutex::new(source.size()));
        let stats = start_workers(&shared, workers, options.run.concurrency)?;
        drop(shared);
        start_source(Box::new(source), row_sender, progress.clone(), failure.clone())?;
        let done = Arc::<Done>::default();
        start_sink(
            sink,
            outcomes,
            SinkLinks { phase: phase.clone(), rows: rows.clone(), failure: failure.clone(), done: done.clone() },
        )?;
        let setting = Setting {
            concurrency: options.run.concurrency,
            cores,
            input_is_pipe: options.source.input == "-",
            output_is_pipe: options.sink.output == Output::Stdout,
            rows_before: 0,
        };
        let monitor = Mutex::new(Monitor::new(clock.started(), setting, stats, progress, window));
        Ok(Self { options, phase, rows, failure, done, aborted: OnceLock::new(), monitor, notes })
    }

    /// Waits for the job to end, for `timeout` at the most. Whether it has ended. After [`Job::abort`] it has after a second,
    /// even if the output cannot be written because nobody reads it.
    pub fn wait(&self, timeout: Duration) -> bool {
        let at = self.done.at.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.done.changed.wait_timeout_while(at, timeout, |at| at.is_none());
        let ended = waited.unwrap_or_else(PoisonError::into_inner).0.is_some();
        ended || self.aborted.get().is_some_and(|aborted| aborted.elapsed() >= LONGEST_ABORT)
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
        drain(&self.phase, &self.rows, until);
    }

    pub fn snapshot(&self) -> Snapshot {
        let stopping = *self.phase.borrow() != Phase::Running;
        self.monitor.lock().unwrap_or_else(PoisonError::into_inner).snapshot(Instant::now(), stopping)
    }

    /// What was done, up to now or to the end.
    pub fn summary(&self) -> Summary {
        let ended = self.done.at.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(Instant::now);
        let interrupted = *self.phase.borrow() != Phase::Running;
        let output = match &self.options.sink.output {
            Output::Directory(path) => path.display().to_string(),
            Output::Stdout => "-".into(),
            Output::Nowhere => String::new(),
        };
        let monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner);
        let mut summary = monitor.summary(ended);
        summary.output = output;
        summary.interrupted = interrupted;
        summary.notes.clone_from(&self.notes);
        summary.failure = self.failure.get().as_ref().map(Into::into);
        summary
    }
}

fn check(options: &JobOptions) -> Result<(), JobError> {
    let run = &options.run;
    let request = &options.request;
    if run.concurrency == 0 {
        return Err(JobError::usage("--concurrency 0: at least 1 request must be in flight"));
    }
    if run.threads == Some(0) {
        return Err(JobError::usage("--threads 0: at least 1 thread must work"));
    }
    if request.timeout.is_zero() || request.connect_timeout.is_zero() {
        return Err(JobError::usage("--timeout-s and --connect-timeout-s must be above 0"));
    }
    if request.max_body_bytes > MAX_MAX_BODY_BYTES {
        return Err(JobError::usage(format!(
            "--max-body-bytes {}: the largest body a column can hold is {MAX_MAX_BODY_BYTES} bytes (1 GiB)",
            request.max_body_bytes
        )));
    }
    Ok(())
}

/// Whether the connections find local ports. A URL with ranges in its path alone goes to one address, and is refused if they do
/// not; of other inputs nobody knows before they are read, and the user is told.
fn check_ports(options: &JobOptions, concurrency: usize) -> Result<Option<String>, JobError> {
    let Some(ports) = machine::local_ports() else { return Ok(None) };
    let authority = options.source.input.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    match authority {
        // With a range in it, it is no host that can be parsed; an IPv6 address in brackets is.
        Some(authority) if TargetParser::default().parse(&format!("http://{authority}/")).is_ok() => {
            machine::check_ports(concurrency, authority, ports)?;
            Ok(None)
        }
        _ if concurrency as u64 > ports => Ok(Some(format!(
            "if all rows go to one address, {ports} connections fit, not {concurrency}: that many local ports there are"
        ))),
        _ => Ok(None),
    }
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

/// The source's thread is never waited for: it may hang in a read of standard input.
fn start_source(
    mut source: Box<dyn Source>,
    rows: RowSender,
    progress: Arc<Mutex<SourceSize>>,
    failure: Arc<FirstFailure>,
) -> Result<(), JobError> {
    spawn("headgate-source".into(), move || {
        // Dropped before `rows`, whose end would look like the end of the input.
        let _guard = failure.on_panic("source");
        loop {
            let batch = match source.next_batch() {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(error) => return failure.set(error),
            };
            *progress.lock().unwrap_or_else(PoisonError::into_inner) = source.size();
            if !rows.send(batch) {
                return;
            }
        }
        *progress.lock().unwrap_or_else(PoisonError::into_inner) = source.size();
    })
}

/// What the sink's thread tells the rest of the job.
struct SinkLinks {
    phase: watch::Sender<Phase>,
    rows: RowReceiver,
    failure: Arc<FirstFailure>,
    done: Arc<Done>,
}

fn start_sink(
    mut sink: Box<dyn Sink>,
    outcomes: async_channel::Receiver<OutcomeBatch>,
    links: SinkLinks,
) -> Result<(), JobError> {
    spawn("headgate-sink".into(), move || {
        let ending = Ending { done: links.done };
        let _guard = links.failure.on_panic("sink");
        let written = worker::runtime().and_then(|runtime| runtime.block_on(write_all(sink.as_mut(), &outcomes)));
        // Also after an error: what it left intact is saved.
        let finished = sink.finish();
        let written = written.and_then(|flow| finished.map(|()| flow));
        // Whoever still sends learns that nobody takes.
        outcomes.close();
        if !matches!(written, Ok(ControlFlow::Continue(()))) {
            drain(&links.phase, &links.rows, Instant::now());
        }
        if let Err(error) = written {
            links.failure.set(error);
        }
        drop(ending);
    })
}

/// Says that the job has ended, however it did.
struct Ending {
    done: Arc<Done>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        *self.done.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.done.changed.notify_all();
    }
}

async fn write_all(
    sink: &mut dyn Sink,
    outcomes: &async_channel::Receiver<OutcomeBatch>,
) -> Result<ControlFlow<()>, JobError> {
    let mut ticks = tokio::time::interval(SINK_TICK);
    loop {
        tokio::select! {
            batch = outcomes.recv() => {
                let Ok(batch) = batch else { return Ok(ControlFlow::Continue(())) };
                if sink.write(batch)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            _ = ticks.tick() => sink.tick()?,
        }
    }
}

fn drain(phase: &watch::Sender<Phase>, rows: &RowReceiver, until: Instant) {
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
