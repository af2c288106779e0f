//! What outlives a run: workers with their connections, the state of hosts, the memory budget, DNS. One engine serves any
//! number of runs, one after another or at once.

mod alarm;
mod attempt;
mod background;
pub(crate) mod completion_queue;
pub(crate) mod credentials;
pub(crate) mod failure;
mod failure_limit;
mod files_in_use;
mod gathered;
mod lane_task;
mod lanes;
pub mod machine;
pub(crate) mod memory_limit;
mod network;
mod outcomes;
mod participant;
pub(crate) mod renewal;
mod scheduling;
mod share;
pub(crate) mod shared;
pub(crate) mod shared_failure_limit;
pub(crate) mod shared_scheduler;
pub(crate) mod waker;
mod worker;
mod worker_index;

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use headgate_core::clock;
use headgate_core::error::JobError;
use headgate_core::limits::HostBy;
use headgate_core::memory::MemoryBudget;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::options::{EngineOptions, RequestOptions};
use headgate_core::schedule::hosts::{HostTable, MAX_HOSTS};
use headgate_core::schedule::rows_to_cancel::RowsToCancel;
use headgate_http::decode::pool::ThreadPool;
use headgate_http::dial::connect::Connector;
use headgate_http::dial::resolve::Resolver;
use headgate_http::dial::transport::{TransportConfigs, Transports};
use headgate_http::idle_limits::IdleLimits;
use headgate_http::live_defaults::LiveDefaults;
use headgate_http::recall::Recalls;

use self::files_in_use::FilesInUse;
use self::memory_limit::MemoryLimit;
use self::shared::Shared;
use self::shared_scheduler::SharedScheduler;
use self::worker::{Begin, EngineShared, Order, RunNumber};
use self::worker_index::WorkerIndex;
use crate::stats::worker::WorkerStats;

pub(crate) use self::worker::runtime;

/// Idle connections hold at most this share of `max_memory`, beside it.
const IDLE_SHARE_OF_MEMORY: u64 = 4;
/// Orders that may wait for a worker, before the caller waits that gives another one.
const MAX_WAITING_ORDERS: usize = 64;

/// A handle of an engine; all clones are of the same one, and each run has one until it ends. With the last one its
/// threads end, and idle connections are closed.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    workers: Vec<async_channel::Sender<Order>>,
    transport_configs: TransportConfigs,
    memory: MemoryBudget,
    memory_limit: MemoryLimit,
    files: Arc<FilesInUse>,
    /// Closed when the last thread has ended.
    threads: async_channel::Receiver<Infallible>,
    runs: AtomicU64,
    /// Threads that save bodies.
    savers: Arc<ThreadPool>,
}

/// The work that a run gives to the workers.
#[derive(Debug)]
pub(crate) struct Work {
    pub shared: Arc<Shared>,
    pub transports: Transports,
    pub defaults: Arc<LiveDefaults>,
    pub in_flight: InFlight,
    pub host_by: HostBy,
}

/// What a run may have at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// At least one.
    pub rows: usize,
    /// Open for these rows.
    pub connections: usize,
}

/// A run's hold on the workers.
#[derive(Debug)]
pub(crate) struct Assigned {
    /// Of each worker that has a share, its figures.
    pub stats: Vec<Arc<Mutex<WorkerStats>>>,
    pub scheduler: Arc<SharedScheduler>,
    run: RunNumber,
    /// Weak: a run that has ended holds no engine.
    workers: Vec<async_channel::WeakSender<Order>>,
}

/// A reservation: so many rows may be in flight as long as it lives.
#[derive(Debug)]
pub(crate) struct Capacity {
    all: Arc<FilesInUse>,
    in_flight: InFlight,
    files: usize,
    /// Rows need not have a connection each: where there are too few, they wait for one another.
    shares_connections: bool,
}

impl Capacity {
    pub(crate) fn in_flight(&self) -> InFlight {
        self.in_flight
    }

