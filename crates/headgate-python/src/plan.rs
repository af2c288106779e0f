//! `plan`: a forecast of a job, for `headgate plan`.

use pyo3::prelude::*;

use crate::error::to_python;
use crate::json::to_json;
use crate::options::fetch_options;

/// Returns `headgate_engine::Plan` as JSON. `latency_s` and `response_bytes` are the mean time and size of a response, if they
/// are known.
#[pyfunction]
pub(crate) fn plan(
    options: &Bound<'_, PyAny>,
    latency_s: Option<f64>,
    response_bytes: Option<f64>,
) -> PyResult<String> {
    let (py, options) = (options.py(), fetch_options(options)?);
    let plan = py.detach(|| headgate_engine::plan(&options, latency_s, response_bytes));
    let plan = plan.map_err(|error| to_python(py, &error))?;
    to_json(py, &plan)
}
