//! How outcomes are made, counted, and given to the sink or to the caller that waits for them.

use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::error::Failure;
use headgate_core::row::{Outcome, OutcomeRef, Row};
use headgate_http::origin_credentials::refuses_credentials;
use headgate_http::pool::Route;

use crate::engine::gathered::Batch;
use crate::engine::lanes::Span;
use crate::engine::share::Share;
use crate::stats::lanes::Wait;

impl Share {
    /// Returns the outcome of a row, to which its response, or why there is none, is added. `span`: of its last attempt, if
    /// there was one since it was last requeued.
    #[inline]
    pub(super) fn outcome_ref<'a>(&'a self, row: &'a Row, span: Option<Span>) -> OutcomeRef<'a> {
        // What was requested before the row was redirected and requeued is a part of an attempt, too.
        let span = span.or_else(|| row.chain()?.earlier.map(|_| Span::none())).map(|span| span.whole(row));
        OutcomeRef {
            row,
            method: self.method_of(row),
            attempts: row.attempts_before() + u16::from(span.is_some()),
            started_at_us: self.unix_us(span.map_or_else(clock::now, |span| span.started)),
            elapsed_us: span.map_or(0, |span| span.elapsed.as_micros() as u64),
            remote_addr: None,
            response: None,
            selected: None,
            failure: None,
        }
    }

    /// Returns the outcome as [`Share::outcome_ref`] does, with the row.
    pub(super) fn outcome(&self, row: Row, span: Option<Span>) -> Outcome {
        let OutcomeRef { method, attempts, started_at_us, elapsed_us, .. } = self.outcome_ref(&row, span);
        Outcome {
            method: method.into(),
            row,
            attempts,
            started_at_us,
            elapsed_us,
            remote_addr: None,
            response: None,
            selected: None,
            failure: None,
        }
    }

    /// Returns the outcome of a row that fails without a response.
    pub(super) fn failed(&self, row: Row, span: Option<Span>, failure: Failure) -> Outcome {
        Outcome { failure: Some(failure), ..self.outcome(row, span) }
    }

    pub(super) fn method_of<'a>(&'a self, row: &'a Row) -> &'a str {
        self.shared.methods.name(row)
    }

    /// Returns the method of the row's next request, which a redirect may have changed.
    pub(super) fn method_now<'a>(&'a self, row: &'a Row) -> &'a str {
        row.chain().and_then(|chain| chain.method.as_deref()).unwrap_or_else(|| self.method_of(row))
    }

    /// Counts an outcome and adds it to the batch as soon as it fits. Returns whether the batch is full.
    pub(super) async fn record(&self, outcome: Outcome) -> Batch {
        // Rows that end without I/O leave time for those that need it.
        tokio::task::consume_budget().await;
        let failed = self.count(outcome.as_ref());
        let Some(outcome) = outcome.reply(failed) else { return Batch::HasRoom };
        if self.gathered.has_room(|| outcome.as_ref().bytes()) {
            return self.gathered.push_owned(outcome, failed);
        }
        self.sent(Box::pin(self.waiting(Wait::Sink, self.gathered.push_in_turn(outcome, failed))).await);
        Batch::HasRoom
    }

    /// Records an outcome that fits as [`Share::record`] does. The caller reserves its memory.
    pub(super) fn record_ref(&self, outcome: OutcomeRef<'_>) -> Batch {
        let failed = self.count(outcome);
        self.gathered.push(outcome, failed)
    }

    /// Counts an outcome, and gives it to the caller that waits for it.
    pub(super) fn reply(&self, outcome: Outcome) {
        let failed = self.count(outcome.as_ref());
        drop(outcome.reply(failed));
    }

    /// Counts an outcome. Returns whether its row failed.
    pub(super) fn count(&self, outcome: OutcomeRef<'_>) -> bool {
        let status = outcome.response.map(|response| response.status);
        let failed = outcome.failure.is_some() || status.is_some_and(|status| self.is_failure(status, outcome.row));
        self.stats().figures.record(outcome, failed);
        if let Some(status) = status.filter(|status| refuses_credentials(*status)) {
            self.note_refused_row(status, outcome.row);
        }
        self.apply_failure_limit(outcome, failed);
        failed
    }

    /// Returns whether a response with this status makes the row fail.
    pub(super) fn is_failure(&self, status: u16, row: &Row) -> bool {
        self.shared.fail_on.contains(status, || self.preparer.borrow_mut().sends_credentials(row))
    }

    /// Adds to the time that lanes have waited for this.
    pub(super) fn count_wait(&self, wait: Wait, time: Duration) {
        if !time.is_zero() {
            self.stats().lanes.add_waited(wait, time);
        }
    }

    /// Notes that a response came over this route.
    pub(super) fn note_response(&self, route: &Route, now: Instant) {
        if route.host.note_response(now) {
            self.shared.responders.note(&route.key.origin);
        }
    }
}
