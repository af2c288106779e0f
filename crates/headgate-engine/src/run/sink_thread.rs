//! The sink's thread: passes the workers' outcomes to the sink until the workers end or the sink fails.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::error::JobError;
use headgate_core::virtual_clock::CallerWaits;
use headgate_http::save::paths::Unused;
use headgate_table::columns::builder::OutcomeBatch;
use headgate_table::sink::{Ending, Shortage, Sink};

use super::live::LiveRun;
use crate::engine::failure::FirstFailure;
use crate::engine::renewal::EndRenewal;
use crate::engine::shared_failure_limit::StoppedBy;
use crate::engine::shared_scheduler::SharedScheduler;
use crate::engine::{Engine, runtime, spawn};
use crate::job::JobProgress;
use crate::stats::usage::Moment;

/// The minimum interval between two checks of the space of the output, other than at ticks.
const SPACE_INTERVAL: Duration = Duration::from_millis(50);

/// The moment at which the run has ended, which is set once.
#[derive(Debug, Default)]
pub(super) struct Done {
    at: Mutex<Option<Moment>>,
    changed: Condvar,
}

impl Done {
    pub(super) fn set(&self) {
        self.lock().get_or_insert_with(Moment::now);
        self.changed.notify_all();
    }

    /// Returns the moment at which the run has ended.
    pub(super) fn at(&self) -> Option<Moment> {
        *self.lock()
    }

