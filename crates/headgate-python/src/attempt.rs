//! `NativeAttempt`: an attempt that has ended.

use std::sync::Arc;

use headgate_core::row::AttemptRecord;
use headgate_engine::{LiveDefaults, Run};
use pyo3::prelude::*;

use crate::outcome::{FailureFields, SentFields, failure_fields, sent_fields};

/// An attempt that has ended.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct NativeAttempt {
    attempt: Box<AttemptRecord>,
    defaults: Arc<LiveDefaults>,
}

impl NativeAttempt {
    /// Returns attempts with the numbers of their requests.
    pub fn numbered(attempts: Vec<(u64, Box<AttemptRecord>)>, run: &Run) -> Vec<(u64, Self)> {
        let native = |attempt| Self { attempt, defaults: run.defaults().clone() };
        attempts.into_iter().map(|(number, attempt)| (number, native(attempt))).collect()
    }
}

#[pymethods]
impl NativeAttempt {
    /// Returns the last request of the attempt as it was sent.
    #[getter]
    fn sent_request<'py>(&self, py: Python<'py>) -> Option<SentFields<'py>> {
        self.defaults.sent_request(&self.attempt.row).map(|request| sent_fields(py, request))
    }

    #[getter]
    fn number(&self) -> u16 {
        self.attempt.number
    }

    #[getter]
    fn started_at_us(&self) -> i64 {
        self.attempt.started_at_us
    }

    #[getter]
    fn elapsed_s(&self) -> f64 {
        self.attempt.elapsed.as_secs_f64()
    }

    #[getter]
    fn waited_s(&self) -> f64 {
        self.attempt.waited.as_secs_f64()
    }

    #[getter]
    fn status(&self) -> Option<u16> {
        self.attempt.status
    }

    #[getter]
    fn http_version(&self) -> Option<String> {
        Some(format!("{:?}", self.attempt.version?))
    }

    #[getter]
    fn remote_addr(&self) -> Option<&str> {
        self.attempt.remote_addr.as_deref()
    }

    #[getter]
    fn is_new_connection(&self) -> bool {
        self.attempt.is_new_connection
    }

    #[getter]
    fn retry_in_s(&self) -> Option<f64> {
        self.attempt.retry_in.map(|time| time.as_secs_f64())
    }

    #[getter]
    fn error(&self) -> Option<FailureFields> {
        self.attempt.failure.as_ref().map(failure_fields)
    }
}
