//! `CompletionQueue`: submits many requests of one caller, and returns their outcomes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_engine::{Arrived, Call, CallState, Run, TakenOutcomes, WAKE_AT, WAKE_AT_OF_MANY, WakeCaller, Waker};
use pyo3::prelude::*;

use crate::attempt::NativeAttempt;
use crate::call::{NativeCall, arrived_late, lock, log_wait};
use crate::call_timeouts::CallDefaults;
use crate::descriptor::Descriptor;
use crate::fork_safe::ForkSafe;
use crate::outcome::NativeOutcome;
use crate::request::Request;

/// The interval at which a waiting thread checks for Ctrl-C.
pub(crate) const SIGNAL_CHECK: Duration = Duration::from_millis(100);

/// A caller's requests in a run, with the completion queue for their outcomes.
pub(crate) struct Submission {
    pub run: Arc<Run>,
    pub completions: Arc<headgate_engine::CompletionQueue>,
    pub waker: Arc<Waker>,
    /// The descriptor that an event loop watches.
    pub descriptor: Option<Arc<Descriptor>>,
}

impl Submission {
    /// Creates a submission of one row. An event loop watches `descriptor`, if there is one.
    pub(crate) fn of_one(run: Arc<Run>, descriptor: Option<Arc<Descriptor>>) -> Self {
        let waker = waker(descriptor.as_ref());
        Self { run, completions: headgate_engine::CompletionQueue::new(waker.clone()), waker, descriptor }
    }

    /// Creates a submission of many rows, whose outcomes may stay uncollected for a long time.
    pub(crate) fn of_many(run: Arc<Run>, descriptor: Option<Arc<Descriptor>>) -> Self {
        let waker = waker(descriptor.as_ref());
        // In an event loop, each of the outcomes may be what a task waits for before it sends its next request.
        let wake_at = if descriptor.is_some() { WAKE_AT } else { WAKE_AT_OF_MANY };
        let completions = run.completions(waker.clone(), wake_at, None);
        Self { run, completions, waker, descriptor }
    }

    /// Returns the attempts of followed rows that have ended, with the numbers of the rows.
    pub(crate) fn take_attempts(&self) -> Vec<(u64, NativeAttempt)> {
        NativeAttempt::numbered(self.completions.take_attempts(), &self.run)
    }

    /// Waits for the outcome of a call, which is the only row. An exception during the wait, such as Ctrl-C, ends it.
    pub(crate) fn wait_for_call(&self, call: &Mutex<Call>, request: &Bound<'_, PyAny>) -> PyResult<Arrived> {
        let py = request.py();
        let mut look_at = lock(call).next_look();
        loop {
            let (mut arrived, _) = self.wait(py, 1, look_at.saturating_duration_since(clock::now()))?;
            if let Some(arrived) = arrived.pop() {
                return Ok(arrived);
            }
            if clock::now() < look_at {
                continue;
            }
            look_at = match py.detach(|| lock(call).check_timeouts()) {
                CallState::Waits(until) => until,
                CallState::WaitsLong(wait, until) => {
                    log_wait(request, wait)?;
                    until
                }
                CallState::TimedOut(timed_out) => return arrived_late(&timed_out, request),
            };
        }
    }

    /// Waits for outcomes or a wake-up, for at most `timeout`. Returns up to `max` outcomes, and the bytes of their bodies.
    pub(crate) fn wait(&self, py: Python<'_>, max: usize, timeout: Duration) -> PyResult<(Vec<Arrived>, usize)> {
        let by = Instant::now() + timeout;
        let mut arrived = Vec::new();
        loop {
            let finished_with = py.detach(|| {
                let TakenOutcomes { bytes, .. } = self.completions.take(max, &mut arrived);
                let left = by.saturating_duration_since(Instant::now());
                if !arrived.is_empty() || left.is_zero() {
                    return Some(bytes);
                }
                let was_woken = self.waker.wait(SIGNAL_CHECK.min(left));
                let TakenOutcomes { bytes, .. } = self.completions.take(max, &mut arrived);
                if !was_woken {
                    self.run.release_memory();
                }
                (was_woken || !arrived.is_empty()).then_some(bytes)
            });
            if let Some(bytes) = finished_with {
                return Ok((arrived, bytes));
            }
            py.check_signals()?;
        }
    }
}

/// The completion queue of one caller. May be used from any thread.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct CompletionQueue(ForkSafe<Submission>, CallDefaults);

