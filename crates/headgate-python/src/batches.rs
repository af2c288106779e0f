//! `BatchFlow`: record batches through the engine, a step at a time. `BatchRuns`: what such calls have in common. `BatchTable`:
//! batches that came out, as one table.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::SchemaRef;
use headgate_engine::run::batches;
use headgate_engine::run::batches::Step;
use headgate_engine::run::fed_runs::FedRuns;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow_in::record_batches;
use crate::error::to_python;
use crate::options::fetch_options;
use crate::rows::{RowBatch, RowSchema};

/// What the input is called in messages.
const INPUT: &str = "batches";

/// May be used from any thread, of the process that made it.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct BatchRuns {
    inner: Arc<FedRuns>,
}

/// One call. One thread at a time has it.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct BatchFlow {
    inner: Mutex<batches::BatchFlow>,
}

/// Batches of one schema. Each who asks gets all of them.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct BatchTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

#[pymethods]
impl BatchRuns {
    #[new]
    fn new() -> Self {
        Self { inner: Arc::default() }
    }

    /// Begins a call with these options.
    fn begin(&self, options: &Bound<'_, PyAny>) -> PyResult<BatchFlow> {
        let (py, mut options) = (options.py(), fetch_options(options)?);
        options.source.input = INPUT.into();
        let begun = py.detach(|| batches::BatchFlow::new(self.inner.clone(), options));
        begun.map(|inner| BatchFlow { inner: Mutex::new(inner) }).map_err(|error| to_python(py, &error))
    }
}

#[pymethods]
impl BatchFlow {
    /// Takes rows of this object next, which has `__arrow_c_array__` or `__arrow_c_stream__`.
    fn take_from(&self, batch: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, reader) = (batch.py(), record_batches(batch)?);
        py.detach(|| self.inner().take_from(reader)).map_err(|error| to_python(py, &error))
    }

    /// There are no more batches.
    fn end(&self, py: Python<'_>) {
        py.detach(|| self.inner().end());
    }

    /// Goes on for so long: a batch of results, if there is one by then, and whether it has come to its end or wants a batch.
    fn step(&self, py: Python<'_>, timeout_s: f64) -> PyResult<(Option<RowBatch>, bool, bool)> {
        let until = Instant::now() + Duration::try_from_secs_f64(timeout_s).unwrap_or_default();
        match py.detach(|| self.inner().step(until)).map_err(|error| to_python(py, &error))? {
            Step::Batch(records) => Ok((Some(RowBatch::of(records)), false, false)),
            Step::Ended => Ok((None, true, false)),
            Step::WantsBatch => Ok((None, false, true)),
            Step::Waits => Ok((None, false, false)),
        }
    }

    /// Cancels what is in flight.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner().close());
    }

    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<RowSchema> {
        py.detach(|| self.inner().schema()).map(RowSchema::of).map_err(|error| to_python(py, &error))
    }

    /// Batches that came out of it, as one table.
    fn table(&self, py: Python<'_>, batches: Vec<PyRef<'_, RowBatch>>) -> PyResult<BatchTable> {
        let batches = batches.into_iter().map(|batch| batch.records().clone()).collect();
        let schema = py.detach(|| self.inner().schema()).map_err(|error| to_python(py, &error))?;
        Ok(BatchTable { schema, batches })
    }
}

impl BatchFlow {
    fn inner(&self) -> MutexGuard<'_, batches::BatchFlow> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl BatchTable {
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[getter]
    fn schema(&self) -> RowSchema {
        RowSchema::of(self.schema.clone())
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    /// The batches that it is made of.
    #[getter]
    fn batches(&self) -> Vec<RowBatch> {
        self.batches.iter().cloned().map(RowBatch::of).collect()
    }

    /// The interface lets a stream keep its own schema whatever is requested.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new(batches, self.schema.clone())));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
