//! What decoding one body may take: bytes that pass, time, and memory that was reserved before it is filled.
//!
//! All layers of a body share one meter. Decompressors turn what goes wrong below them into errors of their own; so the first
//! reason to stop is kept here, and nothing passes after it.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::Instant;

use crate::model::memory::Reservation;

/// Why decoding does not go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// What comes out, or what one encoding hands to the next, passes the cap on a body's size.
    TooLarge,
    /// Its time is over, or its caller is gone.
    TimedOut,
    /// Its input has not come yet, or it is more than may be done at once.
    Paused,
    /// There is no memory; so much is needed up to here.
    NoMemory { needed: u64 },
    /// The encoded body can't be read.
    Unreadable(io::Error),
    /// The body is not in its encoding.
    Broken(io::Error),
}

/// What may be done at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes that may pass any layer, all of them together: what comes to nothing is work, too.
    pub(super) bytes: u64,
    /// Input can be made that takes long and lets few bytes pass.
    pub(super) until: Instant,
}

pub(super) struct Meter<'a> {
    bounds: Cell<Bounds>,
    by: Instant,
    is_wanted: &'a dyn Fn() -> bool,
    /// Decoding goes on after a pause, for as long as its caller wants. So it never overdraws the budget, and its memory may
    /// be more than what is done at once.
    resumes: bool,
    memory: RefCell<Memory>,
    stopped: RefCell<Option<Stop>>,
}

struct Memory {
    reservation: Reservation,
    needed: u64,
}

impl<'a> Meter<'a> {
    /// For a body that is decoded in one go, with `held` bytes that are in memory already.
    pub(super) fn new(
        bounds: Bounds,
        by: Instant,
        is_wanted: &'a dyn Fn() -> bool,
        reservation: Reservation,
        held: u64,
    ) -> Self {
        let memory = RefCell::new(Memory { reservation, needed: held });
        Self { bounds: Cell::new(bounds), by, is_wanted, resumes: false, memory, stopped: RefCell::new(None) }
    }

    /// For a body that is decoded while it comes, until `by`.
    pub(super) fn resuming(bounds: Bounds, by: Instant, reservation: Reservation) -> Self {
        Self { resumes: true, ..Self::new(bounds, by, &|| true, reservation, 0) }
    }

    /// Allows so much to be done after a pause.
    pub(super) fn resume(&self, bounds: Bounds) {
        self.bounds.set(bounds);
    }

    /// Returns whether as much was done as may be done at once.
    pub(super) fn has_used_up(&self) -> bool {
        self.bounds.get().bytes == 0
    }

    /// Counts bytes that have passed a layer.
    pub(super) fn pass(&self, bytes: u64) -> io::Result<()> {
        self.check()?;
        let now = Instant::now();
        if self.by <= now || !(self.is_wanted)() {
            return Err(self.stop(Stop::TimedOut));
        }
        let Bounds { bytes: left, until } = self.bounds.get();
        self.bounds.set(Bounds { bytes: if now < until { left.saturating_sub(bytes) } else { 0 }, until });
        Ok(())
    }

    /// Reserves memory that is to be filled.
    pub(super) fn draw(&self, bytes: u64) -> io::Result<()> {
        let mut memory = self.memory.borrow_mut();
        memory.needed += bytes;
        self.check()?;
        let lacking = memory.needed.saturating_sub(memory.reservation.bytes());
        let grow = if self.resumes { Reservation::try_grow_within } else { Reservation::try_grow };
        if lacking > 0 && !grow(&mut memory.reservation, lacking) {
            return Err(self.stop(Stop::NoMemory { needed: memory.needed }));
        }
        Ok(())
    }

    /// As [`Meter::draw`], for what is written to at once and in one go.
    pub(super) fn draw_at_once(&self, bytes: u64) -> io::Result<()> {
        if !self.resumes && bytes > self.bounds.get().bytes {
            return Err(self.stop(Stop::Paused));
        }
        self.draw(bytes)
    }

    /// Takes note that memory which was drawn is free again; it stays reserved.
    pub(super) fn free(&self, bytes: u64) {
        self.memory.borrow_mut().needed -= bytes;
    }

    /// Lets nothing pass any more, for the first reason that is told.
    pub(super) fn stop(&self, reason: Stop) -> io::Error {
        self.stopped.borrow_mut().get_or_insert(reason);
        io::Error::other("decoding was stopped")
    }

    /// Returns why reading has failed with this error.
    pub(super) fn reason(&self, error: io::Error) -> Stop {
        let of_error = if error.kind() == io::ErrorKind::WouldBlock { Stop::Paused } else { Stop::Broken(error) };
        self.stopped.take().unwrap_or(of_error)
    }

    pub(super) fn into_reservation(self) -> Reservation {
        self.memory.into_inner().reservation
    }

    fn check(&self) -> io::Result<()> {
        if self.stopped.borrow().is_some() { Err(self.stop(Stop::Paused)) } else { Ok(()) }
    }
}
