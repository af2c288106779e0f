//! Reads items from an iterator of the caller.

use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};

/// Appends at most `max_count` items of an iterator to `pulled`, as many as can be read within `max_s`; returns whether the
/// iterator has ended. The clock is read after each item, so that a slow one delays only those after it.
///
/// # Errors
/// Whatever the iterator raises. Earlier items are in `pulled`.
#[pyfunction]
pub(crate) fn pull(
    mut iterator: Bound<'_, PyIterator>,
    pulled: &Bound<'_, PyList>,
    max_count: usize,
    max_s: f64,
) -> PyResult<bool> {
    let (begun, longest) = (Instant::now(), Duration::from_secs_f64(max_s));
    for _ in 0..max_count {
        match iterator.next() {
            Some(item) => pulled.append(item?)?,
            None => return Ok(true),
        }
        if begun.elapsed() > longest {
            break;
        }
    }
    Ok(false)
}
