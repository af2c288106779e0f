//! The schedule of a worker's share of a run: which row starts next, and what becomes of an attempt that has ended.
//!
//! Pure: it neither waits nor asks the time. Whoever drives it tells what has happened (rows came, an attempt ended, the
//! run was stopped) and asks [`Schedule::next`] for what to do at a time that is passed in. So each rule is tested on a
//! table of times, and all of them together against a model (`tests.rs`). What is to hold back a row (a rate, a pause of
//! its host, a retry that is not due) becomes a file beside this one, and a reason for [`Next::Until`].
//!
//! What bounds it: as many rows are in flight as there are places, and at most one chunk more has been drawn.

pub mod adaptive;
mod addresses;
pub mod asked_to_wait;
mod breaker;
mod budget;
pub mod gate;
pub mod give_up;
mod host;
pub mod hosts;
mod hosts_of_run;
pub mod look_ahead;
pub mod network;
pub mod pace;
pub mod retry;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
pub mod waits;

use std::collections::VecDeque;
use std::time::Instant;

use crate::model::error::{ErrorKind, Failure};
use crate::model::row::Row;
use crate::model::status_set::StatusSet;
use crate::schedule::gate::HostIndex;

pub use self::retry::AttemptEnd;

/// Rows drawn at a time at the most.
pub const MAX_CHUNK_ROWS: usize = 64;

/// What is to be done now.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Make an attempt at this row: it has one of the places until [`Schedule::free_place`].
    Start(Row, Option<HostIndex>),
    /// This row ends without an attempt.
    Fail(Row, Failure),
    /// These rows are left undone, for another run.
    PassOver(Vec<Row>),
    /// Nothing before this time, unless something happens until then.
    Until(Instant),
    /// Nothing until something happens: a row comes, a place is free.
    Wait,
    /// Nothing any more. What is still in flight is not waited for.
    Ended,
}

/// What becomes of a row whose attempt has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Answered,
    /// No whole answer, or one whose status is among those that count as failed.
    Failed,
}

/// Whether rows are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Open,
    /// There is nothing more to draw.
    InputEnded,
    /// What is in flight has until then; nothing new is started.
    Draining(Instant),
}

#[derive(Debug)]
pub struct Schedule {
    places: usize,
    taken: usize,
    fail_on: StatusSet,
    stage: Stage,
    /// Rows drawn and not started: at most one chunk.
    drawn: VecDeque<Row>,
}

impl Schedule {
    /// Of so many places in flight; answers with a status among `fail_on` are failed rows.
    pub fn new(places: usize, fail_on: StatusSet) -> Self {
        Self { places, taken: 0, fail_on, stage: Stage::Open, drawn: VecDeque::new() }
    }

    /// How many rows to draw. A few at a time, so that no worker sits on rows that another could start: at most an eighth
    /// of what it has in flight.
    pub fn wanted(&self) -> usize {
        let wants = self.stage == Stage::Open && self.drawn.is_empty() && self.taken < self.places;
        if wants { (self.places / 8).clamp(1, MAX_CHUNK_ROWS) } else { 0 }
    }

    /// Rows were drawn.
    pub fn offer(&mut self, rows: impl IntoIterator<Item = Row>) {
        self.drawn.extend(rows);
    }

    /// There are no more rows to draw.
    pub fn end_input(&mut self) {
        if self.stage == Stage::Open {
            self.stage = Stage::InputEnded;
        }
    }

    /// Nothing new is started; what is in flight has until then. Asking again may shorten this time, never lengthen it.
    pub fn drain(&mut self, until: Instant) {
        let earlier = if let Stage::Draining(earlier) = self.stage { earlier } else { until };
        self.stage = Stage::Draining(until.min(earlier));
    }

    /// Cancels a row that was drawn and not started: it fails in its turn. Whether there is one.
    pub fn cancel(&mut self, ordinal: u64) -> bool {
        let row = self.drawn.iter_mut().find(|row| row.ordinal == ordinal);
        row.map(Row::cancel).is_some()
    }

    /// What is to be done at this time. To be asked until it says [`Next::Until`], [`Next::Wait`] or [`Next::Ended`], and
    /// again when something has happened.
    pub fn next(&mut self, now: Instant) -> Next {
        if let Stage::Draining(until) = self.stage {
            return if !self.drawn.is_empty() {
                Next::PassOver(self.drawn.drain(..).collect())
            } else if self.taken > 0 && now < until {
                Next::Until(until)
            } else {
                Next::Ended
            };
        }
        if let Some(row) = self.drawn.pop_front_if(|row| row.is_cancelled()) {
            return Next::Fail(row, Failure::new(ErrorKind::Cancelled, "it was cancelled before it was sent"));
        }
        if self.taken < self.places
            && let Some(row) = self.drawn.pop_front()
        {
            self.taken += 1;
            return Next::Start(row, None);
        }
        if self.is_over() { Next::Ended } else { Next::Wait }
    }

    /// What becomes of a row whose last attempt has ended so.
    pub fn ended(&self, ended: AttemptEnd) -> Verdict {
        let failed = ended.error.is_some() || ended.status.is_some_and(|status| self.fail_on.contains(status));
        if failed { Verdict::Failed } else { Verdict::Answered }
    }

    /// A place in flight is free again: its row has ended, and the outcome was handed on.
    pub fn free_place(&mut self) {
        debug_assert!(self.taken > 0, "only what was taken is free again");
        self.taken = self.taken.saturating_sub(1);
    }

    /// What was drawn and not started.
    pub fn take_drawn(&mut self) -> VecDeque<Row> {
        std::mem::take(&mut self.drawn)
    }

    /// A row starts that came another way.
    pub fn take_place(&mut self) {
        self.taken += 1;
    }

    pub fn has_place(&self) -> bool {
        self.taken < self.places
    }

    pub fn places(&self) -> usize {
        self.places
    }

    /// Another number of places, from now on: what is in flight stays.
    pub fn set_places(&mut self, places: usize) {
        self.places = places;
    }

    pub fn is_draining(&self) -> bool {
        matches!(self.stage, Stage::Draining(_))
    }

    fn is_over(&self) -> bool {
        self.stage == Stage::InputEnded && self.taken == 0 && self.drawn.is_empty()
    }

    /// Whether more than one row could be started.
    pub fn has_places_to_spare(&self) -> bool {
        self.taken + 1 < self.places
    }

    /// How many places are in use.
    pub fn taken(&self) -> usize {
        self.taken
    }
}
