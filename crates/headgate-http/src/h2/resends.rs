//! Decides whether a request over HTTP/2 is resent.
//!
//! A server may close a connection after a few requests. Requests beyond them are resent on another connection, where the same
//! may happen. While the host responds to other requests, a refused request is resent without bound, those first that were
//! refused first. If the host responds to none, resends are bounded: it may refuse all requests forever.

use std::cell::Cell;
use std::mem;
use std::num::NonZeroU64;

use crate::reply::NoReply;

/// The most times that a request is resent while the host responds to none.
const MAX_IN_VAIN: u8 = 5;

/// The resends of a request within one attempt.
#[derive(Debug, Default)]
pub(crate) struct Resends {
    /// Its position among refused requests.
    turn: Option<NonZeroU64>,
    /// The number of responses of the host when the request was last refused.
    responses: u32,
    /// The number of refusals since the last response of the host.
    in_vain: u8,
    was_silent: bool,
}

impl Resends {
    /// Returns its turn among the requests that wait for a stream.
    pub(crate) fn turn(&self) -> ResendTurn {
        ResendTurn(self.turn.map_or(u64::MAX, NonZeroU64::get))
    }

    /// Counts a request without a response. Returns whether it may be resent, if its method allows that.
    pub(crate) fn try_resend(&mut self, none: &NoReply, turns: &ResendTurns) -> bool {
        if !none.unsent {
            // Only once, as over HTTP/1.1.
            return !mem::replace(&mut self.was_silent, true);
        }
        self.turn.get_or_insert_with(|| turns.next());
        let had_responses = mem::replace(&mut self.responses, turns.responses.get()) != self.responses;
        self.in_vain = if had_responses { 1 } else { self.in_vain + 1 };
        self.in_vain <= MAX_IN_VAIN
    }
}

/// The turns of refused requests on one route, and the number of responses on it.
#[derive(Debug, Default)]
pub struct ResendTurns {
    responses: Cell<u32>,
    /// The number of turns that were given.
    given: Cell<u64>,
}

impl ResendTurns {
    pub(super) fn record_response(&self) {
        self.responses.update(|responses| responses.wrapping_add(1));
    }

    fn next(&self) -> NonZeroU64 {
        self.given.update(|given| given + 1);
        NonZeroU64::MIN.saturating_add(self.given.get())
    }
}

/// The order in which waiting requests get a stream, the lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResendTurn(u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_resent_without_bound_while_the_host_responds_and_else_a_few_times() {
        let turns = ResendTurns::default();
        let (mut first, mut second) = (Resends::default(), Resends::default());
        let refused = NoReply::unsent();
        for _ in 0..100 {
            assert!(first.try_resend(&refused, &turns));
            turns.record_response();
        }
        assert!(second.try_resend(&refused, &turns));
        assert!(first.turn() < second.turn() && second.turn() < Resends::default().turn());
        for _ in 0..MAX_IN_VAIN {
            assert!(first.try_resend(&refused, &turns));
        }
        assert!(!first.try_resend(&refused, &turns));
        let silent = NoReply { unsent: false, ..refused };
        assert!(second.try_resend(&silent, &turns) && !second.try_resend(&silent, &turns));
    }
}
