//! `BatchFlow`: a call that passes record batches through the engine, one step at a time. `BatchRuns`: the runs that such
//! calls share. `BatchTable`: batches of results, as one table.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader,
    StringArray,
};
use arrow_schema::{ArrowError, SchemaRef};
use headgate_core::clock;
use headgate_core::error::JobError;
use headgate_core::options::JobOptions;
use headgate_engine::{FedRuns, Run, Step, WakeCaller};
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow_in::record_batches;
use crate::descriptor::Descriptor;
use crate::error::to_python;
use crate::fork_safe::ForkSafe;
use crate::gil::{FreedByC, with_gil};
use crate::json::to_json;
use crate::options::fetch_options;
use crate::request::Request;
use crate::rows::{RowBatch, RowSchema};

/// The name of the input in messages.
const INPUT: &str = "batches";

/// The runs that calls with batches share. May be used from any thread of the process that created it.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct BatchRuns {
    inner: Arc<FedRuns>,
}

/// One call with batches or requests. Only one thread at a time may use it.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct BatchFlow {
    inner: ForkSafe<Mutex<headgate_engine::BatchFlow>>,
    /// The descriptor that an event loop watches.
    descriptor: Option<Arc<Descriptor>>,
}

/// The input of a call on the run of a client.
pub enum FlowInput {
    /// Rows of tables, with the base URL for relative URLs.
    Tables(String),
    Requests,
}

/// Batches with one schema. Each consumer gets all of them.
#[pyclass(frozen, module = "headgate")]
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

    /// Starts a call with these options. `watched` means that an event loop watches its descriptor.
    fn start(&self, options: &Bound<'_, PyAny>, watched: bool) -> PyResult<BatchFlow> {
        let (py, mut options) = (options.py(), fetch_options(options)?);
        options.source.input = INPUT.into();
        BatchFlow::start(py, watched, |waker| headgate_engine::BatchFlow::new(&self.inner, options, waker))
    }
}

#[pymethods]
impl BatchFlow {
    /// Makes an object with `__arrow_c_array__` or `__arrow_c_stream__` the source of the next rows.
    fn set_table(&self, batch: &Bound<'_, PyAny>) -> PyResult<()> {
        let (py, reader) = (batch.py(), record_batches(batch)?);
        self.with(py, |flow| flow.set_reader(reader))
    }

    /// Submits these requests. Their tags have the name of their type; if the first requests have none, no requests do.
    fn submit(&self, py: Python<'_>, requests: Vec<Request>, tags: Option<(String, Bound<'_, PyAny>)>) -> PyResult<()> {
        let tags = tags.map(|(kind, values)| tags_of(&kind, &values)).transpose()?;
        self.with(py, |flow| flow.feed_requests(requests.into_iter().map(Request::into_row).collect(), tags))
    }

    /// Marks the input as complete: the caller submits no more batches or requests.
    fn finish_input(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |flow| {
            flow.end();
            Ok(())
        })
    }

    /// Advances the call for at most `timeout`. Returns a batch of results if one is complete, whether the call has ended,
    /// and whether it needs more input.
    fn step(&self, py: Python<'_>, timeout: f64) -> PyResult<(Option<RowBatch>, bool, bool)> {
        let until = clock::now() + Duration::try_from_secs_f64(timeout).unwrap_or_default();
        match self.with(py, |flow| flow.step(until))? {
            Step::Batch(records) => Ok((Some(RowBatch::of(records)), false, false)),
            Step::Ended => Ok((None, true, false)),
            Step::WantsBatch => Ok((None, false, true)),
            Step::Wait => Ok((None, false, false)),
        }
    }

    /// Returns the seconds until the next batch is due even if no more outcomes arrive; `None` if no outcome is waiting.
    fn ready_in_s(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let ready_at = self.with(py, |flow| Ok(flow.ready_at()))?;
        Ok(ready_at.map(|at| at.saturating_duration_since(clock::now()).as_secs_f64()))
    }

    /// Returns the descriptor that an event loop watches, or -1 without one. It becomes readable when an outcome arrives
    /// after there was none.
    fn fileno(&self) -> i32 {
        self.descriptor.as_deref().map_or(-1, Descriptor::number)
    }

    /// Makes the descriptor unreadable until an outcome arrives.
    fn clear_wakeup(&self) {
        if let Some(descriptor) = &self.descriptor {
            descriptor.clear();
        }
    }

    /// Returns the snapshot of the call's run, as JSON.
    fn snapshot(&self, py: Python<'_>) -> PyResult<String> {
        to_json(py, &self.with(py, |flow| Ok(flow.snapshot()))?)
    }

    /// Returns an Arrow stream of the batches that this Python iterator yields.
    fn stream<'py>(&self, py: Python<'py>, batches: Py<PyAny>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = self.with(py, |flow| flow.schema())?;
        let stream = FFI_ArrowArrayStream::new(Box::new(Iterated { batches: FreedByC::new(batches), schema }));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Releases the memory reservations of results that no caller has collected, in all calls that share its limits.
    fn release_memory(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |flow| {
            flow.release_memory();
            Ok(())
        })
    }

    /// Ends the call and cancels its requests in flight.
    fn close(&self, py: Python<'_>) {
        if let Some(flow) = self.inner.get() {
            py.detach(|| locked(flow).close());
        }
    }

    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<RowSchema> {
        self.with(py, |flow| flow.schema()).map(RowSchema::of)
    }

    /// Returns these batches of the call as one table.
    fn table(&self, py: Python<'_>, batches: Vec<PyRef<'_, RowBatch>>) -> PyResult<BatchTable> {
        let batches = batches.into_iter().map(|batch| batch.records().clone()).collect();
        let schema = self.with(py, |flow| flow.schema())?;
        Ok(BatchTable { schema, batches })
    }
}

