//! Decodes content encodings (RFC 9110 section 8.4.1) in chunks, so that the bound of a body's size applies while it is
//! decoded: a gzip bomb ends at the bound, not in memory.
//!
//! Several gzip members, or zstd frames, in a row are one body. Encodings may be nested five deep; urllib3's CVE-2025-66418
//! shows what happens without that bound. A body with an unknown encoding is not decoded.
//!
//! A hundred bytes can become the largest body allowed, or take a second to decode to nothing. So a worker decodes only small
//! bodies itself. A body that is likely to be more work, or proves to be, goes to a thread of the engine's [`ThreadPool`], as
//! short or as long work.
//!
//! Memory is reserved before it is allocated. If there is none, the decoded bytes are dropped, the lane waits for twice as much
//! memory, and decoding starts over. So no lane holds memory while it waits for more, and the failed attempts cost at most as
//! much as the last one. Waiting for memory or for a thread extends the deadline, since it is our own delay; decoding does not.

mod brotli;
mod decoding;
mod decompress;
mod encoding;
mod inflate;
mod meter;
pub mod pool;
pub(crate) mod reader;
pub mod stream;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::decoding::Decoding;
pub use self::encoding::ContentEncodings;
use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::memory::Reservation;
use headgate_core::message::OptionName;
use headgate_core::reason::Reason;
use headgate_core::response::Body;

use self::encoding::Encoding;
use self::meter::{Bounds, Meter, StopReason};
use self::pool::{ThreadPool, WorkLength};
use crate::deadline::{Deadline, OwnWait};

/// The bound of bytes that pass the layers of a body that its worker decodes itself.
const INLINE_BYTES: u64 = 256 * 1024;
/// The bound of the time for it.
const INLINE_TIME: Duration = Duration::from_millis(5);
/// The same bounds for short work of the pool: bodies of a megabyte do not wait for those of the largest size.
const SHORT_BYTES: u64 = 4 * 1024 * 1024;
const SHORT_TIME: Duration = Duration::from_millis(100);
/// The usual compression ratio of text.
const USUAL_RATIO: u64 = 4;
/// The largest compression ratio of deflate: 258 bytes for two bits.
const DEFLATE_MAX_RATIO: u64 = 1032;

/// The decoder of a worker.
#[derive(Debug)]
pub struct Decoder {
    pool: Arc<ThreadPool>,
    /// The buffer in which small bodies are decoded, one after another.
    scratch: RefCell<Vec<u8>>,
}

/// How a body is decoded.
#[derive(Debug, Clone, Copy)]
pub struct DecodeOptions {
    /// The bound of the decoded body.
    pub max_bytes: u64,
    /// A larger body is truncated, and does not fail.
    pub truncates: bool,
    /// The encoded body is truncated.
    pub(crate) is_cut: bool,
}

/// The result of decoding a body.
#[derive(Debug)]
pub struct DecodeResult {
    /// The decoded body, or the encoded one.
    pub body: Body,
    /// The encodings that the body still has.
    pub remaining: Option<Box<str>>,
    /// `body` is the beginning of a longer one.
    pub truncated: bool,
    pub failure: Option<Failure>,
}

/// A body to decode, and the memory reserved for it: at least that of the encoded bytes.
#[derive(Debug)]
struct EncodedBody {
    encodings: Vec<Encoding>,
    bytes: Vec<u8>,
    reservation: Reservation,
    options: DecodeOptions,
}

/// The decoded body and whether it is truncated; or the encoded body, and why decoding has stopped.
type Decoded = Result<(Body, bool), (EncodedBody, StopReason)>;

impl Decoder {
    pub fn new(pool: Arc<ThreadPool>) -> Self {
        Self { pool, scratch: RefCell::default() }
    }

