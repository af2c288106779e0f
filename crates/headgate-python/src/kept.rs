//! Values that must not be dropped in a fork: their threads stayed with the parent, and may hold their locks.

use std::{mem, process};

/// Dropped only in the process that made it; leaked in others.
pub struct Kept<T> {
    value: Option<T>,
    process: u32,
}

impl<T> Kept<T> {
    pub fn new(value: T) -> Self {
        Self { value: Some(value), process: process::id() }
    }

    /// `None`: this is a fork of the process that made it.
    pub fn here(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.process == process::id())
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        if self.process != process::id() {
            mem::forget(self.value.take());
        }
    }
}
