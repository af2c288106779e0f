//! Content codings (RFC 9110 section 8.4.1), undone piece by piece, so that the cap on a body's size holds for what comes
//! out while it comes out: a gzip bomb ends at the cap, not in memory.
//!
//! Several gzip members, or zstd frames, in a row are one body. Codings may be nested five deep (urllib3's CVE-2025-66418 is
//! what happens without that bound). A body in a coding that we did not ask for stays as it came.
//!
//! A hundred bytes can become the largest body allowed, or take a second to come to nothing. So a worker decodes what
//! is little, at once; what looks like more, or turns out to be more and is begun again, is for a thread of the
//! engine's [`Pool`], as short work or as long. Memory is set aside before it is there. Where there is none, what was
//! decoded is dropped, the lane waits for twice as much, and it is begun again: so nobody holds memory while it waits
//! for more, and what is done twice is no more than what is done once. Waiting for memory or for a thread is waiting for
//! ourselves, and moves the deadline on; decoding does not.

mod brotli;
mod coding;
mod inflate;
mod layers;
mod meter;
pub mod piecewise;
pub mod pool;
pub mod streamed;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::io;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::coding::Codings;
use self::coding::{Coding, MAX_CODINGS, Undoing};
use self::layers::undo_all;
use self::meter::{Bounds, Meter, Stop};
use self::pool::{Length, Pool};
use crate::http::deadline::{Deadline, OwnWait};
use crate::model::error::{ErrorKind, Failure};
use crate::model::memory::Reservation;
use crate::model::message::OptionName;
use crate::model::outcome::Body;
use crate::model::reason::Reason;

/// What may pass the layers of a body that its worker decodes at once.
const AT_ONCE_BYTES: u64 = 256 * 1024;
/// How long that may take.
const AT_ONCE_TIME: Duration = Duration::from_millis(5);
/// The same for short work of the pool: bodies of a megabyte do not stand behind those of the largest size.
const SHORT_BYTES: u64 = 4 * 1024 * 1024;
const SHORT_TIME: Duration = Duration::from_millis(100);
/// How much longer text mostly is than what came for it.
const USUAL_RATIO: u64 = 4;
/// How much longer it is at the most in deflate: 258 bytes for two bits.
const DEFLATE_MAX_RATIO: u64 = 1032;

/// What a worker decodes with.
#[derive(Debug)]
pub struct Decoder {
    pool: Arc<Pool>,
    /// Where little bodies are decoded, one after another.
    scratch: RefCell<Vec<u8>>,
}

/// How far a body is decoded.
#[derive(Debug, Clone, Copy)]
pub struct Undo {
    /// What may come out.
    pub max_bytes: u64,
    /// More than that is cut off, and no failure.
    pub truncates: bool,
    /// The body was cut off as it came.
    pub is_cut: bool,
}

/// What decoding came to.
#[derive(Debug)]
pub struct Undone {
    /// Decoded, or as it came.
    pub body: Body,
    /// The codings that it still has.
    pub left: Option<Box<str>>,
    /// `body` is the beginning of a longer one.
    pub truncated: bool,
    pub failure: Option<Failure>,
}

/// A body that is being decoded, and the memory set aside for it: at least its own.
#[derive(Debug)]
struct Encoded {
    codings: Vec<Coding>,
    bytes: Vec<u8>,
    reservation: Reservation,
    undo: Undo,
}

/// What a piece of work came to.
enum Piece {
    Done {
        body: Body,
        truncated: bool,
    },
    Failed(Encoded, Failure),
    /// It is more than that. To be begun again.
    Unfinished(Encoded),
    /// As [`Piece::Unfinished`], with so much memory in all.
    NoMemory(Encoded, u64),
}

impl Decoder {
    pub fn new(pool: Arc<Pool>) -> Self {
        Self { pool, scratch: RefCell::default() }
    }

