//! A call: a row whose caller waits for it alone. The row and its caller share what the call waits for.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;

/// How long a call may wait.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    /// When the call ends, whatever it waits for.
    pub ends_at: Instant,
    /// The longest pause that its host may request while it waits.
    pub max_pause: Duration,
}

/// Where a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CallStage {
    /// No attempt has begun.
    Waiting,
    /// An attempt waits for the robots.txt of its host.
    Robots,
    /// It waits until a rate lets its request pass.
    Rate,
    /// It waits for the address of its host.
    Dns,
    /// It waits until its host may have another connection.
    HostConnection,
    /// It waits for a stream of an HTTP/2 connection.
    Stream,
    /// It waits for a connection, TLS included.
    Connecting,
    /// Its request was sent.
    Sent,
}

impl CallStage {
    const ALL: [Self; 8] = [
        Self::Waiting,
        Self::Robots,
        Self::Rate,
        Self::Dns,
        Self::HostConnection,
        Self::Stream,
        Self::Connecting,
        Self::Sent,
    ];
}

/// The stage of a call, the number of attempts that have begun, and since when it waits.
#[derive(Debug, Default)]
pub struct CallProgress {
    stage: AtomicU32,
    /// When a wait last began after a request was sent.
    waits_since: Mutex<Option<Instant>>,
}

impl CallProgress {
    /// Records the stage of this attempt, the first being 1.
    pub fn record(&self, stage: CallStage, attempt: u16) {
        if self.get().0 == CallStage::Sent && stage != CallStage::Sent {
            // Before the stage, so that the new wait never seems to be as old as an earlier one.
            *self.lock() = Some(clock::now());
        }
        self.stage.store(u32::from(attempt) << 8 | stage as u32, Ordering::Release);
    }

    /// Returns the last stage, and the number of attempts that have begun.
    pub fn get(&self) -> (CallStage, u16) {
        let value = self.stage.load(Ordering::Acquire);
        (CallStage::ALL[value as usize & 7], (value >> 8) as u16)
    }

    /// Returns when the present wait began, or the last one; `None`: when the call was submitted.
    pub fn waits_since(&self) -> Option<Instant> {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.waits_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_and_the_attempts_are_as_they_were_recorded() {
        let progress = CallProgress::default();
        assert_eq!((CallStage::Waiting, 0), progress.get());
        for (index, stage) in CallStage::ALL.into_iter().enumerate() {
            progress.record(stage, u16::MAX);
            assert_eq!((index, (stage, u16::MAX)), (stage as usize, progress.get()));
        }
    }

    #[test]
    fn a_wait_begins_when_a_call_whose_request_was_sent_waits_for_the_next_one() {
        let progress = CallProgress::default();
        progress.record(CallStage::Connecting, 1);
        progress.record(CallStage::Sent, 1);
        assert_eq!(None, progress.waits_since());
        let sent = clock::now();
        progress.record(CallStage::Waiting, 1);
        let since = progress.waits_since();
        assert!(since.is_some_and(|since| since >= sent));
        progress.record(CallStage::Connecting, 2);
        assert_eq!(since, progress.waits_since(), "it is the same wait");
    }
}
