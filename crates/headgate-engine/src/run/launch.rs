//! Starts the threads of a run from its parts.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use headgate_core::clock::Clock;
use headgate_core::credentials::credential_options_of;
use headgate_core::error::JobError;
use headgate_core::limits::{MaxFailures, NetworkDownAfter};
use headgate_core::live::Live;
use headgate_core::message::Message;
use headgate_core::options::{RequestOptions, RunOptions};
use headgate_http::client::AttemptLimits;
use headgate_http::defaults::Defaults;
use headgate_http::idempotency_key::KeySalt;
use headgate_http::live_defaults::LiveDefaults;
use headgate_http::robots::RobotsTable;
use headgate_http::save::paths::{SavePaths, Unused, in_use};
use headgate_http::save::saver::Saver;
use headgate_table::columns::result::ResultColumns;
use headgate_table::sink::Sink;
use headgate_table::source::Source;

use super::handle::Run;
use super::job_state::JobState;
use super::live::{LiveRun, StoredSettings};
use super::reporter::Reporter;
use super::reread_thread;
use super::sink_thread::{self, Done, SinkThread};
use super::source_thread::{self, SourceThread};
use super::weighing::Weighing;
use crate::engine::credentials::renewer::{self, Renewer};
use crate::engine::failure::FirstFailure;
use crate::engine::renewal::{EndRenewal, Renewal};
use crate::engine::shared::Shared;
use crate::engine::shared_failure_limit::{SharedFailureLimit, StoppedBy};
use crate::engine::shared_scheduler::SharedScheduler;
use crate::engine::{Capacity, Engine, Work, machine};
use crate::job::DoneRows;
use crate::queue::rows::{Deferring, RowFeeder, row_queue};
use crate::queue::window::Window;
use crate::stats::monitor::{Monitor, Setting};
use crate::stats::progress::RowCount;

/// Batches of outcomes that may wait for the sink, over all workers.
const MAX_WAITING_BATCHES: usize = 4;
/// The default interval between the sink's ticks.
pub(super) const SINK_TICK: Duration = Duration::from_millis(500);

/// The origin of rows.
pub(super) enum RowsFrom {
    Source(Box<dyn Source>),
    /// The caller that holds the run (see [`Run::feed`]).
    Caller,
    /// There is nothing left to read.
    Nothing,
}

impl From<Option<Box<dyn Source>>> for RowsFrom {
    fn from(source: Option<Box<dyn Source>>) -> Self {
        source.map_or(Self::Nothing, Self::Source)
    }
}

/// The parts and options of a run.
pub(super) struct Launch {
    pub(super) rows: RowsFrom,
    pub(super) rows_known: Option<u64>,
    /// The number of rows to read; `None`: all.
    pub(super) max_rows: Option<u64>,
    pub(super) columns: ResultColumns,
    /// Rows that earlier runs have done.
    pub(super) done: DoneRows,
    pub(super) window: Arc<Window>,
    pub(super) input_is_pipe: bool,
    pub(super) output_is_pipe: bool,
    pub(super) output: String,
    /// The interval between the sink's ticks.
    pub(super) tick: Duration,
    pub(super) request: RequestOptions,
    /// The options when the run begins.
    pub(super) run: RunOptions,
    /// The named options, without those set by earlier runs.
    pub(super) named: Live,
    pub(super) stored_settings: StoredSettings,
    /// The directory for bodies, if they are saved.
    pub(super) save_places: Option<SavePaths>,
    /// The salt for the rows' keys, if rows have keys.
    pub(super) key_salt: Option<KeySalt>,
    /// Whether the engine belongs to this run alone, and ends with it.
    pub(super) own_engine: bool,
    pub(super) notes: Vec<Message>,
}

/// An output that was started.
pub(super) enum StartedOutput {
    Running {
        sink: Box<dyn Sink>,
        state: Option<JobState>,
    },
    /// Earlier runs have done all rows.
    Finished(JobState),
}

/// Returns the saver of bodies, and a handle to wait until it is dropped.
fn saver(places: Option<SavePaths>, engine: &Engine, request: &RequestOptions) -> (Option<Arc<Saver>>, Unused) {
    let (in_use, unused) = in_use();
    let places = places.map(|places| Arc::new(places.with_in_use(in_use)));
    (places.map(|places| Arc::new(Saver::new(places, engine.savers(), request.fail_on.statuses().clone()))), unused)
}

