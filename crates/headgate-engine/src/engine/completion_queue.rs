//! Outcomes of rows that a caller submits one by one, until the caller takes them.
//!
//! The caller is not woken for each outcome: on one core that would cost as much as the request. A worker wakes it when the
//! worker has nothing else to do, or when many outcomes have arrived.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use headgate_core::call::CallLimits;
use headgate_core::row::{AttemptRecord, Outcome, OutcomeReceiver, ReplyTo};
use headgate_core::selected::SelectValues;
use headgate_core::virtual_clock;

use crate::engine::waker::WakeCaller;

/// After so many outcomes a worker wakes a caller that submits its next requests when it has them, whatever else it has to do.
pub const WAKE_AT: usize = 64;
/// The same for a caller that has submitted further requests: each wake-up less is a switch of threads less.
pub const WAKE_AT_OF_MANY: usize = 512;
/// After so many bytes of bodies a worker wakes a caller that wants more outcomes: others may need their memory.
const WAKE_AT_BYTES: usize = 256 << 10;
/// One call takes no more bodies than this, but for the last one.
const MOST_TAKEN_BYTES: usize = 16 << 20;

thread_local! {
    /// Completion queues whose callers are woken when the thread has nothing to do.
    static TO_WAKE: RefCell<Vec<Arc<CompletionQueue>>> = const { RefCell::new(Vec::new()) };
}

/// The end of one row.
#[derive(Debug)]
pub struct Arrived {
    /// The caller's number of the row.
    pub number: u64,
    /// `None`: the run has ended before the row had one.
    pub outcome: Option<Outcome>,
    /// Its row failed.
    pub failed: bool,
}

/// What one call has taken.
#[derive(Debug, Clone, Copy)]
pub struct TakenOutcomes {
    /// Bytes of bodies.
    pub bytes: usize,
    /// Nothing more was there: the caller is woken when something is.
    pub is_all: bool,
}

/// Outcomes that wait for their caller: never more than the caller has rows outstanding. The memory of their bodies stays
/// reserved until the caller takes them, so that requests in flight wait for a slow caller; see
/// [`CompletionQueue::release_memory`].
pub struct CompletionQueue {
    me: Weak<Self>,
    state: Mutex<CompletionQueueState>,
    is_closed: AtomicBool,
    waker: Arc<dyn WakeCaller>,
    /// After so many outcomes a worker wakes the caller.
    wake_at: usize,
    /// What is selected from the responses to its rows; `None`: the run's selection.
    selection: Option<Arc<dyn SelectValues>>,
}

#[derive(Default)]
struct CompletionQueueState {
    arrived: VecDeque<Arrived>,
    /// Attempts that have ended, of rows whose attempts are followed: as many as the rows may have retries, and one more of each.
    attempts: Vec<(u64, Box<AttemptRecord>)>,
    /// The bytes of their bodies.
    bytes: usize,
    /// The caller waits, and was not woken yet.
    is_awaited: bool,
    /// With fewer outcomes and less than [`WAKE_AT_BYTES`] the caller would wait again: see [`CompletionQueue::want`].
    wanted: usize,
}

impl CompletionQueue {
    pub fn new(waker: Arc<dyn WakeCaller>) -> Arc<Self> {
        Self::selecting(waker, WAKE_AT, None)
    }