    /// Runs work with a decoded body in the pool, since it would take a worker too long, and returns its result.
    ///
    /// Cancelling it cancels the work, unless that has started.
    pub async fn run_in_pool<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.pool.run(WorkLength::Long, clock::now(), |_, _| work()).await.0
    }

    /// Decodes a body with these content encodings. If that fails, the result has the encoded body and the failure:
    /// `body_too_large`: the decoded body is too large. `decode`: the body is not in that encoding, or is truncated.
    /// `timeout`: decoding does not finish before the deadline, which is extended by waits for memory or a thread.
    ///
    /// Cancelling it drops the body. A thread that decodes it notices soon, and drops it then.
    pub async fn decode(
        &self,
        encodings: ContentEncodings,
        body: Body,
        options: DecodeOptions,
        deadline: &mut Deadline,
    ) -> DecodeResult {
        let supported = match encodings.supported() {
            Ok(supported) => supported.to_vec(),
            Err(failure) => {
                return DecodeResult { body, remaining: encodings.names(), truncated: false, failure: Some(failure) };
            }
        };
        if supported.is_empty() {
            return DecodeResult { body, remaining: encodings.names(), truncated: options.is_cut, failure: None };
        }
        let Body { bytes, reservation } = body;
        let mut encoded = EncodedBody { encodings: supported, bytes, reservation, options };
        let mut length = encoded.likely_length();
        loop {
            let decoded = match length {
                None => self.decode_inline(encoded, deadline.at()),
                Some(length) => {
                    let work = move |by, is_wanted: &dyn Fn() -> bool| encoded.decode(length, by, is_wanted);
                    let (decoded, waited) = self.pool.run(length, deadline.at(), work).await;
                    deadline.excuse(OwnWait::Decoder, waited);
                    decoded
                }
            };
            let (stopped, reason) = match decoded {
                Ok((body, truncated)) => return DecodeResult { body, remaining: None, truncated, failure: None },
                Err(stopped) => stopped,
            };
            encoded = stopped;
            match reason {
                StopReason::Paused => {
                    length = Some(if length.is_none() { WorkLength::Short } else { WorkLength::Long });
                }
                // A stall took the time, and has just extended the deadline.
                StopReason::TimedOut if !deadline.has_passed(clock::now()) => length = Some(WorkLength::Long),
                StopReason::NoMemory { needed } => {
                    let since = clock::now();
                    encoded.reservation.grow(needed.saturating_sub(encoded.reservation.bytes())).await;
                    // The server is not to blame for full memory.
                    deadline.excuse(OwnWait::Memory, clock::elapsed(since));
                }
                reason => {
                    let EncodedBody { bytes, mut reservation, .. } = encoded;
                    reservation.shrink_to(bytes.capacity() as u64);
                    let (body, failure) = (Body { bytes, reservation }, Some(options.failure(reason)));
                    return DecodeResult { body, remaining: encodings.names(), truncated: false, failure };
                }
            }
        }
    }

    /// Decodes a body in the worker, within the bounds for that.
    fn decode_inline(&self, mut encoded: EncodedBody, by: Instant) -> Decoded {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let bounds = Bounds { bytes: INLINE_BYTES, until: clock::now() + INLINE_TIME };
        // Nothing is reserved for the buffer, which exists once for each worker.
        let meter = Meter::new(bounds, by, &|| true, Reservation::default(), 0);
        let decoded = encoded.start(meter).read_to_end(&mut scratch);
        let truncated = match encoded.options.is_truncated(decoded) {
            Ok(truncated) => truncated,
            Err(reason) => return Err((encoded, reason)),
        };
        let length = scratch.len() as u64;
        let lacking = length.saturating_sub(encoded.reservation.bytes());
        if lacking > 0 && !encoded.reservation.try_grow(lacking) {
            return Err((encoded, StopReason::NoMemory { needed: length }));
        }
        drop(std::mem::take(&mut encoded.bytes));
        encoded.reservation.shrink_to(length);
        Ok((Body { bytes: scratch.to_vec(), reservation: encoded.reservation }, truncated))
    }
}

