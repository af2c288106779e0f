//! `plan`: a forecast of a job, for `headgate plan`.

use pyo3::prelude::*;

use crate::error::to_python;
use crate::json::to_json;
use crate::options::fetch_options;

/// Returns `headgate_engine::Plan` as JSON. `latency_s` is the mean time of a response, if it is known.
#[pyfunction]
pub(crate) fn plan(options: &Bound<'_, PyAny>, latency_s: Option<f64>) -> PyResult<String> {
    let (py, options) = (options.py(), fetch_options(options)?);
    let plan = py.detach(|| headgate_engine::plan(&options, latency_s)).map_err(|error| to_python(py, &error))?;
    to_json(py, &plan)
}
