//! The rows that were read and can't start yet: bounded in rows and in bytes, with a fair share for each host.
//!
//! When it is full, rows of hosts that have more than their share are *deferred*: they stay undone, and are read again when
//! their host has few left. So a list that is sorted by host proceeds at all of its hosts at once. The attempts of a
//! deferred row stay counted.

use std::collections::HashMap;

use crate::row::{Before, Row};

/// The maximum number of waiting rows: some 30 MB of short URLs.
pub(crate) const MAX_ROWS: usize = 200_000;
/// The maximum size of waiting rows.
pub(crate) const MAX_BYTES: usize = 32 * 1024 * 1024;
/// The maximum number of deferred rows that have had an attempt, at some 50 bytes each.
pub(crate) const MAX_BEFORE: usize = 131_072;

#[derive(Debug)]
pub(super) struct LookAhead {
    /// Whether the input can be read again.
    can_defer: bool,
    max_rows: usize,
    max_bytes: usize,
    rows: usize,
    bytes: usize,
    /// The maximum number of rows of a host.
    share: usize,
    /// Rows deferred since they were last reported to the queue.
    deferred: Vec<u64>,
    has_deferred: bool,
    /// Whether it is full, and no host has more than its share.
    is_crowded: bool,
    /// The attempts of deferred rows that have had some.
    before: HashMap<u64, Before>,
}

impl LookAhead {
    pub(super) fn new(can_defer: bool, max_rows: usize, max_bytes: usize) -> Self {
        Self {
            can_defer,
            max_rows,
            max_bytes,
            rows: 0,
            bytes: 0,
            share: max_rows,
            deferred: Vec::new(),
            has_deferred: false,
            is_crowded: false,
            before: HashMap::new(),
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn share(&self) -> usize {
        self.share
    }

    pub(super) fn can_defer(&self) -> bool {
        self.can_defer
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.max_rows || self.bytes >= self.max_bytes
    }

    /// Returns whether it is full, and some hosts may have more than their share.
    pub(super) fn can_defer_more(&self) -> bool {
        self.can_defer && self.is_full() && !self.is_crowded
    }

    /// Records that no host has more than its share any more.
    pub(super) fn end_deferring(&mut self) {
        self.is_crowded = self.is_full();
    }

    /// Returns whether more rows may be drawn: they fit, or can be deferred, as can those that fail.
    pub(super) fn accepts_rows(&self) -> bool {
        !self.is_full() || self.can_defer_retried()
    }

    pub(super) fn enters(&mut self, row: &Row) {
        self.rows += 1;
        self.bytes += row.bytes();
    }

    pub(super) fn leaves(&mut self, row: &Row) {
        self.rows -= 1;
        self.bytes -= row.bytes();
        self.is_crowded &= self.is_full();
    }

    /// Divides the capacity, less a quarter, among this many hosts.
    pub(super) fn divide(&mut self, hosts: usize) {
        let by_bytes = self.rows * (self.max_bytes >> 10) / (self.bytes >> 10).max(1);
        let capacity = if self.rows == 0 { self.max_rows } else { by_bytes.min(self.max_rows) };
        self.share = (capacity / 4 * 3 / hosts.max(1)).max(1);
    }

    /// Lets one host use all of the capacity, as long as no row is deferred.
    pub(super) fn undivided(&mut self) {
        self.share = self.max_rows;
    }

    /// Returns whether a row that has had an attempt can be deferred, too.
    pub(super) fn can_defer_retried(&self) -> bool {
        self.retried_capacity() > 0
    }

    /// Returns how many rows that have had an attempt can be deferred, too.
    pub(super) fn retried_capacity(&self) -> usize {
        if self.can_defer { MAX_BEFORE.saturating_sub(self.before.len()) } else { 0 }
    }

    /// Returns whether it is full, or a host with this many new rows and retries has its share.
    pub(super) fn is_full_for(&self, new_rows: usize, retries: usize) -> bool {
        self.is_full() || new_rows >= self.share.saturating_sub(retries).max(self.share.div_ceil(2))
    }

    /// Defers a row that has not entered, or has left.
    pub(super) fn defer(&mut self, row: &Row) {
        if let Some(before) = row.before() {
            self.before.insert(row.ordinal, before);
        }
        self.deferred.push(row.ordinal);
        self.has_deferred = true;
    }

    /// Returns whether any row was ever deferred.
    pub(super) fn has_deferred(&self) -> bool {
        self.has_deferred
    }

    /// Restores the attempts of a row that was deferred.
    pub(super) fn recall(&mut self, row: &mut Row) {
        if !self.before.is_empty()
            && let Some(before) = self.before.remove(&row.ordinal)
        {
            row.set_before(before);
        }
    }

    /// Removes the deferred rows that have had attempts, and returns them with the number of these.
    pub(super) fn drain_tried(&mut self) -> Vec<(u64, u16)> {
        self.before.drain().map(|(row, before)| (row, before.attempts)).collect()
    }

    /// Returns the rows that were deferred since the last call.
    pub(super) fn drain_deferred(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.deferred)
    }
}
