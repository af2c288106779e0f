//! What outlives a run: workers with their connections, what is known of hosts, the budget of memory, the way names are
//! looked up. One engine serves any number of runs, one after another or at once.

mod alarm;
mod attempt;
pub mod failure;
mod gated;
mod gathered;
mod giving_up;
mod house;
mod lanes;
pub mod machine;
mod part;
mod share;
pub mod shared;
pub mod shared_gate;
pub mod shared_give_up;
mod worker;

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use rustls::ClientConfig;

use self::machine::OpenFiles;
use self::part::Part;
use self::shared::Shared;
use self::worker::{Begin, Common, Order, RunNumber};
use crate::http::decode::pool::Pool;
use crate::http::dial::connect::Connector;
use crate::http::dial::resolve::Resolver;
use crate::http::dial::tls::TlsConfigs;
use crate::http::request::Defaults;
use crate::message;
use crate::model::error::JobError;
use crate::model::limits::LimitBy;
use crate::model::memory::MemoryBudget;
use crate::model::message::OptionName;
use crate::model::options::{EngineOptions, RequestOptions};
use crate::model::status_set::StatusSet;
use crate::queue::rows::RowReceiver;
use crate::schedule::hosts::{HostTable, MAX_HOSTS};
use crate::stats::worker::WorkerStats;

pub use self::worker::runtime;

/// Orders that may wait for a worker. It takes them as fast as they come; whoever gives more waits.
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
    tls: TlsConfigs,
    memory: MemoryBudget,
    /// As it was before the first connection.
    files: OpenFiles,
    /// Closed when the last thread has ended.
    threads: async_channel::Receiver<Infallible>,
    /// Rows that may be in flight, over all runs that have not ended.
    concurrency: Arc<AtomicUsize>,
    runs: AtomicU64,
}

/// What a run asks the workers to do.
#[derive(Debug)]
pub struct Work<'a> {
    pub shared: Arc<Shared>,
    pub tls: Arc<ClientConfig>,
    pub fail_on: &'a StatusSet,
    pub defaults: Defaults,
    /// Rows in flight; at least one.
    pub concurrency: usize,
    pub limit_by: LimitBy,
}

/// A run's hold on the workers.
#[derive(Debug)]
pub struct Assigned {
    /// Of each worker that has a share, its figures.
    pub stats: Vec<Arc<Mutex<WorkerStats>>>,
    run: RunNumber,
    /// Weak: a run that has ended holds no engine.
    workers: Vec<async_channel::WeakSender<Order>>,
}

/// So many rows may be in flight, as long as this lives.
#[derive(Debug)]
pub struct Room {
    concurrency: Arc<AtomicUsize>,
    rows: usize,
}

