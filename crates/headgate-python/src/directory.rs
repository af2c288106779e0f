//! Reads the state and the rows of a job from its directory. Only `job_set`, `job_clean` and `job_verify` change something there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use headgate_core::error::JobError;
use headgate_core::files::storage::OpenStorage;
use headgate_engine::set::ChangeResult;
use headgate_engine::{SettingsChange, clean, report, set, status, verify};
use pyo3::prelude::*;

use crate::error::to_python;
use crate::interruptible::Interruptible;
use crate::json::to_json;
use crate::rows::RowStream;

/// Returns `headgate_engine::status::Status` as JSON.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes ownership of converted arguments")]
pub(crate) fn job_status(py: Python<'_>, output: PathBuf) -> PyResult<String> {
    let status = py.detach(|| status::status(&output)).map_err(|error| to_python(py, &error))?;
    to_json(py, &status)
}

/// Returns `headgate_engine::report::Report` as JSON. Results are read for at most `reading_s` seconds; `None`: not at all.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes ownership of converted arguments")]
pub(crate) fn job_report(py: Python<'_>, output: PathBuf, reading_s: Option<f64>) -> PyResult<String> {
    let reading = reading_s.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let report = py.detach(|| report::report(&output, reading)).map_err(|error| to_python(py, &error))?;
    to_json(py, &report)
}

/// The timeout for a running job to confirm a change. The job checks for changes twice a second.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Sets options of the job in a directory, and pauses or unpauses it; `None` for `paused` leaves that unchanged. Returns the
/// result as a word, and the reason if the job refused the change.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes ownership of converted arguments")]
pub(crate) fn job_set(
    py: Python<'_>,
    output: PathBuf,
    settings: BTreeMap<String, String>,
    paused: Option<bool>,
) -> PyResult<(&'static str, Option<String>)> {
    let change = SettingsChange { paused, set: settings };
    let reply = py.detach(|| set::send(&output, &change, TIMEOUT));
    Ok(match reply.map_err(|error| to_python(py, &error))? {
        ChangeResult::Applied => ("applied", None),
        ChangeResult::Refused(why) => ("refused", Some(why)),
        ChangeResult::NextRun => ("next run", None),
        ChangeResult::NotYet => ("not yet", None),
    })
}

/// Returns the rows of the current parts, the succeeded rows first.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes ownership of converted arguments")]
pub(crate) fn job_rows(py: Python<'_>, output: PathBuf) -> PyResult<RowStream> {
    let parts = py.detach(|| status::parts(&output)).map_err(|error| to_python(py, &error))?;
    Ok(RowStream::of(parts.files, parts.schema))
}

/// Returns `headgate_engine::status::Files` as JSON.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes ownership of converted arguments")]
pub(crate) fn job_files(py: Python<'_>, output: PathBuf) -> PyResult<String> {
    let files = py.detach(|| status::files(&output)).map_err(|error| to_python(py, &error))?;
    to_json(py, &files)
}

/// Removes the files that no commit names, unless `dry_run` says not to. Returns `headgate_engine::clean::Cleaned` as JSON.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes ownership of converted arguments")]
pub(crate) fn job_clean(py: Python<'_>, output: PathBuf, dry_run: bool) -> PyResult<String> {
    to_json(py, &interruptible(py, |disk| clean::clean(&output, dry_run, disk))?)
}

/// Verifies the results, and repairs them if `repair` says so. Returns `headgate_engine::verify::Verified` as JSON.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 passes ownership of converted arguments")]
pub(crate) fn job_verify(py: Python<'_>, output: PathBuf, repair: bool) -> PyResult<String> {
    let verify = if repair { verify::repair } else { verify::verify };
    to_json(py, &interruptible(py, |disk| verify(&output, disk))?)
}

/// Does something that reads for long, and ends it if a signal handler raises, as that of Ctrl-C does.
fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl Send + FnOnce(&dyn OpenStorage) -> Result<T, JobError>,
) -> PyResult<T> {
    let disk = Interruptible::default();
    let result = py.detach(|| work(&disk));
    if let Some(raised) = disk.take_raised() {
        return Err(raised);
    }
    result.map_err(|error| to_python(py, &error))
}
