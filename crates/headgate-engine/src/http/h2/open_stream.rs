//! The body of a response that is handed out while it comes, over one stream.

use std::fmt;
use std::future::poll_fn;

use crate::http::deadline::Deadline;
use crate::http::h1::exchange::Means;
use crate::http::h2::body_reader::{BodyReader, set_aside};
use crate::http::h2::sending::Sending;
use crate::http::h2::streams::Stream;
use crate::model::body_stream::BodyPiece;
use crate::model::error::Failure;

/// A stream behind the head of its response. Dropping it resets the stream, if that has not ended.
pub struct OpenStream {
    sending: Sending,
    reader: BodyReader,
    stream: Stream,
    is_empty: bool,
}

impl OpenStream {
    /// `is_empty`: there is no body, whatever the length that the head speaks of.
    pub(super) fn new(sending: Sending, reader: BodyReader, stream: Stream, is_empty: bool) -> Self {
        Self { sending, reader, stream, is_empty }
    }

    /// As of an exchange over HTTP/1.1. A server may send a window more than was taken.
    ///
    /// # Errors
    /// `timeout`, `closed`, `protocol`.
    ///
    /// Cancelling it may lose a piece.
    pub async fn next(&mut self, means: &Means<'_>, deadline: &mut Deadline) -> Result<Option<BodyPiece>, Failure> {
        let Self { sending, reader, stream, is_empty } = self;
        if *is_empty {
            return Ok(None);
        }
        loop {
            let Some(piece) = poll_fn(|cx| reader.poll_piece(stream, sending, deadline, cx)).await? else {
                return Ok(None);
            };
            reader.handed_out += piece.len() as u64;
            let mut reservation = means.limits.memory.reservation();
            set_aside(piece.len(), &mut reservation, means, deadline).await;
            reservation.settle();
            // A stream that has ended in the meantime has no window to give back to.
            let _ = reader.incoming.flow_control().release_capacity(piece.len());
            if !piece.is_empty() {
                let bytes = Vec::from(piece);
                return Ok(Some(BodyPiece { bytes, reservation }));
            }
        }
    }
}

impl fmt::Debug for OpenStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenStream").finish_non_exhaustive()
    }
}
