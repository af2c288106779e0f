//! The one place where the engine's errors become Python's. The classes are defined in `headgate._errors`.

use headgate_engine::model::error::{JobError, JobErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The Python exception for an engine's error.
pub fn to_python(py: Python<'_>, error: &JobError) -> PyErr {
    let name = match error.kind {
        JobErrorKind::Usage => "UsageError",
        JobErrorKind::Input => "InputError",
        JobErrorKind::Output => "OutputError",
        JobErrorKind::Internal => "InternalError",
    };
    match class(py, name) {
        Ok(class) => PyErr::from_type(class, error.message.clone()),
        Err(missing) => missing,
    }
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    Ok(py.import("headgate._errors")?.getattr(name)?.cast_into()?)
}
