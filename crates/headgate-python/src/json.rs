//! Figures that are passed to Python as JSON, since they are passed as a whole and seldom.

use headgate_engine::model::error::JobError;
use pyo3::prelude::*;

use crate::error::to_python;

pub fn to_json(py: Python<'_>, figures: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(figures).map_err(|error| to_python(py, &JobError::internal(error.to_string())))
}
