//! How much rows cost whose bodies are in files, where bytes of bodies are limited: looked up in the thread that reads the rows,
//! once for each. It may wait for the disk, and the gate, which many wait for, must not.

use crate::http::upload::length_now;
use crate::model::limits::{CostOf, Limits};
use crate::model::row::{Row, RowBody};

/// Weighs rows, if anybody wants to know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weighing {
    is_wanted: bool,
}

impl Weighing {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { is_wanted: limits.cost.as_ref().is_some_and(|cost| cost.of == CostOf::BodyBytes) }
    }

    pub(super) fn weigh(self, rows: &mut [Row]) {
        if !self.is_wanted {
            return;
        }
        for extra in rows.iter_mut().filter_map(|row| row.extra.as_deref_mut()) {
            if let Some(body @ RowBody::Pieces(_)) = &extra.body {
                extra.cost = Some(length_now(body));
            }
        }
    }
}
