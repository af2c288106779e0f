//! The GIL in callbacks of C code, and for objects that C code frees.

#![expect(unsafe_code, reason = "only the C API knows whether this thread holds the GIL")]

use std::mem::ManuallyDrop;

use pyo3::ffi::{Py_IsInitialized, PyGILState_Ensure, PyGILState_Release, PyGILState_STATE};
use pyo3::prelude::*;

/// An object of Python that C code frees, with or without the GIL.
pub(crate) struct FreedByC(ManuallyDrop<Py<PyAny>>);

/// Releases the GIL if it was not held before.
struct Ensured(PyGILState_STATE);

/// Runs a function with the GIL in a callback of C code.
///
/// `Python::attach` is not enough: it counts the attachments of a thread, and takes the GIL for held if this thread is
/// within a method of ours. But that method may have called Python code, which has called C code that has released the GIL.
pub(crate) fn with_gil<T>(function: impl FnOnce(Python<'_>) -> T) -> T {
    let _ensured = Ensured::new();
    Python::attach(function)
}

impl Ensured {
    fn new() -> Self {
        // SAFETY: The interpreter is initialized, because an object of it exists.
        Self(unsafe { PyGILState_Ensure() })
    }
}

impl Drop for Ensured {
    fn drop(&mut self) {
        // SAFETY: The state is that of `new`, in the same thread, because it isn't `Send`.
        unsafe { PyGILState_Release(self.0) };
    }
}

impl FreedByC {
    pub(crate) fn new(object: Py<PyAny>) -> Self {
        Self(ManuallyDrop::new(object))
    }

    pub(crate) fn get(&self) -> &Py<PyAny> {
        &self.0
    }
}

impl Drop for FreedByC {
    fn drop(&mut self) {
        // SAFETY: It may be called at any time. After the end of the interpreter, its objects are gone.
        if unsafe { Py_IsInitialized() } != 0 {
            let _ensured = Ensured::new();
            // SAFETY: It is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}
