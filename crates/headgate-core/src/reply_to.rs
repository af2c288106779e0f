//! The receiver of the outcome of one row, where a caller submits rows one by one.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Receives the outcomes of rows. Called from the threads of workers: nothing here may block.
pub trait OutcomeReceiver: Any + Send + Sync {
    /// Reports that the row of this number will have no outcome: its run has ended.
    fn lost(&self, number: u64);

    /// Returns whether the caller still waits. Rows without a waiting caller are not requested any more.
    fn waits(&self) -> bool;
}

/// The destination of a row's outcome. The receiver is notified exactly once, whatever becomes of the row.
pub struct ReplyTo {
    receiver: Arc<dyn OutcomeReceiver>,
    number: u64,
    is_claimed: AtomicBool,
}

impl ReplyTo {
    /// `number` identifies the row to the receiver.
    pub fn new(receiver: Arc<dyn OutcomeReceiver>, number: u64) -> Arc<Self> {
        Arc::new(Self { receiver, number, is_claimed: AtomicBool::new(false) })
    }

    /// Returns the receiver to notify and the row's number there; `None`: it was notified before.
    pub fn claim(&self) -> Option<(&dyn Any, u64)> {
        let was_claimed = self.is_claimed.swap(true, Ordering::Relaxed);
        (!was_claimed).then_some((self.receiver.as_ref() as &dyn Any, self.number))
    }

    /// Returns the receiver.
    pub fn receiver(&self) -> &dyn Any {
        self.receiver.as_ref()
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        self.receiver.waits()
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        if !*self.is_claimed.get_mut() {
            self.receiver.lost(self.number);
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
