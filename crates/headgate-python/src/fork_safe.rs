//! Values that must not be dropped in a fork: their threads exist only in the parent, and may have held their locks.

use std::{mem, process};

/// A value that is dropped only in the process that created it, and leaked in forks of that process.
pub(crate) struct ForkSafe<T> {
    value: Option<T>,
    process: u32,
}

impl<T> ForkSafe<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), process: process::id() }
    }

    /// Returns the value, or `None` in a fork of the process that created it.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.process == process::id())
    }
}

impl<T> Drop for ForkSafe<T> {
    fn drop(&mut self) {
        if self.process != process::id() {
            mem::forget(self.value.take());
        }
    }
}
