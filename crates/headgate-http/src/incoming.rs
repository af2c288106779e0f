//! Receives the body of a response, for all versions of HTTP.
//!
//! One loop receives it: completely ([`receive`]), or in pieces for a caller that reads it while it comes ([`next_piece`]). The
//! loop bounds the body, reserves memory before it is filled, passes pieces to the threads that save them, and observes the
//! timeouts. Each version of HTTP has its own [`BodySource`].

use std::future::poll_fn;
use std::mem;
use std::task::{Context, Poll};

use headgate_core::body_stream::BodyChunk;
use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::memory::Reservation;
use headgate_core::message::OptionName;
use headgate_core::reason::Reason;
use headgate_core::response::Body;

use crate::deadline::{Deadline, OwnWait};
use crate::decode::{ContentEncodings, DecodeOptions, DecodeResult};
use crate::exchange_context::ExchangeContext;
use crate::reply::{PARTIAL_CONTENT, Reply, ResponseLimits};
use crate::response_timeouts::ExchangePhase;
use crate::save::saving::{CHUNK_BYTES, Saving};

/// The buffer of a body grows by its length, within these bounds.
pub(crate) const MIN_GROWTH_BYTES: usize = 4096;
const MAX_GROWTH_BYTES: usize = 1024 * 1024;

/// How much of a body is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WantedBody {
    /// All of it; a longer body is a failure.
    AtMost(u64),
    /// Its first bytes, up to this number.
    FirstBytes(u64),
    Nothing,
}

impl WantedBody {
    pub(crate) fn of(limits: &ResponseLimits, max_body_size: u64) -> Self {
        match max_body_size {
            _ if limits.no_body => Self::Nothing,
            bytes if limits.truncate_body => Self::FirstBytes(bytes),
            bytes => Self::AtMost(bytes),
        }
    }

    pub(crate) fn of_exchange(context: &ExchangeContext<'_>) -> Self {
        if context.streams { Self::AtMost(u64::MAX) } else { Self::of(context.limits, context.max_body_size) }
    }

    fn max_bytes(self) -> u64 {
        match self {
            Self::AtMost(bytes) | Self::FirstBytes(bytes) => bytes,
            Self::Nothing => 0,
        }
    }
}

/// A body that is being received.
#[derive(Debug)]
pub(crate) struct IncomingBody {
    pub wanted: WantedBody,
    /// The length from the headers.
    length: Option<u64>,
    pub bytes: Vec<u8>,
    /// The number of bytes that came before `bytes`, and were saved or returned to the caller.
    taken: u64,
    /// The body is longer than the kept part.
    pub is_cut: bool,
    /// The memory of `bytes` and of the rest of the response. One reservation for both: a response that overdraws must not wait
    /// for itself.
    pub reservation: Reservation,
    /// Saves the body, if it is to be saved.
    pub saving: Option<Box<Saving>>,
}

impl IncomingBody {
    pub(crate) fn new(wanted: WantedBody, reservation: Reservation) -> Self {
        Self { wanted, length: None, bytes: Vec::new(), taken: 0, is_cut: false, reservation, saving: None }
    }

    /// Sets the length from the headers.
    pub(crate) fn set_length(&mut self, length: u64) {
        self.length = Some(length);
        self.detect_cut();
    }

    /// Sets the length of a body without one: its next `bytes` bytes are its last ones.
    pub(crate) fn expect_last(&mut self, bytes: usize) {
        if bytes <= self.wanted_bytes() {
            self.length.get_or_insert(self.taken + (self.bytes.len() + bytes) as u64);
        }
    }

