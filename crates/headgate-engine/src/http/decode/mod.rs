//! Content encodings (RFC 9110 section 8.4.1), undone piece by piece, so that the cap on a body's size holds for what comes
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
mod decoding;
mod decompress;
mod encoding;
mod inflate;
mod meter;
pub mod piecewise;
pub mod pool;
pub mod streamed;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::decoding::Decoding;
pub use self::encoding::ContentEncodings;
use self::encoding::Encoding;
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
    /// The encodings that it still has.
    pub left: Option<Box<str>>,
    /// `body` is the beginning of a longer one.
    pub truncated: bool,
    pub failure: Option<Failure>,
}

/// A body that is being decoded, and the memory reserved for it: at least its own.
#[derive(Debug)]
struct Encoded {
    encodings: Vec<Encoding>,
    bytes: Vec<u8>,
    reservation: Reservation,
    undo: Undo,
}

/// The decoded body and whether it is cut off; or the body to begin again with, and why.
type Decoded = Result<(Body, bool), (Encoded, Stop)>;

impl Decoder {
    pub fn new(pool: Arc<Pool>) -> Self {
        Self { pool, scratch: RefCell::default() }
    }

    /// Returns what work with a decoded body comes to that would take a worker too long.
    ///
    /// Cancelling it withdraws the work, if it is not begun.
    pub async fn elsewhere<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.pool.run(Length::Long, Instant::now(), |_, _| work()).await.0
    }

    /// Undoes these content encodings. What fails leaves the body as it came, with its failure:
    /// `body_too_large`: what comes out is more than it may be. `decode`: the body is not in that encoding, or is cut off.
    /// `timeout`: it is not done by the deadline, which is moved on by waiting for memory or a thread.
    ///
    /// Cancelling it drops the body; a thread that is at it notices soon, and drops it then.
    pub async fn decode(&self, encodings: ContentEncodings, body: Body, undo: Undo, deadline: &mut Deadline) -> Undone {
        let known = match encodings.to_undo() {
            Ok(known) => known.to_vec(),
            Err(failure) => {
                return Undone { body, left: encodings.names(), truncated: false, failure: Some(failure) };
            }
        };
        if known.is_empty() {
            return Undone { body, left: encodings.names(), truncated: undo.is_cut, failure: None };
        }
        let Body { bytes, reservation } = body;
        let mut encoded = Encoded { encodings: known, bytes, reservation, undo };
        let mut length = encoded.likely_length();
        loop {
            let decoded = match length {
                None => self.decode_at_once(encoded, deadline.at()),
                Some(length) => {
                    let work = move |by, is_wanted: &dyn Fn() -> bool| encoded.decode(length, by, is_wanted);
                    let (decoded, waited) = self.pool.run(length, deadline.at(), work).await;
                    deadline.excuse(OwnWait::Decoder, waited);
                    decoded
                }
            };
            let (again, stop) = match decoded {
                Ok((body, truncated)) => return Undone { body, left: None, truncated, failure: None },
                Err(stopped) => stopped,
            };
            encoded = again;
            match stop {
                Stop::Paused => length = Some(if length.is_none() { Length::Short } else { Length::Long }),
                // A stall took its time, and that was excused just now.
                Stop::TimedOut if !deadline.has_passed(Instant::now()) => length = Some(Length::Long),
                Stop::NoMemory { needed } => {
                    let since = Instant::now();
                    encoded.reservation.grow(needed.saturating_sub(encoded.reservation.bytes())).await;
                    // That the memory was full is not the server's fault.
                    deadline.excuse(OwnWait::Memory, since.elapsed());
                }
                stop => {
                    let Encoded { bytes, mut reservation, .. } = encoded;
                    reservation.shrink_to(bytes.capacity() as u64);
                    let (body, failure) = (Body { bytes, reservation }, Some(undo.failure(stop)));
                    return Undone { body, left: encodings.names(), truncated: false, failure };
                }
            }
        }
    }

    /// Decodes a body whose encodings let few bytes pass.
    fn decode_at_once(&self, mut encoded: Encoded, by: Instant) -> Decoded {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let bounds = Bounds { bytes: AT_ONCE_BYTES, until: Instant::now() + AT_ONCE_TIME };
        // What is taken here is taken once for each worker.
        let meter = Meter::new(bounds, by, &|| true, Reservation::default(), 0);
        let decoded = encoded.begin(meter).read_to_end(&mut scratch);
        let truncated = match encoded.undo.conclude(decoded) {
            Ok(truncated) => truncated,
            Err(stop) => return Err((encoded, stop)),
        };
        let length = scratch.len() as u64;
        let lacking = length.saturating_sub(encoded.reservation.bytes());
        if lacking > 0 && !encoded.reservation.try_grow(lacking) {
            return Err((encoded, Stop::NoMemory { needed: length }));
        }
        drop(std::mem::take(&mut encoded.bytes));
        encoded.reservation.shrink_to(length);
        Ok((Body { bytes: scratch.to_vec(), reservation: encoded.reservation }, truncated))
    }
}

