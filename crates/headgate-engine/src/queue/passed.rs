//! Which rows were passed over: drawn, and left to be read again in the same run.
//!
//! Plain bookkeeping, which the queue keeps under its lock. A row is passed over, or on its way to somebody, never both.

use std::time::{Duration, Instant};

use roaring::RoaringTreemap;

use crate::model::row::{Row, RowBatch};

/// Whether rows that were passed over are being read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadingAgain {
    /// That goes on, or was asked for.
    pub active: bool,
    /// How long it took the last time.
    pub last_took: Duration,
    /// When it ended the last time.
    pub ended_at: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Passed {
    rows: RoaringTreemap,
    reading: Reading,
    last_took: Duration,
    ended_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, Default)]
enum Reading {
    #[default]
    No,
    Asked {
        from: u64,
    },
    GoesOn {
        since: Instant,
        /// No more of it is wanted.
        enough: bool,
    },
}

impl Passed {
    pub(super) fn add(&mut self, ordinals: &[u64]) {
        self.rows.extend(ordinals);
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.rows.min()
    }

    pub(super) fn count(&self) -> u64 {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The first one that is not before this ordinal.
    pub(super) fn first_from(&self, ordinal: u64) -> Option<u64> {
        let mut rows = self.rows.iter();
        rows.advance_to(ordinal);
        rows.next()
    }

    /// Asks for those from this ordinal on. Whether that is news.
    pub(super) fn ask(&mut self, from: u64) -> bool {
        let is_news = !self.is_read() && self.first_from(from).is_some();
        if is_news {
            self.reading = Reading::Asked { from };
        }
        is_news
    }

    /// Begins to read what was asked for: where.
    pub(super) fn begin(&mut self, now: Instant) -> Option<u64> {
        let Reading::Asked { from } = self.reading else { return None };
        self.reading = Reading::GoesOn { since: now, enough: false };
        Some(from)
    }

    /// No more of it is wanted. Whether it ends by that alone, as nobody has begun.
    pub(super) fn enough(&mut self, now: Instant) -> bool {
        match &mut self.reading {
            Reading::No => false,
            Reading::Asked { .. } => {
                (self.reading, self.ended_at) = (Reading::No, Some(now));
                true
            }
            Reading::GoesOn { enough, .. } => {
                *enough = true;
                false
            }
        }
    }

    pub(super) fn is_enough(&self) -> bool {
        matches!(self.reading, Reading::GoesOn { enough: true, .. })
    }

    pub(super) fn end(&mut self, now: Instant) {
        if let Reading::GoesOn { since, .. } = self.reading {
            self.last_took = now.saturating_duration_since(since);
            (self.reading, self.ended_at) = (Reading::No, Some(now));
        }
    }

    /// Whether rows are read again, or are asked for.
    pub(super) fn is_read(&self) -> bool {
        !matches!(self.reading, Reading::No)
    }

    pub(super) fn reading_again(&self) -> ReadingAgain {
        ReadingAgain { active: self.is_read(), last_took: self.last_took, ended_at: self.ended_at }
    }

    /// How many of these rows were passed over, and their bytes.
    pub(super) fn size_among(&self, rows: &[Row]) -> (usize, usize) {
        let bytes = rows.iter().filter(|row| self.rows.contains(row.ordinal)).map(Row::bytes);
        bytes.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes))
    }

    /// Those of the rows that were passed over, which they are no more. The others are dropped.
    pub(super) fn take(&mut self, rows: &mut RowBatch) -> impl Iterator<Item = Row> {
        rows.drain(..).filter(|row| self.rows.remove(row.ordinal))
    }
}
