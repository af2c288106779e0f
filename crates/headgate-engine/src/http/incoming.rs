//! The body of a response as it comes, over whichever version of HTTP.
//!
//! One loop reads it: whole ([`receive`]), or piece by piece for a caller that takes it while it comes ([`next_piece`]). It
//! bounds the body, reserves memory before that is filled, hands pieces to the threads that save them, and watches the
//! timeouts. What differs between the versions is their [`BodySource`].

use std::future::poll_fn;
use std::mem;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::http::deadline::{Deadline, OwnWait};
use crate::http::decode::{ContentEncodings, DecodeOptions, DecodeResult};
use crate::http::exchange_context::ExchangeContext;
use crate::http::reply::{PARTIAL_CONTENT, Reply, ResponseLimits};
use crate::http::response_timeouts::Progress;
use crate::http::save::saving::{CHUNK_BYTES, Saving};
use crate::model::body_stream::BodyChunk;
use crate::model::error::{ErrorKind, Failure};
use crate::model::memory::Reservation;
use crate::model::message::OptionName;
use crate::model::outcome::Body;
use crate::model::reason::Reason;

/// What a body's memory grows by beyond what came: as much as it has, within these bounds.
pub const MIN_GROWTH_BYTES: usize = 4096;
const MAX_GROWTH_BYTES: usize = 1024 * 1024;

/// What is wanted of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// All of it. If that is more than so many bytes, it is a failure.
    AtMost(u64),
    /// So many bytes from its beginning.
    FirstBytes(u64),
    Nothing,
}

impl Wanted {
    pub fn of(limits: &ResponseLimits) -> Self {
        match limits.max_body_bytes {
            _ if limits.no_body => Self::Nothing,
            bytes if limits.truncate_body => Self::FirstBytes(bytes),
            bytes => Self::AtMost(bytes),
        }
    }

    fn max_bytes(self) -> u64 {
        match self {
            Self::AtMost(bytes) | Self::FirstBytes(bytes) => bytes,
            Self::Nothing => 0,
        }
    }
}

/// A body, as far as it came.
#[derive(Debug)]
pub struct IncomingBody {
    pub wanted: Wanted,
    /// What the headers say.
    length: Option<u64>,
    pub bytes: Vec<u8>,
    /// Bytes that came before, and were saved or taken.
    taken: u64,
    /// There is more of it than is kept.
    pub is_cut: bool,
    /// For `bytes`, and for what else of the response is in memory: so a response that overdraws never waits for itself.
    pub reservation: Reservation,
    /// Where it goes, if it is saved.
    pub saving: Option<Box<Saving>>,
}

impl IncomingBody {
    pub fn new(wanted: Wanted, reservation: Reservation) -> Self {
        Self { wanted, length: None, bytes: Vec::new(), taken: 0, is_cut: false, reservation, saving: None }
    }

    /// Takes note of its length.
    pub fn set_length(&mut self, length: u64) {
        self.length = Some(length);
        self.look_for_cut();
    }

    /// Takes note that so many bytes are the last ones, where its length is not known.
    pub fn expect_last(&mut self, bytes: usize) {
        if bytes <= self.room() {
            self.length.get_or_insert(self.taken + (self.bytes.len() + bytes) as u64);
        }
    }

    /// Returns how much of what is wanted has come.
    pub fn came(&self) -> u64 {
        self.taken + self.bytes.len() as u64
    }

    /// Returns how much more memory it may take for what one read brings, beyond as many bytes again.
    pub fn growth_bytes(&self) -> usize {
        self.bytes.len().clamp(MIN_GROWTH_BYTES, MAX_GROWTH_BYTES)
    }

    /// Returns how much of a piece is wanted.
    fn room(&self) -> usize {
        usize::try_from(self.wanted.max_bytes().saturating_sub(self.came())).unwrap_or(usize::MAX)
    }

    /// Returns the capacity that `bytes` needs for so many bytes more. How much that is is not left to `Vec`: it is reserved
    /// before it is taken.
    pub fn capacity_for(&self, incoming: usize) -> usize {
        let left = self.length.map_or(u64::MAX, |length| length.saturating_sub(self.came()));
        let left = usize::try_from(left).unwrap_or(usize::MAX).min(self.room());
        let capacity = self.bytes.capacity();
        if capacity - self.bytes.len() >= incoming.min(left) {
            return capacity;
        }
        self.bytes.len() + self.growth_bytes().max(incoming).min(left)
    }

    /// Makes room for so many bytes more.
    pub fn make_room(&mut self, incoming: usize) {
        let capacity = self.capacity_for(incoming);
        self.bytes.reserve_exact(capacity - self.bytes.len());
    }

    /// Appends a piece, as far as it is wanted, where room was made for it.
    pub fn append(&mut self, piece: &[u8]) {
        let wanted = piece.len().min(self.room());
        self.bytes.extend_from_slice(&piece[..wanted]);
        self.is_cut |= wanted < piece.len();
        self.look_for_cut();
    }

    /// What more there is need not come to be known of.
    fn look_for_cut(&mut self) {
        let max = self.wanted.max_bytes();
        self.is_cut |= matches!(self.wanted, Wanted::FirstBytes(_))
            && self.came() == max
            && self.length.is_some_and(|length| length > max);
    }

