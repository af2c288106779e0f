//! `ResponseStream`: one response whose body is read while it arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headgate_core::body_stream::{BodyStream, StreamRead};
use headgate_engine::WakeCaller as _;
use headgate_engine::{Arrived, Run};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::answer::{Answer, FailureFields, failure_fields};
use crate::descriptor::Descriptor;
use crate::fork_safe::ForkSafe;
use crate::mailbox::{Request, SLICE, Submission};

/// A response whose body is streamed. May be used from any thread. Dropping it cancels the exchange.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct ResponseStream(ForkSafe<Streaming>);

struct Streaming {
    submission: Submission,
    ordinal: u64,
    body: Arc<BodyStream>,
    /// Whether the caller has the headers, or the outcome of a request without them.
    has_headers: AtomicBool,
}

impl Streaming {
    /// Abandons the response.
    fn close(&self) {
        if !self.has_headers.swap(true, Ordering::Relaxed) {
            self.submission.completions.close();
            self.submission.run.cancel(self.ordinal);
        }
        self.body.close();
    }

    fn receive(&self, arrived: Arrived) -> Answer {
        self.has_headers.store(true, Ordering::Relaxed);
        Answer::of(arrived)
    }

    /// Waits for at most `time`, and reads from the stream.
    fn read_within(&self, time: Duration) -> StreamRead {
        let by = Instant::now() + time;
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
    /// Makes the request; `None`: the client is closed.
    pub fn start(run: Arc<Run>, request: Request, descriptor: Option<Arc<Descriptor>>) -> Option<Self> {
        let submission = Submission::of_one(run, descriptor);
        let waker = submission.waker.clone();
        let body = Arc::new(BodyStream::new(Box::new(move || waker.wake())));
        let row = request.for_stream(submission.completions.reply_to(0), body.clone());
        let ordinal = submission.run.feed(vec![row])?;
        Some(Self(ForkSafe::new(Streaming { submission, ordinal, body, has_headers: AtomicBool::new(false) })))
    }
}

#[pymethods]
impl ResponseStream {
    /// Waits for the headers of the response, or for the outcome of a request without them. An exception meanwhile, such as
    /// Ctrl-C, cancels the request. `None`: this is a fork.
    fn wait_head(&self, py: Python<'_>) -> PyResult<Option<Answer>> {
        let Some(streaming) = self.0.get() else { return Ok(None) };
        let arrived = streaming.submission.wait_for_one(py).inspect_err(|_| streaming.close())?;
        Ok(Some(streaming.receive(arrived)))
    }

    /// Returns the headers, if they have come; if not, the descriptor becomes readable when they have.
    fn take_head(&self) -> Option<Answer> {
        let streaming = self.0.get()?;
        let mut arrived: Vec<Arrived> = Vec::new();
        streaming.submission.completions.take(1, &mut arrived);
        arrived.pop().map(|arrived| streaming.receive(arrived))
    }

    /// Begins the delivery of the body: as it came if `raw`, otherwise decoded.
    fn begin(&self, raw: bool) {
        if let Some(streaming) = self.0.get() {
            streaming.body.begin(raw);
        }
    }

    /// Waits for more of the body; empty: it has ended. An exception meanwhile, such as Ctrl-C, does not affect the stream.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some(streaming) = self.0.get() else { return Ok(None) };
        loop {
            let read = py.detach(|| streaming.read_within(SLICE));
            match read {
                StreamRead::Bytes(bytes) => return Ok(Some(PyBytes::new(py, &bytes))),
                StreamRead::End(_) => return Ok(Some(PyBytes::new(py, &[]))),
                StreamRead::Nothing => py.check_signals()?,
            }
        }
    }

    /// Returns the bytes of the body that have come; empty: it has ended. `None`: none have come, and the descriptor
    /// becomes readable when some have.
    fn take<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let streaming = self.0.get()?;
        match py.detach(|| streaming.body.read()) {
            StreamRead::Bytes(bytes) => Some(PyBytes::new(py, &bytes)),
            StreamRead::End(_) => Some(PyBytes::new(py, &[])),
            StreamRead::Nothing => None,
        }
    }

    /// Why the body is incomplete, when it has ended.
    #[getter]
    fn error(&self) -> Option<FailureFields> {
        self.0.get()?.body.failure().as_ref().map(failure_fields)
    }

    /// The bytes of the body that came over the connection.
    #[getter]
    fn received(&self) -> u64 {
        self.0.get().map_or(0, |streaming| streaming.body.received())
    }

    /// Returns whether this is the process that made the request.
    #[getter]
    fn is_here(&self) -> bool {
        self.0.get().is_some()
    }

    /// Returns the descriptor that an event loop watches; -1: there is none.
    fn fileno(&self) -> i32 {
        self.0.get().and_then(|streaming| streaming.submission.descriptor.as_deref()).map_or(-1, Descriptor::number)
    }

    /// Makes the descriptor unreadable, until something comes that the caller waits for.
    fn quiet(&self) {
        if let Some(descriptor) = self.0.get().and_then(|streaming| streaming.submission.descriptor.as_ref()) {
            descriptor.quiet();
        }
    }

    /// Abandons the rest of the body. A second call does nothing.
    fn close(&self, py: Python<'_>) {
        if let Some(streaming) = self.0.get() {
            py.detach(|| streaming.close());
        }
    }
}
