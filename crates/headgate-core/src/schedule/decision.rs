//! The next action of a worker.

use std::time::Instant;

use super::budget::UsedUp;
use super::host_queues::HostIndex;
use crate::error::Failure;
use crate::row::Row;

/// The next action of a worker.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// Make an attempt at this row. The host, if any, has one more in flight until
    /// [`Scheduler::finish_attempt`](super::scheduler::Scheduler::finish_attempt).
    Start(Row, Option<HostIndex>),
    /// End this row without another attempt.
    Fail(Row, Failure),
    /// Stop the run: rows wait, nothing is in flight, and a budget is used up.
    UsedUp(UsedUp),
    /// Wait until this time, unless something happens before.
    WaitUntil(Instant),
    /// Wait until something happens.
    Wait,
    /// Stop. The worker does not wait for what is still in flight.
    Ended,
}

impl Decision {
    /// Returns the decision to wait until then; `None`: until something happens.
    pub fn wait(until: Option<Instant>) -> Self {
        until.map_or(Self::Wait, Self::WaitUntil)
    }
}
