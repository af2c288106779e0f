//! How long a host keeps idle connections, as far as that has been seen, and which of them may carry a request that can't be
//! sent twice.
//!
//! A server may close a connection while a request is on its way. If the method is idempotent, it is sent again and nothing
//! is lost; if not, nobody can say whether the server has acted on it. Looking at the connection just before is not enough
//! with a server that gives it a millisecond, and has the end of that millisecond in its queue already. So such a request
//! goes out on a connection that was used before only if the host is known to keep it longer: one has stayed open for
//! [`PROOF`], and none was closed within a time that this one may have reached by now. For the first such request to a
//! host, that proof is waited for; with a host that closes early, each makes a connection of its own.
//!
//! What was seen is forgotten after a while: a host that was restarted had to close what it had.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A host that keeps a connection so long without a request doesn't close it in the middle of the next one.
pub const PROOF: Duration = Duration::from_millis(20);
/// So much before the time after which a host closes, its connections aren't used any more for such requests: a request may
/// take so long to reach the server, and its clock is not ours.
const MARGIN: Duration = Duration::from_secs(1);
/// For so long a host is taken for one that closes early.
const MEMORY: Duration = Duration::from_mins(1);

/// What was seen of a host, on one way to it.
#[derive(Debug, Default)]
pub struct KeepAlive {
    /// The shortest time after which a connection was found closed, and when that was first seen.
    closes_after: Cell<Option<(Duration, Instant)>>,
    /// One was open after [`PROOF`].
    is_proven: Cell<bool>,
}

/// Whether a connection may carry a request that can't be sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    Yes,
    No,
    /// If it is still open then.
    At(Instant),
}

impl KeepAlive {
    /// A connection that was idle since then has been closed, or was when its next request came.
    pub fn found_closed(&self, idle_since: Instant, now: Instant) {
        let idle = now.saturating_duration_since(idle_since);
        self.is_proven.set(false);
        self.closes_after.set(match self.seen(now) {
            Some((shortest, first)) => Some((shortest.min(idle), first)),
            None => Some((idle, now)),
        });
    }

    /// Of a connection that is open, and idle since then.
    pub fn may_carry(&self, idle_since: Instant, now: Instant) -> May {
        let idle = now.saturating_duration_since(idle_since);
        if let Some((closes_after, _)) = self.seen(now) {
            return if idle + MARGIN <= closes_after { May::Yes } else { May::No };
        }
        if idle >= PROOF {
            self.is_proven.set(true);
        }
        if self.is_proven.get() { May::Yes } else { May::At(idle_since + PROOF) }
    }

    fn seen(&self, now: Instant) -> Option<(Duration, Instant)> {
        self.closes_after.get().filter(|(_, first)| now.saturating_duration_since(*first) < MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_request_waits_for_the_proof_and_the_others_need_none() {
        let (keeping, since) = (KeepAlive::default(), Instant::now());
        assert_eq!(May::At(since + PROOF), keeping.may_carry(since, since + MS));
        assert_eq!(May::Yes, keeping.may_carry(since, since + PROOF));
        assert_eq!(May::Yes, keeping.may_carry(since + PROOF, since + PROOF));
    }

    #[test]
    fn a_host_that_closes_early_gets_new_connections_until_that_is_forgotten() {
        let (keeping, since) = (KeepAlive::default(), Instant::now());
        assert_eq!(May::Yes, keeping.may_carry(since, since + PROOF));
        let closed = since + 2 * MS;
        keeping.found_closed(since, closed);
        assert_eq!(May::No, keeping.may_carry(closed, closed));
        // What is seen meanwhile does not lengthen it.
        keeping.found_closed(closed, closed + MEMORY / 2);
        let (known, forgotten) = (closed + MEMORY / 2, closed + MEMORY);
        assert_eq!(May::No, keeping.may_carry(known, known));
        assert_eq!(May::At(forgotten + PROOF), keeping.may_carry(forgotten, forgotten));
    }

    #[test]
    fn a_host_that_closes_late_has_its_connections_used_well_before() {
        let (keeping, since) = (KeepAlive::default(), Instant::now());
        keeping.found_closed(since, since + Duration::from_secs(5));
        assert_eq!(May::Yes, keeping.may_carry(since, since + Duration::from_secs(4)));
        assert_eq!(May::No, keeping.may_carry(since, since + Duration::from_secs(4) + MS));
    }
}
