//! `ResponseStream`: one response whose body the caller reads while it arrives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headgate_core::body_stream::{BodyStream, StreamRead};
use headgate_engine::WakeCaller as _;
use headgate_engine::{Arrived, Call, Run};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::attempt::NativeAttempt;
use crate::call::{NativeCall, lock};
use crate::call_timeouts::CallDefaults;
use crate::completion_queue::{SIGNAL_CHECK, Submission};
use crate::descriptor::Descriptor;
use crate::fork_safe::ForkSafe;
use crate::outcome::{FailureFields, NativeOutcome, failure_fields};
use crate::request::Request;

/// A response whose body is streamed. May be used from any thread. Dropping it cancels the exchange.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct ResponseStream(ForkSafe<Streaming>);

struct Streaming {
    submission: Submission,
    call: Arc<Mutex<Call>>,
    request: Py<PyAny>,
    body: Arc<BodyStream>,
    /// Whether the caller has received the headers, or the outcome of a request that failed before them.
    has_headers: AtomicBool,
}

impl Streaming {
    /// Ends the exchange, and cancels the request if it has no headers yet.
    fn close(&self) {
        if !self.has_headers.swap(true, Ordering::Relaxed) {
            self.submission.completions.close();
            lock(&self.call).cancel();
        }
        self.body.close();
    }

    fn receive(&self, arrived: Arrived) -> NativeOutcome {
        self.has_headers.store(true, Ordering::Relaxed);
        NativeOutcome::of(arrived, &self.submission.run)
    }

    /// Reads from the stream, and waits for at most `timeout` if nothing has arrived.
    fn read_within(&self, timeout: Duration) -> StreamRead {
        let by = Instant::now() + timeout;
        loop {
            let read = self.body.read();
            let left = by.saturating_duration_since(Instant::now());
            if read != StreamRead::Nothing || left.is_zero() {
                return read;
            }
            self.submission.waker.wait(left);
        }
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.close();
    }
}

impl ResponseStream {
    /// Sends the request. Returns `None` if the client is closed.
    pub(crate) fn start(
        run: Arc<Run>,
        request: &Bound<'_, PyAny>,
        defaults: CallDefaults,
        descriptor: Option<Arc<Descriptor>>,
        followed: bool,
    ) -> PyResult<Option<Self>> {
        let submission = Submission::of_one(run.clone(), descriptor);
        let waker = submission.waker.clone();
        let body = Arc::new(BodyStream::new(Box::new(move || waker.wake())));
        let (row, timeouts) =
            request.extract::<Request>()?.streamed(body.clone()).into_call(defaults, &submission.waker);
        let Some(call) = Call::submit(run, &submission.completions, 0, row, timeouts, followed) else {
            return Ok(None);
        };
        let (call, request) = (Arc::new(Mutex::new(call)), request.clone().unbind());
        let has_headers = AtomicBool::new(false);
        Ok(Some(Self(ForkSafe::new(Streaming { submission, call, request, body, has_headers }))))
    }
}

#[pymethods]
impl ResponseStream {
    /// Waits for the headers of the response, or for the outcome of a request that fails before them. An exception during
    /// the wait, such as Ctrl-C, cancels the request. Returns `None` in a fork.
    fn wait_headers(&self, py: Python<'_>) -> PyResult<Option<NativeOutcome>> {
        let Some(streaming) = self.0.get() else { return Ok(None) };
        let waited = streaming.submission.wait_for_call(&streaming.call, streaming.request.bind(py));
        Ok(Some(streaming.receive(waited.inspect_err(|_| streaming.close())?)))
    }

    /// Returns the call, which ends with the headers.
    #[getter]
    fn call(&self) -> Option<NativeCall> {
        Some(NativeCall::of(self.0.get()?.call.clone()))
    }

    /// Waits shortly until headers or bytes arrive, or more of the request's body is wanted. Raises what Ctrl-C raises.
    fn wait_wakeup(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(Streaming { submission, .. }) = self.0.get()
            && !py.detach(|| submission.waker.wait(SIGNAL_CHECK))
        {
            py.detach(|| submission.run.release_memory());
            py.check_signals()?;
        }
        Ok(())
    }

    /// Returns the attempts that have ended, if the request is followed.
    fn take_attempts(&self) -> Vec<(u64, NativeAttempt)> {
        self.0.get().map_or_else(Vec::new, |streaming| streaming.submission.take_attempts())
    }

    /// Returns the headers if they have arrived. If not, the descriptor becomes readable once they arrive.
    fn try_headers(&self) -> Option<NativeOutcome> {
        let streaming = self.0.get()?;
        let mut arrived: Vec<Arrived> = Vec::new();
        streaming.submission.completions.take(1, &mut arrived);
        arrived.pop().map(|arrived| streaming.receive(arrived))
    }

    /// Starts the delivery of the body: as it was sent if `raw`, otherwise with its content encodings decoded.
    fn start_body(&self, raw: bool) {
        if let Some(streaming) = self.0.get() {
            streaming.body.begin(raw);
        }
    }

    /// Waits for bytes of the body, and returns them; no bytes mean its end. An exception during the wait, such as Ctrl-C,
    /// does not affect the stream. Returns `None` in a fork.
    fn wait_bytes<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some(streaming) = self.0.get() else { return Ok(None) };
        loop {
            let read = py.detach(|| streaming.read_within(SIGNAL_CHECK));
            match read {
                StreamRead::Bytes(bytes) => return Ok(Some(PyBytes::new(py, &bytes))),
                StreamRead::End(_) => return Ok(Some(PyBytes::new(py, &[]))),
                StreamRead::Nothing => py.check_signals()?,
            }
        }
    }

    /// Returns the bytes of the body that have arrived; no bytes mean its end. Returns `None` if none have arrived: the
    /// descriptor becomes readable once some arrive.
    fn try_bytes<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let streaming = self.0.get()?;
        match py.detach(|| streaming.body.read()) {
            StreamRead::Bytes(bytes) => Some(PyBytes::new(py, &bytes)),
            StreamRead::End(_) => Some(PyBytes::new(py, &[])),
            StreamRead::Nothing => None,
        }
    }

    /// Returns the error that made the body incomplete, once the body has ended.
    #[getter]
    fn error(&self) -> Option<FailureFields> {
        self.0.get()?.body.failure().as_ref().map(failure_fields)
    }

    /// Returns the number of bytes of the body that have arrived over the connection.
    #[getter]
    fn received_bytes(&self) -> u64 {
        self.0.get().map_or(0, |streaming| streaming.body.received())
    }

    /// Returns whether this process sent the request, and is not a fork of the process that did.
    #[getter]
    fn is_own_process(&self) -> bool {
        self.0.get().is_some()
    }

    /// Returns the descriptor that an event loop watches, or -1 without one.
    fn fileno(&self) -> i32 {
        self.0.get().and_then(|streaming| streaming.submission.descriptor.as_deref()).map_or(-1, Descriptor::number)
    }

    /// Makes the descriptor unreadable until headers or bytes of the body arrive.
    fn clear_wakeup(&self) {
        if let Some(descriptor) = self.0.get().and_then(|streaming| streaming.submission.descriptor.as_ref()) {
            descriptor.clear();
        }
    }

    /// Ends the exchange without the rest of the body. A second call does nothing.
    fn close(&self, py: Python<'_>) {
        if let Some(streaming) = self.0.get() {
            py.detach(|| streaming.close());
        }
    }
}
