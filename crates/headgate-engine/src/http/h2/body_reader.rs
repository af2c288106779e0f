//! A response's body as it comes over one stream.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use h2::{Reason as Code, RecvStream};

use crate::http::deadline::{Deadline, OwnWait};
use crate::http::h1::exchange::Means;
use crate::http::h1::response::Wanted;
use crate::http::h2::sending::Sending;
use crate::http::h2::streams::Stream;
use crate::http::h2::trouble;
use crate::http::patience::{Progress, timed_out};
use crate::http::save::saving::{PIECE_BYTES, Saving};
use crate::model::error::{ErrorKind, Failure};
use crate::model::memory::Reservation;
use crate::model::message::OptionName;
use crate::model::reason::Reason;

/// What a body's memory grows by beyond what came: as much as it has, within these bounds.
const MIN_GROWTH_BYTES: usize = 4096;
const MAX_GROWTH_BYTES: usize = 1024 * 1024;

/// Sets memory aside for what is about to be taken. Where there is none, the server waits, too.
pub(super) async fn set_aside(bytes: usize, reservation: &mut Reservation, means: &Means<'_>, deadline: &mut Deadline) {
    if means.allowance.covers(bytes) {
        means.allowance.give(reservation, bytes as u64);
    } else if !reservation.try_grow(bytes as u64) {
        let since = Instant::now();
        Box::pin(reservation.grow(bytes as u64)).await;
        // That the memory was full is not the server's fault.
        deadline.excuse(OwnWait::Memory, since.elapsed());
    }
}

pub(super) struct BodyReader {
    pub(super) incoming: RecvStream,
    /// What the head says.
    pub(super) length: Option<u64>,
    pub(super) bytes: Vec<u8>,
    /// Bytes of it that were handed out while it comes.
    pub(super) handed_out: u64,
    pub(super) reservation: Reservation,
    /// What of it is reserved for the headers.
    pub(super) head_bytes: u64,
    /// Where it goes, if it is saved.
    pub(super) saving: Option<Box<Saving>>,
    /// There is more of it, which is not wanted.
    pub(super) cut: bool,
}

impl BodyReader {
    /// Moves the reservation for the headers to their new owner.
    pub(super) fn move_head_reservation(&mut self, to: &mut Reservation) {
        self.reservation.give(to, std::mem::take(&mut self.head_bytes));
    }

    /// How much of it has come.
    pub(super) fn came(&self) -> u64 {
        let saved = self.saving.as_ref().map_or(0, |saving| saving.handed_over());
        saved + self.handed_out + self.bytes.len() as u64
    }

    /// Reads until the body is whole, or as much of it as is wanted.
    pub(super) async fn read(
        &mut self,
        wanted: Wanted,
        stream: &Stream,
        sending: &mut Sending,
        means: &Means<'_>,
        deadline: &mut Deadline,
    ) -> Result<(), Failure> {
        let max_bytes = wanted.max_bytes();
        let told = self.length.filter(|length| *length > max_bytes);
        if let (Some(length), Wanted::AtMost(_)) = (told, wanted) {
            return Err(too_large(&format!("{length} bytes"), max_bytes));
        }
        let patience = &means.limits.patience;
        loop {
            if told.is_some() && self.came() == max_bytes {
                self.cut = true;
                return Ok(());
            }
            if patience.is_bounded() {
                deadline.expect(patience.limit(Progress::Receiving, Instant::now()));
            }
            let Some(mut piece) = poll_fn(|cx| self.poll_piece(stream, sending, deadline, cx)).await? else {
                return Ok(());
            };
            let (came, room) = (piece.len(), max_bytes - self.came());
            if came as u64 > room {
                piece.truncate(room as usize);
                self.cut = true;
            }
            self.take_in(&piece, means, deadline).await;
            if self.cut {
                let is_failure = matches!(wanted, Wanted::AtMost(_));
                return if is_failure { Err(too_large("more", max_bytes)) } else { Ok(()) };
            }
            if self.bytes.len() >= PIECE_BYTES
                && let Some(saving) = &mut self.saving
            {
                Box::pin(saving.hand_over(&mut self.bytes, deadline)).await;
                if saving.has_failed() {
                    return Err(Failure::new(ErrorKind::Closed, "the body can't be written"));
                }
            }
            // A stream that has ended in the meantime has no window to give back to.
            let _ = self.incoming.flow_control().release_capacity(came);
            // While data keeps coming, nothing waits, and nothing but this looks at the clock.
            if !self.incoming.is_end_stream() && deadline.has_passed(Instant::now()) {
                return Err(timed_out(deadline.due().option, false, true));
            }
        }
    }

    pub(super) fn poll_piece(
        &mut self,
        stream: &Stream,
        sending: &mut Sending,
        deadline: &mut Deadline,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        sending.outgoing.poll(deadline, cx);
        let polled = self.incoming.poll_data(cx);
        if polled.is_pending()
            && let Some(failure) = sending.outgoing.failure.take()
        {
            return Poll::Ready(Err(failure));
        }
        if polled.is_pending() && !sending.outgoing.is_reading() && deadline.poll_passed(cx) {
            return Poll::Ready(Err(timed_out(deadline.due().option, false, true)));
        }
        Poll::Ready(match ready!(polled) {
            None => Ok(None),
            Some(Ok(piece)) => Ok(Some(piece)),
            // It has answered before it had the whole request, and wants no more of it (RFC 9113 section 8.1).
            Some(Err(error))
                if error.is_remote()
                    && error.reason() == Some(Code::NO_ERROR)
                    && error.is_reset()
                    && self.length.map_or(sending.awaited.has_ended(), |length| length == self.came()) =>
            {
                Ok(None)
            }
            Some(Err(error)) => Err(trouble::failure(&error, stream.connection.end(), "in the middle of the body")),
        })
    }

    async fn take_in(&mut self, piece: &[u8], means: &Means<'_>, deadline: &mut Deadline) {
        let needed = self.bytes.len() + piece.len();
        if needed > self.bytes.capacity() {
            let left = self.length.map_or(usize::MAX, |length| usize::try_from(length).unwrap_or(usize::MAX));
            let growth = self.bytes.len().clamp(MIN_GROWTH_BYTES, MAX_GROWTH_BYTES).max(piece.len());
            let is_last = self.incoming.is_end_stream();
            let capacity = if is_last { needed } else { (self.bytes.len() + growth).min(left).max(needed) };
            let missing = (capacity as u64 + self.head_bytes).saturating_sub(self.reservation.bytes());
            set_aside(missing as usize, &mut self.reservation, means, deadline).await;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
    }
}

fn too_large(bytes: &str, max_bytes: u64) -> Failure {
    let detail = format!("{bytes}, where {max_bytes} bytes are allowed");
    Failure::new(ErrorKind::BodyTooLarge, Reason::new("the body is larger than it may be").with(detail))
        .with_option(OptionName::MaxBodyBytes)
}
