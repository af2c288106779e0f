//! Wakes whoever waits for what others do.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wakes whoever waits. It does not block, and no ring is lost.
pub trait WakeCaller: Send + Sync {
    fn wake(&self);
}

/// Wakes a thread that waits, and rings another bell, if there is one.
pub struct Waker {
    is_woken: Mutex<bool>,
    changed: Condvar,
    also: Option<Arc<dyn WakeCaller>>,
}

impl Waker {
    pub fn new(also: Option<Arc<dyn WakeCaller>>) -> Arc<Self> {
        Arc::new(Self { is_woken: Mutex::new(false), changed: Condvar::new(), also })
    }

    /// Waits for a ring that nobody has waited for yet, for `timeout` at the most. Whether there was one.
    pub fn wait(&self, timeout: Duration) -> bool {
        let rung = self.changed.wait_timeout_while(self.is_woken(), timeout, |is_woken| !*is_woken);
        let (mut is_woken, _) = rung.unwrap_or_else(PoisonError::into_inner);
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
