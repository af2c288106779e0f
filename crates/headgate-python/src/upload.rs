//! Bodies of requests: bytes, files that the engine reads, and `UploadStream`, which Python sends piece by piece.

use std::fs::File;
use std::os::fd::{BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use headgate_core::files::open_file::OpenFile;
use headgate_core::row::{BodyPiece, RowBody};
use headgate_core::upload_stream;
use headgate_engine::{WakeCaller as _, Waker};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyString};

use crate::fork_safe::ForkSafe;

/// A longer piece is shared with Python, not copied.
const MAX_COPIED_BYTES: usize = 64 * 1024;

/// A body that Python makes while it is sent. Any thread may push its pieces, one at a time.
#[pyclass(frozen, module = "headgate._headgate")]
pub struct UploadStream(ForkSafe<Arc<upload_stream::UploadStream>>);

#[pymethods]
impl UploadStream {
    /// Creates a stream of this length, if it is known. `is_rewindable` means that the body can be made a second time.
    #[new]
    fn new(length: Option<u64>, is_rewindable: bool) -> Self {
        Self(ForkSafe::new(Arc::new(upload_stream::UploadStream::new(length, is_rewindable))))
    }

    /// Returns the number of the pass for which the next piece is to be pushed; the body begins anew with each pass. Returns
    /// `None` if no piece is wanted now: the caller of the request is woken once one is.
    fn wanted_sending(&self) -> Option<u64> {
        self.0.get()?.wanted_sending()
    }

    /// Adds a piece, or ends the body with `None`. A piece that is not wanted any more is dropped.
    #[pyo3(signature = (number, piece))]
    fn push(&self, number: u64, piece: Option<Bound<'_, PyBytes>>) {
        if let Some(stream) = self.0.get() {
            stream.push(number, piece.map(bytes_of));
        }
    }
}

/// The body of a request: bytes, a list of pieces, or an `UploadStream`.
pub(crate) struct NativeBody(RowBody);

impl NativeBody {
    pub(crate) fn into_body(self) -> RowBody {
        self.0
    }
}

impl<'py> FromPyObject<'_, 'py> for NativeBody {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self(RowBody::Bytes(bytes_of(bytes.to_owned()))));
        }
        if let Ok(stream) = object.cast::<UploadStream>() {
            let stream = stream.get().0.get().cloned();
            let forked = || PyValueError::new_err("this body belongs to the process that made it, and this is a fork");
            return Ok(Self(RowBody::Stream(stream.ok_or_else(forked)?)));
        }
        let pieces: Vec<NativePiece> = object.extract()?;
        Ok(Self(RowBody::Pieces(pieces.into_iter().map(|NativePiece(piece)| piece).collect())))
    }
}

/// A piece of a body: bytes, the path of a file, or an open file with the range that is sent and its name.
struct NativePiece(BodyPiece);

impl<'py> FromPyObject<'_, 'py> for NativePiece {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self(BodyPiece::Bytes(bytes_of(bytes.to_owned()))));
        }
        if object.is_instance_of::<PyString>() {
            return Ok(Self(BodyPiece::File(object.extract::<PathBuf>()?.into())));
        }
        let (file, offset, length, name): (Bound<'_, PyAny>, u64, u64, String) = object.extract()?;
        let file = duplicate(&file)?;
        Ok(Self(BodyPiece::OpenFile(Arc::new(OpenFile { file, offset, length, name: name.into() }))))
    }
}

/// Returns another descriptor of an open file, which stays open if the file is closed.
#[expect(unsafe_code, reason = "the descriptor is open while its file object is used")]
fn duplicate(file: &Bound<'_, PyAny>) -> PyResult<File> {
    let number: RawFd = file.call_method0("fileno")?.extract()?;
    if number < 0 {
        return Err(PyValueError::new_err("a file of the body is closed"));
    }
    // SAFETY: `file` is open, as it has just returned the number, and is not closed before this function returns.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(File::from(descriptor.try_clone_to_owned()?))
}

fn bytes_of(bytes: Bound<'_, PyBytes>) -> Bytes {
    if bytes.as_bytes().len() <= MAX_COPIED_BYTES {
        return Bytes::copy_from_slice(bytes.as_bytes());
    }
    Bytes::from_owner(PyBackedBytes::from(bytes))
}

/// Has the caller woken when more of this body is wanted, as long as it waits.
pub(crate) fn bind(body: Option<&RowBody>, waker: &Arc<Waker>) {
    if let Some(RowBody::Stream(stream)) = body {
        // Weak: Python may keep the stream, and the waker has a descriptor.
        let waker = Arc::downgrade(waker);
        stream.set_wake(Box::new(move || {
            if let Some(waker) = waker.upgrade() {
                waker.wake();
            }
        }));
    }
}