impl Launch {
    fn setting(&self) -> Setting {
        Setting {
            concurrency: self.run.concurrency,
            cores: machine::cores(),
            input_is_pipe: self.input_is_pipe,
            output_is_pipe: self.output_is_pipe,
            rows_before: self.done.rows_done(),
        }
    }

    fn deferring(&self, failure: &Arc<FirstFailure>) -> Option<Deferring> {
        let RowsFrom::Source(source) = &self.rows else { return None };
        source.reopener().map(|reopener| {
            reread_thread::deferring(reopener, self.run.read_ahead, Weighing::new(&self.run.limits), failure.clone())
        })
    }

    /// Returns whether the credentials of the run can be renewed: they have a source, or can be set while it goes on.
    fn has_renewable_credentials(&self) -> bool {
        let RequestOptions { token, secret_files, .. } = &self.request;
        let can_be_set = self.stored_settings.files.is_some() && credential_options_of(&self.request).next().is_some();
        token.source.is_some() || !secret_files.is_empty() || can_be_set
    }

    fn defaults(&self) -> Result<Defaults, JobError> {
        let defaults = Defaults::new(&self.request)?;
        Ok(if let Some(salt) = self.key_salt { defaults.with_keys(salt) } else { defaults })
    }

    /// Starts the threads. `begin` starts the output; it runs after all other steps that can fail because of a user's mistake.
    #[expect(clippy::too_many_lines, reason = "one step after another, most of them a field each")]
    pub(super) fn begin(
        mut self,
        engine: &Engine,
        capacity: Capacity,
        begin: impl FnOnce(&Arc<Window>) -> Result<StartedOutput, JobError>,
    ) -> Result<Run, JobError> {
        let (defaults, transports, setting) = (self.defaults()?, engine.transports(&self.request)?, self.setting());
        let robots = self.request.response.obey_robots.then(|| RobotsTable::new(defaults.user_agent()));
        let methods = defaults.methods.clone();
        let defaults = LiveDefaults::new(defaults);
        let live_defaults = defaults.clone();
        let renewal = self.has_renewable_credentials().then(|| Renewal::new(defaults.clone(), &self.request));
        let (in_flight, failure) = (capacity.in_flight(), Arc::<FirstFailure>::default());
        let (row_sender, rows) = row_queue(self.deferring(&failure));
        let (done, reader_gone) = (Arc::<Done>::default(), Arc::<OnceLock<()>>::default());
        let input_rows = Arc::<OnceLock<u64>>::default();
        let clock = Clock::start();
        let (started, mut throttling, mut feeder) = (clock.started(), None, None);
        let row_count = Arc::new(Mutex::new(RowCount { known: self.rows_known, estimated: None }));
        let window = self.window;
        let selection = self.columns.selection.clone();
        let (notes, stopped_by) = (Arc::new(Mutex::new(self.notes)), Arc::<OnceLock<StoppedBy>>::default());
        let budgets;
        let (assigned, state, live) = match begin(&window)? {
            StartedOutput::Finished(state) => {
                done.set();
                budgets = state.budgets.clone();
                (None, Some(state), None)
            }
            StartedOutput::Running { sink, state } => {
                let (outcome_sender, outcomes) = async_channel::bounded(MAX_WAITING_BATCHES);
                let (saver, bodies_unused) = saver(self.save_places, engine, &self.request);
                let ends_renewal = renewal.clone();
                let reserved = (engine.clone(), capacity);
                let live = LiveRun::shared(self.named, self.stored_settings, reserved, notes.clone(), renewal.clone())?;
                let (memory, receiver) = (engine.memory(), live.receiver());
                let limits = AttemptLimits::new(&self.request, memory, self.run.concurrency, receiver).saving(saver);
                let is_resumable = state.as_ref().is_some_and(|state| state.resumable);
                let is_fed = matches!(self.rows, RowsFrom::Caller);
                if is_fed {
                    // Callers wait for single rows: each must fail on its own.
                    self.run.retrying.network_down_after = NetworkDownAfter::Never;
                }
                let responders = state.as_ref().map(|state| state.responders.clone()).unwrap_or_default();
                let stops_itself = self.run.max_failures != MaxFailures::Never;
                let is_probing = stops_itself && state.as_ref().is_some_and(|state| state.had_failed);
                budgets = state.as_ref().map(|state| state.budgets.clone()).unwrap_or_default();
                let scheduler = Arc::new(SharedScheduler::of(
                    &self.run,
                    self.request.body_bytes(),
                    (rows, window.clone()),
                    (is_resumable, is_probing),
                    (&responders, budgets.clone()),
                    started,
                ));
                if renewal.as_ref().is_some_and(|renewal| renewal.is_awaited()) {
                    scheduler.change_at(started, |scheduler, now| scheduler.await_credentials(true, now));
                }
                throttling = Some(scheduler.clone());
                let shared = Shared {
                    clock,
                    limits,
                    methods,
                    selection: selection.clone().map(|selection| selection as _),
                    omits_bodies: !self.columns.has("body"),
                    columns: sink.wants_results().then_some(self.columns),
                    outcomes: outcome_sender,
                    failure: failure.clone(),
                    scheduler: scheduler.clone(),
                    fail_on: self.request.fail_on.clone(),
                    responders,
                    robots,
                    last_unreached: Mutex::default(),
                    failure_limit: SharedFailureLimit::new(self.run.max_failures, is_probing, stopped_by.clone()),
                    refuses_origins: !is_fed && self.run.max_failures != MaxFailures::Never,
                    has_refused_origins: AtomicBool::new(false),
                    renewal: renewal.clone(),
                    notes: notes.clone(),
                };
                let shared = Arc::new(shared);
                let of_renewer = Arc::downgrade(&shared);
                let assigned = engine.assign(Work {
                    shared,
                    transports,
                    defaults,
                    in_flight,
                    host_by: self.run.limits.host_by,
                })?;
                if let Some(renewal) = renewal {
                    let (options, key_salt) = (self.request.clone(), self.key_salt);
                    let published = options.clone();
                    let renewer = Renewer { renewal, shared: of_renewer, options, published, key_salt, is_fed };
                    renewer::start(renewer, failure.clone())?;
                }
                match self.rows {
                    RowsFrom::Caller => feeder = Some(RowFeeder::new(row_sender)),
                    RowsFrom::Source(source) => source_thread::start(SourceThread {
                        source,
                        max_rows: self.max_rows,
                        done: self.done,
                        rows: row_sender,
                        window: window.clone(),
                        row_count: row_count.clone(),
                        input_rows: input_rows.clone(),
                        failure: failure.clone(),
                        weighing: Weighing::new(&self.run.limits),
                        notes: notes.clone(),
                    })?,
                    RowsFrom::Nothing => input_rows.set(self.done.watermark()).unwrap_or_default(),
                }
                sink_thread::start(SinkThread {
                    sink,
                    shortage: None,
                    outcomes,
                    tick: self.tick,
                    scheduler,
                    input_rows,
                    failure: failure.clone(),
                    done: done.clone(),
                    reader_gone: reader_gone.clone(),
                    live: live.clone(),
                    progress: state.as_ref().map(|state| state.progress.clone()),
                    engine: engine.clone(),
                    own_engine: self.own_engine,
                    bodies_unused,
                    stopped_by: stopped_by.clone(),
                    _ends_renewal: EndRenewal(ends_renewal),
                })?;
                (Some(assigned), state, Some(live))
            }
        };
        let workers = assigned.as_ref().map(|assigned| assigned.stats.clone()).unwrap_or_default();
        let figures = throttling.clone().map(|scheduler| scheduler as _);
        let monitor = Monitor::new(started, setting, workers, row_count, window, figures).extracting(selection);
        let heartbeat = state.as_ref().map(|state| state.heartbeat.clone());
        let reporter = Arc::new(Reporter {
            monitor: Mutex::new(monitor),
            failure,
            done: done.clone(),
            reader_gone,
            scheduler: throttling,
            live: live.clone(),
            state,
            budgets,
            output: self.output,
            notes,
            stopped_by,
        });
        if let Some(heartbeat) = heartbeat {
            let reporter = reporter.clone();
            heartbeat.report(Arc::new(move || reporter.snapshot()));
        }
        Ok(Run {
            grace: self.run.shutdown_timeout,
            done,
            aborted: OnceLock::new(),
            assigned,
            defaults: live_defaults,
            reporter,
            live,
            feeder: Mutex::new(feeder),
            next_ordinal: AtomicU64::new(0),
            queues: Mutex::default(),
        })
    }
}
