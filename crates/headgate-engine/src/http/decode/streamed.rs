//! Content encodings undone on the way from one file to another, so that a body is not held in memory: by a thread that may
//! block.

use std::io::{self, Read};
use std::time::Instant;

use super::Undo;
use super::decoding::Decoding;
use super::encoding::ContentEncodings;
use super::meter::{Bounds, Meter, Stop};
use crate::model::error::Failure;
use crate::model::memory::Reservation;

/// What is decoded at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Why a body was not decoded.
#[derive(Debug)]
pub enum NotDecoded {
    Unreadable(io::Error),
    Failed(Failure),
}

/// A body that is read and decoded piece by piece.
pub struct Streamed<'a> {
    decoding: Decoding<'a>,
    undo: Undo,
    piece: Vec<u8>,
    is_cut: bool,
}

impl<'a> Streamed<'a> {
    /// Begins to decode, until `by` and while it is wanted. Memory for it is not reserved: it is taken once for each thread.
    ///
    /// # Errors
    /// `decode`: there are too many encodings.
    pub fn new(
        encodings: &ContentEncodings,
        encoded: impl Read + 'a,
        undo: Undo,
        (by, is_wanted): (Instant, &'a dyn Fn() -> bool),
    ) -> Result<Self, Failure> {
        let bounds = Bounds { bytes: u64::MAX, until: by };
        let meter = Meter::new(bounds, by, is_wanted, Reservation::default(), 0);
        let decoding = Decoding::new(encodings.to_undo()?, encoded, undo.max_bytes, meter);
        Ok(Self { decoding, undo, piece: vec![0; PIECE_BYTES], is_cut: undo.is_cut })
    }

    /// Decodes the next piece, which is empty at the end.
    ///
    /// # Errors
    /// As [`super::Decoder::decode`], or that the encoded body can't be read.
    pub fn next_piece(&mut self) -> Result<&[u8], NotDecoded> {
        let length = match self.decoding.read(&mut self.piece) {
            Err(Stop::Unreadable(error)) => return Err(NotDecoded::Unreadable(error)),
            Err(stop) => {
                let is_cut = self.undo.conclude(Err(stop));
                self.is_cut = is_cut.map_err(|stop| NotDecoded::Failed(self.undo.failure(stop)))?;
                0
            }
            Ok(length) => length,
        };
        Ok(&self.piece[..length])
    }

    /// Returns whether what came out is cut off, behind its last piece.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}
