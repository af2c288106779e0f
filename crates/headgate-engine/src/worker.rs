//! One thread of the engine: its runtime, its lanes, its idle connections.
//!
//! A lane takes a row, performs the exchange, hands the outcome on and takes the next; there is no task for a request.
//! Lanes are made when there is a row and none is free, up to the worker's share of the concurrency. Rows are drawn
//! from a queue that all workers share, a few at a time, so that no worker sits on rows that another could start: at
//! most an eighth of its lanes (see [`chunk_rows`]).

mod guards;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_schema::Fields;
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::{Notify, watch};
use tokio::task::spawn_local;
use tokio::time::timeout_at;

use self::guards::{EndRowsOnPanic, LaneGuard, Waiting};
use crate::columns::builder::{OutcomeBatch, OutcomeBuilder};
use crate::engine::failure::FirstFailure;
use crate::http::client::{Client, ClientOptions, Line};
use crate::http::request::{Defaults, Preparer};
use crate::http::target::TargetParser;
use crate::in_flight::{InFlight, Place};
use crate::model::clock::Clock;
use crate::model::error::JobError;
use crate::model::outcome::{Answer, Outcome};
use crate::model::row::Row;
use crate::model::status_set::StatusSet;
use crate::queue::rows::{NoRows, RowReceiver};
use crate::queue::window::Window;
use crate::stats::lanes::Wait;
use crate::stats::worker::{SlowRow, WorkerStats};

/// Outcomes that have waited this long go to the sink, however few.
const FLUSH_EVERY: Duration = Duration::from_millis(100);
/// Rows drawn at a time at the most.
const MAX_CHUNK_ROWS: usize = 64;

/// How many rows a worker of so many lanes draws at a time.
fn chunk_rows(lanes: usize) -> usize {
    (lanes / 8).clamp(1, MAX_CHUNK_ROWS)
}

/// Whether a job goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Running,
    /// Nothing new is started; what is in flight has until then.
    Draining {
        until: Instant,
    },
}

/// What the workers of a job have in common.
#[derive(Debug)]
pub struct Shared {
    pub clock: Clock,
    pub client: Arc<ClientOptions>,
    pub defaults: Defaults,
    /// Statuses with which a row is given up.
    pub fail_on: StatusSet,
    pub kept: Fields,
    pub rows: RowReceiver,
    /// What the source waits for besides room in `rows`.
    pub window: Arc<Window>,
    pub outcomes: async_channel::Sender<OutcomeBatch>,
    pub phase: watch::Receiver<Phase>,
    pub failure: Arc<FirstFailure>,
}

impl Shared {
    /// Nobody wants rows any more.
    fn end_rows(&self) {
        self.rows.stop();
        self.window.close();
    }
}

/// An event loop for the calling thread.
///
/// # Errors
/// `Internal`: the system refuses what it needs.
pub fn runtime() -> Result<LocalRuntime, JobError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(|error| JobError::internal(format!("an event loop cannot be had: {error}")))
}

/// Runs a worker of up to `max_lanes` lanes until the rows end or the phase says so. Blocks.
pub fn run(shared: &Arc<Shared>, max_lanes: usize, stats: Arc<Mutex<WorkerStats>>) {
    let _guard = shared.failure.on_panic("worker");
    let _end = EndRowsOnPanic(shared);
    if let Err(error) = try_run(shared.clone(), max_lanes, stats) {
        shared.failure.set(error);
        shared.end_rows();
    }
}

fn try_run(shared: Arc<Shared>, max_lanes: usize, stats: Arc<Mutex<WorkerStats>>) -> Result<(), JobError> {
    let builder = OutcomeBuilder::new(&shared.kept).map_err(|error| JobError::input(format!("--keep: {error}")))?;
    let builder = builder.with_fail_on(shared.fail_on.clone());
    let runtime = runtime()?;
    let worker = Rc::new(Worker {
        preparer: RefCell::new(Preparer::new(shared.defaults.clone())),
        client: Client::new(shared.client.clone(), max_lanes),
        builder: RefCell::new(builder),
        queue: RefCell::default(),
        in_flight: InFlight::default(),
        available: Notify::new(),
        wanted: Notify::new(),
        lane_ended: Notify::new(),
        flushing: tokio::sync::Mutex::new(()),
        lanes: Cell::new(0),
        idle_lanes: Cell::new(0),
        no_more_rows: Cell::new(false),
        over: Cell::new(false),
        max_lanes,
        chunk_rows: chunk_rows(max_lanes),
        shared,
        stats,
    });
    worker.stats().runtime = Some(runtime.metrics());
    runtime.block_on(worker.run());
    Ok(())
}

