//! Records of attempts, for callers that follow them.

use std::sync::Arc;
use std::time::Duration;

use headgate_core::clock;
use headgate_core::error::Failure;
use headgate_core::row::{AttemptRecord, ReplyTo};
use headgate_http::client::LaneState;
use http::Version;

use super::Attempt;
use crate::engine::lanes::Span;

/// What an attempt has come to.
pub(super) struct AttemptResult<'a> {
    pub(super) span: Span,
    pub(super) status: Option<u16>,
    pub(super) version: Option<Version>,
    pub(super) failure: Option<&'a Failure>,
    pub(super) remote_addr: Option<Arc<str>>,
    pub(super) is_new_connection: bool,
}

/// An attempt that has ended, and the caller that follows the attempts of its row.
pub(super) struct Followed {
    attempt: Box<AttemptRecord>,
    follower: Arc<ReplyTo>,
}

impl Followed {
    /// Gives the caller the attempt. `retry_in`: the time until the next one, if the row is retried.
    pub(super) fn report(mut self, retry_in: Option<Duration>) {
        self.attempt.retry_in = retry_in;
        self.follower.end_attempt(self.attempt);
    }
}

impl Attempt<'_> {
    /// Returns a record of the attempt, if a caller follows the attempts of the row. `ended` is only called then.
    pub(super) fn record<'e>(&self, ended: impl FnOnce() -> AttemptResult<'e>) -> Option<Followed> {
        if !self.row(|row| row.follower().is_some()) {
            return None;
        }
        let AttemptResult { span, status, version, failure, remote_addr, is_new_connection } = ended();
        let (row, follower, span) = self.row(|row| Some((row.to_shown(), row.follower()?.clone(), span.whole(row))))?;
        let attempt = Box::new(AttemptRecord {
            number: row.attempts_before() + 1,
            row,
            started: span.started,
            started_at_us: self.share.unix_us(span.started),
            elapsed: span.elapsed,
            waited: Duration::ZERO,
            status,
            version,
            failure: failure.cloned(),
            remote_addr,
            is_new_connection,
            retry_in: None,
        });
        Some(Followed { attempt, follower })
    }

    /// Returns when the attempt began and how long the server has taken until now.
    pub(super) fn span_until_now(&self, state: &LaneState) -> Span {
        let excused = state.deadline.excused();
        Span { started: self.started, elapsed: clock::elapsed(self.started).saturating_sub(excused) }
    }
}
