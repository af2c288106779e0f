//! Selects values from a response, once, before it is known what follows from the response: the values may decide that.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use headgate_core::clock;
use headgate_core::headers::HeadersRef;
use headgate_core::memory::Reservation;
use headgate_core::response::Body;
use headgate_core::selected::{SelectValues, SelectedValues, Short};
use headgate_http::client::LaneState;
use headgate_http::deadline::OwnWait;
use headgate_http::reply::Reply;
use headgate_table::columns::select::NO_BODY;

use super::Attempt;

impl Attempt<'_> {
    /// Returns what selects values from the response to the row, if anything does.
    pub(super) fn selection(&self) -> Option<Arc<dyn SelectValues>> {
        let own = self.row(|row| row.reply_to.as_ref()?.selection().cloned());
        own.or_else(|| self.share.shared.selection.clone())
    }

    /// Returns what is selected from a response, if anything is, and how much reserved memory that takes beside the
    /// `read` bytes that were read. `body`: whole and decoded, or why there is none.
    ///
    /// # Errors
    /// There is no memory for it now.
    pub(super) fn select(
        &self,
        selection: Option<&dyn SelectValues>,
        headers: HeadersRef<'_>,
        body: Result<&[u8], &'static str>,
        read: usize,
    ) -> Result<Option<(SelectedValues, usize)>, Short> {
        let Some(selection) = selection else { return Ok(None) };
        let mut bytes = 0;
        let mut set_aside = |more| {
            bytes += more;
            self.share.read_reservation.try_reserve(read + bytes)
        };
        let selected = selection.select_from(headers, body, 0, &mut set_aside)?;
        Ok(Some((selected, bytes)))
    }

    /// Selects from a reply as [`Attempt::select`] does, and waits for memory. A missing value is the failure of a reply that has
    /// no other failure.
    pub(super) async fn select_from(&self, reply: &mut Reply, state: &mut LaneState) -> Option<Box<SelectedValues>> {
        let selection = self.selection()?;
        let before = memory_of(reply).bytes();
        let mut selected = loop {
            let in_hand = memory_of(reply).bytes() - before;
            let taken = if body_of(reply).is_ok_and(|body| !selection.is_quick(body.len())) {
                self.select_in_background(Arc::clone(&selection), reply, in_hand, state).await
            } else {
                select_now(&*selection, reply, in_hand)
            };
            match taken {
                Ok(selected) => break selected,
                Err(Short(needed)) => {
                    let since = clock::now();
                    let memory = memory_of(reply);
                    memory.grow((before + needed as u64).saturating_sub(memory.bytes())).await;
                    state.deadline.excuse(OwnWait::Memory, clock::elapsed(since));
                }
            }
        };
        memory_of(reply).settle();
        self.apply(&*selection, reply.head.status, &mut selected, clock::now());
        let failure = selected.failure.take();
        if reply.failure.is_none() {
            reply.failure = failure;
        }
        Some(Box::new(selected))
    }

    /// Selects on another thread, from a body so long that the worker's lanes would have to wait.
    async fn select_in_background(
        &self,
        selection: Arc<dyn SelectValues>,
        reply: &mut Reply,
        in_hand: u64,
        state: &mut LaneState,
    ) -> Result<SelectedValues, Short> {
        let since = clock::now();
        let (headers, mut body) = (mem::take(&mut reply.head.headers), reply.body.take());
        let work = move || {
            let taken = match &mut body {
                None => selection.select_from(HeadersRef::Kept(&headers), Err(NO_BODY), 0, &mut |_| true),
                Some(Body { bytes, reservation }) => {
                    let mut set_aside = |more| reservation.try_grow(more as u64);
                    selection.select_from(HeadersRef::Kept(&headers), Ok(bytes), in_hand as usize, &mut set_aside)
                }
            };
            (taken, headers, body)
        };
        let taken;
        (taken, reply.head.headers, reply.body) = self.share.client.scratch.decoder.run_in_pool(work).await;
        state.deadline.excuse(OwnWait::Decoder, clock::elapsed(since));
        taken
    }

    /// Applies the cost that the headers of a response contain, where the body is handed out while it arrives.
    pub(super) fn apply_head(&self, headers: HeadersRef<'_>) {
        let Some(selection) = self.selection() else { return };
        let selected = selection.select_from(headers, Err("it is not kept"), 0, &mut |_| true);
        if let Some(cost) = selected.ok().and_then(|selected| selection.cost(&selected)) {
            self.correct_cost(cost, clock::now());
        }
    }

    fn correct_cost(&self, cost: u64, now: Instant) {
        self.row(|row| {
            let scheduler = &self.share.shared.scheduler;
            scheduler.change_at(now, |scheduler, now| scheduler.correct_cost(row, cost, now));
        });
    }

    /// Applies what was selected from a response with this status.
    pub(super) fn apply(&self, selection: &dyn SelectValues, status: u16, selected: &mut SelectedValues, now: Instant) {
        if !(200..300).contains(&status) || self.row(|row| self.share.is_failure(status, row)) {
            // An error page, such as that of a 404, need not have the values.
            selected.failure = None;
        }
        if let Some(cost) = selection.cost(selected) {
            self.correct_cost(cost, now);
        }
    }
}

/// Returns the body to select from, or why there is none.
fn body_of(reply: &Reply) -> Result<&[u8], &'static str> {
    match &reply.body {
        _ if reply.failure.is_some() || reply.truncated => Err("the body is not complete"),
        _ if reply.body_encoding.is_some() => Err("the body could not be decoded"),
        None => Err(NO_BODY),
        Some(body) => Ok(&body.bytes[..]),
    }
}

/// Returns the reservation that includes the memory of selected values.
fn memory_of(reply: &mut Reply) -> &mut Reservation {
    match &mut reply.body {
        Some(body) => &mut body.reservation,
        None => &mut reply.memory,
    }
}

fn select_now(selection: &dyn SelectValues, reply: &mut Reply, in_hand: u64) -> Result<SelectedValues, Short> {
    let mut memory = mem::take(memory_of(reply));
    let mut set_aside = |more| memory.try_grow(more as u64);
    let headers = HeadersRef::Kept(&reply.head.headers);
    let taken = selection.select_from(headers, body_of(reply), in_hand as usize, &mut set_aside);
    *memory_of(reply) = memory;
    taken
}
