//! Rows whose own options forbid them to wait for the end of a pause that their host has requested.

use std::time::Instant;

use super::waiting::host_down;
use super::{HostIndex, Scheduler};
use crate::error::{ErrorKind, Failure};
use crate::message::OptionName;
use crate::row::{OwnRetrying, TotalTimeout};
use crate::schedule::breaker::LONGEST_SPREAD;
use crate::stall::StallClock;

impl Scheduler {
    /// Returns the failure of a row that waits for the end of its host's pause, if its options forbid that. `ends_at` is when its
    /// total timeout passes.
    pub(super) fn refused_by_pause(
        &mut self,
        index: HostIndex,
        own: &OwnRetrying,
        ends_at: Option<Instant>,
        now: Instant,
    ) -> Option<Failure> {
        let until = self.hosts.get(index)?.breaker.as_ref()?.paused_until(now)?;
        refusal(own, ends_at, until, now)
    }

    /// Returns the failure of a row that is queued for its host, if its options forbid it to wait for the end of the pause there.
    pub(super) fn paused_too_long(&mut self, index: HostIndex, own: OwnRetrying, now: Instant) -> Option<Failure> {
        let own = awake(own, &self.clock);
        self.refused_by_pause(index, &own, deadline(&own), now)
    }

    /// Fails the waiting rows of a host whose options forbid them to wait for the end of its pause.
    pub(super) fn fail_paused_too_long(&mut self, index: HostIndex, now: Instant) {
        let Some(host) = self.hosts.get(index) else { return };
        let Some(until) = host.breaker.as_ref().and_then(|breaker| breaker.paused_until(now)) else { return };
        let refusal = |own| {
            let own = awake(own, &self.clock);
            refusal(&own, deadline(&own), until, now)
        };
        // Usually there are none, and the queue stays as it is.
        if !host.rows().any(|row| refusal(row.own_retrying()).is_some()) {
            return;
        }
        for row in host.remove_where(|row| refusal(row.own_retrying()).is_some()) {
            self.look_ahead.leaves(&row);
            let failure = refusal(row.own_retrying());
            self.failing.extend(failure.map(|failure| (row, failure)));
        }
    }
}

/// Returns a row's own options with awake time.
pub(super) fn awake(own: OwnRetrying, clock: &StallClock) -> OwnRetrying {
    let total_timeout = own.total_timeout.map(|timeout| match timeout {
        TotalTimeout::At(at) => TotalTimeout::At(clock.awake(at)),
        after @ TotalTimeout::After(_) => after,
    });
    OwnRetrying { total_timeout, ..own }
}

/// Returns when the total timeout of a row passes, if a caller waits for the row.
fn deadline(own: &OwnRetrying) -> Option<Instant> {
    match own.total_timeout {
        Some(TotalTimeout::At(at)) => Some(at),
        Some(TotalTimeout::After(_)) | None => None,
    }
}

fn refusal(own: &OwnRetrying, ends_at: Option<Instant>, until: Instant, now: Instant) -> Option<Failure> {
    if ends_at.is_some_and(|ends_at| until >= ends_at) {
        let message = "the host has requested a pause that ends after the total timeout";
        return Some(Failure::new(ErrorKind::TotalTimeout, message).with_option(OptionName::TotalTimeout));
    }
    let is_too_long = own.max_pause.is_some_and(|max_pause| until > now + max_pause + LONGEST_SPREAD);
    is_too_long.then(|| host_down(true))
}
