//! `BatchFlow`: record batches through the engine, a step at a time. `BatchRuns`: what such calls have in common. `BatchTable`:
//! batches that came out, as one table.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use headgate_engine::engine::waker::WakeCaller;
use headgate_engine::model::error::JobError;
use headgate_engine::model::options::JobOptions;
use headgate_engine::run::Run;
use headgate_engine::run::batches;
use headgate_engine::run::batches::Step;
use headgate_engine::run::fed_runs::FedRuns;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow_in::record_batches;
use crate::descriptor::Descriptor;
use crate::error::to_python;
use crate::json::to_json;
use crate::kept::Kept;
use crate::mailbox::Request;
use crate::options::fetch_options;
use crate::rows::{RowBatch, RowSchema};

/// The name of the input in messages.
const INPUT: &str = "batches";

/// May be used from any thread, of the process that made it.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct BatchRuns {
    inner: Arc<FedRuns>,
}

/// One call. One thread at a time has it.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct BatchFlow {
    inner: Kept<Mutex<batches::BatchFlow>>,
    /// The descriptor that an event loop watches.
    descriptor: Option<Arc<Descriptor>>,
}

/// The kind of a call on the run of a client.
pub enum Asks {
    /// Rows of tables, with this that URLs are relative to.
    Tables(String),
    Requests,
}

/// Batches of one schema. Each consumer gets all of them.
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

    /// Begins a call with these options. `watched`: a loop watches its descriptor.
    fn begin(&self, options: &Bound<'_, PyAny>, watched: bool) -> PyResult<BatchFlow> {
        let (py, mut options) = (options.py(), fetch_options(options)?);
        options.source.input = INPUT.into();
        BatchFlow::begin(py, watched, |waker| batches::BatchFlow::new(self.inner.clone(), options, waker))
    }
}

#[pymethods]
impl BatchFlow {
    /// Takes rows of this object next, which has `__arrow_c_array__` or `__arrow_c_stream__`.
    fn take_from(&self, batch: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, reader) = (batch.py(), record_batches(batch)?);
        self.with(py, |flow| flow.take_from(reader))
    }

    /// Makes these requests.
    fn feed(&self, py: Python<'_>, requests: Vec<Request>) -> PyResult<()> {
        self.with(py, |flow| flow.feed_requests(requests.into_iter().map(Request::into_row).collect()))
    }

    /// There are no more batches, or requests.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |flow| {
            flow.end();
            Ok(())
        })
    }

    /// Goes on for so long: a batch of results, if there is one by then, and whether it has come to its end or wants a batch.
    fn step(&self, py: Python<'_>, timeout_s: f64) -> PyResult<(Option<RowBatch>, bool, bool)> {
        let until = Instant::now() + Duration::try_from_secs_f64(timeout_s).unwrap_or_default();
        match self.with(py, |flow| flow.step(until))? {
            Step::Batch(records) => Ok((Some(RowBatch::of(records)), false, false)),
            Step::Ended => Ok((None, true, false)),
            Step::WantsBatch => Ok((None, false, true)),
            Step::Waits => Ok((None, false, false)),
        }
    }

    /// In how many seconds there will be a batch, if nothing more arrives before.
    fn ready_in_s(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let ready_at = self.with(py, |flow| Ok(flow.ready_at()))?;
        Ok(ready_at.map(|at| at.saturating_duration_since(Instant::now()).as_secs_f64()))
    }

    /// Returns the descriptor that an event loop watches, or -1: readable when an outcome arrives after there was none.
    fn fileno(&self) -> i32 {
        self.descriptor.as_deref().map_or(-1, Descriptor::number)
    }

    /// Its descriptor is not readable any more until something comes.
    fn quiet(&self) {
        if let Some(descriptor) = &self.descriptor {
            descriptor.quiet();
        }
    }

    /// As that of a run.
    fn snapshot(&self, py: Python<'_>) -> PyResult<String> {
        to_json(py, &self.with(py, |flow| Ok(flow.snapshot()))?)
    }

    /// A stream of the batches that this iterator has.
    fn stream<'py>(&self, py: Python<'py>, batches: Py<PyAny>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = self.with(py, |flow| flow.schema())?;
        let stream = FFI_ArrowArrayStream::new(Box::new(Iterated { batches, schema }));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Releases the memory reservations of untaken results, in all calls that share its limits.
    fn give_memory_back(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |flow| {
            flow.give_memory_back();
            Ok(())
        })
    }

    /// Cancels what is in flight.
    fn close(&self, py: Python<'_>) {
        if let Some(flow) = self.inner.here() {
            py.detach(|| locked(flow).close());
        }
    }

    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<RowSchema> {
        self.with(py, |flow| flow.schema()).map(RowSchema::of)
    }

    /// Batches that came out of it, as one table.
    fn table(&self, py: Python<'_>, batches: Vec<PyRef<'_, RowBatch>>) -> PyResult<BatchTable> {
        let batches = batches.into_iter().map(|batch| batch.records().clone()).collect();
        let schema = self.with(py, |flow| flow.schema())?;
        Ok(BatchTable { schema, batches })
    }
}