    /// Reserves capacity for another number of rows in flight.
    ///
    /// # Errors
    /// `Usage`: this process may not have so many files open, or use the memory. The capacity is as it was.
    pub(crate) fn resize(&mut self, rows: usize, engine: &Engine) -> Result<(), JobError> {
        let released = self.in_flight.connections;
        let connections = if self.shares_connections { self.all.shareable(released).min(rows) } else { rows };
        self.all.replace(released, connections)?;
        if let Err(error) = engine.inner.memory_limit.check(rows, engine.max_memory()) {
            self.all.replace(connections, released)?;
            return Err(error);
        }
        self.in_flight = InFlight { rows, connections };
        Ok(())
    }
}

impl Drop for Capacity {
    fn drop(&mut self) {
        self.all.remove(self.in_flight.connections + self.files);
    }
}

impl Engine {
    /// Starts the workers' threads.
    ///
    /// # Errors
    /// `Usage`: no threads. `Internal`: the system refuses a thread or what an event loop needs.
    pub fn start(options: &EngineOptions) -> Result<Self, JobError> {
        if options.threads == Some(0) {
            return Err(JobError::usage(message!(OptionName::Threads.set(0_u64), ": at least 1 thread must work")));
        }
        let memory_limit = MemoryLimit::of_this_process();
        let budget = options.max_memory.unwrap_or_else(|| memory_limit.default_budget());
        let workers_count = options.threads.unwrap_or_else(machine::cores);
        let files = Arc::new(FilesInUse::new(machine::raise_open_files()?, workers_count));
        let (alive, threads) = async_channel::bounded(1);
        let common = EngineShared {
            decoders: Arc::new(ThreadPool::new("decode", machine::cores(), alive.clone())),
            connector: Arc::new(Connector { resolver: Resolver::new(options.dns) }),
            hosts: Arc::new(Mutex::new(HostTable::new(MAX_HOSTS))),
            recalls: Arc::new(Recalls::new(workers_count)),
        };
        let savers = ThreadPool::new("save", machine::savers(), alive.clone());
        let mut workers = Vec::new();
        for index in 0..workers_count {
            let worker = WorkerIndex { index, count: workers_count };
            let idle_limits = IdleLimits {
                connections: options.max_idle_connections.map(|connections| worker.portion_of(connections)),
                fitting: files.idle_fitting(),
                bytes: worker.portion_of((budget / IDLE_SHARE_OF_MEMORY) as usize),
            };
            let (orders, received) = async_channel::bounded(MAX_WAITING_ORDERS);
            let (common, alive) = (common.clone(), alive.clone());
            let (started, has_started) = async_channel::bounded(1);
            spawn(format!("headgate-work-{index}"), move || {
                // Dropped last, when all connections of the thread are closed.
                let _alive = alive;
                match runtime() {
                    Ok(runtime) => {
                        drop(started);
                        worker::run(&runtime, common, index, idle_limits, &received);
                    }
                    Err(error) => drop(started.send_blocking(error)),
                }
            })?;
            if let Ok(error) = has_started.recv_blocking() {
                return Err(error);
            }
            workers.push(orders);
        }
        let inner = Inner {
            workers,
            transport_configs: TransportConfigs::default(),
            memory: MemoryBudget::new(budget),
            memory_limit,
            files,
            threads,
            runs: AtomicU64::new(0),
            savers: Arc::new(savers),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.inner.workers.len()
    }

    /// Returns the limit of the memory budget of all runs together.
    pub fn max_memory(&self) -> u64 {
        self.inner.memory.limit()
    }

    /// Returns the memory budget for the bodies of one more run.
    pub fn memory(&self) -> MemoryBudget {
        self.inner.memory.for_new_run()
    }

    /// Returns the threads that save the bodies of runs.
    pub(crate) fn savers(&self) -> Arc<ThreadPool> {
        self.inner.savers.clone()
    }

    /// Returns the transport configurations for requests with these options.
    ///
    /// # Errors
    /// `Usage`: an option is invalid, or names a file, an address or an interface that does not exist.
    pub(crate) fn transports(&self, request: &RequestOptions) -> Result<Transports, JobError> {
        self.inner.transport_configs.of_run(request)
    }

    /// Returns the state that tells when the engine's threads have ended.
    pub(crate) fn threads_ended(&self) -> ThreadsEnded {
        ThreadsEnded(self.inner.threads.clone())
    }

    /// Reserves capacity for so many rows in flight, at least one. Each row needs a connection of its own, unless all of them use
    /// HTTP/2. `saves`: bodies are saved, for which further files are open.
    ///
    /// # Errors
    /// `Usage`: this process may not have so many files open, or use the memory.
    pub(crate) fn reserve(&self, rows: usize, request: &RequestOptions, saves: bool) -> Result<Capacity, JobError> {
        let shares_connections = request.http2_prior_knowledge;
        let (all, files) = (self.inner.files.clone(), machine::files_to_save(saves));
        all.add(files);
        let mut capacity = Capacity { all, in_flight: InFlight::default(), files, shares_connections };
        capacity.resize(rows.max(1), self)?;
        Ok(capacity)
    }

    /// Gives each worker its share of a run.
    ///
    /// # Errors
    /// `Internal`: a worker has died.
    pub(crate) fn assign(&self, work: Work) -> Result<Assigned, JobError> {
        let Work { shared, transports, defaults, in_flight, host_by } = work;
        let run = self.inner.runs.fetch_add(1, Ordering::Relaxed);
        let count = self.workers().min(in_flight.rows);
        let scheduler = shared.scheduler.clone();
        let mut assigned = Assigned { stats: Vec::new(), run, workers: Vec::new(), scheduler };
        for index in 0..count {
            let worker = WorkerIndex { index, count };
            let stats = Arc::new(Mutex::new(WorkerStats::new(clock::now())));
            let begin = Begin {
                shared: shared.clone(),
                defaults: defaults.clone(),
                transports: transports.clone(),
                lanes: worker.portion_of(in_flight.rows),
                connections: worker.portion_of(in_flight.connections).max(1),
                worker,
                stats: stats.clone(),
                host_by,
            };
            // Runs of few rows in flight do not all go to the first workers.
            let orders = &self.inner.workers[(run as usize).wrapping_add(index) % self.workers()];
            if orders.send_blocking(Order::Begin(run, Box::new(begin))).is_err() {
                shared.scheduler.stop(clock::now());
                return Err(JobError::internal("a worker of the engine has died: please report it"));
            }
            assigned.stats.push(stats);
            assigned.workers.push(orders.downgrade());
        }
        Ok(assigned)
    }
}

impl Assigned {
    /// Returns the number of attempts in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        let of = |stats: &Mutex<WorkerStats>| stats.lock().unwrap_or_else(PoisonError::into_inner).lanes.in_flight();
        self.stats.iter().map(|stats| of(stats)).sum()
    }

