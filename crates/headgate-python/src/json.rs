//! Passes figures to Python as JSON, because they are passed rarely and as a whole.

use headgate_core::error::JobError;
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use serde_json::Value;

use crate::error::to_python;

/// Returns the figures as JSON.
pub(crate) fn to_json(py: Python<'_>, figures: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(figures).map_err(|error| to_python(py, &JobError::internal(error.to_string())))
}

/// Converts a JSON value to Python objects, with tuples for arrays. It avoids Python's `json` module, whose import is slow.
pub(crate) fn to_objects<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(is_on) => is_on.into_bound_py_any(py),
        Value::Number(number) => match number.as_u64() {
            Some(whole) => whole.into_bound_py_any(py),
            None => number.as_f64().into_bound_py_any(py),
        },
        Value::String(text) => text.into_bound_py_any(py),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| to_objects(py, item)).collect::<PyResult<_>>()?;
            Ok(PyTuple::new(py, items)?.into_any())
        }
        Value::Object(fields) => {
            let dict = PyDict::new(py);
            fields.iter().try_for_each(|(name, value)| dict.set_item(name, to_objects(py, value)?))?;
            Ok(dict.into_any())
        }
    }
}
