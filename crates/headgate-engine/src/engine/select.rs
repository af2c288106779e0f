//! What is taken from an answer, once, before its row's fate is known: it may decide on it.

use std::time::Instant;

use crate::columns::select::NO_BODY;
use crate::engine::lanes::PlaceIndex;
use crate::engine::share::Share;
use crate::http::reply::Reply;
use crate::model::headers::HeadersRef;
use crate::model::selected::Selected;
use crate::schedule::Verdict;
use crate::schedule::retry::AttemptEnd;

impl Share {
    /// What is taken from an answer of the row at `place`, if anything is. `body`: whole and decoded, or why there is none.
    pub(super) fn select(
        &self,
        place: PlaceIndex,
        status: u16,
        headers: HeadersRef<'_>,
        body: Result<&[u8], &'static str>,
        now: Instant,
    ) -> Option<Selected> {
        let selection = self.shared.selection.as_ref()?;
        let mut selected = selection.take_from(headers, body);
        if self.schedule.borrow().ended(AttemptEnd::answered(status)) == Verdict::Failed {
            // A failure for what was not to be expected then.
            selected.failure = None;
        }
        if let Some(cost) = selection.cost(&selected) {
            self.lanes.look(place, |row| self.shared.gate.change(|gate| gate.has_cost(row, cost, now)));
        }
        Some(selected)
    }

    /// As [`Share::select`], from what came the long way. That a column is missing is the failure of a reply that has no other.
    pub(super) fn select_from(&self, place: PlaceIndex, reply: &mut Reply, now: Instant) -> Option<Box<Selected>> {
        let body = match &reply.body {
            _ if reply.failure.is_some() || reply.truncated => Err("the body is not whole"),
            _ if reply.body_encoding.is_some() => Err("the body could not be decoded"),
            None => Err(NO_BODY),
            Some(body) => Ok(&body.bytes[..]),
        };
        let headers = HeadersRef::Kept(&reply.head.headers);
        let mut selected = self.select(place, reply.head.status, headers, body, now)?;
        let failure = selected.failure.take();
        if reply.failure.is_none() {
            reply.failure = failure;
        }
        Some(Box::new(selected))
    }
}
