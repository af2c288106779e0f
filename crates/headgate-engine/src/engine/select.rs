//! What is taken from an answer, once, before its row's fate is known: it may decide on it.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use crate::columns::select::{NO_BODY, Selection};
use crate::engine::lanes::PlaceIndex;
use crate::engine::share::Share;
use crate::http::client::LaneState;
use crate::http::deadline::OwnWait;
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
        self.apply(selection, place, status, &mut selected, now);
        Some(selected)
    }

    /// As [`Share::select`], from what came the long way. That a column is missing is the failure of a reply that has no other.
    pub(super) async fn select_from(
        &self,
        place: PlaceIndex,
        reply: &mut Reply,
        state: &mut LaneState,
    ) -> Option<Box<Selected>> {
        let selection = self.shared.selection.as_ref()?;
        let body = match &reply.body {
            _ if reply.failure.is_some() || reply.truncated => Err("the body is not whole"),
            _ if reply.body_encoding.is_some() => Err("the body could not be decoded"),
            None => Err(NO_BODY),
            Some(body) => Ok(&body.bytes[..]),
        };
        let mut selected = if body.is_ok_and(|body| !selection.takes_little(body.len())) {
            self.take_elsewhere(selection.clone(), reply, state).await
        } else {
            selection.take_from(HeadersRef::Kept(&reply.head.headers), body)
        };
        self.apply(selection, place, reply.head.status, &mut selected, Instant::now());
        let failure = selected.failure.take();
        if reply.failure.is_none() {
            reply.failure = failure;
        }
        Some(Box::new(selected))
    }

    /// Has another thread look into a body that would keep the worker's lanes from their turns.
    async fn take_elsewhere(&self, selection: Arc<Selection>, reply: &mut Reply, state: &mut LaneState) -> Selected {
        let since = Instant::now();
        let (headers, body) = (mem::take(&mut reply.head.headers), reply.body.take());
        let work = move || {
            let bytes = body.as_ref().map(|body| &body.bytes[..]).ok_or(NO_BODY);
            let selected = selection.take_from(HeadersRef::Kept(&headers), bytes);
            (selected, headers, body)
        };
        let selected;
        (selected, reply.head.headers, reply.body) = self.client.scratch.decoder.elsewhere(work).await;
        state.deadline.excuse(OwnWait::Decoder, since.elapsed());
        selected
    }

    /// Lets what was taken from an answer with this status count.
    fn apply(&self, selection: &Selection, place: PlaceIndex, status: u16, selected: &mut Selected, now: Instant) {
        if self.schedule.borrow().ended(AttemptEnd::answered(status)) == Verdict::Failed {
            // A failure for what was not to be expected then.
            selected.failure = None;
        }
        if let Some(cost) = selection.cost(selected) {
            self.lanes.look(place, |row| self.shared.gate.change(|gate| gate.has_cost(row, cost, now)));
        }
    }
}