    /// Waits for the end of the run for at most `timeout`, and not beyond the time that `deadline` returns. Returns whether the
    /// run has ended. These times are real ones, also with a virtual clock: the caller does not wait for a request.
    pub(super) fn wait(&self, timeout: Duration, deadline: impl Fn() -> Option<Instant>) -> bool {
        let until = Instant::now().checked_add(timeout);
        let mut at = self.lock();
        while at.is_none() {
            let now = Instant::now();
            let Some(left) =
                until.into_iter().chain(deadline()).min().map(|until| until.saturating_duration_since(now))
            else {
                at = self.changed.wait(at).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if left.is_zero() {
                return false;
            }
            at = self.changed.wait_timeout(at, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Makes waiting threads evaluate `deadline` again.
    pub(super) fn reevaluate(&self) {
        // Under the lock, so that no thread misses it between its check and its wait.
        let _at = self.lock();
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Moment>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of the sink's thread.
pub(super) struct SinkThread {
    pub(super) sink: Box<dyn Sink>,
    /// Why the run stops, if the output has too little space for further rows.
    pub(super) shortage: Option<JobError>,
    pub(super) outcomes: async_channel::Receiver<OutcomeBatch>,
    /// The interval between the sink's ticks.
    pub(super) tick: Duration,
    pub(super) scheduler: Arc<SharedScheduler>,
    pub(super) input_rows: Arc<OnceLock<u64>>,
    pub(super) failure: Arc<FirstFailure>,
    pub(super) done: Arc<Done>,
    /// Set once the reader of the sink's output has closed the stream.
    pub(super) reader_gone: Arc<OnceLock<()>>,
    pub(super) live: Arc<LiveRun>,
    /// The state in the job's directory, if this is a run of a job.
    pub(super) progress: Option<Arc<JobProgress>>,
    pub(super) engine: Engine,
    /// Whether the engine ends with the run.
    pub(super) own_engine: bool,
    /// Waits until no thread writes bodies into the directory.
    pub(super) bodies_unused: Unused,
    /// Why the run stopped by itself, if it did.
    pub(super) stopped_by: Arc<OnceLock<StoppedBy>>,
    /// Ends with the thread.
    pub(super) _ends_renewal: EndRenewal,
}

pub(super) fn start(thread: SinkThread) -> Result<(), JobError> {
    spawn("headgate-sink".into(), move || {
        // In this order at the end, or on a panic: threads that send or wait are woken, and the failure is set. Saving of
        // bodies has ended, the lock of a job is released with its sink, connections are closed, the run has ended.
        let _ended = SetAtTheEnd(thread.done.clone());
        let failure = thread.failure.clone();
        let _panic = failure.on_panic("sink");
        // The caller may do something else while the run continues.
        let _waits = thread.own_engine.then(CallerWaits::begin);
        let threads = thread.own_engine.then(|| thread.engine.threads_ended());
        let mut thread = Stopping { thread, all_is_written: false };
        match thread.thread.run() {
            Ok(ControlFlow::Continue(())) => thread.all_is_written = true,
            Ok(ControlFlow::Break(())) => thread.thread.reader_gone.set(()).unwrap_or_default(),
            Err(error) => failure.set(error),
        }
        drop(thread);
        if let Some(threads) = threads {
            threads.wait();
        }
    })
}

/// Stops the run if the sink fails.
struct Stopping {
    thread: SinkThread,
    all_is_written: bool,
}

impl Drop for Stopping {
    fn drop(&mut self) {
        self.thread.outcomes.close();
        self.thread.scheduler.close();
        // A retry that is stopped is not finished, though its job was finished before it began.
        let is_over = self.all_is_written && !self.thread.scheduler.is_stopped();
        self.thread
            .live
            .end(is_over && self.thread.progress.as_ref().is_none_or(|progress| progress.commit().finished));
        if !self.all_is_written {
            self.thread.scheduler.interrupt(clock::now());
        }
        // Before the lock of the job is released.
        self.thread.bodies_unused.wait();
    }
}

impl SinkThread {
    fn run(&mut self) -> Result<ControlFlow<()>, JobError> {
        let was_finished = self.is_job_finished();
        let written = runtime().and_then(|runtime| runtime.block_on(self.write_all()));
        let scheduler = self.scheduler.clone();
        let stopped = || scheduler.is_interrupted();
        // Also after an error: the intact part is saved.
        let (undone, stopped_by) = (self.scheduler.drain_undone(), self.stopped_by.get());
        let why = stopped_by.map(|stopped_by| stopped_by.why.to_string());
        let ending = Ending {
            input_rows: self.input_rows.get().copied(),
            undone: &undone,
            stopped: &stopped,
            stopped_by: why.as_deref(),
            by_failures: stopped_by.is_some_and(|stopped_by| stopped_by.by_failures),
        };
        let finished = self.writing(|sink| sink.finish(&ending));
        let flow = written.and_then(|flow| finished.map(|()| flow))?;
        // The rows in flight may have been the last ones. A job that is retried was finished before.
        let is_over = !was_finished && self.is_job_finished();
        self.shortage.take().filter(|_| !is_over).map_or(Ok(flow), Err)
    }

    fn is_job_finished(&self) -> bool {
        self.progress.as_ref().is_some_and(|progress| progress.commit().finished)
    }

    async fn write_all(&mut self) -> Result<ControlFlow<()>, JobError> {
        let mut ticks = tokio::time::interval(self.tick);
        let mut space_checked = clock::now();
        loop {
            tokio::select! {
                batch = self.outcomes.recv() => {
                    let Ok(batch) = batch else { return Ok(ControlFlow::Continue(())) };
                    if clock::elapsed(space_checked) >= SPACE_INTERVAL {
                        self.check_space();
                        space_checked = clock::now();
                    }
                    if self.writing(|sink| sink.write(batch))?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    self.wake_for_budget();
                }
                () = self.scheduler.budget_is_short() => {
                    self.writing(|sink| sink.tick())?;
                    self.wake_for_budget();
                }
                _ = ticks.tick() => {
                    self.live.apply_changes(clock::now());
                    self.check_space();
                    self.writing(|sink| sink.tick())?;
                    self.wake_for_budget();
                }
            }
        }
    }

    /// Calls the sink, and notes for how long it has not returned: it may wait for a disk that hangs.
    fn writing<T>(&mut self, call: impl FnOnce(&mut dyn Sink) -> T) -> T {
        let Some(progress) = &self.progress else { return call(&mut *self.sink) };
        if let Some(rows) = self.input_rows.get() {
            progress.set_input_rows(*rows);
        }
        progress.set_writing(Some(clock::now()));
        let returned = call(&mut *self.sink);
        progress.set_writing(None);
        returned
    }

    /// Wakes workers that may wait for what a commit has just reserved of a budget.
    fn wake_for_budget(&self) {
        if self.scheduler.budgets.are_set() {
            self.scheduler.wake_workers();
        }
    }

    /// Stops the run if the output has too little space for further rows. The rest is committed.
    fn check_space(&mut self) {
        let Some(Shortage { error, is_urgent }) = self.sink.shortage() else { return };
        if is_urgent {
            self.scheduler.stop(clock::now());
        } else if self.shortage.is_none() {
            self.scheduler.stop_in_order();
        }
        self.shortage.get_or_insert(error);
    }
}

/// Reports the end of the run, also after a panic.
struct SetAtTheEnd(Arc<Done>);

impl Drop for SetAtTheEnd {
    fn drop(&mut self) {
        self.0.set();
    }
}