    /// Creates a queue as [`CompletionQueue::new`] does, for rows with a selection of their own, whose caller is woken after
    /// `wake_at` outcomes.
    pub fn selecting(
        waker: Arc<dyn WakeCaller>,
        wake_at: usize,
        selection: Option<Arc<dyn SelectValues>>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            state: Mutex::default(),
            is_closed: AtomicBool::new(false),
            waker,
            wake_at,
            selection,
        })
    }

    /// Returns what sends the outcome of a row here and, if the row is `followed`, its attempts as they end. `call`: its limits,
    /// if it is a call.
    pub fn reply_to(&self, number: u64, call: Option<CallLimits>, followed: bool) -> Option<Arc<ReplyTo>> {
        Some(ReplyTo::new(self.me.upgrade()?, number, call, followed))
    }

    /// Takes the attempts that have ended, with the numbers of their rows. After [`CompletionQueue::take`], these are all
    /// attempts of the rows whose outcomes it took.
    pub fn take_attempts(&self) -> Vec<(u64, Box<AttemptRecord>)> {
        mem::take(&mut self.state().attempts)
    }

    /// Takes up to `max` outcomes that have arrived, and no more than 16 MiB of bodies.
    pub fn take(&self, max: usize, into: &mut Vec<Arrived>) -> TakenOutcomes {
        let mut state = self.state();
        let (mut count, mut bytes) = (0, 0);
        for arrived in state.arrived.iter().take(max) {
            count += 1;
            bytes += arrived.outcome.as_ref().map_or(0, Outcome::body_len);
            if bytes >= MOST_TAKEN_BYTES {
                break;
            }
        }
        into.extend(state.arrived.drain(..count));
        state.bytes -= bytes;
        let is_all = state.arrived.is_empty();
        (state.is_awaited, state.wanted) = (is_all, 1);
        TakenOutcomes { bytes, is_all }
    }

    /// Sets how many outcomes a caller that has taken all needs to proceed, so that it is not woken for fewer. It must look
    /// itself if it also waits for a time.
    pub fn want(&self, outcomes: usize) {
        let mut state = self.state();
        state.wanted = outcomes.max(1);
        if state.has_wanted() && mem::take(&mut state.is_awaited) {
            drop(state);
            self.waker.wake();
        }
    }

    /// Releases the reservations of outcomes that have arrived, where memory is short: their caller may wait for another row of
    /// the same run, which waits for memory.
    pub fn release_memory(&self) {
        let mut state = self.state();
        let outcomes = state.arrived.iter_mut().filter_map(|arrived| arrived.outcome.as_mut());
        outcomes.filter(|outcome| outcome.holds_short_memory()).for_each(Outcome::release_memory);
    }

    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Wakes the caller, though nothing has arrived.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Drops what has arrived, and whatever arrives from now on: the caller waits no more.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let dropped = std::mem::take(&mut *self.state());
        drop(dropped);
    }

    fn push(&self, arrived: Arrived, from_worker: bool) {
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        virtual_clock::note_activity();
        let mut state = self.state();
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        state.bytes += arrived.outcome.as_ref().map_or(0, Outcome::body_len);
        state.arrived.push_back(arrived);
        if !state.is_awaited {
            return;
        }
        let is_first = state.arrived.len() == 1;
        let is_enough = state.arrived.len() >= self.wake_at || state.wanted > 1 && state.has_wanted();
        if !from_worker || is_enough {
            state.is_awaited = false;
            drop(state);
            self.waker.wake();
        } else if is_first && let Some(me) = self.me.upgrade() {
            drop(state);
            TO_WAKE.with_borrow_mut(|to_wake| to_wake.push(me));
        }
    }

    fn wake_if_awaited(&self) {
        let mut state = self.state();
        if state.has_wanted() && mem::take(&mut state.is_awaited) {
            drop(state);
            self.waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, CompletionQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CompletionQueueState {
    fn has_wanted(&self) -> bool {
        self.arrived.len() >= self.wanted || self.bytes >= WAKE_AT_BYTES
    }
}

impl OutcomeReceiver for CompletionQueue {
    fn receive(&self, number: u64, outcome: Outcome, failed: bool) {
        self.push(Arrived { number, outcome: Some(outcome), failed }, true);
    }

    fn attempt_ended(&self, number: u64, attempt: Box<AttemptRecord>) {
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        // After the last attempt, the outcome comes at once.
        let wakes = attempt.retry_in.is_some();
        let mut state = self.state();
        state.attempts.push((number, attempt));
        if wakes && mem::take(&mut state.is_awaited) {
            drop(state);
            self.waker.wake();
        }
    }

    fn lost(&self, number: u64) {
        self.push(Arrived { number, outcome: None, failed: true }, false);
    }

    fn waits(&self) -> bool {
        !self.is_closed.load(Ordering::Relaxed)
    }

    fn selection(&self) -> Option<&Arc<dyn SelectValues>> {
        self.selection.as_ref()
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").finish_non_exhaustive()
    }
}

/// Wakes callers for whom outcomes have arrived. To be called by a worker's thread when it has nothing to do, or before a long
/// piece of work.
pub(super) fn wake_awaited() {
    let to_wake = TO_WAKE.with_borrow_mut(std::mem::take);
    for completions in to_wake {
        completions.wake_if_awaited();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl WakeCaller for Wakes {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how often the caller was woken, for outcomes of `body_bytes` after each of which the worker is idle.
    fn wakes(queue: &CompletionQueue, wakes: &Wakes, outcomes: u64, body_bytes: usize) -> usize {
        let before = wakes.0.load(Ordering::Relaxed);
        for number in 0..outcomes {
            queue.receive(number, Outcome::for_tests(number, 200, Some(vec![b'x'; body_bytes])), false);
            wake_awaited();
        }
        wakes.0.load(Ordering::Relaxed) - before
    }

    #[test]
    fn a_caller_is_woken_for_what_it_wants_or_for_many_bytes() {
        let counted = Arc::new(Wakes::default());
        let queue = CompletionQueue::selecting(counted.clone(), WAKE_AT_OF_MANY, None);
        let mut taken = Vec::new();
        let mut waits_for = |outcomes| {
            queue.take(usize::MAX, &mut taken);
            queue.want(outcomes);
        };
        waits_for(1);
        assert_eq!(1, wakes(&queue, &counted, 5, 10), "idle: at the first one, and then not again");
        waits_for(5);
        assert_eq!(0, wakes(&queue, &counted, 4, 10));
        assert_eq!(1, wakes(&queue, &counted, 1, 10));
        waits_for(5);
        assert_eq!(0, wakes(&queue, &counted, 1, WAKE_AT_BYTES - 1));
        assert_eq!(1, wakes(&queue, &counted, 1, 1));
        waits_for(usize::MAX);
        assert_eq!(0, wakes(&queue, &counted, WAKE_AT_OF_MANY as u64 - 1, 10));
        assert_eq!(1, wakes(&queue, &counted, 1, 10));
        waits_for(9);
        let before = counted.0.load(Ordering::Relaxed);
        queue.lost(0);
        assert_eq!(1, counted.0.load(Ordering::Relaxed) - before, "a lost row wakes at once");
    }

    #[test]
    fn a_caller_that_wants_what_has_arrived_meanwhile_is_woken_at_once() {
        let counted = Arc::new(Wakes::default());
        let queue = CompletionQueue::selecting(counted.clone(), WAKE_AT_OF_MANY, None);
        queue.take(usize::MAX, &mut Vec::new());
        queue.want(3);
        assert_eq!(0, wakes(&queue, &counted, 2, 10));
        queue.want(2);
        assert_eq!(1, counted.0.load(Ordering::Relaxed));
    }
}