struct Worker {
    shared: Arc<Shared>,
    stats: Arc<Mutex<WorkerStats>>,
    preparer: RefCell<Preparer>,
    client: Client,
    builder: RefCell<OutcomeBuilder>,
    /// Rows drawn and not started: at most one chunk.
    queue: RefCell<VecDeque<Row>>,
    in_flight: InFlight,
    /// A row is in the queue, or there will be none.
    available: Notify,
    /// A lane could take a row.
    wanted: Notify,
    lane_ended: Notify,
    flushing: tokio::sync::Mutex<()>,
    lanes: Cell<usize>,
    idle_lanes: Cell<usize>,
    no_more_rows: Cell<bool>,
    /// The worker takes no outcome any more.
    over: Cell<bool>,
    max_lanes: usize,
    chunk_rows: usize,
}

impl Worker {
    async fn run(self: Rc<Self>) {
        spawn_local(self.clone().keep_house());
        tokio::select! {
            () = self.feed() => {}
            () = self.grace_over() => {}
        }
        // Outcomes that come from now on are not counted either. What waits for the sink already is waited for.
        self.over.set(true);
        let in_flight = self.stats().lanes.in_flight();
        self.stats().figures.abandoned = u64::from(in_flight);
        self.flush(false).await;
    }

    /// Waits for a stop, and then for the end of the grace that comes with it.
    async fn grace_over(&self) {
        let mut phase = self.shared.phase.clone();
        loop {
            let current = *phase.borrow_and_update();
            let changed = match current {
                Phase::Running => phase.changed().await,
                Phase::Draining { until } => {
                    self.stop();
                    match timeout_at(until.into(), phase.changed()).await {
                        Ok(changed) => changed,
                        Err(_) => return,
                    }
                }
            };
            if changed.is_err() {
                // The job's handle is gone, and nobody is left to stop the worker: it works on to the end.
                return std::future::pending().await;
            }
        }
    }

    /// Hands rows to lanes until there are no more, then waits for the lanes to end.
    async fn feed(self: &Rc<Self>) {
        loop {
            while !self.no_more_rows.get() && self.idle_lanes.get() == 0 && self.lanes.get() == self.max_lanes {
                self.wanted.notified().await;
            }
            if self.no_more_rows.get() {
                break;
            }
            let free = self.idle_lanes.get() + self.max_lanes - self.lanes.get();
            match self.shared.rows.recv(free.clamp(1, self.chunk_rows)).await {
                Ok(chunk) => self.enqueue(chunk.into_iter()),
                Err(_) => self.end_rows(),
            }
        }
        while self.lanes.get() > 0 {
            self.lane_ended.notified().await;
        }
    }

    /// Queues rows, and wakes or makes a lane for each as far as there are any.
    fn enqueue(self: &Rc<Self>, chunk: impl ExactSizeIterator<Item = Row>) {
        let mut rows = chunk.len();
        self.queue.borrow_mut().extend(chunk);
        while rows > 0 && self.idle_lanes.get() > 0 {
            self.idle_lanes.set(self.idle_lanes.get() - 1);
            self.available.notify_one();
            rows -= 1;
        }
        while rows > 0 && self.lanes.get() < self.max_lanes {
            spawn_local(self.clone().lane(LaneGuard::new(self.clone())));
            rows -= 1;
        }
    }

    /// No row is started any more.
    fn stop(&self) {
        // For all workers: what stops one, stops the job.
        self.shared.end_rows();
        self.queue.borrow_mut().clear();
        self.end_rows();
    }

    /// No row is queued any more.
    fn end_rows(&self) {
        self.no_more_rows.set(true);
        self.available.notify_waiters();
        self.wanted.notify_one();
    }

    async fn lane(self: Rc<Self>, guard: LaneGuard) {
        let mut line = self.client.line();
        while let Some(row) = self.next_row(&mut line).await {
            self.in_flight.put(guard.place, row);
            let outcome = self.attempt(guard.place, &mut line).await;
            if self.over.get() {
                return;
            }
            self.stats().figures.record(&outcome, &self.shared.fail_on);
            self.builder.borrow_mut().push(outcome);
            if self.builder.borrow().is_full() {
                self.waiting(Wait::Sink, self.flush(true)).await;
            }
            // Rows that end without I/O must not keep the others from theirs.
            tokio::task::consume_budget().await;
        }
    }

