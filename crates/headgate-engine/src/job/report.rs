//! What a report on a job shows beyond its status. Nothing is changed, and a running job is not disturbed.

use std::path::Path;
use std::time::Duration;

use headgate_core::error::JobError;
use serde::Serialize;

pub use super::digest::Digest;
use super::digest::digest;
use super::results::{Contents, Results};
use super::series::points;
use super::status::{manifest, open};
pub use crate::stats::series::Point;

/// What a job was to do, what it did over time, and what its results say.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The options that differ from their defaults, each with its value as text.
    pub requested: Vec<(&'static str, String)>,
    /// The options whose values are not stored, as they may be secrets, each with what a user can fill in.
    pub withheld: Vec<(&'static str, String)>,
    /// The oldest point first: at most 8,000 of them.
    pub series: Vec<Point>,
    /// `None`: the results were not read.
    pub results: Option<Digest>,
}

/// Returns the report on the job in a directory. Its results are read for at most `reading`; `None`: they are not read. Their
/// checksums are not compared.
///
/// # Errors
/// `Output`: there is no job, or it is damaged.
pub fn report(path: &Path, reading: Option<Duration>) -> Result<Report, JobError> {
    let storage = open(path)?;
    let manifest = manifest(&storage)?;
    let results = match reading {
        None => None,
        Some(time_limit) => {
            let files = Results::read(&storage, Contents::None)?.files;
            Some(digest(&files, &manifest.schema.clone().into(), time_limit))
        }
    };
    let series = points(storage.directory(), &manifest.started_at);
    Ok(Report { requested: manifest.requested(), withheld: manifest.withheld(), series, results })
}
