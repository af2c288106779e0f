//! Inspects the directory of a job as the job would find it if it began now. Nothing is created or changed.

use std::path::Path;

use arrow_schema::SchemaRef;
use headgate_core::error::JobError;
use headgate_core::options::JobOptions;
use headgate_http::idempotency_key::KeySalt;
use headgate_table::source::fingerprint::Fingerprint;

use super::commit::Commit;
use super::directory::{find_usable, open_if_exists, stored_manifest};
use super::done_rows::DoneRows;
use super::log::CommitLog;
use super::manifest::InputNow;
use super::open::{check_resume, done_rows_of};
use super::part_format::PartFormat;
use super::results::{Contents, Results};

/// The job in an output directory, and whether it is replaced or resumed.
#[derive(Debug)]
pub(crate) enum FoundJob {
    Nothing,
    /// The results of an earlier job, with this number of rows and bytes, are replaced.
    Replaced {
        rows: u64,
        bytes: u64,
    },
    /// The same job is resumed.
    Resumed {
        done: DoneRows,
        /// The size of its parts.
        bytes: u64,
        /// The salt for the keys of its rows.
        key_salt: KeySalt,
        /// No row is left to do.
        is_over: bool,
        /// The input was touched since: its rows are compared before the first request.
        is_touched: bool,
        /// What earlier runs have used of the budgets of requests and of costs.
        used: (u64, u64),
    },
}

/// Returns the columns that `*` stood for when the job in this directory began ([`SourceOptions::kept_columns`]): they are the
/// same in all of its runs. `None`: there is no job to resume, or it does not store them. Errors are left to the caller that
/// opens the job.
///
/// [`SourceOptions::kept_columns`]: headgate_core::options::SourceOptions::kept_columns
pub(crate) fn kept_columns(path: &Path) -> Option<Vec<String>> {
    let storage = open_if_exists(path).ok()??;
    let manifest = stored_manifest(storage.as_ref()).ok()?.filter(|manifest| !manifest.clearing)?;
    let newest = CommitLog::new(storage).newest_number();
    manifest.spec.source.kept_columns.filter(|_| newest.is_ok_and(|number| number > 0))
}

/// Returns the origins that get the credentials of the job in this directory, if there is one.
pub fn credentials_for(path: &Path) -> Vec<String> {
    let manifest =
        open_if_exists(path).ok().flatten().and_then(|storage| stored_manifest(storage.as_ref()).ok().flatten());
    manifest.map(|manifest| manifest.credentials_for).unwrap_or_default()
}

/// Inspects the directory of a job with these options, whose input has this fingerprint. Damaged contents of parts are not
/// noticed, as that would require to read all of them.
///
/// # Errors
/// As [`OpenJob::open`](super::OpenJob::open).
pub(crate) fn inspect(
    path: &Path,
    options: &JobOptions,
    schema: &SchemaRef,
    fingerprint: Option<&Fingerprint>,
) -> Result<FoundJob, JobError> {
    PartFormat::new(options.sink.format, schema)?;
    let fresh = options.sink.overwrites();
    let Some(storage) = find_usable(path, fresh)? else { return Ok(FoundJob::Nothing) };
    if fresh {
        // Results that can't be read are replaced, too.
        return Ok(match Results::read(&storage, Contents::None) {
            Ok(Results { newest: Commit { done: rows @ 1.., totals, .. }, .. }) => {
                FoundJob::Replaced { rows, bytes: totals.bytes }
            }
            _ => FoundJob::Nothing,
        });
    }
    let Some(manifest) = stored_manifest(storage.as_ref())?.filter(|manifest| !manifest.clearing) else {
        return Ok(FoundJob::Nothing);
    };
    let newest = Results::read(&storage, Contents::None)?.newest;
    if newest.number == 0 {
        return Ok(FoundJob::Nothing);
    }
    let is_compared_later = newest.input.is_some();
    check_resume(path, &manifest, options, &InputNow { fingerprint, is_compared_later })?;
    let is_touched = newest.input.as_ref().is_some_and(|then| Some(&then.fingerprint) != fingerprint);
    let is_over = newest.is_over(options.source.max_rows) && !is_touched;
    let bytes = newest.totals.bytes;
    let used = (newest.requests.reserved, newest.cost.reserved);
    let (done, key_salt) = (done_rows_of(&newest)?, manifest.key_salt);
    Ok(FoundJob::Resumed { done, bytes, key_salt, is_over, is_touched, used })
}