impl EncodedBody {
    /// Estimates how much work decoding is, since an attempt that stops is restarted. Returns `None` for what a worker does
    /// itself.
    fn likely_length(&self) -> Option<WorkLength> {
        let encoded_bytes = self.bytes.len() as u64;
        let stated = match (self.encodings.as_slice(), self.bytes.last_chunk()) {
            // The last bytes of a member state its length (RFC 1952 section 2.3.1). A wrong one costs a second attempt. An
            // impossible one is ignored: then other bytes follow the last member.
            ([Encoding::Gzip], Some(length)) => Some(u64::from(u32::from_le_bytes(*length)))
                .filter(|length| *length <= encoded_bytes.saturating_mul(DEFLATE_MAX_RATIO)),
            _ => None,
        };
        let decoded_bytes = stated.unwrap_or_else(|| encoded_bytes.saturating_mul(USUAL_RATIO));
        let bytes = encoded_bytes.saturating_add(decoded_bytes);
        (bytes > INLINE_BYTES).then_some(if bytes <= SHORT_BYTES { WorkLength::Short } else { WorkLength::Long })
    }

    fn start<'a>(&'a self, meter: Meter<'a>) -> Decoding<'a> {
        Decoding::new(&self.encodings, &*self.bytes, self.options.max_bytes, meter)
    }

    /// Decodes the body in a thread of the pool, within the bounds of `length` and of the memory. The thread checks the time
    /// with each chunk.
    fn decode(mut self, length: WorkLength, by: Instant, is_wanted: &dyn Fn() -> bool) -> Decoded {
        let bounds = match length {
            WorkLength::Short => Bounds { bytes: SHORT_BYTES, until: clock::now() + SHORT_TIME },
            WorkLength::Long => Bounds { bytes: u64::MAX, until: by },
        };
        let held = self.bytes.capacity() as u64;
        let limit = self.reservation.limit();
        let reservation = std::mem::take(&mut self.reservation);
        let mut decoding = self.start(Meter::new(bounds, by, is_wanted, reservation, held));
        let mut decoded = Vec::new();
        let read = decoding.read_to_end(&mut decoded);
        self.reservation = decoding.into_reservation();
        match self.options.is_truncated(read) {
            Ok(truncated) => {
                drop(self.bytes);
                decoded.shrink_to_fit();
                self.reservation.shrink_to(decoded.capacity() as u64);
                Ok((Body { bytes: decoded, reservation: self.reservation }, truncated))
            }
            Err(reason) => {
                drop(decoded);
                self.reservation.shrink_to(held);
                // The remaining need is unknown, so it is doubled each time. It stays within the limit while it can: beyond
                // that, the budget admits one body at a time.
                let reason = match reason {
                    StopReason::NoMemory { needed } => {
                        StopReason::NoMemory { needed: (needed * 2).min(limit.max(needed)) }
                    }
                    reason => reason,
                };
                Err((self, reason))
            }
        }
    }
}

impl DecodeOptions {
    /// Returns whether the decoded body is truncated, or the reason if decoding has failed.
    fn is_truncated(self, decoded: Result<(), StopReason>) -> Result<bool, StopReason> {
        match decoded {
            Ok(()) => Ok(self.is_cut),
            // The end is missing because the encoded body was truncated.
            Err(StopReason::Broken(error)) if self.is_cut && error.kind() == io::ErrorKind::UnexpectedEof => Ok(true),
            Err(StopReason::TooLarge) if self.truncates => Ok(true),
            Err(reason) => Err(reason),
        }
    }

    /// Returns the failure of a body that was not decoded.
    fn failure(self, reason: StopReason) -> Failure {
        match reason {
            StopReason::TooLarge => {
                let reason = Reason::new("the body is larger than it may be when it is decoded");
                let detail = format!("more, where {} bytes are allowed", self.max_bytes);
                Failure::new(ErrorKind::BodyTooLarge, reason.with(detail)).with_option(OptionName::MaxBodySize)
            }
            StopReason::Broken(error) | StopReason::Unreadable(error) => {
                let message = format!("the body is not in the content encoding it claims: {error}");
                Failure::new(ErrorKind::Decode, message)
            }
            StopReason::TimedOut | StopReason::Paused | StopReason::NoMemory { .. } => {
                Failure::new(ErrorKind::Timeout, "the body was not decoded in time").with_option(OptionName::Timeout)
            }
        }
    }
}