impl BatchFlow {
    /// Begins a call on the run of a client. `watched`: a loop watches its descriptor.
    pub fn on(py: Python<'_>, run: Arc<Run>, mut options: JobOptions, asks: Asks, watched: bool) -> PyResult<Self> {
        options.source.input = INPUT.into();
        Self::begin(py, watched, |waker| match asks {
            Asks::Tables(base_url) => batches::BatchFlow::on(run, options, base_url, waker),
            Asks::Requests => batches::BatchFlow::of_requests(run, options, waker),
        })
    }

    fn begin(
        py: Python<'_>,
        watched: bool,
        begin: impl FnOnce(Option<Arc<dyn WakeCaller>>) -> Result<batches::BatchFlow, JobError> + Send,
    ) -> PyResult<Self> {
        let descriptor = Descriptor::watched(watched)?;
        let waker = descriptor.clone().map(|descriptor| descriptor as Arc<dyn WakeCaller>);
        let inner = py.detach(|| begin(waker)).map_err(|error| to_python(py, &error))?;
        Ok(Self { inner: Kept::new(Mutex::new(inner)), descriptor })
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&mut batches::BatchFlow) -> Result<T, JobError> + Send,
    ) -> PyResult<T> {
        let elsewhere = || JobError::usage("it was begun in another process: begin it after the fork");
        let flow = self.inner.here().ok_or_else(elsewhere);
        flow.and_then(|flow| py.detach(|| what(&mut locked(flow)))).map_err(|error| to_python(py, &error))
    }
}

fn locked(flow: &Mutex<batches::BatchFlow>) -> MutexGuard<'_, batches::BatchFlow> {
    flow.lock().unwrap_or_else(PoisonError::into_inner)
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

/// What a consumer in C calls. The iterator is Python's, and runs what is Python's of the input.
struct Iterated {
    batches: Py<PyAny>,
    schema: SchemaRef,
}

impl Iterator for Iterated {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = Python::attach(|py| {
            let Some(batch) = self.batches.bind(py).try_iter()?.next() else { return Ok(None) };
            Ok(Some(batch?.cast::<RowBatch>()?.get().records().clone()))
        });
        next.map_err(|error: PyErr| {
            // Its text comes first: nothing of Python's is to run after an interrupt.
            let told = error.to_string();
            Python::attach(|py| interrupt_again(py, &error));
            ArrowError::ExternalError(told.into())
        })
        .transpose()
    }
}

/// Who reads a stream makes an error of its own of Ctrl-C, which is to end the program all the same.
fn interrupt_again(py: Python<'_>, error: &PyErr) {
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        // Where that is not possible, there is the error.
        let _ = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
    }
}

impl RecordBatchReader for Iterated {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