impl CompletionQueue {
    pub(crate) fn new(run: Arc<Run>, defaults: CallDefaults, watched: bool) -> PyResult<Self> {
        Ok(Self(ForkSafe::new(Submission::of_many(run, Descriptor::watched(watched)?)), defaults))
    }
}

#[pymethods]
impl CompletionQueue {
    /// Submits requests, numbered from `first_number`. Returns whether it could: not if the client is closed. `followed`:
    /// `take_attempts` returns their attempts.
    #[pyo3(signature = (first_number, requests, followed=false))]
    fn submit(&self, py: Python<'_>, first_number: u64, requests: Vec<Request>, followed: bool) -> bool {
        let Some(submission) = self.0.get() else { return false };
        let fed = py.detach(|| {
            let rows = requests.into_iter().zip(first_number..);
            submission.run.feed(
                rows.map(|(request, number)| {
                    request.for_reply(submission.completions.reply_to(number, None, followed), &submission.waker)
                })
                .collect(),
            )
        });
        fed.is_some()
    }

    /// Submits a request as a call, with this number. Returns `None` if the client is closed. `followed`: as for `submit`.
    #[pyo3(signature = (number, request, followed=false))]
    fn submit_call(&self, number: u64, request: Request, followed: bool) -> Option<NativeCall> {
        let submission = self.0.get()?;
        let (row, timeouts) = request.into_call(self.1, &submission.waker);
        Call::submit(submission.run.clone(), &submission.completions, number, row, timeouts, followed)
            .map(NativeCall::new)
    }

    /// Waits for outcomes or a wake-up, for at most `timeout`; Ctrl-C ends the wait. Returns outcomes with the numbers of
    /// their requests, and the bytes of their bodies.
    fn wait_outcomes(
        &self,
        py: Python<'_>,
        max_count: usize,
        timeout: f64,
    ) -> PyResult<(Vec<(u64, NativeOutcome)>, usize)> {
        let Some(submission) = self.0.get() else { return Ok((Vec::new(), 0)) };
        let timeout = Duration::try_from_secs_f64(timeout).unwrap_or_default();
        let (arrived, bytes) = submission.wait(py, max_count, timeout)?;
        Ok((numbered(arrived, &submission.run), bytes))
    }

    /// Returns outcomes that have arrived, with the numbers of their requests, and the bytes of their bodies. If more have
    /// arrived, the descriptor becomes readable at once, but with `max_count` 0 only after a later call returns an outcome.
    fn try_outcomes(&self, max_count: usize) -> (Vec<(u64, NativeOutcome)>, usize) {
        let Some(submission) = self.0.get() else { return (Vec::new(), 0) };
        if let Some(descriptor) = &submission.descriptor {
            descriptor.clear();
        }
        let mut arrived = Vec::new();
        let TakenOutcomes { bytes, is_all } = submission.completions.take(max_count, &mut arrived);
        if !is_all && max_count > 0 {
            submission.waker.wake();
        }
        (numbered(arrived, &submission.run), bytes)
    }

    /// Returns the attempts of followed requests that have ended, with the numbers of the requests. After a call that has
    /// returned an outcome, these are all of its attempts.
    fn take_attempts(&self) -> Vec<(u64, NativeAttempt)> {
        self.0.get().map_or_else(Vec::new, Submission::take_attempts)
    }

    /// Releases the memory reservations of uncollected outcomes, in all completion queues of the client.
    fn release_memory(&self) {
        if let Some(submission) = self.0.get() {
            submission.run.release_memory();
        }
    }

    /// Returns the descriptor that an event loop watches, or -1 without one.
    fn fileno(&self) -> i32 {
        self.0.get().and_then(|submission| submission.descriptor.as_deref()).map_or(-1, Descriptor::number)
    }

    /// Wakes the waiting caller, even if no outcome has arrived.
    fn wake(&self) {
        if let Some(submission) = self.0.get() {
            submission.waker.wake();
        }
    }

    /// Closes the queue and cancels its requests.
    fn close(&self, py: Python<'_>) {
        if let Some(submission) = self.0.get() {
            py.detach(|| {
                submission.completions.close();
                submission.run.cancel_unwanted();
                submission.waker.wake();
            });
        }
    }
}

fn waker(descriptor: Option<&Arc<Descriptor>>) -> Arc<Waker> {
    Waker::new(descriptor.cloned().map(|descriptor| descriptor as Arc<dyn WakeCaller>))
}

fn numbered(arrived: Vec<Arrived>, run: &Run) -> Vec<(u64, NativeOutcome)> {
    arrived.into_iter().map(|arrived| (arrived.number, NativeOutcome::of(arrived, run))).collect()
}