impl Room {
    /// Rows that may be in flight.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Makes room for another number of rows in flight.
    ///
    /// # Errors
    /// `Usage`: this process may not have so many files open. The room is as it was.
    pub fn resize(&mut self, rows: usize, engine: &Engine) -> Result<(), JobError> {
        let others = self.concurrency.load(Ordering::Relaxed) - self.rows;
        engine.inner.files.check(rows, others, engine.workers())?;
        self.concurrency.fetch_add(rows, Ordering::Relaxed);
        self.concurrency.fetch_sub(self.rows, Ordering::Relaxed);
        self.rows = rows;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.concurrency.fetch_sub(self.rows, Ordering::Relaxed);
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
        let files = machine::raise_open_files()?;
        let (alive, threads) = async_channel::bounded(1);
        let common = Common {
            decoders: Arc::new(Pool::new(machine::cores(), alive.clone())),
            connector: Arc::new(Connector { resolver: Resolver::new(options.dns) }),
            hosts: Arc::new(Mutex::new(HostTable::new(MAX_HOSTS))),
        };
        let mut workers = Vec::new();
        for index in 0..options.threads.unwrap_or_else(machine::cores) {
            let (orders, received) = async_channel::bounded(MAX_WAITING_ORDERS);
            let (common, alive) = (common.clone(), alive.clone());
            let (started, has_started) = async_channel::bounded(1);
            spawn(format!("headgate-work-{index}"), move || {
                // Dropped last, when all connections of the thread are closed.
                let _alive = alive;
                match runtime() {
                    Ok(runtime) => {
                        drop(started);
                        worker::run(&runtime, common, &received);
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
            tls: TlsConfigs::default(),
            memory: MemoryBudget::new(options.max_memory_bytes),
            files,
            threads,
            concurrency: Arc::default(),
            runs: AtomicU64::new(0),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// How many threads work.
    pub fn workers(&self) -> usize {
        self.inner.workers.len()
    }

    /// What the bodies of one more run draw on.
    pub fn memory(&self) -> MemoryBudget {
        self.inner.memory.for_another_run()
    }

    /// How TLS connections are made for requests with these options.
    ///
    /// # Errors
    /// `Usage`: the file of `cacert` can't be read, or has no certificate.
    pub fn tls(&self, request: &RequestOptions) -> Result<Arc<ClientConfig>, JobError> {
        self.inner.tls.get(request)
    }

    /// Tells when the engine's threads have ended.
    pub fn threads_ended(&self) -> ThreadsEnded {
        ThreadsEnded(self.inner.threads.clone())
    }

    /// Makes room for so many rows in flight, at least one.
    ///
    /// # Errors
    /// `Usage`: this process may not have so many files open.
    pub fn reserve(&self, rows: usize) -> Result<Room, JobError> {
        let rows = rows.max(1);
        let concurrency = self.inner.concurrency.clone();
        let others = concurrency.fetch_add(rows, Ordering::Relaxed);
        let room = Room { concurrency, rows };
        self.inner.files.check(rows, others, self.workers())?;
        Ok(room)
    }

    /// Gives each worker its share of a run.
    ///
    /// # Errors
    /// `Internal`: a worker has died.
    pub fn assign(&self, work: Work<'_>) -> Result<Assigned, JobError> {
        let Work { shared, tls, fail_on, defaults, concurrency, limit_by } = work;
        let run = self.inner.runs.fetch_add(1, Ordering::Relaxed);
        let count = self.workers().min(concurrency);
        let mut assigned = Assigned { stats: Vec::new(), run, workers: Vec::new() };
        for index in 0..count {
            let part = Part { index, count };
            let stats = Arc::new(Mutex::new(WorkerStats::new(Instant::now())));
            let begin = Begin {
                shared: shared.clone(),
                defaults: defaults.clone(),
                fail_on: fail_on.clone(),
                tls: tls.clone(),
                lanes: part.of(concurrency),
                part,
                stats: stats.clone(),
                limit_by,
            };
            // Runs of few rows in flight do not all go to the first workers.
            let worker = &self.inner.workers[(run as usize).wrapping_add(index) % self.workers()];
            if worker.send_blocking(Order::Begin(run, Box::new(begin))).is_err() {
                shared.end_rows();
                return Err(JobError::internal("a worker of the engine has died: please report it"));
            }
            assigned.stats.push(stats);
            assigned.workers.push(worker.downgrade());
        }
        Ok(assigned)
    }
}

impl Assigned {
    /// Cancels a row, wherever it is: it fails as `cancelled`. One that has ended, or was not read yet, is left alone.
    pub fn cancel(&self, rows: &RowReceiver, ordinal: u64) {
        // A row goes from the queue to a worker and never back: whoever looks in this order does not miss it.
        if !rows.cancel(ordinal) {
            for worker in self.workers.iter().filter_map(async_channel::WeakSender::upgrade) {
                let _ = worker.send_blocking(Order::Cancel(self.run, ordinal));
            }
        }
    }
}

/// See [`Engine::threads_ended`]. It holds no engine.
#[derive(Debug)]
pub struct ThreadsEnded(async_channel::Receiver<Infallible>);

impl ThreadsEnded {
    /// Waits until the last handle of the engine is gone, and its threads have ended: then all connections are closed.
    pub fn wait(&self) {
        while self.0.recv_blocking().is_ok() {}
    }
}

/// Starts a thread that nobody waits for.
///
/// # Errors
/// `Internal`: the system refuses it.
pub fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<(), JobError> {
    match thread::Builder::new().name(name).spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => Err(JobError::internal(format!("a thread can't be started: {error}"))),
    }
}
