//! A job's directory, looked at: how far the job is, and its rows. Nothing is changed there.

use std::path::PathBuf;

use headgate_engine::job::status;
use pyo3::prelude::*;

use crate::error::to_python;
use crate::json::to_json;
use crate::rows::RowStream;

/// `headgate_engine::job::status::Status` as JSON.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over what it made")]
pub fn job_status(py: Python<'_>, output: PathBuf, check_all: bool) -> PyResult<String> {
    let status = if check_all { status::checked_status } else { status::status };
    let status = py.detach(|| status(&output)).map_err(|error| to_python(py, &error))?;
    to_json(py, &status)
}

/// The rows of the parts there are now: answered ones first.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands over what it made")]
pub fn job_rows(py: Python<'_>, output: PathBuf) -> PyResult<RowStream> {
    let parts = py.detach(|| status::parts(&output)).map_err(|error| to_python(py, &error))?;
    Ok(RowStream::of(parts.files, parts.schema))
}