impl Encoded {
    /// Returns how much there is likely to be done, since what is tried in vain is done twice. `None`: what a worker does at
    /// once.
    fn likely_length(&self) -> Option<Length> {
        let came = self.bytes.len() as u64;
        let said = match (self.encodings.as_slice(), self.bytes.last_chunk()) {
            // The end of a member says it (RFC 1952 section 2.3.1). If it lies, that is found out, but for what can't be
            // true: that is something else behind the last member.
            ([Encoding::Gzip], Some(length)) => Some(u64::from(u32::from_le_bytes(*length)))
                .filter(|length| *length <= came.saturating_mul(DEFLATE_MAX_RATIO)),
            _ => None,
        };
        let passes = came.saturating_add(said.unwrap_or_else(|| came.saturating_mul(USUAL_RATIO)));
        (passes > AT_ONCE_BYTES).then_some(if passes <= SHORT_BYTES { Length::Short } else { Length::Long })
    }

    fn begin<'a>(&'a self, meter: Meter<'a>) -> Decoding<'a> {
        Decoding::new(&self.encodings, &*self.bytes, self.undo.max_bytes, meter)
    }

    /// Decodes it in a thread of the pool, as far as its length allows and memory reaches. The thread looks at the clock with
    /// each piece that passes.
    fn decode(mut self, length: Length, by: Instant, is_wanted: &dyn Fn() -> bool) -> Decoded {
        let bounds = match length {
            Length::Short => Bounds { bytes: SHORT_BYTES, until: Instant::now() + SHORT_TIME },
            Length::Long => Bounds { bytes: u64::MAX, until: by },
        };
        let held = self.bytes.capacity() as u64;
        let limit = self.reservation.limit();
        let reservation = std::mem::take(&mut self.reservation);
        let mut decoding = self.begin(Meter::new(bounds, by, is_wanted, reservation, held));
        let mut decoded = Vec::new();
        let read = decoding.read_to_end(&mut decoded);
        self.reservation = decoding.into_reservation();
        match self.undo.conclude(read) {
            Ok(truncated) => {
                drop(self.bytes);
                decoded.shrink_to_fit();
                self.reservation.shrink_to(decoded.capacity() as u64);
                Ok((Body { bytes: decoded, reservation: self.reservation }, truncated))
            }
            Err(stop) => {
                drop(decoded);
                self.reservation.shrink_to(held);
                // What is left to do is not known: twice as much each time is not much more often than needed. Who asks for
                // more than there is in all is let through one at a time: not before it must be.
                let stop = match stop {
                    Stop::NoMemory { needed } => Stop::NoMemory { needed: (needed * 2).min(limit.max(needed)) },
                    stop => stop,
                };
                Err((self, stop))
            }
        }
    }
}

impl Undo {
    /// Returns whether what came out is cut off, where that is not why decoding has stopped in vain.
    fn conclude(self, decoded: Result<(), Stop>) -> Result<bool, Stop> {
        match decoded {
            Ok(()) => Ok(self.is_cut),
            // Its end is missing because we did not want it.
            Err(Stop::Broken(error)) if self.is_cut && error.kind() == io::ErrorKind::UnexpectedEof => Ok(true),
            Err(Stop::TooLarge) if self.truncates => Ok(true),
            Err(stop) => Err(stop),
        }
    }

    /// Returns why there is no decoded body.
    fn failure(self, stop: Stop) -> Failure {
        match stop {
            Stop::TooLarge => {
                let reason = Reason::new("the body is larger than it may be when it is decoded");
                let detail = format!("more, where {} bytes are allowed", self.max_bytes);
                Failure::new(ErrorKind::BodyTooLarge, reason.with(detail)).with_option(OptionName::MaxBodyBytes)
            }
            Stop::Broken(error) | Stop::Unreadable(error) => {
                let message = format!("the body is not in the content encoding it claims: {error}");
                Failure::new(ErrorKind::Decode, message)
            }
            Stop::TimedOut | Stop::Paused | Stop::NoMemory { .. } => {
                Failure::new(ErrorKind::Timeout, "the body was not decoded in time").with_option(OptionName::TimeoutS)
            }
        }
    }
}
