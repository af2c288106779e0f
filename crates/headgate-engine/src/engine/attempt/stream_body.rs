//! A response whose body is handed out while it arrives: its head goes to the caller that waits for the outcome, and then the
//! body, piece by piece. From then on the row is not retried: an error follows what has arrived.

use std::sync::Arc;
use std::time::Duration;

use headgate_core::body_stream::{BodyChunk, BodyStream, EndOnDrop};
use headgate_core::clock;
use headgate_core::error::Failure;
use headgate_core::headers::{Headers, HeadersRef};
use headgate_core::memory::Reservation;
use headgate_core::response::ResponseRef;
use headgate_core::row::{Outcome, OutcomeRef};
use headgate_core::timer::timeout_at;
use headgate_http::client::{LaneState, OpenBody};
use headgate_http::decode::ContentEncodings;
use headgate_http::decode::stream::{self as decode_stream, StreamDecoder, StreamStep};
use headgate_http::reply::Reply;
use tokio::task::yield_now;

use super::Attempt;
use crate::engine::completion_queue;
use crate::engine::lanes::Span;
use crate::stats::lanes::Wait;

/// The caller does not take the rest of a body.
struct Unwanted;

/// Why handing out a body stopped before its end.
enum Stopped {
    Unwanted,
    Failed(Failure),
}

impl From<Unwanted> for Stopped {
    fn from(_: Unwanted) -> Self {
        Self::Unwanted
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Attempt<'_> {
    /// Gives the response to the caller, and then its body. Until that has ended, the row stays in its lane and in flight at its
    /// host; the scheduler has the result of the attempt already.
    pub(super) async fn stream_body(
        self,
        span: Span,
        (reply, remote_addr): (Reply, Arc<str>),
        open: Box<OpenBody>,
        state: &mut LaneState,
    ) {
        let share = self.share;
        let (row, stream) = self.row(|row| (row.clone(), row.stream().cloned()));
        let stream = stream.expect("only a row with a stream leaves its body open");
        let _end = EndOnDrop(&stream);
        let response = self.response_of(&row, span, reply, false, None);
        let (status, version, ttfb_us) = (response.status, response.version, response.ttfb_us);
        let outcome = share.outcome(row, Some(span));
        let outcome = Outcome { remote_addr: Some(remote_addr), response: Some(response), ..outcome };
        let failed = share.is_failure(status, &outcome.row);
        drop(outcome.reply(failed));

        let streamed = self.stream_pieces(&stream, open, state).await;
        self.count_own_waits(state);
        let failure = match streamed {
            Ok(()) | Err(Stopped::Unwanted) => None,
            Err(Stopped::Failed(failure)) => Some(failure),
        };
        // The response has shown all there is to know about the host.
        share.release_host(self.lane);
        let row = share.lanes.take(self.lane);
        let response = ResponseRef {
            status,
            version,
            headers: HeadersRef::Kept(&Headers::default()),
            ttfb_us,
            body: None,
            body_encoding: None,
            body_truncated: false,
            received_bytes: stream.received(),
            saved: None,
        };
        let outcome = share.outcome_ref(&row, Some(span));
        share.count(OutcomeRef { response: Some(response), failure: failure.as_ref(), ..outcome });
        stream.end(failure);
    }

    /// Brings the body to the caller as fast as the caller takes it.
    async fn stream_pieces(
        self,
        stream: &BodyStream,
        mut open: Box<OpenBody>,
        state: &mut LaneState,
    ) -> Result<(), Stopped> {
        let context = self.exchange_context();
        let time = self.time_between_pieces();
        let mut decoder = match open.take_encodings() {
            Some(encodings) if !stream.wait_for_begin().await.ok_or(Unwanted)? => {
                let reservation = self.memory_to_decode(&encodings, stream, time).await?;
                StreamDecoder::new(&encodings, reservation)?
            }
            _ => None,
        };
        loop {
            self.wait_for_room(stream).await?;
            let piece = tokio::select! {
                biased;
                () = stream.wait_closed() => return Err(Stopped::Unwanted),
                piece = open.next(time, &context, &mut state.deadline) => piece?,
            };
            let Some(piece) = piece else { break };
            stream.count(piece.bytes.len());
            match &mut decoder {
                None => stream.push(piece),
                Some(decoder) => {
                    decoder.feed(piece.bytes);
                    self.decode(decoder, stream).await?;
                }
            }
        }
        if let Some(decoder) = &mut decoder
            && stream.received() > 0
        {
            decoder.finish();
            self.decode(decoder, stream).await?;
        }
        open.end(state);
        Ok(())
    }

    /// Reserves the memory that decoding begins with; waits for `time` at the most.
    async fn memory_to_decode(
        &self,
        encodings: &ContentEncodings,
        stream: &BodyStream,
        time: Duration,
    ) -> Result<Reservation, Stopped> {
        let mut reservation = self.share.shared.limits.response.memory.reservation();
        let initial_bytes = decode_stream::initial_bytes(encodings);
        let reserved = tokio::select! {
            biased;
            () = stream.wait_closed() => return Err(Stopped::Unwanted),
            reserved = timeout_at(clock::now() + time, reservation.grow_within(initial_bytes)) => reserved,
        };
        match reserved {
            Ok(true) => Ok(reservation),
            Ok(false) | Err(_) => Err(decode_stream::no_memory(initial_bytes).into()),
        }
    }

    /// Decodes what has arrived, and hands it out.
    async fn decode(&self, decoder: &mut StreamDecoder, stream: &BodyStream) -> Result<(), Stopped> {
        loop {
            match decoder.step()? {
                StreamStep::NeedsInput | StreamStep::Ended => return Ok(()),
                StreamStep::Unfinished => {}
                StreamStep::Chunk(piece) => {
                    let mut reservation = self.share.shared.limits.response.memory.reservation();
                    tokio::select! {
                        biased;
                        () = stream.wait_closed() => return Err(Stopped::Unwanted),
                        () = reservation.grow(piece.capacity() as u64) => reservation.settle(),
                    }
                    stream.push(BodyChunk { bytes: piece, reservation });
                }
            }
            // A long body must delay neither the other lanes nor the callers that wait for their outcomes: a thread that yields
            // is never idle.
            completion_queue::wake_awaited();
            yield_now().await;
            self.wait_for_room(stream).await?;
        }
    }

    /// Waits until the caller has capacity for another piece.
    async fn wait_for_room(&self, stream: &BodyStream) -> Result<(), Unwanted> {
        let room = self.share.waiting(Wait::Sink, stream.wait_for_space()).await;
        room.then_some(()).ok_or(Unwanted)
    }

    /// Returns the longest time that the server may take for the next piece.
    fn time_between_pieces(&self) -> Duration {
        let own = self.row(|row| row.own().and_then(|own| own.timeout));
        own.unwrap_or(self.share.shared.limits.timeout)
    }
}
