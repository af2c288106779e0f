//! What a job would find in its directory if it began now. Nothing is made or changed there.

use std::path::Path;

use arrow_schema::SchemaRef;
use headgate_core::error::JobError;
use headgate_core::options::JobOptions;
use headgate_http::idempotency_key::KeySalt;
use headgate_table::source::fingerprint::Fingerprint;

use super::directory::{is_usable, read_manifest};
use super::done_rows::DoneRows;
use super::log::CommitLog;
use super::manifest::InputNow;
use super::open::{check_resume, done_rows_of};
use super::part_format::PartFormat;
use super::results::{Contents, Results, opened};

/// What becomes of what is there.
#[derive(Debug)]
pub enum Found {
    /// Nothing is.
    Nothing,
    /// The results of an earlier job, so many rows, are replaced.
    Replaced(u64),
    /// The same job goes on.
    Resumed {
        done: DoneRows,
        /// What keys of its rows follow from.
        key_salt: KeySalt,
        /// Nothing is left to be done.
        is_over: bool,
        /// The input was touched since: its rows are compared before any is asked.
        is_touched: bool,
    },
}

/// What `*` came to when the job began that goes on in this directory ([`SourceOptions::kept_columns`]): what it asked for is the
/// same as long as it goes on. `None`: no job does, or none that says so. What can't be read is left to whoever opens it.
///
/// [`SourceOptions::kept_columns`]: headgate_core::options::SourceOptions::kept_columns
pub fn kept_columns(path: &Path) -> Option<Vec<String>> {
    let manifest = read_manifest(path).ok()?.filter(|manifest| !manifest.clearing)?;
    let newest = CommitLog::new(opened(path).ok()?).newest_number();
    manifest.spec.source.kept_columns.filter(|_| newest.is_ok_and(|number| number > 0))
}

/// The origins that get the credentials of the job in this directory, if one goes on there.
pub fn credentials_for(path: &Path) -> Vec<String> {
    read_manifest(path).ok().flatten().map(|manifest| manifest.credentials_for).unwrap_or_default()
}

/// Looks at the directory of a job with these options, whose input has this fingerprint. A part whose content is damaged is
/// not noticed: that would be to read them all.
///
/// # Errors
/// As [`OpenJob::open`](super::OpenJob::open).
pub fn look(
    path: &Path,
    options: &JobOptions,
    schema: &SchemaRef,
    fingerprint: Option<&Fingerprint>,
) -> Result<Found, JobError> {
    PartFormat::new(options.sink.format, schema)?;
    let fresh = options.sink.fresh;
    if !is_usable(path, fresh)? {
        return Ok(Found::Nothing);
    }
    if fresh {
        // What can't be read is replaced all the same.
        let rows = Results::look(path, Contents::None).map_or(0, |results| results.newest.done);
        return Ok(if rows > 0 { Found::Replaced(rows) } else { Found::Nothing });
    }
    let Some(manifest) = read_manifest(path)?.filter(|manifest| !manifest.clearing) else { return Ok(Found::Nothing) };
    let newest = Results::look(path, Contents::None)?.newest;
    if newest.number == 0 {
        return Ok(Found::Nothing);
    }
    let is_to_be_compared = newest.input.is_some();
    check_resume(path, &manifest, options, &InputNow { fingerprint, is_to_be_compared })?;
    let is_touched = newest.input.as_ref().is_some_and(|then| Some(&then.fingerprint) != fingerprint);
    let is_over = newest.finished && !is_touched;
    Ok(Found::Resumed { done: done_rows_of(&newest)?, key_salt: manifest.key_salt(), is_over, is_touched })
}
