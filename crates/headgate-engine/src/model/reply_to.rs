//! The receiver of the outcome of one row, where a caller submits rows one by one.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Waits for outcomes of rows. Called from the threads of workers: nothing here may block.
pub trait Waits: Any + Send + Sync {
    /// Reports that the row of this number will have no outcome: its run has ended.
    fn lost(&self, number: u64);

    /// Returns whether the caller still waits. Rows without a waiting caller are not requested any more.
    fn waits(&self) -> bool;
}

/// The destination of a row's outcome. The receiver is notified exactly once, whatever becomes of the row.
pub struct ReplyTo {
    waits: Arc<dyn Waits>,
    number: u64,
    is_told: AtomicBool,
}

impl ReplyTo {
    /// `number`: by which the row is known there.
    pub fn new(waits: Arc<dyn Waits>, number: u64) -> Arc<Self> {
        Arc::new(Self { waits, number, is_told: AtomicBool::new(false) })
    }

    /// Returns the receiver to notify and the row's number there; `None`: it was notified before.
    pub fn tell(&self) -> Option<(&dyn Any, u64)> {
        let was_told = self.is_told.swap(true, Ordering::Relaxed);
        (!was_told).then_some((self.waits.as_ref() as &dyn Any, self.number))
    }

    /// Returns the receiver.
    pub fn who(&self) -> &dyn Any {
        self.waits.as_ref()
    }

    pub fn is_waited_for(&self) -> bool {
        self.waits.waits()
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        if !*self.is_told.get_mut() {
            self.waits.lost(self.number);
        }
    }
}

impl fmt::Debug for ReplyTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyTo").field("number", &self.number).finish_non_exhaustive()
    }
}

impl PartialEq for ReplyTo {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for ReplyTo {}