    /// Returns how many of the wanted bytes have come.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.taken + self.bytes.len() as u64
    }

    /// Returns by how much more than the bytes of one read the buffer may grow for them.
    pub(crate) fn growth_bytes(&self) -> usize {
        self.bytes.len().clamp(MIN_GROWTH_BYTES, MAX_GROWTH_BYTES)
    }

    /// Returns how many of the next bytes are wanted.
    fn wanted_bytes(&self) -> usize {
        usize::try_from(self.wanted.max_bytes().saturating_sub(self.received_bytes())).unwrap_or(usize::MAX)
    }

    /// Returns the capacity that `bytes` needs for `incoming` more bytes. `Vec` does not decide on it, because the memory is
    /// reserved before it is allocated.
    pub(crate) fn capacity_for(&self, incoming: usize) -> usize {
        let left = self.length.map_or(u64::MAX, |length| length.saturating_sub(self.received_bytes()));
        let left = usize::try_from(left).unwrap_or(usize::MAX).min(self.wanted_bytes());
        let capacity = self.bytes.capacity();
        if capacity - self.bytes.len() >= incoming.min(left) {
            return capacity;
        }
        self.bytes.len() + self.growth_bytes().max(incoming).min(left)
    }

    /// Allocates capacity for `incoming` more bytes.
    pub(crate) fn grow_for(&mut self, incoming: usize) {
        let capacity = self.capacity_for(incoming);
        self.bytes.reserve_exact(capacity - self.bytes.len());
    }

    /// Appends the wanted part of a piece, after [`IncomingBody::grow_for`].
    pub(crate) fn append(&mut self, piece: &[u8]) {
        let wanted = piece.len().min(self.wanted_bytes());
        self.bytes.extend_from_slice(&piece[..wanted]);
        self.is_cut |= wanted < piece.len();
        self.detect_cut();
    }

    /// Sets `is_cut` as soon as the wanted bytes have come and the length shows that more follow.
    fn detect_cut(&mut self) {
        let max = self.wanted.max_bytes();
        self.is_cut |= matches!(self.wanted, WantedBody::FirstBytes(_))
            && self.received_bytes() == max
            && self.length.is_some_and(|length| length > max);
    }

    /// Checks the length against its limit.
    ///
    /// # Errors
    /// `body_too_large`.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let WantedBody::AtMost(max) = self.wanted else { return Ok(()) };
        let bytes = match self.length {
            Some(length) if length > max => format!("{length} bytes"),
            _ if self.is_cut => "more".into(),
            _ => return Ok(()),
        };
        let reason = Reason::new("the body is larger than it may be");
        let failure =
            Failure::new(ErrorKind::BodyTooLarge, reason.with(format!("{bytes}, where {max} bytes are allowed")));
        Err(failure.with_option(OptionName::MaxBodySize))
    }

    /// Reserves memory for the next bytes. While the budget is used up, nothing is read, so the server waits, too.
    pub(crate) async fn reserve(&mut self, bytes: u64, deadline: &mut Deadline) {
        if !self.reservation.try_grow(bytes) {
            let since = clock::now();
            Box::pin(self.reservation.grow(bytes)).await;
            // The server is not responsible for this wait.
            deadline.excuse(OwnWait::Memory, clock::elapsed(since));
        }
    }

    /// Passes the bytes to a thread that saves them, if the body is saved and they are enough for a write.
    async fn save(&mut self, deadline: &mut Deadline) -> Result<(), Failure> {
        if let Some(saving) = &mut self.saving
            && self.bytes.len() >= CHUNK_BYTES
        {
            self.taken += self.bytes.len() as u64;
            Box::pin(saving.write(&mut self.bytes, deadline)).await;
            if saving.has_failed() {
                return Err(Failure::new(ErrorKind::ConnectionClosed, "the body can't be written"));
            }
        }
        Ok(())
    }

    /// Completes the reply with the body. `failure` tells why the body is incomplete.
    ///
    /// No received byte is dropped: a body that is incomplete, or invalid in its content encoding, is kept as received. The
    /// reply names the remaining encodings. A part of a representation (206) can't be decoded either: it is kept encoded, which
    /// is not a failure.
    ///
    /// Cancelling it drops the body.
    pub(crate) async fn conclude(
        self,
        mut reply: Reply,
        failure: Option<Failure>,
        context: &ExchangeContext<'_>,
        deadline: &mut Deadline,
    ) -> Reply {
        reply.received_bytes = self.received_bytes();
        let limits = context.limits;
        let Self { bytes, reservation, saving, is_cut, .. } = self;
        let mut body = Body { bytes, reservation };
        let options = DecodeOptions { max_bytes: context.max_body_size, truncates: limits.truncate_body, is_cut };
        if let Some(saving) = saving {
            return match failure {
                None => Box::pin(saving.finish(body, options, reply, limits, deadline)).await,
                Some(failure) => Box::pin(saving.abandon(failure, reply, deadline)).await,
            };
        }
        reply.truncated = is_cut && failure.is_none();
        reply.failure = failure;
        // The body of a redirect that is followed is dropped.
        if limits.no_body || context.redirects.follows(reply.head.status, &reply.head.headers) {
            return Reply { truncated: false, ..reply };
        }
        if reply.head.encoded && !body.bytes.is_empty() {
            let encodings = ContentEncodings::of(&reply.head.headers);
            if limits.raw || reply.head.status == PARTIAL_CONTENT || reply.failure.is_some() {
                reply.body_encoding = encodings.names();
            } else {
                // Boxed: most bodies have no content encoding.
                let decoded = Box::pin(context.scratch.decoder.decode(encodings, body, options, deadline)).await;
                DecodeResult {
                    body,
                    remaining: reply.body_encoding,
                    truncated: reply.truncated,
                    failure: reply.failure,
                } = decoded;
            }
        }
        body.reservation.settle();
        reply.body = Some(body).filter(|body| reply.failure.is_none() || !body.bytes.is_empty());
        reply
    }
}

