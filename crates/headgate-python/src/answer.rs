//! `Answer`: what became of one request. Its fields become Python's when they are looked at.

use std::sync::{Mutex, PoisonError};

use headgate_engine::engine::completion_queue::Arrived;
use headgate_engine::model::outcome::{Body, Outcome};
use pyo3::prelude::*;
use pyo3::sync::{MutexExt as _, PyOnceLock};
use pyo3::types::PyBytes;

/// A kind of error, its message, and what of it varies.
type Failure = (&'static str, String, Option<String>);

/// Its memory is the caller's: none of it is set aside in the engine any more.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct Answer {
    /// `None`: the run has ended before.
    outcome: Option<Outcome>,
    /// Until it is looked at.
    received: Mutex<Option<Body>>,
    body: PyOnceLock<Py<PyBytes>>,
}

impl Answer {
    pub fn of(arrived: Arrived) -> Self {
        let mut outcome = arrived.outcome;
        if let Some(outcome) = &mut outcome {
            outcome.give_memory_back();
        }
        let answer = outcome.as_mut().and_then(|outcome| outcome.answer.as_mut());
        let received = answer.and_then(|answer| answer.body.take());
        Self { outcome, received: Mutex::new(received), body: PyOnceLock::new() }
    }

    fn answer(&self) -> Option<&headgate_engine::model::outcome::Answer> {
        self.outcome.as_ref()?.answer.as_ref()
    }
}

#[pymethods]
impl Answer {
    #[getter]
    fn status(&self) -> Option<u16> {
        Some(self.answer()?.status)
    }

    /// Names and values as they were received; a value that is no UTF-8 is read as Latin-1.
    #[getter]
    fn headers(&self) -> Vec<(String, String)> {
        let Some(answer) = self.answer() else { return Vec::new() };
        let text = |value: &[u8]| match std::str::from_utf8(value) {
            Ok(text) => text.to_owned(),
            Err(_) => value.iter().copied().map(char::from).collect(),
        };
        answer.headers.iter().map(|(name, value)| (name.to_owned(), text(value))).collect()
    }

    /// The same object each time: it is not there twice.
    #[getter]
    fn body(&self, py: Python<'_>) -> &Py<PyBytes> {
        self.body.get_or_init(py, || {
            let received = self.received.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).take();
            PyBytes::new(py, received.as_ref().map_or(&[], |body| &body.bytes)).unbind()
        })
    }

    /// Bytes of the body, which this does not make Python's.
    #[getter]
    fn body_len(&self, py: Python<'_>) -> usize {
        if let Some(body) = self.body.get(py) {
            return body.as_bytes(py).len();
        }
        let received = self.received.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        received.as_ref().map_or(0, |body| body.bytes.len())
    }

    #[getter]
    fn body_truncated(&self) -> bool {
        self.answer().is_some_and(|answer| answer.body_truncated)
    }

    #[getter]
    fn url(&self) -> Option<&str> {
        Some(&self.outcome.as_ref()?.row.url)
    }

    /// Where redirects have led.
    #[getter]
    fn final_url(&self) -> Option<&str> {
        Some(self.outcome.as_ref()?.row.target())
    }

    /// Status and the URL that it led to, of each redirect.
    #[getter]
    fn redirects(&self) -> Vec<(u16, &str)> {
        let hops = self.outcome.as_ref().map_or(&[][..], |outcome| outcome.row.hops());
        hops.iter().map(|hop| (hop.status, &*hop.location)).collect()
    }

    #[getter]
    fn elapsed_us(&self) -> u64 {
        self.outcome.as_ref().map_or(0, |outcome| outcome.elapsed_us)
    }

    #[getter]
    fn attempts(&self) -> u16 {
        self.outcome.as_ref().map_or(0, |outcome| outcome.attempts)
    }

    /// As `HTTP/1.1`.
    #[getter]
    fn http_version(&self) -> Option<String> {
        Some(format!("{:?}", self.answer()?.version))
    }

    #[getter]
    fn remote_addr(&self) -> Option<&str> {
        self.outcome.as_ref()?.remote_addr.as_deref()
    }

    /// Why there is no usable answer, if there is none.
    #[getter]
    fn error(&self) -> Option<Failure> {
        let Some(outcome) = &self.outcome else {
            return Some(("cancelled", "the client was closed before it had an answer".to_owned(), None));
        };
        let failure = outcome.failure.as_ref()?;
        let detail = failure.reason.detail.as_deref().map(str::to_owned);
        Some((failure.kind.name(), failure.reason.message.to_string(), detail))
    }
}
