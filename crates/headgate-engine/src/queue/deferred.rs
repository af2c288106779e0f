//! The deferred rows: rows that were drawn and skipped, to be read again in the same run.
//!
//! This is plain data under the lock of the queue. A row is either deferred or queued for a worker, never both.

use std::time::{Duration, Instant};

use headgate_core::row::{Row, RowBatch};
use headgate_core::schedule::scheduler::rereading::Rereading;
use roaring::RoaringTreemap;

#[derive(Debug, Default)]
pub(super) struct Deferred {
    rows: RoaringTreemap,
    state: RereadState,
    last_took: Duration,
    ended_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, Default)]
enum RereadState {
    #[default]
    Idle,
    Requested {
        from: u64,
    },
    Reading {
        since: Instant,
        /// No more rows are wanted.
        is_enough: bool,
    },
}

impl Deferred {
    pub(super) fn add(&mut self, ordinals: &[u64]) {
        self.rows.extend(ordinals);
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.rows.min()
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the first deferred row that is not before this ordinal.
    pub(super) fn first_from(&self, ordinal: u64) -> Option<u64> {
        let mut rows = self.rows.iter();
        rows.advance_to(ordinal);
        rows.next()
    }

    /// Requests the deferred rows from this ordinal on. Returns `false` if there are none, or if rows were requested before.
    pub(super) fn request(&mut self, from: u64) -> bool {
        let is_news = !self.is_active() && self.first_from(from).is_some();
        if is_news {
            self.state = RereadState::Requested { from };
        }
        is_news
    }

    /// Begins to read the requested rows, and returns the ordinal of the first.
    pub(super) fn begin(&mut self, now: Instant) -> Option<u64> {
        let RereadState::Requested { from } = self.state else { return None };
        self.state = RereadState::Reading { since: now, is_enough: false };
        Some(from)
    }

    /// Notes that no more rows are wanted.
    pub(super) fn set_enough(&mut self, now: Instant) {
        match &mut self.state {
            RereadState::Idle => {}
            // Reading has not begun.
            RereadState::Requested { .. } => (self.state, self.ended_at) = (RereadState::Idle, Some(now)),
            RereadState::Reading { is_enough, .. } => *is_enough = true,
        }
    }

    pub(super) fn is_enough(&self) -> bool {
        matches!(self.state, RereadState::Reading { is_enough: true, .. })
    }

    pub(super) fn end(&mut self, now: Instant) {
        if let RereadState::Reading { since, .. } = self.state {
            self.last_took = now.saturating_duration_since(since);
            (self.state, self.ended_at) = (RereadState::Idle, Some(now));
        }
    }

    /// Returns whether rows are read again, or were requested.
    pub(super) fn is_active(&self) -> bool {
        !matches!(self.state, RereadState::Idle)
    }

    pub(super) fn rereading(&self, is_source_stalled: bool) -> Rereading {
        let (active, first) = (self.is_active(), self.first());
        Rereading { active, first, is_source_stalled, last_took: self.last_took, ended_at: self.ended_at }
    }

    /// Returns how many of these rows are deferred, and their bytes.
    pub(super) fn size_among(&self, rows: &[Row]) -> (usize, usize) {
        let bytes = rows.iter().filter(|row| self.rows.contains(row.ordinal)).map(Row::bytes);
        bytes.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes))
    }

    /// Returns those of the rows that are deferred, and marks them as not deferred. Drops all other rows.
    pub(super) fn take(&mut self, rows: &mut RowBatch) -> impl Iterator<Item = Row> {
        rows.drain(..).filter(|row| self.rows.remove(row.ordinal))
    }
}