    /// What work with a decoded body comes to that would take a worker too long.
    ///
    /// Cancelling it takes the work back, if it is not begun.
    pub async fn elsewhere<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.pool.done(Length::Long, |_, _| work()).await
    }

    /// Undoes these content codings. What fails leaves the body as it came, with its failure:
    /// `body_too_large`: what comes out is more than it may be. `decode`: the body is not in that coding, or is cut off.
    /// `timeout`: it is not done by the deadline, which is moved on by waiting for memory or a thread.
    ///
    /// Cancelling it drops the body; a thread that is at it notices soon, and drops it then.
    pub async fn decode(&self, codings: Codings, body: Body, undo: Undo, deadline: &mut Deadline) -> Undone {
        let known = match &codings.undoing {
            Undoing::Known(known) => known.clone(),
            Undoing::Unknown => return Undone { body, left: codings.names(), truncated: undo.is_cut, failure: None },
            Undoing::TooMany => {
                return Undone { body, left: codings.names(), truncated: false, failure: Some(too_many()) };
            }
        };
        if body.bytes.is_empty() || known.is_empty() {
            return Undone { body, left: None, truncated: undo.is_cut, failure: None };
        }
        let Body { bytes, reservation } = body;
        let mut encoded = Encoded { codings: known, bytes, reservation, undo };
        let mut length = encoded.likely_length();
        loop {
            let piece = match length {
                None => self.at_once(encoded, deadline.at()),
                Some(length) => self.in_pool(length, encoded, deadline).await,
            };
            encoded = match piece {
                Piece::Done { body, truncated } => return Undone { body, left: None, truncated, failure: None },
                // A stall took its time, and that was excused just now.
                Piece::Failed(encoded, failure)
                    if failure.kind == ErrorKind::Timeout && !deadline.has_passed(Instant::now()) =>
                {
                    length = Some(Length::Long);
                    encoded
                }
                Piece::Failed(Encoded { bytes, mut reservation, .. }, failure) => {
                    reservation.shrink_to(bytes.capacity() as u64);
                    let body = Body { bytes, reservation };
                    return Undone { body, left: codings.names(), truncated: false, failure: Some(failure) };
                }
                Piece::Unfinished(encoded) => {
                    length = Some(if length.is_none() { Length::Short } else { Length::Long });
                    encoded
                }
                Piece::NoMemory(mut encoded, needed) => {
                    let since = Instant::now();
                    let lacking = needed.saturating_sub(encoded.reservation.bytes());
                    encoded.reservation.grow(lacking).await;
                    // That the memory was full is not the server's fault.
                    deadline.excuse(OwnWait::Memory, since.elapsed());
                    encoded
                }
            };
        }
    }

    /// Decodes a body whose codings let few bytes pass.
    fn at_once(&self, mut encoded: Encoded, by: Instant) -> Piece {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let bounds = Bounds { bytes: AT_ONCE_BYTES, until: Instant::now() + AT_ONCE_TIME };
        // What is taken here is taken once for each worker.
        let meter = Rc::new(Meter::new(bounds, by, &|| true, Reservation::default(), 0));
        match encoded.undo_into(&meter, &mut scratch) {
            Ok(truncated) => {
                let length = scratch.len() as u64;
                let lacking = length.saturating_sub(encoded.reservation.bytes());
                if lacking > 0 && !encoded.reservation.try_grow(lacking) {
                    return Piece::NoMemory(encoded, length);
                }
                drop(std::mem::take(&mut encoded.bytes));
                encoded.reservation.shrink_to(length);
                Piece::Done { body: Body { bytes: scratch.to_vec(), reservation: encoded.reservation }, truncated }
            }
            Err(Stopped::Failed(failure)) => Piece::Failed(encoded, failure),
            Err(_) => Piece::Unfinished(encoded),
        }
    }

    /// Has a thread decode it, as far as its length allows and memory reaches. Until it is begun, its time does not run; from
    /// then on the thread looks at the clock with each piece that passes, and gives the body back when its time is over.
    async fn in_pool(&self, length: Length, encoded: Encoded, deadline: &mut Deadline) -> Piece {
        let (by, since) = (deadline.at(), Instant::now());
        let mut brought = self.pool.run(length, move |begun, is_wanted: &dyn Fn() -> bool| {
            encoded.decode(length, by + begun.saturating_duration_since(since), is_wanted)
        });
        if let Ok(begun) = (&mut brought.begun).await {
            deadline.excuse(OwnWait::Decoder, begun.saturating_duration_since(since));
        }
        match (&mut brought.ended).await.expect("a thread replies, if with its panic") {
            Ok(piece) => piece,
            // As if the lane itself had panicked: that ends the run.
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// Why there is no decoded body.
enum Stopped {
    Failed(Failure),
    PieceEnded,
    NoMemory { needed: u64 },
}

impl Encoded {
    /// What there is likely to be done, since what is tried in vain is done twice. `None`: what a worker does at once.
    fn likely_length(&self) -> Option<Length> {
        let came = self.bytes.len() as u64;
        let said = match (self.codings.as_slice(), self.bytes.last_chunk()) {
            // The end of a member says it (RFC 1952 section 2.3.1). If it lies, that is found out, but for what can't be
            // true: that is something else behind the last member.
            ([Coding::Gzip], Some(length)) => Some(u64::from(u32::from_le_bytes(*length)))
                .filter(|length| *length <= came.saturating_mul(DEFLATE_MAX_RATIO)),
            _ => None,
        };
        let passes = came.saturating_add(said.unwrap_or_else(|| came.saturating_mul(USUAL_RATIO)));
        (passes > AT_ONCE_BYTES).then_some(if passes <= SHORT_BYTES { Length::Short } else { Length::Long })
    }

    /// In a thread of the pool.
    fn decode(mut self, length: Length, by: Instant, is_wanted: &dyn Fn() -> bool) -> Piece {
        let bounds = match length {
            Length::Short => Bounds { bytes: SHORT_BYTES, until: Instant::now() + SHORT_TIME },
            Length::Long => Bounds { bytes: u64::MAX, until: by },
        };
        let held = self.bytes.capacity() as u64;
        let limit = self.reservation.limit();
        let reservation = std::mem::take(&mut self.reservation);
        let meter = Rc::new(Meter::new(bounds, by, is_wanted, reservation, held));
        let mut decoded = Vec::new();
        let undone = self.undo_into(&meter, &mut decoded);
        self.reservation = Rc::into_inner(meter).expect("its layers are gone").into_reservation();
        match undone {
            Ok(truncated) => {
                drop(self.bytes);
                decoded.shrink_to_fit();
                self.reservation.shrink_to(decoded.capacity() as u64);
                Piece::Done { body: Body { bytes: decoded, reservation: self.reservation }, truncated }
            }
            Err(Stopped::Failed(failure)) => Piece::Failed(self, failure),
            Err(undone) => {
                drop(decoded);
                self.reservation.shrink_to(held);
                match undone {
                    // What is left to do is not known: twice as much each time is not much more often than needed. Who asks
                    // for more than there is in all is let through one at a time: not before it must be.
                    Stopped::NoMemory { needed } => Piece::NoMemory(self, (needed * 2).min(limit.max(needed))),
                    _ => Piece::Unfinished(self),
                }
            }
        }
    }

    /// Whether what comes out is cut off.
    fn undo_into<'a>(&'a self, meter: &Rc<Meter<'a>>, output: &mut Vec<u8>) -> Result<bool, Stopped> {
        let undone = undo_all(&self.codings, &self.bytes, self.undo.max_bytes, meter, output);
        self.undo.ended(meter.stopped(), undone)
    }
}

impl Undo {
    /// What decoding came to: whether what came out is cut off.
    fn ended(self, stopped: Option<Stop>, undone: io::Result<()>) -> Result<bool, Stopped> {
        let Undo { max_bytes, truncates, is_cut } = self;
        Err(match (stopped, undone) {
            (None, Ok(())) => return Ok(is_cut),
            // Its end is missing because we did not want it.
            (None, Err(error)) if is_cut && error.kind() == io::ErrorKind::UnexpectedEof => return Ok(true),
            (Some(Stop::TooLarge), _) if truncates => return Ok(true),
            (None, Err(error)) => {
                let message = format!("the body is not in the content coding it claims: {error}");
                Stopped::Failed(Failure::new(ErrorKind::Decode, message))
            }
            (Some(Stop::TooLarge), _) => {
                let reason = Reason::new("the body is larger than it may be when it is decoded");
                let detail = format!("more, where {max_bytes} bytes are allowed");
                let failure = Failure::new(ErrorKind::BodyTooLarge, reason.with(detail));
                Stopped::Failed(failure.with_option(OptionName::MaxBodyBytes))
            }
            (Some(Stop::TimedOut), _) => Stopped::Failed(timed_out()),
            (Some(Stop::PieceEnded), _) => Stopped::PieceEnded,
            (Some(Stop::NoMemory { needed }), _) => Stopped::NoMemory { needed },
        })
    }
}

/// More layers are not undone.
fn too_many() -> Failure {
    Failure::new(ErrorKind::Decode, format!("more than {MAX_CODINGS} layers of content codings"))
}

fn timed_out() -> Failure {
    Failure::new(ErrorKind::Timeout, "the body was not decoded in time").with_option(OptionName::TimeoutS)
}
