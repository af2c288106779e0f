//! The memory that a few bytes of a hostile server or file can make the engine allocate. It is measured, so these tests run
//! one at a time.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../job/harness.rs"]
mod harness;
mod http2;
#[allow(dead_code)]
#[path = "../job/http2_frames.rs"]
mod http2_frames;
#[allow(dead_code)]
#[path = "../job/own_ends.rs"]
mod own_ends;
mod parquet;
#[allow(dead_code)]
#[path = "../job/scripted.rs"]
mod scripted;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The system's allocator, with a count of allocated bytes.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: the system's allocator does the work.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller guarantees it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller guarantees it.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// A measurement of the memory of the process, during which no other test runs.
struct Measure {
    before: usize,
    _alone: MutexGuard<'static, ()>,
}

impl Measure {
    fn begin() -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let before = HELD.load(Ordering::SeqCst);
        PEAK.store(before, Ordering::SeqCst);
        Self { before, _alone: alone }
    }

    /// Restarts the measurement from the current allocation.
    fn restart(&mut self) {
        self.before = HELD.load(Ordering::SeqCst);
        PEAK.store(self.before, Ordering::SeqCst);
    }

    /// Returns the peak since the last start.
    fn peak(&self) -> usize {
        PEAK.load(Ordering::SeqCst).saturating_sub(self.before)
    }
}
