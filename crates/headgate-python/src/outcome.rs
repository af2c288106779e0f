//! `NativeOutcome`: the outcome of one request. Its fields become Python objects when they are read.

use std::sync::{Arc, Mutex, PoisonError};

use headgate_core::error::Failure;
use headgate_core::response::{Body, Response};
use headgate_core::row::{Outcome, RowBody};
use headgate_engine::{Arrived, LiveDefaults, Run, SentHeader, SentRequest};
use pyo3::prelude::*;
use pyo3::sync::{MutexExt as _, PyOnceLock};
use pyo3::types::PyBytes;

/// An error kind, its message, and the detail that varies from request to request.
pub(crate) type FailureFields = (&'static str, String, Option<String>);

pub(crate) fn failure_fields(failure: &Failure) -> FailureFields {
    let Failure { kind, reason, .. } = failure;
    (kind.name(), reason.message.to_string(), reason.detail.as_deref().map(str::to_owned))
}

/// A method, a URL, headers with whether they are credentials, and a body.
pub(crate) type SentFields<'py> = (String, String, Vec<(String, String, bool)>, Option<Bound<'py, PyBytes>>);

pub(crate) fn sent_fields(py: Python<'_>, request: SentRequest) -> SentFields<'_> {
    let SentRequest { method, url, headers, body } = request;
    let fields = |SentHeader { name, value, is_secret }| (name, text_of(&value), is_secret);
    (method, url, headers.into_iter().map(fields).collect(), body.map(|body| PyBytes::new(py, &body)))
}

/// Returns the value of a header as text: one that is not UTF-8 is decoded as Latin-1.
fn text_of(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.iter().copied().map(char::from).collect(),
    }
}

/// The outcome of one request. The caller owns its memory: the engine's memory reservation for it was released.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct NativeOutcome {
    /// `None` means that the run ended before the request had an outcome.
    outcome: Option<Outcome>,
    /// The body, until `body` converts it to a Python object.
    received: Mutex<Option<Body>>,
    body: PyOnceLock<Py<PyBytes>>,
    /// Of the run that made the request.
    defaults: Arc<LiveDefaults>,
}

impl NativeOutcome {
    pub fn of(arrived: Arrived, run: &Run) -> Self {
        let mut outcome = arrived.outcome;
        if let Some(outcome) = &mut outcome {
            outcome.release_memory();
            // One that was read while it was sent may have an open file.
            if let Some(extra) = &mut outcome.row.extra {
                extra.body.take_if(|body| !matches!(body, RowBody::Bytes(_)));
            }
        }
        let response = outcome.as_mut().and_then(|outcome| outcome.response.as_mut());
        let received = response.and_then(|response| response.body.take());
        Self { outcome, received: Mutex::new(received), body: PyOnceLock::new(), defaults: run.defaults().clone() }
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
        response.headers.iter().map(|(name, value)| (name.to_owned(), text_of(value))).collect()
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

    /// Returns the last request as it was sent, or `None` if it could not be made.
    #[getter]
    fn sent_request<'py>(&self, py: Python<'py>) -> Option<SentFields<'py>> {
        self.defaults.sent_request(&self.outcome.as_ref()?.row).map(|request| sent_fields(py, request))
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
