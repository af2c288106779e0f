//! `Run`: one run of a job. Its figures are passed as JSON, under the names of the engine's `Snapshot` and `Summary`.

use std::collections::BTreeMap;
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::to_python;
use crate::json::to_json;
use crate::options::{fetch_options, retry_options};

/// One run of a job. May be used from any thread.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct Run {
    inner: headgate_engine::Run,
}

#[pymethods]
impl Run {
    #[new]
    fn new(options: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (py, options) = (options.py(), fetch_options(options)?);
        let started = py.detach(|| headgate_engine::Run::job(&options));
        started.map(|inner| Self { inner }).map_err(|error| to_python(py, &error))
    }

    /// Starts a run that retries the failed rows of a job.
    #[staticmethod]
    fn retry(options: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (py, options) = (options.py(), retry_options(options)?);
        let started = py.detach(|| headgate_engine::Run::retry(options));
        started.map(|inner| Self { inner }).map_err(|error| to_python(py, &error))
    }

    /// Waits for the end of the run, for at most `timeout`, and returns whether the run has ended. It does not wait if
    /// `timeout` is negative or NaN.
    fn wait(&self, py: Python<'_>, timeout: f64) -> bool {
        let timeout = Duration::try_from_secs_f64(timeout).unwrap_or_default();
        py.detach(|| self.inner.wait(timeout))
    }

    fn stop(&self) {
        self.inner.stop();
    }

    fn abort(&self) {
        self.inner.abort();
    }

    /// Sets options of the run, from their names and their values as text.
    fn set(&self, py: Python<'_>, settings: BTreeMap<String, String>) -> PyResult<()> {
        py.detach(|| self.inner.set(settings)).map_err(|error| to_python(py, &error))
    }

    fn pause(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.pause()).map_err(|error| to_python(py, &error))
    }

    fn unpause(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.unpause()).map_err(|error| to_python(py, &error))
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<String> {
        to_json(py, &py.detach(|| self.inner.snapshot()))
    }

    fn summary(&self, py: Python<'_>) -> PyResult<String> {
        to_json(py, &py.detach(|| self.inner.summary()))
    }
}
