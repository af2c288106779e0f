//! Wakes callers that wait for outcomes.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wakes a caller. It does not block, and no wake-up is lost.
pub trait WakeCaller: Send + Sync {
    fn wake(&self);
}

/// Wakes a thread that waits, and another caller, if there is one.
pub struct Waker {
    is_woken: Mutex<bool>,
    changed: Condvar,
    also: Option<Arc<dyn WakeCaller>>,
}

impl Waker {
    pub fn new(also: Option<Arc<dyn WakeCaller>>) -> Arc<Self> {
        Arc::new(Self { is_woken: Mutex::new(false), changed: Condvar::new(), also })
    }

    /// Waits for the next wake-up, for `timeout` at the most. Returns whether there was one since the last call.
    pub fn wait(&self, timeout: Duration) -> bool {
        let woken = self.changed.wait_timeout_while(self.is_woken(), timeout, |is_woken| !*is_woken);
        let (mut is_woken, _) = woken.unwrap_or_else(PoisonError::into_inner);
        mem::take(&mut *is_woken)
    }

    fn is_woken(&self) -> MutexGuard<'_, bool> {
        self.is_woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WakeCaller for Waker {
    fn wake(&self) {
        if let Some(also) = &self.also {
            also.wake();
        }
        *self.is_woken() = true;
        self.changed.notify_all();
    }
}
