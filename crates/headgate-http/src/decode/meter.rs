//! Bounds the work of decoding one body: bytes that pass its layers, time, and memory, which is reserved before it is filled.
//!
//! All layers of a body share one meter. Decompressors convert the errors of the layers below. So the meter keeps the first
//! reason to stop, and lets nothing pass after it.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::Instant;

use headgate_core::clock;
use headgate_core::memory::Reservation;

/// Why decoding has stopped.
#[derive(Debug)]
pub(super) enum StopReason {
    /// The output of a layer exceeds the bound of a body's size.
    TooLarge,
    /// The deadline has passed, or the caller no longer waits.
    TimedOut,
    /// More input has to arrive, or the bounds of one step are reached.
    Paused,
    /// There is no memory; `needed` is what decoding has needed up to here.
    NoMemory { needed: u64 },
    /// The encoded body can't be read.
    Unreadable(io::Error),
    /// The body is not in its encoding.
    Broken(io::Error),
}

/// The bounds of one step of decoding.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes that may pass all layers together: input that decodes to nothing is work, too.
    pub(super) bytes: u64,
    /// The end of the time: some input takes long and lets few bytes pass.
    pub(super) until: Instant,
}

pub(super) struct Meter<'a> {
    bounds: Cell<Bounds>,
    by: Instant,
    is_wanted: &'a dyn Fn() -> bool,
    /// Decoding continues after a pause, for as long as its caller wants. So it never overdraws the budget, and its window may
    /// be larger than the bytes of one step.
    resumes: bool,
    memory: RefCell<Memory>,
    stopped: RefCell<Option<StopReason>>,
}

struct Memory {
    reservation: Reservation,
    needed: u64,
}

impl<'a> Meter<'a> {
    /// Creates the meter of a body that is decoded in one step; `held` bytes are in memory already.
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

    /// Creates the meter of a streamed body, until `by`.
    pub(super) fn resuming(bounds: Bounds, by: Instant, reservation: Reservation) -> Self {
        Self { resumes: true, ..Self::new(bounds, by, &|| true, reservation, 0) }
    }

    /// Sets the bounds of the next step after a pause.
    pub(super) fn resume(&self, bounds: Bounds) {
        self.bounds.set(bounds);
    }

    /// Returns whether the bounds of the current step are reached.
    pub(super) fn is_paused(&self) -> bool {
        self.bounds.get().bytes == 0
    }

    /// Counts bytes that have passed a layer, and checks the time.
    pub(super) fn pass(&self, bytes: u64) -> io::Result<()> {
        self.check()?;
        let now = clock::now();
        if self.by <= now || !(self.is_wanted)() {
            return Err(self.stop(StopReason::TimedOut));
        }
        let Bounds { bytes: left, until } = self.bounds.get();
        self.bounds.set(Bounds { bytes: if now < until { left.saturating_sub(bytes) } else { 0 }, until });
        Ok(())
    }

    /// Reserves memory before it is filled.
    pub(super) fn reserve(&self, bytes: u64) -> io::Result<()> {
        let mut memory = self.memory.borrow_mut();
        memory.needed += bytes;
        self.check()?;
        let lacking = memory.needed.saturating_sub(memory.reservation.bytes());
        let grow = if self.resumes { Reservation::try_grow_within } else { Reservation::try_grow };
        if lacking > 0 && !grow(&mut memory.reservation, lacking) {
            return Err(self.stop(StopReason::NoMemory { needed: memory.needed }));
        }
        Ok(())
    }

    /// Reserves memory that is filled in one step: more than the step allows pauses decoding.
    pub(super) fn reserve_window(&self, bytes: u64) -> io::Result<()> {
        if !self.resumes && bytes > self.bounds.get().bytes {
            return Err(self.stop(StopReason::Paused));
        }
        self.reserve(bytes)
    }

    /// Records that memory is no longer used. It stays reserved for what follows.
    pub(super) fn release(&self, bytes: u64) {
        self.memory.borrow_mut().needed -= bytes;
    }

    /// Stops decoding, and keeps the reason if it is the first.
    pub(super) fn stop(&self, reason: StopReason) -> io::Error {
        self.stopped.borrow_mut().get_or_insert(reason);
        io::Error::other("decoding was stopped")
    }

    /// Returns the reason why reading has failed with this error.
    pub(super) fn reason(&self, error: io::Error) -> StopReason {
        let default =
            if error.kind() == io::ErrorKind::WouldBlock { StopReason::Paused } else { StopReason::Broken(error) };
        self.stopped.take().unwrap_or(default)
    }

    pub(super) fn into_reservation(self) -> Reservation {
        self.memory.into_inner().reservation
    }

    fn check(&self) -> io::Result<()> {
        if self.stopped.borrow().is_some() { Err(self.stop(StopReason::Paused)) } else { Ok(()) }
    }
}
