//! The space that the results need, and that of the file system they go to.

use std::path::Path;

use headgate_core::files::{Directory, Space};
use headgate_core::grouped::size;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use serde::Serialize;

use crate::job::min_free;

/// What a row of results takes besides its body: the URL, some headers, and figures.
const ROW_BYTES: f64 = 256.0;
/// The size of a body that is assumed if none is known.
const ASSUMED_BODY_BYTES: f64 = 4096.0;

/// The disk space that the results need.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DiskUse {
    /// The mean size of a row of results, with its body if that is saved as a file.
    pub row_bytes: f64,
    pub row_bytes_from: RowBytesFrom,
    /// What the rows that are left need. `None`: their number is unknown.
    pub needed: Option<u64>,
    /// `None`: the file system does not report it.
    pub free: Option<u64>,
    /// What the job leaves free.
    pub min_free: u64,
}

/// The origin of the size of a row of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowBytesFrom {
    /// The rows that the job has written.
    Results,
    /// The responses of a probe.
    Probe,
    Assumed,
}

/// What is known about the results of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownResults {
    /// The mean size of a row that the job has written.
    pub(super) row_bytes: Option<f64>,
    /// The mean size of a response.
    pub(super) response_bytes: Option<f64>,
    pub(super) has_bodies: bool,
    /// The size of results that are removed first.
    pub(super) removed: u64,
}

impl DiskUse {
    /// Returns the use of a job with `left` rows whose results go to `output`, which need not exist.
    pub(super) fn of(output: &Path, left: Option<u64>, known: KnownResults, chosen: Option<u64>) -> Self {
        let with_body = |bytes| if known.has_bodies { ROW_BYTES + bytes } else { ROW_BYTES };
        let (row_bytes, row_bytes_from) = match known {
            KnownResults { row_bytes: Some(bytes), .. } => (bytes, RowBytesFrom::Results),
            KnownResults { response_bytes: Some(bytes), .. } => (with_body(bytes), RowBytesFrom::Probe),
            _ => (with_body(ASSUMED_BODY_BYTES), RowBytesFrom::Assumed),
        };
        let space = space_of(output);
        Self {
            row_bytes,
            row_bytes_from,
            needed: left.map(|left| (left as f64 * row_bytes).round() as u64),
            free: space.map(|space| space.free.saturating_add(known.removed)),
            min_free: space.map_or(chosen.unwrap_or_default(), |space| min_free(chosen, space)),
        }
    }

    /// Returns a warning if the results do not fit.
    pub(super) fn warning(&self) -> Option<Message> {
        let (needed, free) = self.needed.zip(self.free)?;
        (needed > free.saturating_sub(self.min_free)).then(|| {
            let (needed, free, least) = (size(needed), size(free), size(self.min_free));
            message!(
                "the results may not fit: they need about {needed}, and {free} are free, of which {least} must stay free (",
                OptionName::MinFree,
                "): free some space, or choose another ",
                OptionName::Output
            )
        })
    }
}

/// Returns the space of the file system that a directory is on, or will be on.
fn space_of(path: &Path) -> Option<Space> {
    let existing = |path: &Path| Directory::open(if path.as_os_str().is_empty() { Path::new(".") } else { path }).ok();
    path.ancestors().find_map(existing)?.space()
}
