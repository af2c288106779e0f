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
        let Some(first) = queue.iter().position(|item| self.includes(row_of(item))) else { return Vec::new() };
        if let Self::One(_) = self {
            return queue.remove(first).into_iter().collect();
        }
        let (removed, others): (Vec<T>, Vec<T>) =
            mem::take(queue).into_iter().partition(|item| self.includes(row_of(item)));
        *queue = others.into();
        removed
    }
}
