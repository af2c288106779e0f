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

    /// Removes the rows from a queue, of whose items `row_of` returns the row, and returns their items.
    pub fn remove_from<T>(self, queue: &mut VecDeque<T>, row_of: impl Fn(&T) -> &Row) -> Vec<T> {
        if let Self::One(ordinal) = self {
            let position = position_by_order(queue, ordinal, &row_of)
                .or_else(|| queue.iter().position(|item| row_of(item).ordinal == ordinal));
            return position.and_then(|position| queue.remove(position)).into_iter().collect();
        }
        if !queue.iter().any(|item| self.includes(row_of(item))) {
            return Vec::new();
        }
        let (removed, others): (Vec<T>, Vec<T>) =
            mem::take(queue).into_iter().partition(|item| self.includes(row_of(item)));
        *queue = others.into();
        removed
    }
}

/// Returns the position of a row in a queue where it is found by the order of ordinals, in which rows mostly wait.
pub(super) fn position_by_order<T>(queue: &VecDeque<T>, ordinal: u64, row_of: impl Fn(&T) -> &Row) -> Option<usize> {
    queue.binary_search_by_key(&ordinal, |item| row_of(item).ordinal).ok()
}