    async fn next_row(self: &Rc<Self>, line: &mut Line) -> Option<Row> {
        loop {
            if let Some(row) = self.queue.borrow_mut().pop_front() {
                return Some(row);
            }
            if self.no_more_rows.get() {
                return None;
            }
            match self.shared.rows.try_recv(self.chunk_rows) {
                Ok(chunk) => {
                    let mut chunk = chunk.into_iter();
                    let row = chunk.next();
                    self.enqueue(chunk);
                    if row.is_some() {
                        return row;
                    }
                }
                Err(NoRows::Ended) => self.end_rows(),
                Err(NoRows::Empty) if self.is_last_lane_with_outcomes() => {
                    // Somebody may wait for them before there are more rows.
                    self.waiting(Wait::Sink, self.flush(false)).await;
                }
                Err(NoRows::Empty) => {
                    self.client.rest(line);
                    self.idle_lanes.set(self.idle_lanes.get() + 1);
                    self.wanted.notify_one();
                    self.waiting(Wait::Input, self.available.notified()).await;
                }
            }
        }
    }

    /// Whether all other lanes of the worker wait for rows, and outcomes were gathered.
    fn is_last_lane_with_outcomes(&self) -> bool {
        self.idle_lanes.get() + 1 == self.lanes.get() && !self.builder.borrow().is_empty()
    }

    /// What becomes of the row at `place`. It stays there meanwhile, so that others can see what is in flight.
    async fn attempt(&self, place: Place, line: &mut Line) -> Outcome {
        let started = Instant::now();
        let (prepared, method) = self.in_flight.look(place, |row| {
            let prepared = self.preparer.borrow_mut().prepare(row);
            let method = match (&prepared, &row.extra) {
                (Ok(prepared), _) => prepared.method.as_str().into(),
                (Err(_), Some(extra)) if extra.method.is_some() => extra.method.clone().unwrap_or_default(),
                (Err(_), _) => self.shared.defaults.method.as_str().into(),
            };
            (prepared, method)
        });
        let (attempts, answered) = match prepared {
            Ok(prepared) => (1, self.client.ask(&prepared, started, line).await),
            Err(failure) => (0, Err(failure)),
        };
        let elapsed_us = started.elapsed().as_micros() as u64;
        let waited_for_names = line.take_waited_for_names();
        if !waited_for_names.is_zero() {
            self.stats().lanes.add_waited(Wait::Names, waited_for_names);
        }
        let started_at_us = self.shared.clock.unix_us(started);
        let (answer, failure) = match answered {
            Ok((reply, remote_addr)) => {
                if !reply.waited_for_memory.is_zero() {
                    self.stats().lanes.add_waited(Wait::Memory, reply.waited_for_memory);
                }
                let ttfb_us = reply.first_byte.saturating_duration_since(started).as_micros() as u64;
                let (body, failure) = match reply.body {
                    Ok(body) => (Some(body), None),
                    Err(failure) => (None, Some(failure)),
                };
                let answer = Answer {
                    status: reply.head.status,
                    version: reply.head.version,
                    headers: reply.head.headers,
                    remote_addr,
                    ttfb_us,
                    body,
                    body_bytes: reply.body_bytes,
                };
                (Some(answer), failure)
            }
            Err(failure) => (None, Some(failure)),
        };
        let row = self.in_flight.take(place);
        Outcome { row, method, attempts, started_at_us, elapsed_us, answer, failure }
    }

    /// Sends what was gathered to the sink; waits while the sink is behind. At most one batch waits: lanes that end
    /// meanwhile add their outcome to the next one and wait in line, so what is held is a batch and an outcome a lane.
    async fn flush(&self, only_if_full: bool) {
        let _in_line = self.flushing.lock().await;
        let batch = {
            let mut builder = self.builder.borrow_mut();
            if builder.is_empty() || only_if_full && !builder.is_full() {
                return;
            }
            builder.take()
        };
        match batch {
            Ok(batch) => {
                if self.shared.outcomes.send(batch).await.is_err() {
                    // The sink is gone: it failed, or its reader did. Nothing can be kept any more.
                    self.stop();
                }
            }
            Err(error) => {
                self.shared.failure.set(JobError::internal(format!("results cannot be put in columns: {error}")));
                self.stop();
            }
        }
    }

    async fn keep_house(self: Rc<Self>) {
        let mut interval = tokio::time::interval(FLUSH_EVERY);
        loop {
            interval.tick().await;
            self.name_slow_row();
            self.flush(false).await;
            self.client.sweep();
        }
    }

    /// Says whom the row asks that the window is full behind, if it is one of ours.
    fn name_slow_row(&self) {
        let slow_row = self.shared.window.full_at().and_then(|ordinal| {
            let target = TargetParser::default().parse(&self.in_flight.url_of(ordinal)?).ok()?;
            Some(SlowRow { ordinal, host: target.origin.authority().into() })
        });
        self.stats().slow_row = slow_row;
    }

    async fn waiting<T>(&self, wait: Wait, future: impl Future<Output = T>) -> T {
        let _waiting = Waiting::new(self, wait);
        future.await
    }

    fn stats(&self) -> MutexGuard<'_, WorkerStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
