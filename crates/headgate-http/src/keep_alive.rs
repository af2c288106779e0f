//! The keep-alive timeout of a host, as far as it was observed, and which idle connections may carry a request that can't be
//! resent.
//!
//! A server may close a connection while a request is on its way. A request with an idempotent method is resent; of any other
//! request the client can't know whether the server has processed it. Checking the connection just before is not enough: with
//! a keep-alive timeout of a millisecond, the close may already be on its way. So such a request uses an idle connection
//! only if the host is known to keep it longer. That is: one has stayed open for [`PROOF`], and none was closed after a time
//! that this one may have reached by now. The first such request to a host waits for that proof. If a host closes
//! connections early, each such request opens its own.
//!
//! Observations expire after a while: a host may have closed its connections because it was restarted.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A host that has kept a connection idle for this time doesn't close it during the next request.
pub(crate) const PROOF: Duration = Duration::from_millis(20);
/// Such requests do not use a connection that its host would close within this time. A request needs time to reach the server,
/// and the server has another clock.
const MARGIN: Duration = Duration::from_secs(1);
/// The time after which an observed close is forgotten.
const MEMORY: Duration = Duration::from_mins(1);

/// The observed keep-alive behaviour of a host on one route.
#[derive(Debug, Default)]
pub struct KeepAlive {
    /// The shortest time after which a connection was found closed, and when that was first observed.
    closes_after: Cell<Option<(Duration, Instant)>>,
    /// A connection was still open after [`PROOF`].
    is_proven: Cell<bool>,
}

/// Whether a connection may carry a request that can't be resent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    Now,
    Never,
    /// It may if it is still open at this time.
    From(Instant),
}

impl KeepAlive {
    /// Records that the host has closed a connection that was idle since `idle_since`.
    pub(crate) fn record_close(&self, idle_since: Instant, now: Instant) {
        let idle = now.saturating_duration_since(idle_since);
        self.is_proven.set(false);
        self.closes_after.set(match self.closes_after(now) {
            Some((shortest, first)) => Some((shortest.min(idle), first)),
            None => Some((idle, now)),
        });
    }

    /// Returns whether an open connection that is idle since `idle_since` may carry a request that can't be resent. Records
    /// that a connection was open after [`PROOF`].
    pub(crate) fn check_reuse(&self, idle_since: Instant, now: Instant) -> Reuse {
        let idle = now.saturating_duration_since(idle_since);
        if let Some((closes_after, _)) = self.closes_after(now) {
            return if idle + MARGIN <= closes_after { Reuse::Now } else { Reuse::Never };
        }
        if idle >= PROOF {
            self.is_proven.set(true);
        }
        if self.is_proven.get() { Reuse::Now } else { Reuse::From(idle_since + PROOF) }
    }

    fn closes_after(&self, now: Instant) -> Option<(Duration, Instant)> {
        self.closes_after.get().filter(|(_, first)| now.saturating_duration_since(*first) < MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_unsafe_request_waits_for_the_proof_and_later_ones_do_not() {
        let (keep_alive, since) = (KeepAlive::default(), Instant::now());
        assert_eq!(Reuse::From(since + PROOF), keep_alive.check_reuse(since, since + MS));
        assert_eq!(Reuse::Now, keep_alive.check_reuse(since, since + PROOF));
        assert_eq!(Reuse::Now, keep_alive.check_reuse(since + PROOF, since + PROOF));
    }

    #[test]
    fn a_host_that_closes_early_gets_new_connections_until_that_is_forgotten() {
        let (keep_alive, since) = (KeepAlive::default(), Instant::now());
        assert_eq!(Reuse::Now, keep_alive.check_reuse(since, since + PROOF));
        let closed = since + 2 * MS;
        keep_alive.record_close(since, closed);
        assert_eq!(Reuse::Never, keep_alive.check_reuse(closed, closed));
        // Another close meanwhile does not extend the time.
        keep_alive.record_close(closed, closed + MEMORY / 2);
        let (known, forgotten) = (closed + MEMORY / 2, closed + MEMORY);
        assert_eq!(Reuse::Never, keep_alive.check_reuse(known, known));
        assert_eq!(Reuse::From(forgotten + PROOF), keep_alive.check_reuse(forgotten, forgotten));
    }

    #[test]
    fn connections_of_a_host_that_closes_late_are_reused_until_a_margin_before() {
        let (keep_alive, since) = (KeepAlive::default(), Instant::now());
        keep_alive.record_close(since, since + Duration::from_secs(5));
        assert_eq!(Reuse::Now, keep_alive.check_reuse(since, since + Duration::from_secs(4)));
        assert_eq!(Reuse::Never, keep_alive.check_reuse(since, since + Duration::from_secs(4) + MS));
    }
}
