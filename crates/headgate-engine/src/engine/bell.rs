//! Wakes whoever waits for what others do.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wakes whoever waits. It does not block, and no ring is lost.
pub trait Bell: Send + Sync {
    fn ring(&self);
}

/// Wakes a thread that waits, and rings another bell, if there is one.
pub struct Waker {
    is_rung: Mutex<bool>,
    changed: Condvar,
    also: Option<Arc<dyn Bell>>,
}

impl Waker {
    pub fn new(also: Option<Arc<dyn Bell>>) -> Arc<Self> {
        Arc::new(Self { is_rung: Mutex::new(false), changed: Condvar::new(), also })
    }

    /// Waits for a ring that nobody has waited for yet, for `timeout` at the most. Whether there was one.
    pub fn wait(&self, timeout: Duration) -> bool {
        let rung = self.changed.wait_timeout_while(self.is_rung(), timeout, |is_rung| !*is_rung);
        let (mut is_rung, _) = rung.unwrap_or_else(PoisonError::into_inner);
        mem::take(&mut *is_rung)
    }

    fn is_rung(&self) -> MutexGuard<'_, bool> {
        self.is_rung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell for Waker {
    fn ring(&self) {
        if let Some(also) = &self.also {
            also.ring();
        }
        *self.is_rung() = true;
        self.changed.notify_all();
    }
}
