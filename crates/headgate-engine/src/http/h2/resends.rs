//! Whether a request over HTTP/2 is sent once more.
//!
//! A server may end a connection after a few requests, and what was on its way there beyond them is to be sent elsewhere, where
//! the same may happen to it. While others are answered, it will have its turn, and who was refused first has it first; where
//! nobody is answered, a server that refuses everything would keep us busy for ever.

use std::cell::Cell;
use std::mem;
use std::num::NonZeroU64;

use crate::http::reply::NoReply;

/// How often a request is sent once more while the host answers none.
const MAX_IN_VAIN: u8 = 5;

/// What has become of a request so far, in one attempt.
#[derive(Debug, Default)]
pub struct Resends {
    /// Its place among those that were refused.
    turn: Option<NonZeroU64>,
    /// Answers there were when it was refused last.
    answers: u32,
    /// How often it was refused since the last answer.
    in_vain: u8,
    was_silent: bool,
}

impl Resends {
    /// When it is its turn to have a stream, beside those of others.
    pub fn turn(&self) -> ResendTurn {
        ResendTurn(self.turn.map_or(u64::MAX, NonZeroU64::get))
    }

    /// It ended so. Whether it may be sent once more, if its method does not speak against it.
    pub fn may_follow(&mut self, none: &NoReply, turns: &ResendTurns) -> bool {
        if !none.unsent {
            // Not more often than over HTTP/1.1.
            return !mem::replace(&mut self.was_silent, true);
        }
        self.turn.get_or_insert_with(|| turns.next());
        let had_answers = mem::replace(&mut self.answers, turns.answers.get()) != self.answers;
        self.in_vain = if had_answers { 1 } else { self.in_vain + 1 };
        self.in_vain <= MAX_IN_VAIN
    }
}

/// The turns of those that were refused on one route, and whether others get anywhere.
#[derive(Debug, Default)]
pub struct ResendTurns {
    /// How often a request was answered.
    answers: Cell<u32>,
    given: Cell<u64>,
}

impl ResendTurns {
    pub(super) fn answered(&self) {
        self.answers.update(|answers| answers.wrapping_add(1));
    }

    fn next(&self) -> NonZeroU64 {
        self.given.update(|given| given + 1);
        NonZeroU64::MIN.saturating_add(self.given.get())
    }
}

/// The lowest is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResendTurn(u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_refused_as_often_as_may_be_while_others_are_answered_and_else_a_few_times() {
        let turns = ResendTurns::default();
        let (mut first, mut second) = (Resends::default(), Resends::default());
        let refused = NoReply::unsent();
        for _ in 0..100 {
            assert!(first.may_follow(&refused, &turns));
            turns.answered();
        }
        assert!(second.may_follow(&refused, &turns));
        assert!(first.turn() < second.turn() && second.turn() < Resends::default().turn());
        for _ in 0..MAX_IN_VAIN {
            assert!(first.may_follow(&refused, &turns));
        }
        assert!(!first.may_follow(&refused, &turns));
        let silent = NoReply { unsent: false, ..refused };
        assert!(second.may_follow(&silent, &turns) && !second.may_follow(&silent, &turns));
    }
}
