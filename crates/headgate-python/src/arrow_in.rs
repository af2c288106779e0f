//! Imports Arrow data of other libraries through the `PyCapsule` interface. Only this file takes ownership of their memory.
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>

#![expect(unsafe_code, reason = "a capsule holds a pointer, and only its name says what it points to")]

use std::ffi::CStr;
use std::ptr::NonNull;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

const ARRAY: &str = "__arrow_c_array__";
const STREAM: &str = "__arrow_c_stream__";

/// Returns the record batches of an object: all batches of a stream, or a single batch.
///
/// # Errors
/// `TypeError`: the object is neither a stream nor a batch. `ValueError`: its data is not a table.
pub(crate) fn record_batches(object: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if let Some(method) = object.getattr_opt(ARRAY)? {
        let capsules = method.call0()?.cast_into::<PyTuple>()?;
        let batch = record_batch(&capsules.get_item(0)?.cast_into()?, &capsules.get_item(1)?.cast_into()?)?;
        let schema = batch.schema();
        return Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    }
    let Some(method) = object.getattr_opt(STREAM)? else {
        let name = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!("a batch must have {ARRAY} or {STREAM}, and {name} has neither")));
    };
    let capsule = method.call0()?.cast_into::<PyCapsule>()?;
    // SAFETY: a capsule of this name points to a stream that only its owner uses. Moving the stream out leaves a released
    // stream in the capsule.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer(&capsule, c"arrow_array_stream")?.as_ptr()) };
    let reader = RecordBatchStreamReader::try_new(stream).map_err(|error| not_a_table(&error))?;
    Ok(Box::new(reader))
}

fn record_batch(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<RecordBatch> {
    let schema = pointer::<FFI_ArrowSchema>(schema, c"arrow_schema")?;
    let array = pointer::<FFI_ArrowArray>(array, c"arrow_array")?;
    // SAFETY: capsules of these names point to these types. Moving the array out leaves a released array
    // in its capsule. The schema is read while its capsule lives.
    let (data, schema) = unsafe {
        let array = FFI_ArrowArray::from_raw(array.as_ptr());
        let schema = schema.as_ref();
        let DataType::Struct(_) = DataType::try_from(schema).map_err(|error| not_a_table(&error))? else {
            return Err(PyValueError::new_err("a batch must be a table of columns, not one array"));
        };
        (from_ffi(array, schema), Schema::try_from(schema))
    };
    let (data, schema) = (data.map_err(|error| not_a_table(&error))?, schema.map_err(|error| not_a_table(&error))?);
    let rows = data.len();
    let (_, columns, nulls) = StructArray::from(data).into_parts();
    if nulls.is_some_and(|nulls| nulls.null_count() > 0) {
        return Err(PyValueError::new_err("a batch must be a table: whole rows of it can't be null"));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(SchemaRef::new(schema), columns, &options).map_err(|error| not_a_table(&error))
}

fn pointer<T>(capsule: &Bound<'_, PyCapsule>, name: &CStr) -> PyResult<NonNull<T>> {
    capsule.pointer_checked(Some(name)).map(NonNull::cast)
}

fn not_a_table(error: &ArrowError) -> PyErr {
    PyValueError::new_err(format!("a batch can't be read as a table: {error}"))
}
