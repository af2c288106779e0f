//! Which waiting rows a caller cancels.

use std::collections::VecDeque;
use std::mem;

use crate::row::Row;

/// The rows that a caller cancels.
#[derive(Debug, Clone, Copy)]
pub enum RowsToCancel {
    /// The row with this ordinal.
    One(u64),
    /// All rows whose caller has stopped waiting.
    Unwanted,
}

impl RowsToCancel {
    pub fn includes(self, row: &Row) -> bool {
        match self {
            Self::One(ordinal) => row.ordinal == ordinal,
            Self::Unwanted => row.is_unwanted(),
        }
    }

    /// Returns whether these rows are all of them.
    pub fn is_all_of(self, found: &[Row]) -> bool {
        matches!(self, Self::One(_)) && !found.is_empty()
    }

    /// Removes the rows from a queue, and returns them.
    pub fn remove_from(self, queue: &mut VecDeque<Row>) -> Vec<Row> {
        if let Self::One(ordinal) = self {
            let position =
                position_by_order(queue, ordinal).or_else(|| queue.iter().position(|row| row.ordinal == ordinal));
            return position.and_then(|position| queue.remove(position)).into_iter().collect();
        }
        if !queue.iter().any(|row| self.includes(row)) {
            return Vec::new();
        }
        let (removed, others): (Vec<Row>, Vec<Row>) = mem::take(queue).into_iter().partition(|row| self.includes(row));
        *queue = others.into();
        removed
    }
}

/// Returns the position of a row in a queue where it is found by the order of ordinals, in which rows mostly wait.
pub(super) fn position_by_order(queue: &VecDeque<Row>, ordinal: u64) -> Option<usize> {
    queue.binary_search_by_key(&ordinal, |row| row.ordinal).ok()
}
