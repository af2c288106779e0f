//! The next action of a worker.

use std::time::Instant;

use super::host_queues::HostIndex;
use crate::model::error::Failure;
use crate::model::row::Row;

/// The next action of a worker.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// Make an attempt at this row. With a host, it has one more in flight until
    /// [`Scheduler::finish_attempt`](super::scheduler::Scheduler::finish_attempt).
    Start(Row, Option<HostIndex>),
    /// End this row without another attempt.
    Fail(Row, Failure),
    /// Nothing before this time, unless something happens until then.
    WaitUntil(Instant),
    /// Nothing until something happens.
    Wait,
    /// Nothing any more. What is still in flight is not waited for.
    Ended,
}

impl Decision {
    /// Returns the decision to wait until then; `None`: until something happens.
    pub fn wait(until: Option<Instant>) -> Self {
        until.map_or(Self::Wait, Self::WaitUntil)
    }
}
