//! The sink's thread: takes what the workers have, until they end or it fails.

use std::ops::ControlFlow;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::stop::Stop;
use crate::columns::builder::OutcomeBatch;
use crate::engine::failure::FirstFailure;
use crate::engine::{Engine, Room, runtime, spawn};
use crate::model::error::JobError;
use crate::queue::window::Window;
use crate::sink::{Ending, Sink};

/// Set once, when everything has ended.
#[derive(Debug, Default)]
pub(super) struct Done {
    at: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Done {
    pub(super) fn set(&self) {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
        self.changed.notify_all();
    }

    pub(super) fn at(&self) -> Option<Instant> {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `timeout` at the most; whether it is set.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(at, timeout, |at| at.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_some()
    }
}

/// What the thread takes from, and whom it tells.
pub(super) struct SinkThread {
    pub(super) sink: Box<dyn Sink>,
    pub(super) outcomes: async_channel::Receiver<OutcomeBatch>,
    /// How often the sink is told that time passes.
    pub(super) tick: Duration,
    pub(super) stop: Stop,
    pub(super) input_rows: Arc<OnceLock<u64>>,
    pub(super) window: Arc<Window>,
    pub(super) failure: Arc<FirstFailure>,
    pub(super) done: Arc<Done>,
    /// What the run takes of the engine, given back with its end.
    pub(super) _room: Room,
    /// An engine that nobody else has ends with the run, and its idle connections with it.
    pub(super) _engine: Engine,
}

pub(super) fn start(mut thread: SinkThread) -> Result<(), JobError> {
    spawn("headgate-sink".into(), move || {
        let ending = SetAtTheEnd(thread.done.clone());
        let failure = thread.failure.clone();
        let _guard = failure.on_panic("sink");
        let ended = thread.run();
        // Whoever still sends learns that nobody takes.
        thread.outcomes.close();
        thread.window.close();
        if !matches!(ended, Ok(ControlFlow::Continue(()))) {
            thread.stop.at(Instant::now());
        }
        if let Err(error) = ended {
            failure.set(error);
        }
        // The lock of a job goes with its sink: whoever learns that the job has ended can start another.
        drop(thread);
        drop(ending);
    })
}

impl SinkThread {
    fn run(&mut self) -> Result<ControlFlow<()>, JobError> {
        let written = runtime().and_then(|runtime| runtime.block_on(self.write_all()));
        let stopped = || self.stop.was_asked_for();
        // Also after an error: what it left intact is saved.
        let finished = self.sink.finish(&Ending { input_rows: self.input_rows.get().copied(), stopped: &stopped });
        written.and_then(|flow| finished.map(|()| flow))
    }

    async fn write_all(&mut self) -> Result<ControlFlow<()>, JobError> {
        let mut ticks = tokio::time::interval(self.tick);
        loop {
            tokio::select! {
                batch = self.outcomes.recv() => {
                    let Ok(batch) = batch else { return Ok(ControlFlow::Continue(())) };
                    if self.sink.write(batch)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                _ = ticks.tick() => self.sink.tick()?,
            }
        }
    }
}

/// Says that the job has ended, however it did.
struct SetAtTheEnd(Arc<Done>);

impl Drop for SetAtTheEnd {
    fn drop(&mut self) {
        self.0.set();
    }
}
