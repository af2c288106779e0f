//! Wakes callers that wait for outcomes.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headgate_core::virtual_clock::{CallerWaits, Working};

/// Wakes a caller. It does not block, and no wake-up is lost.
pub trait WakeCaller: Send + Sync {
    fn wake(&self);
}

/// Wakes a thread that waits, and another caller, if there is one.
pub struct Waker {
    state: Mutex<WakerState>,
    changed: Condvar,
    also: Option<Arc<dyn WakeCaller>>,
}

#[derive(Default)]
struct WakerState {
    is_woken: bool,
    /// Threads that wait.
    waiting: usize,
    /// A waiting thread was woken, and has yet to take what has come.
    taking: Option<Working>,
}

impl Waker {
    pub fn new(also: Option<Arc<dyn WakeCaller>>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new(), also })
    }

    /// Waits for the next wake-up, for `timeout` at the most. Returns whether there was one since the last call.
    pub fn wait(&self, timeout: Duration) -> bool {
        let _waits = CallerWaits::begin();
        let mut state = self.state();
        state.waiting += 1;
        let woken = self.changed.wait_timeout_while(state, timeout, |state| !state.is_woken);
        let (mut state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state.taking = None;
        mem::take(&mut state.is_woken)
    }

    fn state(&self) -> MutexGuard<'_, WakerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WakeCaller for Waker {
    fn wake(&self) {
        if let Some(also) = &self.also {
            also.wake();
        }
        let mut state = self.state();
        state.is_woken = true;
        if state.waiting > 0 {
            state.taking.get_or_insert_with(Working::begin);
        }
        drop(state);
        self.changed.notify_all();
    }
}