    /// # Errors
    /// `body_too_large`: there is more of it than there may be.
    pub fn check(&self) -> Result<(), Failure> {
        let Wanted::AtMost(max) = self.wanted else { return Ok(()) };
        let bytes = match self.length {
            Some(length) if length > max => format!("{length} bytes"),
            _ if self.is_cut => "more".into(),
            _ => return Ok(()),
        };
        let reason = Reason::new("the body is larger than it may be");
        let failure =
            Failure::new(ErrorKind::BodyTooLarge, reason.with(format!("{bytes}, where {max} bytes are allowed")));
        Err(failure.with_option(OptionName::MaxBodyBytes))
    }

    /// Reserves memory for what comes next. Where there is none, the server waits, too.
    pub async fn reserve(&mut self, bytes: u64, deadline: &mut Deadline) {
        if !self.reservation.try_grow(bytes) {
            let since = Instant::now();
            Box::pin(self.reservation.grow(bytes)).await;
            // That the memory was full is not the server's fault.
            deadline.excuse(OwnWait::Memory, since.elapsed());
        }
    }

    /// Has a thread write what came, if the body is saved and that is worth it.
    async fn save(&mut self, deadline: &mut Deadline) -> Result<(), Failure> {
        if let Some(saving) = &mut self.saving
            && self.bytes.len() >= CHUNK_BYTES
        {
            self.taken += self.bytes.len() as u64;
            Box::pin(saving.write(&mut self.bytes, deadline)).await;
            if saving.has_failed() {
                return Err(Failure::new(ErrorKind::Closed, "the body can't be written"));
            }
        }
        Ok(())
    }

    /// Completes the reply with what is kept of the body, for whose failure it did not come whole.
    ///
    /// Nothing that came is thrown away: a body that is not whole, or not what its content encoding says, is kept as it came,
    /// and the reply names what was left undone. A part of a representation (206) is no whole body in its encoding either, and
    /// is kept so without being a failure.
    ///
    /// Cancelling it drops the body.
    pub async fn conclude(
        self,
        mut reply: Reply,
        failure: Option<Failure>,
        context: &ExchangeContext<'_>,
        deadline: &mut Deadline,
    ) -> Reply {
        reply.body_bytes = self.came();
        let limits = context.limits;
        let Self { bytes, reservation, saving, is_cut, .. } = self;
        let mut body = Body { bytes, reservation };
        let options = DecodeOptions { max_bytes: limits.max_body_bytes, truncates: limits.truncate_body, is_cut };
        if let Some(saving) = saving {
            return match failure {
                None => Box::pin(saving.finish(body, options, reply, limits, deadline)).await,
                Some(failure) => Box::pin(saving.abandon(failure, reply, deadline)).await,
            };
        }
        reply.truncated = is_cut && failure.is_none();
        reply.failure = failure;
        // The body of a redirect that is followed is of no use.
        if limits.no_body || context.redirects.lead_on(reply.head.status, &reply.head.headers) {
            return Reply { truncated: false, ..reply };
        }
        if reply.head.encoded && !body.bytes.is_empty() {
            let encodings = ContentEncodings::of(&reply.head.headers);
            if limits.raw || reply.head.status == PARTIAL_CONTENT || reply.failure.is_some() {
                reply.body_encoding = encodings.names();
            } else {
                // Boxed: most bodies have nothing to be undone.
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

/// What came of waiting for more of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Something, or its end.
    Came,
    /// There is something, and so much memory must be reserved for it.
    NeedsMemory(u64),
}

/// Where a body comes from.
pub trait BodySource {
    fn body(&mut self) -> &mut IncomingBody;

    /// Returns the bytes of memory that what came takes now.
    fn held_bytes(&self) -> u64;

    /// Returns whether all that is wanted has come.
    fn is_done(&self) -> bool;

    /// Returns whether the response has begun and has more to come.
    fn is_receiving(&self) -> bool;

    /// Takes in what is there. Whether memory is reserved for it is asked at each poll, since others may have taken meanwhile
    /// what there was.
    fn poll_fill(
        &mut self,
        context: &ExchangeContext<'_>,
        deadline: &mut Deadline,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Fill, Failure>>;

    /// Returns the failure of a response whose deadline has passed.
    fn timed_out(&self, deadline: &Deadline) -> Failure;
}

/// Reads until all that is wanted has come.
///
/// # Errors
/// Why no more of it comes.
pub async fn receive(
    source: &mut impl BodySource,
    context: &ExchangeContext<'_>,
    deadline: &mut Deadline,
) -> Result<(), Failure> {
    let timeouts = &context.limits.timeouts;
    while !source.is_done() {
        if source.is_receiving() {
            let now = Instant::now();
            if timeouts.is_bounded() {
                deadline.expect(timeouts.limit(Progress::Receiving, now));
            }
            // While bytes keep coming, nothing waits, and nothing but this looks at the clock.
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

/// Waits for more of the body; `None`: it is whole.
///
/// # Errors
/// Why no more of it comes, behind all that has come.
///
/// Cancelling it loses nothing.
pub async fn next_piece(
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
            body.reservation.give(&mut reservation, bytes.capacity() as u64);
            // What others may wait for is not kept from piece to piece.
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
            // While nothing comes, others may overdraw.
            body.reservation.settle();
        }
    }
}
