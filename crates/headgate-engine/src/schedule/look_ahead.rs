//! The rows that were read and can't start yet: bounded in rows and in bytes, with a fair share for each host.
//!
//! When there is no room for more, rows of hosts that have more than their share are *deferred*: they stay undone, and are read
//! again when their host has few left. So a list that is sorted by host is worked on at all of its hosts at once. A deferred row
//! keeps the count of its attempts.

use std::collections::HashMap;

use crate::model::row::{Before, Row};

/// Rows that may wait: some 30 MB of short URLs.
pub const MAX_ROWS: usize = 200_000;
/// Bytes that may wait.
pub const MAX_BYTES: usize = 32 * 1024 * 1024;
/// Deferred rows that have had an attempt, at some 50 bytes each.
pub const MAX_BEFORE: usize = 131_072;

#[derive(Debug)]
pub(super) struct LookAhead {
    /// The input can be read again.
    can_defer: bool,
    max_rows: usize,
    max_bytes: usize,
    rows: usize,
    bytes: usize,
    /// Rows that a host may have here.
    share: usize,
    /// Rows deferred since they were last reported to the queue.
    deferred: Vec<u64>,
    has_deferred: bool,
    /// It is full, and no host has more than its share.
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
    pub(super) fn may_make_room(&self) -> bool {
        self.can_defer && self.is_full() && !self.is_crowded
    }

    /// Notes that no host has more than its share any more.
    pub(super) fn has_made_room(&mut self) {
        self.is_crowded = self.is_full();
    }

    /// Returns whether more rows may be drawn: they find room, or can be deferred, and so can those that fail.
    pub(super) fn takes_rows(&self) -> bool {
        !self.is_full() || self.has_room_for_before()
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

    /// Divides the room, with a quarter to spare, among so many hosts.
    pub(super) fn divide(&mut self, hosts: usize) {
        let by_bytes = self.rows * (self.max_bytes >> 10) / (self.bytes >> 10).max(1);
        let room = if self.rows == 0 { self.max_rows } else { by_bytes.min(self.max_rows) };
        self.share = (room / 4 * 3 / hosts.max(1)).max(1);
    }

    /// Lets one host have all of the room, as long as no row is deferred.
    pub(super) fn undivided(&mut self) {
        self.share = self.max_rows;
    }

    /// Returns whether a row that has had an attempt can be deferred, too.
    pub(super) fn has_room_for_before(&self) -> bool {
        self.room_for_before() > 0
    }

    /// Returns how many rows that have had an attempt can be deferred, too.
    pub(super) fn room_for_before(&self) -> usize {
        if self.can_defer { MAX_BEFORE.saturating_sub(self.before.len()) } else { 0 }
    }

    /// Returns whether there is no room, or a host has its share with so many new rows and retries.
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

    /// Takes the rows that were deferred since the last call.
    pub(super) fn take_deferred(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.deferred)
    }
}
