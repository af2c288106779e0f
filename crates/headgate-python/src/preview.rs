//! `preview`: the first rows of a result, for `headgate show`.

use std::path::PathBuf;

use pyo3::prelude::*;

use crate::error::to_python;

/// The names of columns, the values of rows as text, and the number of rows if the file states it.
type Table = (Vec<String>, Vec<Vec<Option<String>>>, Option<u64>);

/// Returns the first rows of a result.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes ownership of converted arguments")]
pub(crate) fn preview(py: Python<'_>, path: PathBuf, rows: usize, only_failed: bool) -> PyResult<Table> {
    let preview = py.detach(|| headgate_engine::preview(&path, rows, only_failed));
    preview.map(|preview| (preview.columns, preview.rows, preview.total_rows)).map_err(|error| to_python(py, &error))
}
