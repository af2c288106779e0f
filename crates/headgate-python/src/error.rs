//! Converts the engine's errors to Python exceptions. Their classes are defined in `headgate._errors`.

use headgate_core::error::JobError;
use headgate_engine::FailureReport;
use pyo3::prelude::*;

/// Returns the Python exception for an error of the engine.
pub(crate) fn to_python(py: Python<'_>, error: &JobError) -> PyErr {
    exception(py, error).map_or_else(|failure| failure, PyErr::from_value)
}

fn exception<'py>(py: Python<'py>, error: &JobError) -> PyResult<Bound<'py, PyAny>> {
    let report = serde_json::to_string(&FailureReport::from(error)).unwrap_or_default();
    py.import("headgate._errors")?.getattr("error_of_engine")?.call1((report,))
}
