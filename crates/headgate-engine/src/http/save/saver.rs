//! What saves the bodies of a run.

use std::sync::Arc;

use super::places::SavePlaces;
use crate::http::decode::pool::Pool;
use crate::model::status_set::StatusSet;

/// What saves the bodies of a run, for all workers.
#[derive(Debug)]
pub struct Saver {
    pub(super) places: Arc<SavePlaces>,
    pub(super) pool: Arc<Pool>,
    /// Statuses that make a row fail: a retry of it may need the name.
    fail_on: StatusSet,
}

impl Saver {
    pub fn new(places: Arc<SavePlaces>, pool: Arc<Pool>, fail_on: StatusSet) -> Self {
        Self { places, pool, fail_on }
    }

    /// Whether an answer with this status has a body that is saved, if an empty one.
    pub(super) fn wants(&self, status: u16) -> bool {
        (200..300).contains(&status) && !matches!(status, 204 | 205) && !self.fail_on.contains(status)
    }
}
