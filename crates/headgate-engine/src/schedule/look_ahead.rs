//! The rows that were read and can't start yet: bounded in rows and in bytes, with a fair share for each host.
//!
//! When there is no room for more, those are given up of which a host has more than its share: they are *passed over*, which
//! leaves them undone, and read again when their host has few left. So a list that is sorted by host is worked on at all of its
//! hosts at once. A row that was asked before keeps its count meanwhile.

use std::collections::HashMap;

use crate::model::row::{Before, Row};

/// Rows that may wait: some 30 MB of short URLs.
pub const MAX_ROWS: usize = 200_000;
/// Bytes that may wait.
pub const MAX_BYTES: usize = 32 * 1024 * 1024;
/// Rows that were asked before and are to be read again, at some 50 bytes each.
pub const MAX_BEFORE: usize = 131_072;

#[derive(Debug)]
pub(super) struct LookAhead {
    /// Whether the input can be read again.
    can_pass_over: bool,
    max_rows: usize,
    max_bytes: usize,
    rows: usize,
    bytes: usize,
    /// Rows that a host may have here.
    share: usize,
    /// Rows given up, for the queue to know.
    given_up: Vec<u64>,
    has_given_up: bool,
    /// It is full, and nobody has more than his share.
    is_crowded: bool,
    /// Of rows that were given up, what became of them before.
    before: HashMap<u64, Before>,
}

impl LookAhead {
    pub(super) fn new(can_pass_over: bool, max_rows: usize, max_bytes: usize) -> Self {
        Self {
            can_pass_over,
            max_rows,
            max_bytes,
            rows: 0,
            bytes: 0,
            share: max_rows,
            given_up: Vec::new(),
            has_given_up: false,
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

    pub(super) fn can_pass_over(&self) -> bool {
        self.can_pass_over
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.max_rows || self.bytes >= self.max_bytes
    }

    /// Whether it is full, and some may have more than their share.
    pub(super) fn may_make_room(&self) -> bool {
        self.can_pass_over && self.is_full() && !self.is_crowded
    }

    /// Whoever had more than his share has it no more.
    pub(super) fn has_made_room(&mut self) {
        self.is_crowded = self.is_full();
    }

    /// Whether more rows may be drawn: they find room, or can be given up, and so can those that fail.
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

    /// As long as nothing is given up, nobody has a share.
    pub(super) fn undivided(&mut self) {
        self.share = self.max_rows;
    }

    /// Whether a row that was asked before can be given up, too.
    pub(super) fn has_room_for_before(&self) -> bool {
        self.can_pass_over && self.before.len() < MAX_BEFORE
    }

    /// How many such.
    pub(super) fn room_for_before(&self) -> usize {
        if self.can_pass_over { MAX_BEFORE.saturating_sub(self.before.len()) } else { 0 }
    }

    /// Whether there is no room, or a host has its share with so many rows that were not asked yet, and others that are asked again.
    pub(super) fn is_full_for(&self, parked: usize, retries: usize) -> bool {
        self.is_full() || parked >= self.share.saturating_sub(retries).max(self.share.div_ceil(2))
    }

    /// Gives up a row that has not entered, or has left.
    pub(super) fn give_up(&mut self, row: &Row) {
        if let Some(before) = row.before() {
            self.before.insert(row.ordinal, before);
        }
        self.given_up.push(row.ordinal);
        self.has_given_up = true;
    }

    /// Whether any row was ever given up.
    pub(super) fn has_given_up(&self) -> bool {
        self.has_given_up
    }

    /// What became before of a row that comes.
    pub(super) fn recall(&mut self, row: &mut Row) {
        if !self.before.is_empty()
            && let Some(before) = self.before.remove(&row.ordinal)
        {
            row.set_before(before);
        }
    }

    /// The rows that were given up since the last time.
    pub(super) fn take_given_up(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.given_up)
    }

    pub(super) fn remembers_nothing(&self) -> bool {
        self.rows == 0 && self.before.is_empty() && self.given_up.is_empty()
    }
}
