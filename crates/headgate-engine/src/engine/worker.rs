//! One thread of the engine: its event loop, its connections, and its share of each run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headgate_core::clock;
use headgate_core::error::JobError;
use headgate_core::limits::HostBy;
use headgate_core::schedule::hosts::HostTable;
use headgate_core::schedule::rows_to_cancel::RowsToCancel;
use headgate_core::schedule::slots::Slots;
use headgate_core::stall::{BEAT, ClockReading};
use headgate_core::virtual_clock;
use headgate_http::client::Client;
use headgate_http::decode::pool::ThreadPool;
use headgate_http::dial::connect::Connector;
use headgate_http::dial::transport::Transports;
use headgate_http::idle_limits::IdleLimits;
use headgate_http::live_defaults::LiveDefaults;
use headgate_http::recall::Recalls;
use headgate_http::request::Preparer;
use headgate_http::site::SiteMaker;
use tokio::runtime::{LocalOptions, LocalRuntime, RuntimeMetrics};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::MissedTickBehavior;

use crate::engine::completion_queue;
use crate::engine::machine;
use crate::engine::participant::{self, WorkerPart};
use crate::engine::share::Share;
use crate::engine::shared::Shared;
use crate::engine::worker_index::WorkerIndex;
use crate::stats::worker::WorkerStats;

/// How often connections are looked for that have been idle for too long.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// One run of an engine.
pub(super) type RunNumber = u64;

/// What a run has a worker do.
pub(super) enum Order {
    Begin(RunNumber, Box<Begin>),
    /// Cancel those of these rows that you have.
    Cancel(RunNumber, RowsToCancel),
}

/// A share of a run.
pub(super) struct Begin {
    pub(super) shared: Arc<Shared>,
    pub(super) defaults: Arc<LiveDefaults>,
    pub(super) transports: Transports,
    pub(super) lanes: usize,
    /// That it may have open.
    pub(super) connections: usize,
    pub(super) worker: WorkerIndex,
    pub(super) stats: Arc<Mutex<WorkerStats>>,
    pub(super) host_by: HostBy,
}

/// What all workers of an engine have in common.
#[derive(Debug, Clone)]
pub(super) struct EngineShared {
    pub(super) connector: Arc<Connector>,
    pub(super) hosts: Arc<Mutex<HostTable>>,
    pub(super) decoders: Arc<ThreadPool>,
    pub(super) recalls: Arc<Recalls>,
}

/// Returns an event loop for the calling thread.
///
/// # Errors
/// `Internal`: the system refuses what it needs.
pub(crate) fn runtime() -> Result<LocalRuntime, JobError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(machine::FILE_READERS)
        .on_thread_park(|| {
            completion_queue::wake_awaited();
            participant::respond();
        })
        .build_local(LocalOptions::default())
        .map_err(|error| JobError::internal(format!("an event loop can't be created: {error}")))
}

/// Runs a worker until its engine is gone and its runs have ended. Blocks.
pub(super) fn run(
    runtime: &LocalRuntime,
    common: EngineShared,
    index: usize,
    idle_limits: IdleLimits,
    orders: &async_channel::Receiver<Order>,
) {
    let worker = Rc::new(Worker {
        client: Rc::new(Client::new(common.connector, common.decoders, common.recalls.clone(), idle_limits)),
        hosts: common.hosts,
        index,
        recalls: common.recalls,
        shares: RefCell::default(),
        share_ended: Notify::new(),
        metrics: runtime.metrics(),
    });
    runtime.block_on(worker.serve(orders));
}

struct Worker {
    client: Rc<Client>,
    hosts: Arc<Mutex<HostTable>>,
    /// Among those of the engine.
    index: usize,
    recalls: Arc<Recalls>,
    /// With the connections of each.
    shares: RefCell<HashMap<RunNumber, (Rc<Share>, usize)>>,
    share_ended: Notify,
    metrics: RuntimeMetrics,
}

