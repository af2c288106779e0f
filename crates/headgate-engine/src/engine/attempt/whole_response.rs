//! The fast path: a response that one read has brought is recorded from where it lies.

use std::task::{Context, Poll};

use headgate_core::headers::HeadersRef;
use headgate_core::response::ResponseRef;
use headgate_core::row::{Outcome, OutcomeRef, Row};
use headgate_core::schedule::retry::AttemptEnd;
use headgate_http::client::{Awaited, LaneState, Pending, Read};
use headgate_http::method::refuses_head;
use headgate_http::origin_credentials::refuses_credentials;
use headgate_table::columns::select::NO_BODY;

use super::record::AttemptResult;
use super::schedule::AfterAttempt;
use super::{Attempt, Sending};
use crate::engine::gathered::Batch;
use crate::engine::lanes::Span;

impl Attempt<'_> {
    /// Waits for the response, and records it if it comes whole in one read. `just_begun`: the attempt began in this
    /// poll.
    ///
    /// # Errors
    /// It takes more than that.
    pub(super) fn poll_response(
        &self,
        sending: &Sending,
        just_begun: bool,
        state: &mut LaneState,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Batch, Pending>> {
        let awaited = Awaited {
            limits: &self.share.shared.limits.response,
            read_reservation: &self.share.read_reservation,
            sent_now: just_begun.then_some(self.started),
        };
        let take = |read: Read<'_>, state: &LaneState| self.record_whole(&read, sending, state);
        self.share.client.poll_response(&awaited, || self.is_head(), || self.expected(), state, take, cx)
    }

    /// Records a whole response, or requeues the row for a retry. `None`: the response needs more than a look at it, or waits for
    /// memory or for the sink.
    fn record_whole(&self, read: &Read<'_>, sending: &Sending, state: &LaneState) -> Option<Batch> {
        let site = sending.site.as_deref()?;
        let &Read { response, bytes, at } = read;
        let (share, head) = (self.share, &response.head);
        let selection = self.selection();
        let is_plain = selection.as_ref().is_none_or(|selection| selection.is_quick(bytes))
            // Where a batch waits for the sink, an outcome waits in its lane for the next one.
            && share.gathered.has_room(|| bytes + self.row(Row::bytes))
            && !refuses_credentials(head.status)
            && !(self.may_redirect(head.status)
                || refuses_head(head.status) && self.may_fall_back()
                || self.is_streamed()
                || self.own_max_body_size().is_some());
        if !is_plain {
            return None;
        }
        let headers = HeadersRef::Parsed(head.headers);
        let body = response.body.ok_or(NO_BODY);
        let selected = self.select(selection.as_deref(), headers, body, bytes).ok()?;
        let (mut selected, selected_bytes) = selected.unzip();
        self.store_cookies(headers);
        if let (Some(selected), Some(selection)) = (&mut selected, selection.as_deref()) {
            self.apply(selection, head.status, selected, at);
        }
        let failure = selected.as_ref().and_then(|selected| selected.failure.as_ref());
        let end = match failure {
            None => AttemptEnd::responded(head.status),
            Some(failure) => AttemptEnd::failed(Some(head.status), failure),
        };
        if let Some(route) = state.route() {
            share.note_response(route, at);
            self.note_head(head.status, route);
        }
        self.note_acceptance(site, head.status);
        let span = Span { started: self.started, elapsed: at.saturating_duration_since(self.started) };
        let mut followed = self.record(|| AttemptResult {
            span,
            status: Some(head.status),
            version: Some(head.version),
            failure,
            remote_addr: state.connected_to(),
            is_new_connection: sending.has_connected,
        });
        if self.requeue_for_retry(end, Some(headers), false, None, &mut followed, at) == AfterAttempt::Requeued {
            return Some(Batch::HasRoom);
        }
        if let Some(followed) = followed {
            followed.report(None);
        }
        let row = share.lanes.take(self.lane);
        let response = ResponseRef {
            status: head.status,
            version: head.version,
            headers,
            ttfb_us: span.whole(&row).elapsed.as_micros() as u64,
            body: response.body.filter(|_| !share.shared.omits_bodies),
            body_encoding: None,
            body_truncated: false,
            received_bytes: response.body.map_or(0, <[u8]>::len) as u64,
            saved: None,
        };
        let omitted = if share.shared.omits_bodies { response.received_bytes } else { 0 };
        let memory_bytes = (bytes + selected_bytes.unwrap_or(0)) as u64 - omitted;
        if row.reply_to.is_some() {
            let mut memory = share.shared.limits.response.memory.reservation();
            share.read_reservation.transfer(&mut memory, memory_bytes);
            let failure = selected.as_mut().and_then(|selected| selected.failure.take());
            let (response, selected) = (response.to_response(memory), selected.map(Box::new));
            let (remote_addr, outcome) = (state.connected_to(), share.outcome(row, Some(span)));
            share.reply(Outcome { remote_addr, response: Some(response), selected, failure, ..outcome });
            return Some(Batch::HasRoom);
        }
        share.gathered.draw(&share.read_reservation, memory_bytes);
        let failure = selected.as_ref().and_then(|selected| selected.failure.as_ref());
        Some(share.record_ref(OutcomeRef {
            remote_addr: Some(state.remote_addr()),
            response: Some(response),
            selected: selected.as_ref(),
            failure,
            ..share.outcome_ref(&row, Some(span))
        }))
    }
}
