//! Codings undone as a body comes: pieces go in, pieces come out, and nothing waits in between. By the worker itself, in turns
//! that are short: a hundred bytes can take a second to come to nothing.
//!
//! Memory for it is not set aside: it is taken once for each body that is streamed, of which there are no more than lanes. It
//! is the decoder's state and window, which is 16 MiB for brotli, 8 MiB for zstd and 32 KiB for the others, at the most.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::coding::{Codings, Undoing};
use super::layers::layers;
use super::meter::{Bounds, Meter};
use super::{Stopped, Undo, too_many};
use crate::model::error::Failure;
use crate::model::memory::Reservation;

/// What comes out in one turn at the most.
const PIECE_BYTES: usize = 64 * 1024;
/// What may pass the layers in one turn, all of them together.
const TURN_BYTES: u64 = 512 * 1024;
/// Longer than any body takes: what bounds it is who takes it.
const WITHOUT_END: Duration = Duration::from_hours(24 * 365);

/// What a turn came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    Piece(Vec<u8>),
    /// Nothing came out, and there is more to do.
    Unfinished,
    /// All that came is undone.
    Hungry,
    /// The body has ended. What comes behind it is ignored.
    Ended,
}

/// A body whose codings are undone as it comes.
pub struct Piecewise {
    incoming: Rc<RefCell<Incoming>>,
    meter: Rc<Meter<'static>>,
    reader: Box<dyn Read>,
    has_ended: bool,
}

#[derive(Default)]
struct Incoming {
    bytes: VecDeque<u8>,
    /// No more comes.
    is_whole: bool,
}

impl Piecewise {
    /// `None`: they can't be undone, or there are none.
    ///
    /// # Errors
    /// `decode`: there are too many codings.
    pub fn of(codings: &Codings) -> Result<Option<Self>, Failure> {
        let known = match &codings.undoing {
            Undoing::Known(known) if !known.is_empty() => known,
            Undoing::Known(_) | Undoing::Unknown => return Ok(None),
            Undoing::TooMany => return Err(too_many()),
        };
        let until = Instant::now() + WITHOUT_END;
        let bounds = Bounds { bytes: u64::MAX, until };
        let meter = Rc::new(Meter::new(bounds, until, &|| true, Reservation::default(), 0));
        meter.begin_turn(TURN_BYTES);
        let incoming = Rc::<RefCell<Incoming>>::default();
        let reader = layers(known, Box::new(Waiting(incoming.clone())), u64::MAX, &meter).map_err(broken)?;
        Ok(Some(Self { incoming, meter, reader: Box::new(reader), has_ended: false }))
    }

    /// Takes in what has come.
    pub fn feed(&mut self, bytes: Vec<u8>) {
        if !self.has_ended {
            let mut incoming = self.incoming.borrow_mut();
            if incoming.bytes.is_empty() {
                incoming.bytes = bytes.into();
            } else {
                incoming.bytes.extend(bytes);
            }
        }
    }

    /// No more comes.
    pub fn finish(&mut self) {
        self.incoming.borrow_mut().is_whole = true;
    }

    /// Undoes a little.
    ///
    /// # Errors
    /// `decode`: the body is not in its coding, or ends too early.
    pub fn turn(&mut self) -> Result<Turn, Failure> {
        if self.has_ended {
            return Ok(Turn::Ended);
        }
        self.meter.begin_turn(TURN_BYTES);
        let mut piece = vec![0; PIECE_BYTES];
        match self.reader.read(&mut piece) {
            Ok(0) => {
                self.has_ended = true;
                self.incoming.borrow_mut().bytes = VecDeque::new();
                Ok(Turn::Ended)
            }
            Ok(length) => {
                piece.truncate(length);
                piece.shrink_to_fit();
                Ok(Turn::Piece(piece))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let incoming = self.incoming.borrow();
                let is_hungry = incoming.bytes.is_empty() && !incoming.is_whole && !self.meter.turn_is_over();
                Ok(if is_hungry { Turn::Hungry } else { Turn::Unfinished })
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Turn::Unfinished),
            Err(error) => Err(broken(error)),
        }
    }
}

fn broken(error: io::Error) -> Failure {
    let undo = Undo { max_bytes: u64::MAX, truncates: false, is_cut: false };
    match undo.ended(None, Err(error)) {
        Err(Stopped::Failed(failure)) => failure,
        _ => too_many(),
    }
}

/// What has come and is not undone yet.
struct Waiting(Rc<RefCell<Incoming>>);

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut incoming = self.0.borrow_mut();
        if incoming.bytes.is_empty() && !incoming.is_whole {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        incoming.bytes.read(buffer)
    }
}

impl std::fmt::Debug for Piecewise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piecewise").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}
