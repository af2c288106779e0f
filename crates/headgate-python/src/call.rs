//! Calls: requests whose caller waits for each, for no longer than its timeouts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headgate_core::call::CallStage;
use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::limits::Rate;
use headgate_core::row::Outcome;
use headgate_core::schedule::throttled::ThrottledBy;
use headgate_engine::{Arrived, Call, CallState, CallTimeout, CallWait};
use pyo3::prelude::*;

use crate::fork_safe::ForkSafe;
use crate::outcome::NativeOutcome;
use crate::request::Request;

/// A call of an event loop, or of a stream: its caller looks at it when `next_look_s` has passed.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct NativeCall(ForkSafe<Arc<Mutex<Call>>>);

impl NativeCall {
    pub(crate) fn new(call: Call) -> Self {
        Self::of(Arc::new(Mutex::new(call)))
    }

    pub(crate) fn of(call: Arc<Mutex<Call>>) -> Self {
        Self(ForkSafe::new(call))
    }
}

#[pymethods]
impl NativeCall {
    /// Returns in how many seconds to look at the call: 0 means now.
    #[getter]
    fn next_look_s(&self) -> f64 {
        let next_look = self.0.get().map(|call| lock(call).next_look());
        next_look.map_or(f64::MAX, |at| at.saturating_duration_since(clock::now()).as_secs_f64())
    }

    /// Looks at the call. Returns its outcome if a timeout has passed, with which it was cancelled; and what it waits for, if
    /// it has waited so long that this is to be logged.
    fn look(&self, request: &Bound<'_, PyAny>) -> PyResult<(Option<NativeOutcome>, Option<String>)> {
        let Some(call) = self.0.get() else { return Ok((None, None)) };
        let mut call = lock(call);
        Ok(match call.check_timeouts() {
            CallState::Waits(_) => (None, None),
            CallState::WaitsLong(wait, _) => (None, Some(words(wait))),
            CallState::TimedOut(timed_out) => {
                (Some(NativeOutcome::of(arrived_late(&timed_out, request)?, call.run())), None)
            }
        })
    }

    /// Cancels the request.
    fn cancel(&self) {
        if let Some(call) = self.0.get() {
            lock(call).cancel();
        }
    }
}

pub(crate) fn lock(call: &Mutex<Call>) -> MutexGuard<'_, Call> {
    call.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Logs that a call waits for long.
pub(crate) fn log_wait(request: &Bound<'_, PyAny>, wait: CallWait) -> PyResult<()> {
    request.py().import("headgate.client._log")?.call_method1("waits_long", (request, words(wait)))?;
    Ok(())
}

/// Returns the outcome of a call of this request whose timeout has passed.
pub(crate) fn arrived_late(timed_out: &CallTimeout, request: &Bound<'_, PyAny>) -> PyResult<Arrived> {
    let CallTimeout { wait, timeout, is_pool_timeout, attempts, elapsed } = timed_out;
    let (kind, option) = if *is_pool_timeout {
        (ErrorKind::PoolTimeout, "pool_timeout")
    } else {
        (ErrorKind::TotalTimeout, "total_timeout")
    };
    let message = format!("{option}={} passed while it waited for {}", timeout.as_secs_f64(), words(*wait));
    let row = request.extract::<Request>()?.into_row();
    let method = row.extra.as_ref().and_then(|extra| extra.method.clone());
    let outcome = Outcome {
        row,
        method: method.unwrap_or_else(|| "GET".into()),
        attempts: *attempts,
        started_at_us: 0,
        elapsed_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
        remote_addr: None,
        response: None,
        selected: None,
        failure: Some(Failure::new(kind, message)),
    };
    Ok(Arrived { number: 0, outcome: Some(outcome), failed: true })
}

/// Returns what a call waits for, with the options that can change it.
fn words(wait: CallWait) -> String {
    let until = |what: &str, time: Option<Duration>| {
        time.map_or_else(|| what.to_owned(), |time| format!("{what}, {:.1} s more", time.as_secs_f64()))
    };
    match wait {
        CallWait::Slot(1) => "a free slot: another request is in flight, and concurrency=1".to_owned(),
        CallWait::Slot(concurrency) => format!("a free slot: all {concurrency} are in use (concurrency)"),
        CallWait::Rate(rate) => {
            format!("its turn, by rate={}", rate.map_or_else(|| "None".to_owned(), |rate: Rate| format!("'{rate}'")))
        }
        CallWait::Throttled(by, time) => match by {
            ThrottledBy::Pause => until("the end of the pause that the host has requested", time),
            ThrottledBy::Backoff => until("the next attempt, after a failed one", time),
            ThrottledBy::CircuitBreaker => {
                "the host, which has failed so often that it only gets probes (circuit breaker)".to_owned()
            }
            ThrottledBy::HostConcurrency => {
                "a free slot of the host (concurrency_per_host, max_connections_per_host)".to_owned()
            }
            ThrottledBy::HostRate => until("its turn at the host (rate_per_host)", time),
            ThrottledBy::Cost => until("its turn, by cost_rate", time),
            ThrottledBy::RetryBudget => "the next attempt, as at most a fifth of requests may be retries".to_owned(),
            ThrottledBy::Network => "the network: no host can be reached".to_owned(),
            ThrottledBy::Credentials => "a new token".to_owned(),
            ThrottledBy::Rate => "its turn, by rate".to_owned(),
            ThrottledBy::Budget | ThrottledBy::HeadOfLine | ThrottledBy::Paused => "its turn".to_owned(),
        },
        CallWait::Attempt(stage) => match stage {
            CallStage::Waiting => "its start",
            CallStage::Robots => "robots.txt of the host",
            CallStage::Rate => "its turn, by rate or rate_per_host",
            CallStage::Dns => "the address of the host (DNS)",
            CallStage::HostConnection => "a connection: the host may have no more (max_connections_per_host)",
            CallStage::Stream => "a stream of an HTTP/2 connection",
            CallStage::Connecting => "a connection to the host",
            CallStage::Sent => "the response",
        }
        .to_owned(),
    }
}
