//! Outcomes of rows that were asked for one by one, as they arrive for whoever waits.
//!
//! Who waits is not woken for each outcome: on one core that would cost as much as the request. A worker rings when it has
//! nothing else to do, or when so many have come.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::columns::select::Selection;
use crate::engine::waker::WakeCaller;
use crate::model::outcome::Outcome;
use crate::model::reply_to::{OutcomeReceiver, ReplyTo};
use crate::model::row::Row;

/// After so many a worker rings, whatever else it has to do.
const MANY: usize = 64;
/// Of bodies, no more is taken at once, but for the last one.
const MOST_TAKEN_BYTES: usize = 16 << 20;

thread_local! {
    /// Completion queues to ring for when the thread has nothing to do.
    static TO_WAKE: RefCell<Vec<Arc<CompletionQueue>>> = const { RefCell::new(Vec::new()) };
}

/// What has come for one row.
#[derive(Debug)]
pub struct Arrived {
    /// By which it is known to who asked.
    pub number: u64,
    /// `None`: it will have none, since the run has ended.
    pub outcome: Option<Outcome>,
    /// Its row failed.
    pub failed: bool,
}

/// What was taken at once.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// Of bodies.
    pub bytes: usize,
    /// Nothing more was there: the bell rings when something is.
    pub is_all: bool,
}

/// Bounded by who asks: there are never more than rows were asked for. The memory of their bodies stays set aside until they are
/// taken, so that what is in flight waits where nobody takes them; see [`CompletionQueue::release_memory`].
pub struct CompletionQueue {
    me: Weak<Self>,
    state: Mutex<State>,
    is_closed: AtomicBool,
    waker: Arc<dyn WakeCaller>,
    /// What is taken from the answers to its rows; `None`: what the run takes of all.
    selection: Option<Arc<Selection>>,
}

#[derive(Default)]
struct State {
    arrived: VecDeque<Arrived>,
    /// Somebody waits, and was not rung for.
    is_awaited: bool,
}

impl CompletionQueue {
    pub fn new(waker: Arc<dyn WakeCaller>) -> Arc<Self> {
        Self::selecting(waker, None)
    }

    /// One whose rows have a selection of their own.
    pub fn selecting(waker: Arc<dyn WakeCaller>, selection: Option<Arc<Selection>>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            state: Mutex::default(),
            is_closed: AtomicBool::new(false),
            waker,
            selection,
        })
    }

    /// What sends the outcome of a row here.
    pub fn reply_to(&self, number: u64) -> Option<Arc<ReplyTo>> {
        let me: Arc<dyn OutcomeReceiver> = self.me.upgrade()?;
        Some(ReplyTo::new(me, number))
    }

    /// Takes up to so many of what has come, and no more than 16 MiB of bodies.
    pub fn take(&self, max: usize, into: &mut Vec<Arrived>) -> Taken {
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
        let is_all = state.arrived.is_empty();
        state.is_awaited = is_all;
        Taken { bytes, is_all }
    }

    /// Where memory is short, that of what has come is not set aside any more, though nobody has taken it: whoever would may wait
    /// for another row of the same run, and that one for memory.
    pub fn release_memory(&self) {
        let mut state = self.state();
        let outcomes = state.arrived.iter_mut().filter_map(|arrived| arrived.outcome.as_mut());
        outcomes.filter(|outcome| outcome.holds_short_memory()).for_each(Outcome::release_memory);
    }

    /// Nobody waits any more. What has come is dropped.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        let arrived = std::mem::take(&mut self.state().arrived);
        drop(arrived);
    }

    fn push(&self, arrived: Arrived, from_worker: bool) {
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state();
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        state.arrived.push_back(arrived);
        if !state.is_awaited {
            return;
        }
        let is_first = state.arrived.len() == 1;
        if !from_worker || state.arrived.len() >= MANY {
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
        if std::mem::take(&mut state.is_awaited) {
            drop(state);
            self.waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutcomeReceiver for CompletionQueue {
    fn lost(&self, number: u64) {
        self.push(Arrived { number, outcome: None, failed: true }, false);
    }

    fn waits(&self) -> bool {
        !self.is_closed.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").finish_non_exhaustive()
    }
}

/// To be called by a worker's thread when it has nothing to do, or goes on with nothing but a long piece of work.
pub(super) fn wake_awaited() {
    let to_wake = TO_WAKE.with_borrow_mut(std::mem::take);
    for completions in to_wake {
        completions.wake_if_awaited();
    }
}

/// Gives an outcome to who waits for it. It comes back where nobody does: it goes where all go.
pub(super) fn reply(mut outcome: Outcome, failed: bool) -> Option<Outcome> {
    let Some(reply_to) = take_reply_to(&mut outcome.row) else { return Some(outcome) };
    if let Some((waits, number)) = reply_to.claim()
        && let Some(completions) = waits.downcast_ref::<CompletionQueue>()
    {
        completions.push(Arrived { number, outcome: Some(outcome), failed }, true);
    }
    None
}

/// What is taken from the answer to this row, if who waits for it has said so.
pub(super) fn selection_for(row: &Row) -> Option<&Arc<Selection>> {
    row.reply_to()?.receiver().downcast_ref::<CompletionQueue>()?.selection.as_ref()
}

fn take_reply_to(row: &mut Row) -> Option<Arc<ReplyTo>> {
    row.extra.as_mut()?.reply_to.take()
}