/// The result of [`BodySource::poll_fill`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Bytes of the response, or its end.
    Came,
    /// Bytes can be read once this much memory is reserved.
    NeedsMemory(u64),
}

/// Reads the bytes of a response from its connection.
pub(crate) trait BodySource {
    fn body(&mut self) -> &mut IncomingBody;

    /// Returns how many bytes of memory the response holds.
    fn held_bytes(&self) -> u64;

    /// Returns whether all wanted bytes have come.
    fn is_done(&self) -> bool;

    /// Returns whether the response has begun and is incomplete.
    fn is_receiving(&self) -> bool;

    /// Reads available bytes. Each poll checks that memory is reserved for them, since another lane may have used it meanwhile.
    fn poll_fill(
        &mut self,
        context: &ExchangeContext<'_>,
        deadline: &mut Deadline,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Fill, Failure>>;

    /// Returns the failure of a response whose deadline has passed.
    fn timed_out(&self, deadline: &Deadline) -> Failure;
}

/// Reads until all wanted bytes have come.
///
/// # Errors
/// The failure after which no more bytes come.
pub(crate) async fn receive(
    source: &mut impl BodySource,
    context: &ExchangeContext<'_>,
    deadline: &mut Deadline,
) -> Result<(), Failure> {
    let timeouts = &context.limits.timeouts;
    while !source.is_done() {
        if source.is_receiving() {
            let now = clock::now();
            if timeouts.is_bounded() {
                deadline.expect(timeouts.limit(ExchangePhase::Receiving, now));
            }
            // While bytes keep coming, no poll is pending, and only this check sees that the deadline has passed.
            if deadline.has_passed(now) {
                return Err(source.timed_out(deadline));
            }
        }
        match poll_fn(|cx| source.poll_fill(context, deadline, cx)).await? {
            Fill::Came => source.body().save(deadline).await?,
            Fill::NeedsMemory(bytes) => source.body().reserve(bytes, deadline).await,
        }
    }
    Ok(())
}

/// Waits for the next piece of the body; `None`: the body is complete.
///
/// # Errors
/// The failure after which no more bytes come; it is returned after all pieces that came.
///
/// Cancelling it loses nothing.
pub(crate) async fn next_piece(
    source: &mut impl BodySource,
    context: &ExchangeContext<'_>,
    deadline: &mut Deadline,
) -> Result<Option<BodyChunk>, Failure> {
    loop {
        let body = source.body();
        if !body.bytes.is_empty() {
            let mut bytes = mem::take(&mut body.bytes);
            bytes.shrink_to_fit();
            body.taken += bytes.len() as u64;
            let mut reservation = context.limits.memory.reservation();
            body.reservation.transfer(&mut reservation, bytes.capacity() as u64);
            // Memory that other requests may wait for is released between pieces.
            let held = source.held_bytes();
            let body = source.body();
            body.reservation.shrink_to(held);
            body.reservation.settle();
            return Ok(Some(BodyChunk { bytes, reservation }));
        }
        if source.is_done() {
            return Ok(None);
        }
        if let Fill::NeedsMemory(bytes) = poll_fn(|cx| source.poll_fill(context, deadline, cx)).await? {
            let body = source.body();
            body.reserve(bytes, deadline).await;
            // While nothing comes, other requests may overdraw.
            body.reservation.settle();
        }
    }
}