    /// Cancels rows that wait or are in flight: they fail as `cancelled`. Rows that have ended, or were not read yet, are
    /// unaffected.
    pub(crate) fn cancel(&self, rows: RowsToCancel) {
        let has_found = self.scheduler.cancel(rows);
        if has_found && matches!(rows, RowsToCancel::One(_)) {
            return;
        }
        for worker in self.workers.iter().filter_map(async_channel::WeakSender::upgrade) {
            let _ = worker.send_blocking(Order::Cancel(self.run, rows));
        }
    }
}

/// See [`Engine::threads_ended`]. It holds no engine.
#[derive(Debug)]
pub(crate) struct ThreadsEnded(async_channel::Receiver<Infallible>);

impl ThreadsEnded {
    /// Waits until the last handle of the engine is gone, and its threads have ended: then all connections are closed.
    pub(crate) fn wait(&self) {
        while self.0.recv_blocking().is_ok() {}
    }
}

/// Starts a thread that is not joined.
///
/// # Errors
/// `Internal`: the system refuses it.
pub(crate) fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<(), JobError> {
    match thread::Builder::new().name(name).spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => Err(JobError::internal(format!("a thread can't be started: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_saves_bodies_reserves_open_files_until_it_ends() {
        let engine = Engine::start(&EngineOptions { threads: Some(1), ..EngineOptions::default() }).expect("an engine");
        let open = || engine.inner.files.in_use();
        let request = RequestOptions::default();
        let saving = engine.reserve(3, &request, true).expect("room");
        let other = engine.reserve(3, &request, false).expect("room");
        assert_eq!(3 + machine::files_to_save(true) + 3, open());
        drop(saving);
        assert_eq!(3, open());
        drop(other);
        // A refused run reserves no open files.
        engine.reserve(usize::MAX / 2, &request, true).expect_err("too many");
        assert_eq!(0, open());
    }
}