impl BatchFlow {
    /// Starts a call on the run of a client. `watched` means that an event loop watches its descriptor.
    pub fn on(
        py: Python<'_>,
        run: Arc<Run>,
        mut options: JobOptions,
        input: FlowInput,
        watched: bool,
    ) -> PyResult<Self> {
        options.source.input = INPUT.into();
        Self::start(py, watched, |waker| match input {
            FlowInput::Tables(base_url) => headgate_engine::BatchFlow::on(run, options, base_url, waker),
            FlowInput::Requests => headgate_engine::BatchFlow::on(run, options, String::new(), waker),
        })
    }

    fn start(
        py: Python<'_>,
        watched: bool,
        start: impl FnOnce(Option<Arc<dyn WakeCaller>>) -> Result<headgate_engine::BatchFlow, JobError> + Send,
    ) -> PyResult<Self> {
        let descriptor = Descriptor::watched(watched)?;
        let waker = descriptor.clone().map(|descriptor| descriptor as Arc<dyn WakeCaller>);
        let inner = py.detach(|| start(waker)).map_err(|error| to_python(py, &error))?;
        Ok(Self { inner: ForkSafe::new(Mutex::new(inner)), descriptor })
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        operation: impl FnOnce(&mut headgate_engine::BatchFlow) -> Result<T, JobError> + Send,
    ) -> PyResult<T> {
        let elsewhere = || JobError::usage("it was started in another process: start it after the fork");
        let flow = self.inner.get().ok_or_else(elsewhere);
        flow.and_then(|flow| py.detach(|| operation(&mut locked(flow)))).map_err(|error| to_python(py, &error))
    }
}

/// Returns tags as a column of the type with this name, which they all have; `None` is null.
fn tags_of(kind: &str, values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    Ok(match kind {
        "int64" => Arc::new(Int64Array::from(values.extract::<Vec<Option<i64>>>()?)),
        "float64" => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
        "bool" => Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?)),
        "utf8" => Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?)),
        "binary" => {
            Arc::new(values.extract::<Vec<Option<Vec<u8>>>>()?.iter().map(Option::as_deref).collect::<BinaryArray>())
        }
        _ => return Err(PyTypeError::new_err(format!("tags can't be {kind}"))),
    })
}

fn locked(flow: &Mutex<headgate_engine::BatchFlow>) -> MutexGuard<'_, headgate_engine::BatchFlow> {
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

    /// Returns the batches of the table.
    #[getter]
    fn batches(&self) -> Vec<RowBatch> {
        self.batches.iter().cloned().map(RowBatch::of).collect()
    }

    /// Returns the table as an Arrow stream. The interface allows a stream to ignore the requested schema.
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

/// A stream for a consumer in C. Its iterator is a Python object, which may run Python code of the caller's input.
struct Iterated {
    batches: FreedByC,
    schema: SchemaRef,
}

impl Iterator for Iterated {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        with_gil(|py| {
            self.read(py).map_err(|error| {
                // The text comes first, because no Python code may run after an interrupt is raised.
                let text = error.to_string();
                raise_interrupt(py, &error);
                ArrowError::ExternalError(text.into())
            })
        })
        .transpose()
    }
}

impl Iterated {
    fn read(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let next = self.batches.get().bind(py).try_iter()?.next();
        next.map(|batch| Ok(batch?.cast::<RowBatch>()?.get().records().clone())).transpose()
    }
}

/// Raises the interrupt of Ctrl-C again, to end the program: a stream's reader turns the first one into its own error.
fn raise_interrupt(py: Python<'_>, error: &PyErr) {
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        // If this fails, the consumer still gets the stream's error.
        let _ = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
    }
}

impl RecordBatchReader for Iterated {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
