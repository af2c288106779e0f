//! `RowStream`: the rows of parts as Arrow batches, for consumers of the Arrow `PyCapsule` interface.
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array as _, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use headgate_core::error::JobError;
use headgate_table::parts::read::{PartFile, PartRows, schema_of_parts};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::to_python;

/// The rows of part files. Each consumer reads the files from the start. May be used from any thread.
#[pyclass(frozen, module = "headgate")]
pub struct RowStream {
    parts: Vec<PartFile>,
    schema: SchemaRef,
}

/// One pass over the rows.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct RowBatches {
    rows: Mutex<PartRows>,
}

/// A batch of rows.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct RowBatch {
    records: RecordBatch,
}

/// The schema of rows.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct RowSchema {
    schema: SchemaRef,
}

impl RowStream {
    /// Returns the rows of part files that all have this schema.
    pub fn of(parts: Vec<PartFile>, schema: SchemaRef) -> Self {
        Self { parts, schema }
    }

    fn rows(&self) -> PartRows {
        PartRows::new(self.parts.clone(), self.schema.clone())
    }
}

impl RowBatch {
    pub fn of(records: RecordBatch) -> Self {
        Self { records }
    }

    pub fn records(&self) -> &RecordBatch {
        &self.records
    }
}

impl RowSchema {
    pub fn of(schema: SchemaRef) -> Self {
        Self { schema }
    }
}

#[pymethods]
impl RowStream {
    #[new]
    fn new(py: Python<'_>, parts: Vec<PathBuf>) -> PyResult<Self> {
        let schema = py.detach(|| schema_of_parts(&parts)).map_err(|error| to_python(py, &error))?;
        Ok(Self::of(parts.into_iter().map(PartFile::from).collect(), schema))
    }

    #[getter]
    fn schema(&self) -> RowSchema {
        RowSchema { schema: self.schema.clone() }
    }

    fn __iter__(&self) -> RowBatches {
        RowBatches { rows: Mutex::new(self.rows()) }
    }

    /// Returns the rows as an Arrow stream. The interface allows a stream to ignore the requested schema.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(StreamReader(self.rows())));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Raises a `TypeError` for pandas and numpy, which try this method first. Without it, they would iterate, and silently
    /// store each batch as a value of one column.
    #[pyo3(signature = (dtype=None, *, copy=None))]
    #[expect(clippy::unused_self, reason = "a method in Python")]
    fn __array__(&self, dtype: Option<Bound<'_, PyAny>>, copy: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        drop((dtype, copy));
        Err(PyTypeError::new_err(
            "rows of a job are a table, not an array; for pandas: pyarrow.table(rows).to_pandas()",
        ))
    }
}

#[pymethods]
impl RowBatches {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<RowBatch>> {
        let batch = py.detach(|| self.rows.lock().unwrap_or_else(PoisonError::into_inner).next());
        batch.transpose().map(|batch| batch.map(|records| RowBatch { records })).map_err(|error| to_python(py, &error))
    }
}

#[pymethods]
impl RowBatch {
    #[getter]
    fn num_rows(&self) -> usize {
        self.records.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, self.records.schema_ref())
    }

    /// Returns the batch as an Arrow array. The interface allows a batch to ignore the requested schema.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let array = FFI_ArrowArray::new(&StructArray::from(self.records.clone()).into_data());
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        Ok((schema_capsule(py, self.records.schema_ref())?, array))
    }
}

#[pymethods]
impl RowSchema {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }
}

fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema.as_ref());
    let schema = schema.map_err(|error| to_python(py, &JobError::internal(format!("columns of results: {error}"))))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// A stream for a consumer in C. It holds no Python objects, so it works without the interpreter lock.
struct StreamReader(PartRows);

impl Iterator for StreamReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Consumers raise it as an `OSError`; the package's own exception for it is also a subclass of that.
        Some(self.0.next()?.map_err(|error| ArrowError::from(io::Error::other(error))))
    }
}

impl RecordBatchReader for StreamReader {
    fn schema(&self) -> SchemaRef {
        self.0.schema().clone()
    }
}
