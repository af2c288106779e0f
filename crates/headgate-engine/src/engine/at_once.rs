//! Outcomes of answers that came whole in one read: they are made of what was read, where that lies.

use std::sync::Arc;
use std::time::Instant;

use crate::engine::completion_queue;
use crate::engine::lanes::Span;
use crate::engine::share::Share;
use crate::http::h1::response::WholeResponse;
use crate::model::headers::HeadersRef;
use crate::model::memory::Reservation;
use crate::model::outcome::{Answer, AnswerRef, Body, Outcome, OutcomeRef};
use crate::model::row::Row;
use crate::model::selected::Selected;

impl Share {
    /// Puts an answer into a batch that came whole in one read. Whether the batch is full.
    pub(super) fn record_answer(
        &self,
        row: &Row,
        answer: &WholeResponse<'_>,
        selected: Option<&Selected>,
        (started, ended): (Instant, Instant),
        remote_addr: &str,
    ) -> bool {
        let span = Span { started, elapsed: ended.saturating_duration_since(started) }.whole(row);
        let elapsed_us = span.elapsed.as_micros() as u64;
        let WholeResponse { head, body } = answer;
        let answer = AnswerRef {
            status: head.status,
            version: head.version,
            headers: HeadersRef::Parsed(head.headers),
            ttfb_us: elapsed_us,
            body: body.filter(|_| !self.shared.omits_bodies),
            body_encoding: None,
            body_truncated: false,
            body_bytes: body.map_or(0, <[u8]>::len) as u64,
            saved: None,
        };
        self.record_ref(OutcomeRef {
            row,
            method: self.method_of(row),
            attempts: row.attempts_before() + 1,
            started_at_us: self.unix_us(span.started),
            elapsed_us,
            remote_addr: Some(remote_addr),
            answer: Some(answer),
            selected,
            failure: selected.and_then(|selected| selected.failure.as_ref()),
        })
    }

    /// As [`Share::record_answer`], for who waits for it.
    pub(super) fn reply_answer(
        &self,
        row: Row,
        answer: &WholeResponse<'_>,
        mut selected: Option<Selected>,
        (started, ended): (Instant, Instant),
        remote_addr: Option<Arc<str>>,
        memory: Reservation,
    ) {
        let span = Span { started, elapsed: ended.saturating_duration_since(started) }.whole(&row);
        let elapsed_us = span.elapsed.as_micros() as u64;
        let WholeResponse { head, body } = answer;
        let outcome = Outcome {
            method: self.method_of(&row).into(),
            attempts: row.attempts_before() + 1,
            row,
            started_at_us: self.unix_us(span.started),
            elapsed_us,
            remote_addr,
            answer: Some(Answer {
                status: head.status,
                version: head.version,
                headers: head.headers.iter().map(|header| (header.name, header.value)).collect(),
                memory,
                ttfb_us: elapsed_us,
                body: body
                    .filter(|_| !self.shared.omits_bodies)
                    .map(|body| Body { bytes: body.to_vec(), ..Body::default() }),
                body_encoding: None,
                body_truncated: false,
                body_bytes: body.map_or(0, <[u8]>::len) as u64,
                saved: None,
            }),
            failure: selected.as_mut().and_then(|selected| selected.failure.take()),
            selected: selected.map(Box::new),
        };
        let failed = self.count(outcome.as_ref());
        completion_queue::reply(outcome, failed);
    }
}
