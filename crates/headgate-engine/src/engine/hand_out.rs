//! An answer whose body is taken while it comes: its head goes to who waits for the outcome, and the body after it, piece by
//! piece. From then on the row isn't asked again: what goes wrong is told behind what has come.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::timeout;

use crate::engine::completion_queue;
use crate::engine::lanes::{PlaceIndex, Span};
use crate::engine::share::Share;
use crate::http::client::{LaneState, OpenBody};
use crate::http::decode::ContentEncodings;
use crate::http::decode::stream::{self, StreamDecoder, StreamStep};
use crate::http::reply::Reply;
use crate::model::body_stream::{BodyChunk, BodyStream, EndOnDrop};
use crate::model::error::Failure;
use crate::model::memory::Reservation;
use crate::model::outcome::Outcome;
use crate::model::row::Row;
use crate::schedule::retry::AttemptEnd;
use crate::stats::lanes::Wait;

/// Nobody takes the rest of a body.
struct Unwanted;

/// How far handing out has come: on, or to an end before that of the body.
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

impl Share {
    /// Gives out an answer whose body has still to come, and then that. The row stays at its place until then, and in flight at
    /// its host, of which the gate was told what the head says.
    pub(super) async fn hand_out(
        &self,
        place: PlaceIndex,
        span: Span,
        state: &mut LaneState,
        (reply, remote_addr): (Reply, Arc<str>),
        open: Box<OpenBody>,
    ) {
        let Some((row, stream)) = self.lanes.look(place, |row| Some((row.clone(), row.stream()?.clone()))) else {
            return;
        };
        let _end = EndOnDrop(&stream);
        let status = reply.head.status;
        let mut outcome = self.answered(row, span, reply, None, remote_addr);
        // As much of it as is counted when the body has come.
        let counted = Self::without_headers(&mut outcome);
        let failed = AttemptEnd::responded(status).is_failure(&self.shared.fail_on);
        completion_queue::reply(outcome, failed);

        let poured = self.pour(place, state, &stream, open).await;
        self.count_own_waits(state);
        let failure = match poured {
            Ok(()) | Err(Stopped::Unwanted) => None,
            Err(Stopped::Failed(failure)) => Some(failure),
        };
        // The head has shown all there is to know about the host.
        self.release_host(place);
        drop(self.lanes.take(place));
        let mut counted = Outcome { failure: failure.clone(), ..counted };
        if let Some(answer) = &mut counted.answer {
            answer.body_bytes = stream.received();
        }
        self.count(counted.as_ref());
        stream.end(failure);
    }

    /// The same outcome, as far as figures are made of it.
    fn without_headers(outcome: &mut Outcome) -> Outcome {
        use crate::model::headers::Headers;
        use crate::model::outcome::Answer;

        let answer = outcome.answer.as_ref().map(|answer| Answer {
            headers: Headers::default(),
            memory: Reservation::default(),
            body: None,
            body_encoding: None,
            saved: None,
            ..*answer
        });
        Outcome {
            row: Row::new(outcome.row.ordinal, outcome.row.url.clone()),
            method: outcome.method.clone(),
            remote_addr: None,
            answer,
            selected: None,
            failure: None,
            ..*outcome
        }
    }

    /// Brings the body to who takes it, as fast as it is taken. Whether it came to its end.
    async fn pour(
        &self,
        place: PlaceIndex,
        state: &mut LaneState,
        stream: &BodyStream,
        mut open: Box<OpenBody>,
    ) -> Result<(), Stopped> {
        let context = self.exchange_context(place);
        let time = self.time_between_pieces(place);
        let mut undoing = match open.take_codings() {
            Some(codings) if !stream.raw().await.ok_or(Unwanted)? => {
                let reservation = self.memory_to_decode(&codings, stream, time).await?;
                StreamDecoder::new(&codings, reservation)?
            }
            _ => None,
        };
        loop {
            self.has_room(stream).await?;
            let piece = tokio::select! {
                biased;
                () = stream.closed() => return Err(Stopped::Unwanted),
                piece = open.next(time, &context, &mut state.deadline) => piece?,
            };
            let Some(piece) = piece else { break };
            stream.count(piece.bytes.len());
            match &mut undoing {
                None => stream.push(piece),
                Some(undoing) => {
                    undoing.feed(piece.bytes);
                    self.undo(undoing, stream).await?;
                }
            }
        }
        if let Some(undoing) = &mut undoing
            && stream.received() > 0
        {
            undoing.finish();
            self.undo(undoing, stream).await?;
        }
        open.end(state);
        Ok(())
    }

    /// Waits until there is memory to begin decoding, for `time` at the most.
    async fn memory_to_decode(
        &self,
        codings: &ContentEncodings,
        stream: &BodyStream,
        time: Duration,
    ) -> Result<Reservation, Stopped> {
        let mut reservation = self.shared.limits.response.memory.reservation();
        let first_bytes = stream::initial_bytes(codings);
        let reserved = tokio::select! {
            biased;
            () = stream.closed() => return Err(Stopped::Unwanted),
            reserved = timeout(time, reservation.grow_within(first_bytes)) => reserved,
        };
        match reserved {
            Ok(true) => Ok(reservation),
            Ok(false) | Err(_) => Err(stream::no_memory(first_bytes).into()),
        }
    }

    /// Gives out what becomes of what has come.
    async fn undo(&self, undoing: &mut StreamDecoder, stream: &BodyStream) -> Result<(), Stopped> {
        loop {
            match undoing.step()? {
                StreamStep::NeedsInput | StreamStep::Ended => return Ok(()),
                StreamStep::Unfinished => {}
                StreamStep::Chunk(piece) => {
                    let mut reservation = self.shared.limits.response.memory.reservation();
                    tokio::select! {
                        biased;
                        () = stream.closed() => return Err(Stopped::Unwanted),
                        () = reservation.grow(piece.capacity() as u64) => reservation.settle(),
                    }
                    stream.push(BodyChunk { bytes: piece, reservation });
                }
            }
            // What a body decodes to must not keep the others from their turns. Nor from being told of their answers: a thread
            // that yields has always something to do.
            completion_queue::wake_awaited();
            yield_now().await;
            self.has_room(stream).await?;
        }
    }

    async fn has_room(&self, stream: &BodyStream) -> Result<(), Unwanted> {
        let room = self.waiting(Wait::Sink, stream.room()).await;
        room.then_some(()).ok_or(Unwanted)
    }

    fn time_between_pieces(&self, place: PlaceIndex) -> Duration {
        let own = self.lanes.look(place, |row| row.own().and_then(|own| own.timeout));
        own.unwrap_or(self.shared.limits.timeout)
    }
}
