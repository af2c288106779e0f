//! What a few bytes of a stranger can make us take of memory: measured, byte by byte, so that these tests run one at a time.

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

/// The system's allocator, and what it has given out.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all is left to the system's.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(held, Ordering::Relaxed);
        // SAFETY: as of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as of the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Measures the memory of the process while nothing else runs.
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

    /// Begins again, with what is held now.
    fn begin_again(&mut self) {
        self.before = HELD.load(Ordering::SeqCst);
        PEAK.store(self.before, Ordering::SeqCst);
    }

    /// The most that was taken at once since.
    fn peak(&self) -> usize {
        PEAK.load(Ordering::SeqCst).saturating_sub(self.before)
    }
}
