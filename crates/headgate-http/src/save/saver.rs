//! Saves the bodies of a run.

use std::sync::Arc;

use headgate_core::status_set::StatusSet;

use super::paths::SavePaths;
use crate::decode::pool::ThreadPool;

/// Saves the bodies of a run, for all workers.
#[derive(Debug)]
pub struct Saver {
    pub(super) paths: Arc<SavePaths>,
    pub(super) pool: Arc<ThreadPool>,
    /// The statuses with which a row fails: its retry may need the name.
    fail_on: StatusSet,
}

impl Saver {
    pub fn new(paths: Arc<SavePaths>, pool: Arc<ThreadPool>, fail_on: StatusSet) -> Self {
        Self { paths, pool, fail_on }
    }

    /// Returns whether the body of a response with this status is saved, even if it is empty.
    pub(super) fn is_saved(&self, status: u16) -> bool {
        (200..300).contains(&status) && !matches!(status, 204 | 205) && !self.fail_on.contains(status)
    }
}
