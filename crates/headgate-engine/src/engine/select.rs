//! What is taken from an answer, once, before its row's fate is known: it may decide on it.

use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use crate::columns::select::{NO_BODY, Room, Selection, Short};
use crate::engine::completion_queue::selection_for;
use crate::engine::lanes::PlaceIndex;
use crate::engine::share::Share;
use crate::http::client::LaneState;
use crate::http::deadline::OwnWait;
use crate::http::reply::Reply;
use crate::model::headers::HeadersRef;
use crate::model::memory::Reservation;
use crate::model::outcome::Body;
use crate::model::selected::Selected;
use crate::schedule::retry::AttemptEnd;

/// What is taken from an answer.
pub(super) enum Selecting<'a> {
    OfRun(&'a Arc<Selection>),
    OfRow(Arc<Selection>),
}

impl Deref for Selecting<'_> {
    type Target = Arc<Selection>;

    fn deref(&self) -> &Arc<Selection> {
        match self {
            Self::OfRun(selection) => selection,
            Self::OfRow(selection) => selection,
        }
    }
}

impl Share {
    /// What is to be taken from an answer of the row at `place`, if anything is.
    pub(super) fn selection_at(&self, place: PlaceIndex) -> Option<Selecting<'_>> {
        let own = self.lanes.look(place, |row| selection_for(row).cloned());
        own.map(Selecting::OfRow).or_else(|| self.shared.selection.as_ref().map(Selecting::OfRun))
    }

    /// What is taken from an answer, if anything is, and how much memory that has of the allowance, beside
    /// the `read` bytes that were read. `body`: whole and decoded, or why there is none.
    ///
    /// # Errors
    /// There is no memory for it now.
    pub(super) fn select(
        &self,
        selection: Option<&Selection>,
        headers: HeadersRef<'_>,
        body: Result<&[u8], &'static str>,
        read: usize,
    ) -> Result<Option<(Selected, usize)>, Short> {
        let Some(selection) = selection else { return Ok(None) };
        let mut bytes = 0;
        let mut set_aside = |more| {
            bytes += more;
            self.allowance.covers(read + bytes)
        };
        let selected = selection.take_from(headers, body, Room::new(0, &mut set_aside))?;
        Ok(Some((selected, bytes)))
    }

    /// As [`Share::select`], from what came the long way, waiting for memory. That a column is missing is the failure of a reply
    /// that has no other.
    pub(super) async fn select_from(
        &self,
        place: PlaceIndex,
        reply: &mut Reply,
        state: &mut LaneState,
    ) -> Option<Box<Selected>> {
        let selection = &self.selection_at(place)?;
        let before = memory_of(reply).bytes();
        let mut selected = loop {
            let in_hand = memory_of(reply).bytes() - before;
            let taken = if body_of(reply).is_ok_and(|body| !selection.takes_little(body.len())) {
                self.take_elsewhere(Arc::clone(selection), reply, in_hand, state).await
            } else {
                take_here(selection, reply, in_hand)
            };
            match taken {
                Ok(selected) => break selected,
                Err(Short(needed)) => {
                    let since = Instant::now();
                    let memory = memory_of(reply);
                    memory.grow((before + needed as u64).saturating_sub(memory.bytes())).await;
                    state.deadline.excuse(OwnWait::Memory, since.elapsed());
                }
            }
        };
        memory_of(reply).settle();
        self.apply(selection, place, reply.head.status, &mut selected, Instant::now());
        let failure = selected.failure.take();
        if reply.failure.is_none() {
            reply.failure = failure;
        }
        Some(Box::new(selected))
    }

    /// Has another thread look into a body that would keep the worker's lanes from their turns.
    async fn take_elsewhere(
        &self,
        selection: Arc<Selection>,
        reply: &mut Reply,
        in_hand: u64,
        state: &mut LaneState,
    ) -> Result<Selected, Short> {
        let since = Instant::now();
        let (headers, mut body) = (mem::take(&mut reply.head.headers), reply.body.take());
        let work = move || {
            let taken = match &mut body {
                None => selection.take_from(HeadersRef::Kept(&headers), Err(NO_BODY), Room::new(0, &mut |_| true)),
                Some(Body { bytes, reservation }) => {
                    let mut set_aside = |more| reservation.try_grow(more as u64);
                    let room = Room::new(in_hand as usize, &mut set_aside);
                    selection.take_from(HeadersRef::Kept(&headers), Ok(bytes), room)
                }
            };
            (taken, headers, body)
        };
        let taken;
        (taken, reply.head.headers, reply.body) = self.client.scratch.decoder.run_in_pool(work).await;
        state.deadline.excuse(OwnWait::Decoder, since.elapsed());
        taken
    }

    /// Lets count what the head of an answer says that its row has cost, where the body is handed out while it comes.
    pub(super) fn apply_head(&self, place: PlaceIndex, headers: HeadersRef<'_>) {
        let Some(selection) = self.selection_at(place) else { return };
        let selected = selection.take_from(headers, Err("it is not kept"), Room::new(0, &mut |_| true));
        if let Some(cost) = selected.ok().and_then(|selected| selection.cost(&selected)) {
            self.correct_cost(place, cost, Instant::now());
        }
    }

    fn correct_cost(&self, place: PlaceIndex, cost: u64, now: Instant) {
        self.lanes.look(place, |row| {
            self.shared.scheduler.change_at(now, |scheduler, now| scheduler.correct_cost(row, cost, now));
        });
    }

    /// Lets what was taken from an answer with this status count.
    pub(super) fn apply(
        &self,
        selection: &Selection,
        place: PlaceIndex,
        status: u16,
        selected: &mut Selected,
        now: Instant,
    ) {
        if AttemptEnd::responded(status).is_failure(&self.shared.fail_on) {
            // A failure for what was not to be expected then.
            selected.failure = None;
        }
        if let Some(cost) = selection.cost(selected) {
            self.correct_cost(place, cost, now);
        }
    }
}

/// What can be selected from, or why there is nothing.
fn body_of(reply: &Reply) -> Result<&[u8], &'static str> {
    match &reply.body {
        _ if reply.failure.is_some() || reply.truncated => Err("the body is not whole"),
        _ if reply.body_encoding.is_some() => Err("the body could not be decoded"),
        None => Err(NO_BODY),
        Some(body) => Ok(&body.bytes[..]),
    }
}

/// What the memory of selected values is set aside in, beside that of the answer.
fn memory_of(reply: &mut Reply) -> &mut Reservation {
    match &mut reply.body {
        Some(body) => &mut body.reservation,
        None => &mut reply.memory,
    }
}

fn take_here(selection: &Selection, reply: &mut Reply, in_hand: u64) -> Result<Selected, Short> {
    let mut memory = mem::take(memory_of(reply));
    let mut set_aside = |more| memory.try_grow(more as u64);
    let room = Room::new(in_hand as usize, &mut set_aside);
    let taken = selection.take_from(HeadersRef::Kept(&reply.head.headers), body_of(reply), room);
    *memory_of(reply) = memory;
    taken
}
