//! Codings undone on the way from one place to another, where a body is not held in memory: by a thread that may block.

use std::io::{self, Read};
use std::rc::Rc;
use std::time::Instant;

use super::coding::{Codings, Undoing};
use super::layers::layers;
use super::meter::{Bounds, Meter};
use super::{Stopped, Undo, too_many};
use crate::model::error::{ErrorKind, Failure};
use crate::model::memory::Reservation;

/// What is passed on at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Why a body was not decoded.
#[derive(Debug)]
pub enum NotDecoded {
    /// It is no fault of the body: it can't be read or passed on.
    Io(io::Error),
    Failed(Failure),
}

/// Whether there is something to be undone; `Err`: it can't be.
///
/// # Errors
/// `decode`: there are too many codings.
pub fn can_be_undone(codings: &Codings) -> Result<bool, Failure> {
    match &codings.undoing {
        Undoing::Known(known) => Ok(!known.is_empty()),
        Undoing::Unknown => Ok(false),
        Undoing::TooMany => Err(too_many()),
    }
}

/// Undoes codings that can be undone. Memory for it is not set aside: it is taken once for each thread. Whether what came
/// out was cut off.
///
/// # Errors
/// As [`super::Decoder::decode`], or what `pass_on` or reading fails with.
pub fn undo_streamed(
    codings: &Codings,
    encoded: impl Read,
    undo: Undo,
    (by, is_wanted): (Instant, &dyn Fn() -> bool),
    mut pass_on: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<bool, NotDecoded> {
    let Undoing::Known(known) = &codings.undoing else { return Err(NotDecoded::Failed(too_many())) };
    let bounds = Bounds { bytes: u64::MAX, until: by };
    let meter = Rc::new(Meter::new(bounds, by, is_wanted, Reservation::default(), 0));
    let mut unread = None;
    let encoded = Watched { inner: encoded, error: &mut unread };
    let mut passed_on = Ok(());
    let undone = layers(known, Box::new(encoded), undo.max_bytes, &meter).and_then(|mut reader| {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match reader.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(length) => {
                    passed_on = pass_on(&piece[..length]);
                    if passed_on.is_err() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    });
    if let Some(error) = unread.or(passed_on.err()) {
        return Err(NotDecoded::Io(error));
    }
    undo.ended(meter.stopped(), undone).map_err(|stopped| {
        NotDecoded::Failed(match stopped {
            Stopped::Failed(failure) => failure,
            // One piece has all the time and memory there is.
            Stopped::PieceEnded | Stopped::NoMemory { .. } => {
                Failure::new(ErrorKind::Timeout, "the body was not decoded in time")
            }
        })
    })
}

/// Remembers why reading failed, which decoders turn into errors of their own.
struct Watched<'a, R> {
    inner: R,
    error: &'a mut Option<io::Error>,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|error| {
            let kind = error.kind();
            if kind != io::ErrorKind::Interrupted {
                *self.error = Some(error);
            }
            kind.into()
        })
    }
}
