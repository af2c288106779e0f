//! What decoding one body may take: bytes that pass, time, and memory that was set aside before it is there.
//!
//! All layers of a body share one meter. Decoders turn what goes wrong below them into errors of their own; so the first
//! reason to stop is kept here, and nothing passes after it.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::Instant;

use crate::model::memory::Reservation;

/// Why decoding does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// What comes out, or what one coding hands to the next, passes the cap on a body's size.
    TooLarge,
    /// Its time is over, or nobody wants it any more.
    TimedOut,
    /// It is more than may be done in one piece.
    PieceEnded,
    /// There is no room; so much is needed up to here.
    NoMemory { needed: u64 },
}

/// What may be done in one piece.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes that may pass any layer, all of them together: what comes to nothing is work, too.
    pub(super) bytes: u64,
    /// Input can be made that takes long and lets few bytes pass.
    pub(super) until: Instant,
}

pub(super) struct Meter<'a> {
    left: Cell<u64>,
    until: Instant,
    by: Instant,
    is_wanted: &'a dyn Fn() -> bool,
    memory: RefCell<Memory>,
    stopped: Cell<Option<Stop>>,
    /// What may be done before it is another's turn; `None`: there are no turns.
    turn: Cell<Option<Bounds>>,
}

struct Memory {
    reservation: Reservation,
    needed: u64,
}

impl<'a> Meter<'a> {
    /// `held`: bytes that are in memory already.
    pub(super) fn new(
        bounds: Bounds,
        by: Instant,
        is_wanted: &'a dyn Fn() -> bool,
        reservation: Reservation,
        held: u64,
    ) -> Self {
        Self {
            left: Cell::new(bounds.bytes),
            until: bounds.until,
            by,
            is_wanted,
            memory: RefCell::new(Memory { reservation, needed: held }),
            stopped: Cell::new(None),
            turn: Cell::new(None),
        }
    }

    /// So much may be done now. When it is, reading fails with `WouldBlock`, and goes on in the next turn.
    pub(super) fn begin_turn(&self, bounds: Bounds) {
        self.turn.set(Some(bounds));
    }

    pub(super) fn has_turns(&self) -> bool {
        self.turn.get().is_some()
    }

    pub(super) fn turn_is_over(&self) -> bool {
        self.turn.get().is_some_and(|turn| turn.bytes == 0)
    }

    /// So many bytes have passed a layer.
    pub(super) fn pass(&self, bytes: u64) -> io::Result<()> {
        self.check()?;
        let now = Instant::now();
        if let Some(turn) = self.turn.get() {
            let left = if now < turn.until { turn.bytes.saturating_sub(bytes) } else { 0 };
            self.turn.set(Some(Bounds { bytes: left, ..turn }));
        }
        if self.by <= now || !(self.is_wanted)() {
            return Err(self.stop(Stop::TimedOut));
        }
        match self.left.get().checked_sub(bytes) {
            Some(left) if now < self.until => self.left.set(left),
            _ => return Err(self.stop(Stop::PieceEnded)),
        }
        Ok(())
    }

    /// Sets memory aside that is to be taken.
    pub(super) fn draw(&self, bytes: u64) -> io::Result<()> {
        let mut memory = self.memory.borrow_mut();
        memory.needed += bytes;
        self.check()?;
        let lacking = memory.needed.saturating_sub(memory.reservation.bytes());
        // What is undone in turns lasts as long as its caller wants, and so never overdraws.
        let grow = if self.has_turns() { Reservation::try_grow_within } else { Reservation::try_grow };
        if lacking > 0 && !grow(&mut memory.reservation, lacking) {
            return Err(self.stop(Stop::NoMemory { needed: memory.needed }));
        }
        Ok(())
    }

    /// As [`Meter::draw`], for what is written to at once and in one go.
    pub(super) fn draw_at_once(&self, bytes: u64) -> io::Result<()> {
        if bytes > self.left.get() {
            return Err(self.stop(Stop::PieceEnded));
        }
        self.draw(bytes)
    }

    /// Memory that was drawn is free again; it stays set aside.
    pub(super) fn free(&self, bytes: u64) {
        self.memory.borrow_mut().needed -= bytes;
    }

    /// Nothing passes any more, for the first reason that is told.
    pub(super) fn stop(&self, reason: Stop) -> io::Error {
        self.stopped.set(self.stopped.get().or(Some(reason)));
        io::Error::other("decoding was stopped")
    }

    pub(super) fn stopped(&self) -> Option<Stop> {
        self.stopped.get()
    }

    pub(super) fn into_reservation(self) -> Reservation {
        self.memory.into_inner().reservation
    }

    fn check(&self) -> io::Result<()> {
        self.stopped.get().map_or(Ok(()), |reason| Err(self.stop(reason)))
    }
}
