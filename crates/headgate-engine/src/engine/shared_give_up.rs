//! Whether a run gives up, as its workers share it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::model::limits::StopWhenFailed;
use crate::model::message::Message;
use crate::schedule::give_up::{Ended, FailedWith, GiveUp};

/// Whether a run gives up, for all of its workers.
#[derive(Debug)]
pub struct SharedGiveUp {
    give_up: Mutex<GiveUp>,
    /// Nothing that is still to come can matter.
    is_over: AtomicBool,
    /// Why it did.
    stopped_by: Arc<OnceLock<Message>>,
}

impl SharedGiveUp {
    pub fn new(rule: StopWhenFailed, stopped_by: Arc<OnceLock<Message>>) -> Self {
        let give_up = GiveUp::new(rule);
        Self { is_over: AtomicBool::new(give_up.is_over()), give_up: Mutex::new(give_up), stopped_by }
    }

    /// Another rule, from now on.
    pub fn set(&self, rule: StopWhenFailed) {
        let mut give_up = self.give_up.lock().unwrap_or_else(PoisonError::into_inner);
        give_up.set(rule);
        self.is_over.store(give_up.is_over(), Ordering::Relaxed);
    }

    /// Whether nothing that is still to come can matter.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// A row has ended; `failed`: why it failed, if it did. Whether the run gives up.
    pub(super) fn ended(&self, failed: Option<FailedWith>, row: &impl Ended) -> bool {
        let mut give_up = self.give_up.lock().unwrap_or_else(PoisonError::into_inner);
        let why = give_up.ended(failed, row);
        self.is_over.store(give_up.is_over(), Ordering::Relaxed);
        why.is_some_and(|why| self.stop(why))
    }

    /// Notes why the run stops itself. Returns whether it did not before.
    pub(super) fn stop(&self, why: Message) -> bool {
        self.stopped_by.set(why).is_ok()
    }
}
