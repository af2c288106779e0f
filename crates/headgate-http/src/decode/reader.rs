//! Decodes a body from one file to another in a thread that may block, without holding the body in memory.

use std::io::{self, Read};
use std::time::Instant;

use headgate_core::error::Failure;
use headgate_core::memory::Reservation;

use super::DecodeOptions;
use super::decoding::Decoding;
use super::encoding::ContentEncodings;
use super::meter::{Bounds, Meter, StopReason};

/// The size of a decoded chunk.
const CHUNK_BYTES: usize = 64 * 1024;

/// Why a body was not decoded.
#[derive(Debug)]
pub(crate) enum DecodeError {
    Unreadable(io::Error),
    Failed(Failure),
}

/// Reads and decodes a body chunk by chunk.
pub(crate) struct DecodingReader<'a> {
    decoding: Decoding<'a>,
    options: DecodeOptions,
    chunk: Vec<u8>,
    is_truncated: bool,
}

impl<'a> DecodingReader<'a> {
    /// Creates a reader that decodes until `by` and while it is wanted. Its memory is not reserved: it exists once for each
    /// thread.
    ///
    /// # Errors
    /// `decode`: there are too many encodings.
    pub(crate) fn new(
        encodings: &ContentEncodings,
        encoded: impl Read + 'a,
        options: DecodeOptions,
        (by, is_wanted): (Instant, &'a dyn Fn() -> bool),
    ) -> Result<Self, Failure> {
        let bounds = Bounds { bytes: u64::MAX, until: by };
        let meter = Meter::new(bounds, by, is_wanted, Reservation::default(), 0);
        let decoding = Decoding::new(encodings.supported()?, encoded, options.max_bytes, meter);
        Ok(Self { decoding, options, chunk: vec![0; CHUNK_BYTES], is_truncated: options.is_cut })
    }

    /// Decodes and returns the next chunk, which is empty at the end.
    ///
    /// # Errors
    /// As [`super::Decoder::decode`], or that the encoded body can't be read.
    pub(crate) fn next_chunk(&mut self) -> Result<&[u8], DecodeError> {
        let length = match self.decoding.read(&mut self.chunk) {
            Err(StopReason::Unreadable(error)) => return Err(DecodeError::Unreadable(error)),
            Err(stop) => {
                let is_truncated = self.options.is_truncated(Err(stop));
                self.is_truncated = is_truncated.map_err(|stop| DecodeError::Failed(self.options.failure(stop)))?;
                0
            }
            Ok(length) => length,
        };
        Ok(&self.chunk[..length])
    }

    /// Returns whether the decoded body is truncated, once its last chunk was read.
    pub(crate) fn is_truncated(&self) -> bool {
        self.is_truncated
    }
}
