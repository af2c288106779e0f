//! `NativeOutcome`: the outcome of one request. Its fields become Python objects when they are read.

use std::sync::{Mutex, PoisonError};

use headgate_core::error::Failure;
use headgate_core::response::{Body, Response};
use headgate_core::row::Outcome;
use headgate_engine::Arrived;
use pyo3::prelude::*;
use pyo3::sync::{MutexExt as _, PyOnceLock};
use pyo3::types::PyBytes;

/// An error kind, its message, and the detail that varies from request to request.
pub(crate) type FailureFields = (&'static str, String, Option<String>);

pub(crate) fn failure_fields(failure: &Failure) -> FailureFields {
    let Failure { kind, reason, .. } = failure;
    (kind.name(), reason.message.to_string(), reason.detail.as_deref().map(str::to_owned))
}

/// The outcome of one request. The caller owns its memory: the engine's memory reservation for it was released.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct NativeOutcome {
    /// `None` means that the run ended before the request had an outcome.
    outcome: Option<Outcome>,
    /// The body, until `body` converts it to a Python object.
    received: Mutex<Option<Body>>,
    body: PyOnceLock<Py<PyBytes>>,
}

impl NativeOutcome {
    pub fn of(arrived: Arrived) -> Self {
        let mut outcome = arrived.outcome;
        if let Some(outcome) = &mut outcome {
            outcome.release_memory();
            // The caller has the body of its request.
            outcome.row.extra.as_mut().and_then(|extra| extra.body.take());
        }
        let response = outcome.as_mut().and_then(|outcome| outcome.response.as_mut());
        let received = response.and_then(|response| response.body.take());
        Self { outcome, received: Mutex::new(received), body: PyOnceLock::new() }
    }

    fn response(&self) -> Option<&Response> {
        self.outcome.as_ref()?.response.as_ref()
    }
}

#[pymethods]
impl NativeOutcome {
    #[getter]
    fn status(&self) -> Option<u16> {
        Some(self.response()?.status)
    }

    /// Names and values as they were received; a value that is not UTF-8 is decoded as Latin-1.
    #[getter]
    fn headers(&self) -> Vec<(String, String)> {
        let Some(response) = self.response() else { return Vec::new() };
        let decode = |value: &[u8]| match std::str::from_utf8(value) {
            Ok(text) => text.to_owned(),
            Err(_) => value.iter().copied().map(char::from).collect(),
        };
        response.headers.iter().map(|(name, value)| (name.to_owned(), decode(value))).collect()
    }

    /// Returns the body. Every read returns the same object, so that only one copy exists.
    #[getter]
    fn body(&self, py: Python<'_>) -> &Py<PyBytes> {
        self.body.get_or_init(py, || {
            let received = self.received.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).take();
            PyBytes::new(py, received.as_ref().map_or(&[], |body| &body.bytes)).unbind()
        })
    }

    /// Returns the length of the body. Reading it does not convert the body to a Python object.
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
        self.response().is_some_and(|response| response.body_truncated)
    }

    #[getter]
    fn url(&self) -> Option<&str> {
        Some(&self.outcome.as_ref()?.row.url)
    }

    /// Returns the URL at the end of the redirect chain.
    #[getter]
    fn final_url(&self) -> Option<&str> {
        Some(self.outcome.as_ref()?.row.target())
    }

    /// Returns the status and the target of each redirect.
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

    /// Returns the HTTP version of the response, such as `HTTP/1.1`.
    #[getter]
    fn http_version(&self) -> Option<String> {
        Some(format!("{:?}", self.response()?.version))
    }

    #[getter]
    fn remote_addr(&self) -> Option<&str> {
        self.outcome.as_ref()?.remote_addr.as_deref()
    }

    /// Returns the error of a failed request: there is no usable response.
    #[getter]
    fn error(&self) -> Option<FailureFields> {
        let Some(outcome) = &self.outcome else {
            return Some(("cancelled", "the client was closed before a response arrived".to_owned(), None));
        };
        outcome.failure.as_ref().map(failure_fields)
    }
}
