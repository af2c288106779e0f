//! What follows an exchange that took more than one read: the request is resent, the row is requeued or redirected, or its
//! outcome is recorded.

use std::mem;
use std::sync::PoisonError;

use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure, JobError, NetworkEvidence};
use headgate_core::headers::HeadersRef;
use headgate_core::reason::Reason;
use headgate_core::redirect_chain::RedirectChain;
use headgate_core::response::Response;
use headgate_core::row::{Outcome, Row};
use headgate_core::schedule::retry::AttemptEnd;
use headgate_core::selected::SelectedValues;
use headgate_core::url_user::without_user;
use headgate_http::client::{LaneState, Pending, ReceivedResponse};
use headgate_http::deadline::OwnWait;
use headgate_http::reply::{NoReply, Reply};

use super::record::AttemptResult;
use super::schedule::AfterAttempt;
use super::{Attempt, Next, NoResponse, RowNow, Sending, Tried};
use crate::engine::gathered::Batch;
use crate::engine::lanes::Span;

/// The end of messages about a body that was streamed, and would have to be sent a second time.
const SECOND_SENDING: &str =
    "a second time, and it is a stream, which can be sent only once: give it as bytes, a file or a Path";

impl Attempt<'_> {
    /// Completes an exchange, and does what follows from it.
    pub(super) async fn finish(
        self,
        pending: Pending,
        sending: &mut Sending,
        state: &mut LaneState,
    ) -> Result<Next, NoResponse> {
        let remote_addr = state.connected_to();
        let is_http2 = matches!(pending, Pending::Http2(_));
        let finished = self.share.client.finish(pending, &self.exchange_context(), state).await;
        if let (Ok(_), Some(site)) = (&finished, &sending.site) {
            self.share.note_response(&site.route, clock::now());
        }
        if self.try_resend(&finished, is_http2, sending, state) {
            if self.requeue_resent() == RowNow::Requeued {
                return Ok(Next::Done(Batch::HasRoom));
            }
            self.share.stats().figures.resent += 1;
            sending.may_start = !self.share.shared.scheduler.counts_sends();
            // A server may have required HTTP/1.1 in place of HTTP/2.
            if sending.site.as_ref().is_some_and(|site| site.route.is_http2()) {
                return Ok(Next::Send);
            }
            return Box::pin(self.connect(sending, state)).await;
        }
        match finished {
            Ok(received) => self.conclude(received, sending, state).await,
            Err(none) => {
                let failure = none.failure_on(sending.on_new_connection && !is_http2);
                let has_connected = sending.has_connected;
                Err(NoResponse { failure, tried: Some(Tried { remote_addr, has_connected }) })
            }
        }
    }

    /// Returns whether the request is sent once more, as a part of this attempt.
    fn try_resend(
        &self,
        finished: &Result<ReceivedResponse, NoReply>,
        is_http2: bool,
        sending: &Sending,
        state: &mut LaneState,
    ) -> bool {
        let failure = match finished {
            Ok(ReceivedResponse { open: Some(_), .. }) => None,
            Ok(ReceivedResponse { reply, .. }) => reply.failure.as_ref(),
            Err(none) => Some(&none.failure),
        };
        if self.row(Row::needs_consumed_body) {
            return false;
        }
        // A connection that has died in a stall is as if the server had closed an idle one (RFC 9110 section 9.2.2).
        if failure.is_some_and(|failure| failure.kind == ErrorKind::ConnectionClosed)
            && self.is_idempotent()
            && state.try_resend_after_stall(self.started, clock::now())
        {
            return true;
        }
        let (Err(none), Some(site)) = (finished, &sending.site) else { return false };
        let allows = if is_http2 { state.try_resend_http2(none, &site.route) } else { !sending.on_new_connection };
        allows && self.row(|row| none.may_resend(self.share.method_now(row)))
    }

    /// Does what follows from a response.
    async fn conclude(
        self,
        received: ReceivedResponse,
        sending: &mut Sending,
        state: &mut LaneState,
    ) -> Result<Next, NoResponse> {
        let ReceivedResponse { mut reply, remote_addr, is_outside, open } = received;
        if let Some(Err(error)) = reply.saved {
            self.stop_saving(error);
            return Ok(Next::Done(Batch::HasRoom));
        }
        let status = reply.head.status;
        // Before the redirect, whose request gets them.
        self.store_cookies(HeadersRef::Kept(&reply.head.headers));
        let mut chain = self.redirect(&mut reply, is_outside).or_else(|| self.fall_back(&reply, sending));
        if let Some(chain) = &mut chain {
            self.reserve_chain(chain, &mut reply, state).await;
        }
        let selects = chain.is_none() && open.is_none() && self.selection().is_some();
        let selected = if selects { Box::pin(self.select_from(&mut reply, state)).await } else { None };
        let end = match &reply.failure {
            None => AttemptEnd::responded(status),
            Some(failure) => AttemptEnd::failed(Some(status), failure),
        };
        let headers = HeadersRef::Kept(&reply.head.headers);
        if reply.head.skipped > 0 {
            self.share.stats().figures.headers_skipped += u64::from(reply.head.skipped);
        }
        if open.is_some() {
            self.apply_head(headers);
        }
        let new_credentials =
            sending.site.as_ref().filter(|_| chain.is_none()).and_then(|site| self.note_status(site, status));
        // A body that is handed out continues, unless the row is retried.
        let body_continues = open.is_some() && reply.failure.is_none() && chain.is_none();
        let mut followed = self.record(|| AttemptResult {
            span: self.span_until_now(state),
            status: Some(status),
            version: Some(reply.head.version),
            failure: reply.failure.as_ref(),
            remote_addr: Some(remote_addr.clone()),
            is_new_connection: sending.has_connected,
        });
        let now = clock::now();
        let after = self.requeue_for_retry(end, Some(headers), body_continues, new_credentials, &mut followed, now);
        if after == AfterAttempt::Requeued {
            if let Some(open) = open {
                open.end(state);
            }
            return Ok(Next::Done(Batch::HasRoom));
        }
        let span = self.span(state);
        if let Some(chain) = chain {
            return self.follow(chain, span, sending, state).await;
        }
        if let Some(followed) = followed {
            followed.report(None);
        }
        if let Some(open) = open.filter(|_| body_continues) {
            Box::pin(self.stream_body(span, (reply, remote_addr), open, state)).await;
            return Ok(Next::Done(Batch::HasRoom));
        }
        let failure = reply.failure.take().map(|failure| explain_consumed(failure, after));
        let row = self.share.lanes.take(self.lane);
        let response = self.response_of(&row, span, reply, failure.is_some(), selected.as_deref());
        let outcome = self.share.outcome(row, Some(span));
        let outcome =
            Outcome { remote_addr: Some(remote_addr), response: Some(response), selected, failure, ..outcome };
        Ok(Next::Done(self.share.record(outcome).await))
    }

    /// Ends the attempt without a response: the row is requeued for a retry, or fails.
    pub(super) async fn fail(self, none: NoResponse, state: &mut LaneState) -> Batch {
        let NoResponse { failure, tried } = none;
        if tried.is_none() {
            self.refund();
        }
        let span = tried.as_ref().map(|_| self.span(state));
        let end = AttemptEnd::failed(None, &failure);
        if matches!(end.network_evidence(), NetworkEvidence::Unreachable | NetworkEvidence::Refused) {
            let last = &self.share.shared.last_unreached;
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.clone());
        }
        let mut followed = tried.as_ref().and_then(|tried| {
            self.record(|| AttemptResult {
                span: span.unwrap_or_else(Span::none),
                status: None,
                version: None,
                failure: Some(&failure),
                remote_addr: tried.remote_addr.clone(),
                is_new_connection: tried.has_connected,
            })
        });
        let after = self.requeue_for_retry(end, None, false, None, &mut followed, clock::now());
        if after == AfterAttempt::Requeued {
            return Batch::HasRoom;
        }
        if let Some(followed) = followed {
            followed.report(None);
        }
        let remote_addr = tried.and_then(|tried| tried.remote_addr);
        let failure = explain_consumed(failure, after);
        let row = self.share.lanes.take(self.lane);
        self.share.record(Outcome { remote_addr, ..self.share.failed(row, span, failure) }).await
    }

    /// Stops the run because a body can't be written. The row is left undone.
    fn stop_saving(&self, error: JobError) {
        let row = self.share.lanes.take(self.lane);
        self.share.shared.scheduler.lock().leave_undone([(row.ordinal, row.attempts_before() + 1)]);
        self.share.release_host(self.lane);
        self.share.sent(Err(Some(error)));
    }

    /// Returns the redirect chain, if the response is a redirect that is followed. One that leads nowhere is the reply's failure.
    fn redirect(&self, reply: &mut Reply, is_outside: bool) -> Option<Box<RedirectChain>> {
        if reply.failure.is_some() || !self.may_redirect(reply.head.status) {
            return None;
        }
        let head = (reply.head.status, &reply.head.headers);
        let followed = self.row(|row| {
            let method = self.share.method_now(row);
            let redirects = self.share.shared.limits.response.redirects.of(row, method);
            let chain = redirects.follow(row, method, head, is_outside, clock::system_now())?;
            match chain {
                Some(chain) if chain.method.is_none() && row.is_body_consumed() => {
                    let reason = Reason::new(format!("the redirect needs the body {SECOND_SENDING}"));
                    let url = without_user(&chain.url).into_owned();
                    Err(Failure::new(ErrorKind::InvalidRequest, reason.with(url)).lasting())
                }
                chain => Ok(chain),
            }
        });
        followed.unwrap_or_else(|failure| {
            reply.failure = Some(failure);
            None
        })
    }

    /// Makes the next request of a redirect chain: at once or, where rows are throttled, when the scheduler starts the row again.
    async fn follow(
        self,
        chain: Box<RedirectChain>,
        span: Span,
        sending: &mut Sending,
        state: &mut LaneState,
    ) -> Result<Next, NoResponse> {
        if self.requeue_redirected(chain, span) == RowNow::Requeued {
            return Ok(Next::Done(Batch::HasRoom));
        }
        state.from_outside = self.is_from_outside();
        if let Some(failure) = Box::pin(self.objection_after_redirect(state)).await {
            return Err(NoResponse::not_sent(failure));
        }
        self.share.shared.scheduler.budgets.requests.spend(1);
        *sending = self.begin_sending(state);
        Ok(Next::Send)
    }

    /// Reserves memory for a redirect chain: what was reserved for the one before it and for the headers of the redirect, and
    /// what is missing.
    async fn reserve_chain(&self, chain: &mut RedirectChain, reply: &mut Reply, state: &mut LaneState) {
        let needed = chain.bytes() as u64;
        let mut memory = self.share.shared.limits.response.memory.reservation();
        self.share.lanes.change(self.lane, |row| memory.absorb(row.remove_chain_memory()));
        memory.absorb(mem::take(&mut reply.memory));
        let missing = needed.saturating_sub(memory.bytes());
        if missing > 0 && !memory.try_grow_within(missing) {
            let since = clock::now();
            Box::pin(memory.grow(missing)).await;
            state.deadline.excuse(OwnWait::Memory, clock::elapsed(since));
        }
        // The next response needs the permit to overdraw.
        memory.end_overdrawing();
        memory.shrink_to(needed);
        chain.memory.0 = memory;
    }

    /// Returns what of the response arrived, as an outcome has it.
    pub(super) fn response_of(
        &self,
        row: &Row,
        span: Span,
        reply: Reply,
        failed: bool,
        selected: Option<&SelectedValues>,
    ) -> Response {
        let ttfb = reply.first_byte.saturating_duration_since(span.started);
        let (mut body, mut memory) = (reply.body, reply.memory);
        if self.share.shared.omits_bodies
            && let Some(mut body) = body.take()
        {
            // The selected values keep what is reserved for them.
            body.reservation.shrink_to(selected.map_or(0, |selected| selected.bytes() as u64));
            memory.absorb(body.reservation);
        }
        Response {
            status: reply.head.status,
            version: reply.head.version,
            headers: reply.head.headers,
            memory,
            ttfb_us: Span { elapsed: ttfb, ..span }.whole(row).elapsed.as_micros() as u64,
            body,
            body_encoding: reply.body_encoding,
            body_truncated: reply.truncated,
            received_bytes: reply.received_bytes,
            // A row that fails has no file: a later attempt may need its name.
            saved: reply.saved.filter(|_| !failed).and_then(|saved| saved.ok()?.keep()),
        }
    }
}

/// Returns the failure of a row. It says so if the row was not retried because its body can't be sent once more.
fn explain_consumed(failure: Failure, after: AfterAttempt) -> Failure {
    if after != AfterAttempt::BodyConsumed {
        return failure;
    }
    let Failure { reason: Reason { message, detail }, .. } = failure;
    let message = format!("{message}; a retry needs the body {SECOND_SENDING}");
    Failure { reason: Reason { message: message.into(), detail }, ..failure }
}