impl Worker {
    async fn serve(self: &Rc<Self>, orders: &async_channel::Receiver<Order>) {
        let (mut sweeps, mut beats) = (tokio::time::interval(SWEEP_EVERY), tokio::time::interval(BEAT));
        // An engine that was idle for an hour has missed many, and needs one.
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let part = WorkerPart::begin();
        let mut is_open = true;
        loop {
            let has_shares = !self.shares.borrow().is_empty();
            if !is_open && !has_shares {
                break;
            }
            let has_work = has_shares || self.client.pool.borrow().has_idle();
            tokio::select! {
                order = orders.recv(), if is_open => match order {
                    Ok(order) => self.obey(order),
                    Err(_) => is_open = false,
                },
                () = self.share_ended.notified() => {}
                route = self.recalls.next(self.index) => self.client.pool.borrow_mut().cede(&route),
                // The time may have jumped.
                () = part.asked() => self.client.pool.borrow_mut().sweep(clock::now()),
                _ = sweeps.tick(), if has_work => self.client.pool.borrow_mut().sweep(clock::now()),
                _ = beats.tick(), if has_shares => self.beat(),
            }
        }
    }

    /// Notes in all clocks that measure stalls that the worker runs.
    fn beat(&self) {
        let now = ClockReading::now();
        self.client.stalls.beat(now);
        self.shares.borrow().values().for_each(|(share, _)| share.beat(now));
        let suspended = self.client.stalls.reset_suspended();
        if !suspended.is_zero() {
            self.client.pool.borrow_mut().close_suspended(suspended, now.monotonic);
        }
    }

    fn obey(self: &Rc<Self>, order: Order) {
        virtual_clock::note_activity();
        match order {
            Order::Begin(run, begin) => self.begin(run, *begin),
            Order::Cancel(run, rows) => {
                let share = self.shares.borrow().get(&run).map(|(share, _)| share.clone());
                if let Some(share) = share {
                    share.cancel(rows);
                }
            }
        }
    }

    fn begin(self: &Rc<Self>, run: RunNumber, begin: Begin) {
        let Begin { shared, defaults, transports, lanes, connections, worker, stats, host_by } = begin;
        stats.lock().unwrap_or_else(PoisonError::into_inner).busy.start(self.metrics.clone());
        let own_stats = stats.clone();
        let sites = SiteMaker {
            pool: self.client.pool.clone(),
            hosts: self.hosts.clone(),
            transports,
            host_by,
            workers: worker.count,
        };
        let of_robots = shared.robots.as_ref().map(|_| Preparer::new(defaults.of_robots(), sites.clone()));
        let preparer = Preparer::new(defaults, sites).with_cookies(shared.limits.response.cookies.clone());
        match Share::new(shared.clone(), self.client.clone(), (preparer, of_robots), Slots::new(lanes), stats, worker) {
            Ok(share) => {
                let share = Rc::new(share);
                let registered = Registered { worker: self.clone(), run, stats: own_stats };
                share.shared.scheduler.begin_worker();
                self.shares.borrow_mut().insert(run, (share.clone(), connections));
                let connections = self.shares.borrow().values().map(|(_, connections)| connections).sum();
                self.client.pool.borrow_mut().allow(connections);
                spawn_local(async move {
                    let _registered = registered;
                    share.run().await;
                });
            }
            Err(error) => {
                shared.failure.set(error);
                shared.scheduler.stop(clock::now());
            }
        }
    }
}

/// A share that the worker knows, until it has ended.
struct Registered {
    worker: Rc<Worker>,
    run: RunNumber,
    stats: Arc<Mutex<WorkerStats>>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        // What the worker does from now on is for other runs.
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).busy.stop();
        let mut shares = self.worker.shares.borrow_mut();
        if let Some((share, _)) = shares.remove(&self.run) {
            share.shared.scheduler.end_worker();
        }
        if shares.is_empty() {
            self.worker.client.stalls.rest();
        }
        drop(shares);
        self.worker.share_ended.notify_one();
    }
}
