//! `CompletionQueue`: submits many requests of one caller, and returns their outcomes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headgate_core::body_stream::BodyStream;
use headgate_core::clock;
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::row::{OwnOptions, OwnRetrying, ReplyTo, Row, RowExtra, TotalTimeout};
use headgate_core::secret::Secret;
use headgate_engine::{
    Arrived, Call, CallState, CallTimeouts, Run, TakenOutcomes, WAKE_AT, WAKE_AT_OF_MANY, WakeCaller, Waker,
};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::call::{CallDefaults, NativeCall, OwnCallTimeouts, arrived_late, lock, log_wait};
use crate::descriptor::Descriptor;
use crate::error::to_python;
use crate::fork_safe::ForkSafe;
use crate::outcome::NativeOutcome;
use crate::upload::{NativeBody, bind};

/// The interval at which a waiting thread checks for Ctrl-C.
pub(crate) const SIGNAL_CHECK: Duration = Duration::from_millis(100);

/// The attributes of `headgate.client._request.NativeRequest`.
#[derive(FromPyObject)]
struct NativeRequest {
    url: String,
    method: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    without_headers: Vec<String>,
    credentials: Vec<(String, Vec<u8>)>,
    without_credentials: bool,
    body: Option<NativeBody>,
    body_type: Option<String>,
    cost: Option<u64>,
    own: Option<NativeOwnOptions>,
    defect: Option<String>,
}

/// The attributes of `headgate.client._own_options.OwnOptions`.
#[derive(FromPyObject)]
struct NativeOwnOptions {
    timeout: Option<f64>,
    connect_timeout: Option<f64>,
    total_timeout: Option<f64>,
    pool_timeout: Option<f64>,
    retries: Option<u16>,
    max_body_size: Option<u64>,
    redirects: Option<String>,
    max_redirects: Option<u32>,
}

impl NativeOwnOptions {
    /// Returns the options of a row, and the timeouts of a call.
    fn read(self, py: Python<'_>) -> PyResult<(OwnOptions, OwnCallTimeouts)> {
        let seconds = |seconds: Option<f64>| seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let total = seconds(self.total_timeout);
        let total_timeout = total.map(TotalTimeout::After);
        let redirects = self.redirects.map(|name| name.parse()).transpose();
        let own = OwnOptions {
            timeout: seconds(self.timeout),
            connect_timeout: seconds(self.connect_timeout),
            retrying: OwnRetrying { retries: self.retries, total_timeout, max_pause: None },
            max_body_size: self.max_body_size,
            redirects: redirects
                .map_err(|wrong| to_python(py, &JobError::usage(message!(OptionName::Redirects, " {wrong}"))))?,
            max_redirects: self.max_redirects,
            ..OwnOptions::default()
        };
        Ok((own, OwnCallTimeouts { total, pool: seconds(self.pool_timeout) }))
    }
}

/// A request from Python: a URL, or a `NativeRequest`.
pub(crate) struct Request {
    row: Row,
    timeouts: OwnCallTimeouts,
}

impl<'py> FromPyObject<'_, 'py> for Request {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() {
            return Ok(Self { row: Row::new(0, object.extract::<String>()?), timeouts: OwnCallTimeouts::default() });
        }
        let NativeRequest {
            url,
            method,
            headers,
            without_headers,
            credentials,
            without_credentials,
            body,
            body_type,
            cost,
            own,
            defect,
        } = object.extract()?;
        let without_headers = without_headers.into_iter().map(Into::into).collect();
        let (own, timeouts) = own.map(|own| own.read(object.py())).transpose()?.unwrap_or_default();
        let own = OwnOptions { without_credentials, without_headers, ..own };
        let own = (own != OwnOptions::default()).then(|| Box::new(own));
        let extra = RowExtra {
            method: method.map(Into::into),
            headers: headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            credentials: credentials
                .into_iter()
                .map(|(name, value)| (name.into(), Secret::from(Box::<[u8]>::from(value))))
                .collect(),
            body: body.map(NativeBody::into_body),
            body_type: body_type.map(Into::into),
            cost,
            defect: defect.map(Into::into),
            own,
            ..RowExtra::default()
        };
        Ok(Self { row: Row { extra: Some(Box::new(extra)), ..Row::new(0, url) }, timeouts })
    }
}

impl Request {
    pub(crate) fn into_row(self) -> Row {
        self.row
    }

    /// Returns the row, and the timeouts of a call of this request.
    pub(crate) fn into_call(self, defaults: CallDefaults, waker: &Arc<Waker>) -> (Row, CallTimeouts) {
        let timeouts = defaults.with(self.timeouts);
        (self.for_reply(None, waker), timeouts)
    }

    /// Returns the row, whose outcome goes to `reply_to`. `waker` wakes the caller also while more of the body is wanted.
    pub(crate) fn for_reply(self, reply_to: Option<Arc<ReplyTo>>, waker: &Arc<Waker>) -> Row {
        bind(self.row.extra.as_ref().and_then(|extra| extra.body.as_ref()), waker);
        Row { reply_to, ..self.row }
    }

    /// Returns the request with a stream for the body of its response.
    pub(crate) fn streamed(mut self, body: Arc<BodyStream>) -> Self {
        self.row.extra.get_or_insert_default().own.get_or_insert_default().stream = Some(body);
        self
    }
}

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
            look_at = match py.detach(|| lock(call).look()) {
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
    /// Submits requests, numbered from `first_number`. Returns whether it could: not if the client is closed.
    fn submit(&self, py: Python<'_>, first_number: u64, requests: Vec<Request>) -> bool {
        let Some(submission) = self.0.get() else { return false };
        let fed = py.detach(|| {
            let rows = requests.into_iter().zip(first_number..);
            submission.run.feed(
                rows.map(|(request, number)| {
                    request.for_reply(submission.completions.reply_to(number), &submission.waker)
                })
                .collect(),
            )
        });
        fed.is_some()
    }

    /// Submits a request as a call, with this number. Returns `None` if the client is closed.
    fn submit_call(&self, number: u64, request: Request) -> Option<NativeCall> {
        let submission = self.0.get()?;
        let (row, timeouts) = request.into_call(self.1, &submission.waker);
        Call::submit(submission.run.clone(), &submission.completions, number, row, timeouts).map(NativeCall::new)
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
