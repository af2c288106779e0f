//! `ResponseStream`: one response whose body is taken while it comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headgate_engine::engine::completion_queue::Arrived;
use headgate_engine::engine::waker::WakeCaller as _;
use headgate_engine::model::body_stream::{BodyStream, Taken};
use headgate_engine::model::error::Failure;
use headgate_engine::run::Run;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::answer::Answer;
use crate::descriptor::Descriptor;
use crate::kept::Kept;
use crate::mailbox::{Asking, Request, SLICE};

/// A kind of error, its message, and what of it varies.
type Told = (&'static str, String, Option<String>);

/// May be used from any thread. Dropping it cancels the exchange.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct ResponseStream(Kept<Streaming>);

struct Streaming {
    asking: Asking,
    ordinal: u64,
    body: Arc<BodyStream>,
    /// The caller has taken the headers, or the outcome of a request without them.
    is_answered: AtomicBool,
}

impl Streaming {
    /// Abandons the response.
    fn close(&self) {
        if !self.is_answered.swap(true, Ordering::Relaxed) {
            self.asking.completions.close();
            self.asking.run.cancel(self.ordinal);
        }
        self.body.close();
    }

    fn answer(&self, arrived: Arrived) -> Answer {
        self.is_answered.store(true, Ordering::Relaxed);
        Answer::of(arrived)
    }

    /// What comes within so long.
    fn taken_in(&self, time: Duration) -> Taken {
        let by = Instant::now() + time;
        loop {
            let taken = self.body.take();
            let left = by.saturating_duration_since(Instant::now());
            if taken != Taken::Nothing || left.is_zero() {
                return taken;
            }
            self.asking.waker.wait(left);
        }
    }
}
impl Drop for Streaming {
    fn drop(&mut self) {
        self.close();
    }
}

impl ResponseStream {
    /// Asks; `None`: the client is closed.
    pub fn ask(run: Arc<Run>, request: Request, descriptor: Option<Arc<Descriptor>>) -> Option<Self> {
        let asking = Asking::of_one(run, descriptor);
        let waker = asking.waker.clone();
        let body = Arc::new(BodyStream::new(Box::new(move || waker.wake())));
        let row = request.for_stream(asking.completions.reply_to(0), body.clone());
        let ordinal = asking.run.feed(vec![row])?;
        Some(Self(Kept::new(Streaming { asking, ordinal, body, is_answered: AtomicBool::new(false) })))
    }
}

#[pymethods]
impl ResponseStream {
    /// Waits for the head of the answer, or for what became of the request without one. What raises meanwhile, such as Ctrl-C,
    /// cancels it. `None`: this is a fork.
    fn wait_head(&self, py: Python<'_>) -> PyResult<Option<Answer>> {
        let Some(streaming) = self.0.here() else { return Ok(None) };
        let arrived = streaming.asking.wait_for_one(py).inspect_err(|_| streaming.close())?;
        Ok(Some(streaming.answer(arrived)))
    }

    /// The head, if it has come; if not, the descriptor becomes readable when it has.
    fn take_head(&self) -> Option<Answer> {
        let streaming = self.0.here()?;
        let mut arrived: Vec<Arrived> = Vec::new();
        streaming.asking.completions.take(1, &mut arrived);
        arrived.pop().map(|arrived| streaming.answer(arrived))
    }

    /// From now on the body is taken: with its content codings undone, or as it came.
    fn begin(&self, raw: bool) {
        if let Some(streaming) = self.0.here() {
            streaming.body.begin(raw);
        }
    }

    /// Waits for more of the body; empty: it has ended. What raises meanwhile, such as Ctrl-C, leaves it as it is.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some(streaming) = self.0.here() else { return Ok(None) };
        loop {
            let taken = py.detach(|| streaming.taken_in(SLICE));
            match taken {
                Taken::Bytes(bytes) => return Ok(Some(PyBytes::new(py, &bytes))),
                Taken::End(_) => return Ok(Some(PyBytes::new(py, &[]))),
                Taken::Nothing => py.check_signals()?,
            }
        }
    }

    /// What has come of the body; empty: it has ended. `None`: nothing, and the descriptor becomes readable when something has.
    fn take<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let streaming = self.0.here()?;
        match py.detach(|| streaming.body.take()) {
            Taken::Bytes(bytes) => Some(PyBytes::new(py, &bytes)),
            Taken::End(_) => Some(PyBytes::new(py, &[])),
            Taken::Nothing => None,
        }
    }

    /// Why the body is not whole, when it has ended.
    #[getter]
    fn error(&self) -> Option<Told> {
        let Failure { kind, reason, .. } = self.0.here()?.body.failure()?;
        Some((kind.name(), reason.message.to_string(), reason.detail.as_deref().map(str::to_owned)))
    }

    /// Bytes of the body that came over the connection.
    #[getter]
    fn received(&self) -> u64 {
        self.0.here().map_or(0, |streaming| streaming.body.received())
    }

    /// Returns whether this is the process that made the request.
    #[getter]
    fn is_here(&self) -> bool {
        self.0.here().is_some()
    }

    /// Returns the descriptor that an event loop watches; -1: there is none.
    fn fileno(&self) -> i32 {
        self.0.here().and_then(|streaming| streaming.asking.descriptor.as_deref()).map_or(-1, Descriptor::number)
    }

    /// The descriptor is readable no more, until something comes that somebody waits for.
    fn quiet(&self) {
        if let Some(descriptor) = self.0.here().and_then(|streaming| streaming.asking.descriptor.as_ref()) {
            descriptor.quiet();
        }
    }

    /// Abandons the rest of the body. A second call does nothing.
    fn close(&self, py: Python<'_>) {
        if let Some(streaming) = self.0.here() {
            py.detach(|| streaming.close());
        }
    }
}
