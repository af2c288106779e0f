//! A clock for tests, on which waiting takes no real time: when nothing can happen but the passing of time, the time jumps
//! to the next timer.
//!
//! Prior art: `MockClock` with `autojump_threshold` of trio, and the paused clock of tokio. Unlike these, the clock is not
//! frozen between jumps, so whatever does not use it proceeds as always: it is the system's clock plus the sum of all jumps.
//!
//! **What waits** is a [registered](register) timer: the deadline of an exchange, the time at which a row or a retry may
//! start, a delay of the mock. Periodic work, such as closing idle connections, is not registered: the time does
//! not stop for it.
//!
//! **When the time jumps.** A thread looks for a moment at which
//! - a timer is registered, and a caller [waits](CallerWaits);
//! - nothing [works](Working): no function of the mock computes a response, no thread decodes a body, no connection over the
//!   network is in use;
//! - in [`GRACE`] nothing has happened (see [`note_activity`]), and each event loop that [takes part](Participant) has
//!   shown [`ROUNDS`] times that it has nothing to do. An event loop that is behind, because the machine is busy, delays
//!   the jump; so no timeout passes only because of that.
//!
//! What the caller's threads compute between two calls can't be seen: while another call waits, they have [`GRACE`].
//!
//! **Bounds.** There is one such thread for the process. It ends when there is no virtual clock and no registered timer. It sleeps
//! unless a caller waits; a jump takes about [`GRACE`]. All virtual clocks of a process are the same one. In a fork of the
//! process there is none, and time passes as usual.
//!
//! Without a virtual clock, all of this costs one load of [`ACTIVE`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use std::{io, process, thread};

use crate::clock;

/// The real time without activity after which the time jumps.
const GRACE: Duration = Duration::from_millis(3);
/// How often event loops show in that time that they have nothing to do.
const ROUNDS: u32 = 5;
/// Event loops of callers and mocks that have not responded for this long do not run, and do not delay jumps.
const ABSENT_AFTER: Duration = Duration::from_secs(3);

/// Whether there is a virtual clock, in this process or, in a fork, in its parent.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// The state of the first process that uses it.
static STATE: OnceLock<ProcessClock> = OnceLock::new();

/// The state of one process.
struct ProcessClock {
    process: u32,
    state: Mutex<ClockState>,
    /// Something has changed for which the thread may wait.
    changed: Condvar,
    clocks: AtomicUsize,
    activity: AtomicU64,
    working: AtomicUsize,
    callers: AtomicUsize,
    /// The state of a fork of the process: a lock of the parent may never be released there.
    of_fork: OnceLock<Box<ProcessClock>>,
}

#[derive(Default)]
struct ClockState {
    has_thread: bool,
    number: u64,
    timers: BTreeMap<(Instant, u64), ClockTimer>,
    participants: Vec<Weak<LoopState>>,
}

/// What happens at a time.
enum ClockTimer {
    Task(Option<Waker>),
    Call(Box<dyn FnOnce() + Send>),
}

impl ClockTimer {
    fn fire(self) {
        match self {
            Self::Task(waker) => waker.into_iter().for_each(Waker::wake),
            Self::Call(call) => call(),
        }
    }
}

/// Returns the state of this process.
fn shared() -> &'static ProcessClock {
    let process = process::id();
    let mut shared = STATE.get_or_init(|| ProcessClock::new(process));
    while shared.process != process {
        shared = shared.of_fork.get_or_init(|| Box::new(ProcessClock::new(process)));
    }
    shared
}

/// Returns the state of this process if there is a virtual clock.
#[inline]
fn active() -> Option<&'static ProcessClock> {
    if ACTIVE.load(Ordering::Relaxed) { active_here() } else { None }
}

#[cold]
fn active_here() -> Option<&'static ProcessClock> {
    let shared = shared();
    shared.is_active().then_some(shared)
}

impl ProcessClock {
    fn new(process: u32) -> Self {
        Self {
            process,
            state: Mutex::default(),
            changed: Condvar::new(),
            clocks: AtomicUsize::new(0),
            activity: AtomicU64::new(0),
            working: AtomicUsize::new(0),
            callers: AtomicUsize::new(0),
            of_fork: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes under the lock.
    fn is_active(&self) -> bool {
        self.clocks.load(Ordering::SeqCst) > 0
    }

    fn note_activity(&self) {
        self.activity.fetch_add(1, Ordering::SeqCst);
    }

    /// Wakes the thread.
    fn notify(&self) {
        // Under the lock, so that the thread does not miss it between its check and its wait.
        let _state = self.lock();
        self.changed.notify_all();
    }

    /// Adds a timer, unless the last virtual clock has just ended.
    fn add_timer(&'static self, at: Instant, timer: ClockTimer) -> Option<RegisteredTimer> {
        let mut state = self.lock();
        // Under the lock: the thread runs as long as this is true, and then until there are no timers.
        if !self.is_active() {
            return None;
        }
        let number = state.next_number();
        let is_next = state.timers.first_key_value().is_none_or(|((next, _), _)| at < *next);
        state.timers.insert((at, number), timer);
        drop(state);
        if is_next {
            self.changed.notify_all();
        }
        Some(RegisteredTimer { shared: self, key: (at, number) })
    }

    /// Fires timers, and lets the time jump. Blocks until there is nothing left to do.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            let now = clock::now();
            let due = state.take_due(now);
            if !due.is_empty() {
                drop(state);
                due.into_iter().for_each(ClockTimer::fire);
                self.note_activity();
                state = self.lock();
                continue;
            }
            let next = state.timers.first_key_value().map(|((at, _), _)| *at);
            if next.is_none() && !self.is_active() {
                state.has_thread = false;
                return;
            }
            if next.is_none() || !self.is_active() || !self.is_idle(&state) {
                state = match next {
                    Some(next) => self.wait(state, next.saturating_duration_since(now)),
                    None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                };
                continue;
            }
            drop(state);
            let is_quiescent = self.is_quiescent();
            state = self.lock();
            // It may be another one than before: a caller's event loop adds its timer once more when it is asked.
            let next = state.timers.first_key_value().map(|((at, _), _)| *at);
            if is_quiescent
                && self.is_active()
                && let Some(next) = next
            {
                clock::advance(next.saturating_duration_since(clock::now()));
                // First: they close what is too old now.
                for participant in state.participants() {
                    participant.ask();
                }
            }
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, ClockState>, time: Duration) -> MutexGuard<'a, ClockState> {
        self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Returns whether a caller waits and nothing works, as far as that can be seen at once.
    fn is_idle(&self, state: &ClockState) -> bool {
        let waits = self.callers.load(Ordering::SeqCst) > 0
            || state.participants().iter().any(|participant| participant.is_caller());
        waits && self.working.load(Ordering::SeqCst) == 0
    }

    /// Waits for [`GRACE`], and returns whether nothing happened in it and nothing can happen but the passing of time.
    fn is_quiescent(&self) -> bool {
        let activity = self.activity.load(Ordering::SeqCst);
        for _ in 0..ROUNDS {
            thread::sleep(GRACE / ROUNDS);
            let participants = self.lock().participants();
            let is_idle = || self.activity.load(Ordering::SeqCst) == activity && self.is_idle(&self.lock());
            if !is_idle() {
                return false;
            }
            for participant in &participants {
                participant.ask();
            }
            let mut state = self.lock();
            while !participants.iter().all(|participant| participant.has_responded()) {
                if self.activity.load(Ordering::SeqCst) != activity {
                    return false;
                }
                state = self.wait(state, GRACE);
            }
            drop(state);
            if !is_idle() {
                return false;
            }
        }
        true
    }
}

impl ClockState {
    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn participants(&self) -> Vec<Arc<LoopState>> {
        self.participants.iter().filter_map(Weak::upgrade).collect()
    }

    fn take_due(&mut self, now: Instant) -> Vec<ClockTimer> {
        let mut due = Vec::new();
        while let Some(first) = self.timers.first_entry().filter(|first| first.key().0 <= now) {
            due.push(first.remove());
        }
        due
    }
}

/// Makes the clock of the process virtual while it lives.
#[derive(Debug)]
pub struct VirtualClock {
    process: u32,
}

impl VirtualClock {
    /// # Errors
    /// The system refuses a thread.
    pub fn begin() -> io::Result<Self> {
        let shared = shared();
        let mut state = shared.lock();
        if !state.has_thread {
            thread::Builder::new().name("headgate-clock".into()).spawn(|| shared.run())?;
            state.has_thread = true;
        }
        shared.clocks.fetch_add(1, Ordering::SeqCst);
        // In a fork it may be set though the fork has none.
        ACTIVE.store(true, Ordering::SeqCst);
        Ok(Self { process: shared.process })
    }

    /// Lets the time jump ahead at once.
    pub fn advance(&self, time: Duration) {
        let shared = shared();
        let state = shared.lock();
        if shared.process == self.process {
            clock::advance(time);
        }
        drop(state);
        shared.note_activity();
        shared.notify();
    }
}

impl Drop for VirtualClock {
    fn drop(&mut self) {
        let shared = shared();
        if shared.process == self.process {
            let state = shared.lock();
            if shared.clocks.fetch_sub(1, Ordering::SeqCst) == 1 {
                ACTIVE.store(false, Ordering::SeqCst);
            }
            drop(state);
            shared.notify();
        }
    }
}

/// Returns whether there is a virtual clock.
pub fn is_active() -> bool {
    active().is_some()
}

/// A timer that waits for a virtual clock. Dropping it cancels it.
pub struct RegisteredTimer {
    shared: &'static ProcessClock,
    key: (Instant, u64),
}

impl RegisteredTimer {
    /// Returns whether the time has come; if not, the task of `cx` is woken then.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.lock();
        match state.timers.get_mut(&self.key) {
            Some(ClockTimer::Task(waker)) => {
                if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    *waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }
}

impl Drop for RegisteredTimer {
    fn drop(&mut self) {
        if self.shared.process == process::id() {
            let removed = self.shared.lock().timers.remove(&self.key);
            // What it holds may register or cancel a timer when it is dropped.
            drop(removed);
        }
    }
}

impl fmt::Debug for RegisteredTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegisteredTimer").field(&self.key.0).finish()
    }
}

/// Registers a task's wait for this time; `None`: there is no virtual clock.
pub(crate) fn register(at: Instant) -> Option<Box<RegisteredTimer>> {
    let shared = active()?;
    shared.note_activity();
    shared.add_timer(at, ClockTimer::Task(None)).map(Box::new)
}

/// Registers a call at this time, from the thread of the clock; `None`: there is no virtual clock.
pub fn call_at(at: Instant, call: impl FnOnce() + Send + 'static) -> Option<RegisteredTimer> {
    active().and_then(|shared| shared.add_timer(at, ClockTimer::Call(Box::new(call))))
}

/// Notes that something has happened that may lead to more: a row or bytes were passed on.
#[inline]
pub fn note_activity() {
    if let Some(shared) = active() {
        shared.note_activity();
    }
}

impl fmt::Debug for ProcessClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessClock").field("process", &self.process).finish_non_exhaustive()
    }
}

/// Work in progress that no event loop shows. The time does not jump while it lives.
#[derive(Debug, Default)]
pub struct Working(Option<&'static ProcessClock>);

impl Working {
    #[inline]
    pub fn begin() -> Self {
        let shared = active();
        if let Some(shared) = shared {
            shared.working.fetch_add(1, Ordering::SeqCst);
            shared.note_activity();
        }
        Self(shared)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(shared) = self.0.filter(|shared| shared.process == process::id()) {
            shared.note_activity();
            if shared.working.fetch_sub(1, Ordering::SeqCst) == 1 {
                shared.notify();
            }
        }
    }
}

/// A caller that waits for an outcome. The time jumps only if there is one.
#[derive(Debug)]
pub struct CallerWaits(Option<&'static ProcessClock>);

impl CallerWaits {
    #[inline]
    pub fn begin() -> Self {
        let shared = active();
        if let Some(shared) = shared
            && shared.callers.fetch_add(1, Ordering::SeqCst) == 0
        {
            shared.notify();
        }
        Self(shared)
    }
}

impl Drop for CallerWaits {
    fn drop(&mut self) {
        if let Some(shared) = self.0.filter(|shared| shared.process == process::id()) {
            shared.callers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// To what an event loop belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopOf {
    /// It runs as long as it takes part.
    Engine,
    /// A mock, or an application in its place.
    Mock,
    /// It counts as a caller that waits.
    Caller,
}

/// An event loop that the clock asks whether it has anything to do. Dropping it ends its part.
pub struct Participant(Arc<LoopState>);

struct LoopState {
    shared: &'static ProcessClock,
    wake: Box<dyn Fn() + Send + Sync>,
    loop_of: LoopOf,
    /// The number of the last question, and of the last one with a response.
    question: AtomicU64,
    response: AtomicU64,
    /// When the first question without a response was asked.
    since: Mutex<Option<Instant>>,
}

impl Participant {
    /// Returns what represents an event loop; `None`: there is no virtual clock. `wake` wakes the loop, and does not wait.
    /// The loop then takes the number of the [question](Participant::question), handles all events that have come, and
    /// [responds](Participant::respond).
    pub fn new(loop_of: LoopOf, wake: impl Fn() + Send + Sync + 'static) -> Option<Self> {
        let shared = active()?;
        let state_of_loop = Arc::new(LoopState {
            shared,
            wake: Box::new(wake),
            loop_of,
            question: AtomicU64::new(0),
            response: AtomicU64::new(0),
            since: Mutex::default(),
        });
        let mut state = shared.lock();
        state.participants.retain(|other| other.strong_count() > 0);
        state.participants.push(Arc::downgrade(&state_of_loop));
        drop(state);
        shared.notify();
        Some(Self(state_of_loop))
    }

    /// Returns the number of the last question.
    pub fn question(&self) -> u64 {
        self.0.question.load(Ordering::SeqCst)
    }

    /// Responds that the loop has handled all events that came before this question.
    pub fn respond(&self, question: u64) {
        if self.0.response.fetch_max(question, Ordering::SeqCst) < question {
            *self.0.since.lock().unwrap_or_else(PoisonError::into_inner) = None;
            self.0.shared.notify();
        }
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        if self.0.shared.process == process::id() {
            self.0.response.store(u64::MAX, Ordering::SeqCst);
            self.0.shared.notify();
        }
    }
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant").finish_non_exhaustive()
    }
}

impl LoopState {
    fn ask(&self) {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
        self.question.fetch_add(1, Ordering::SeqCst);
        (self.wake)();
    }

    fn has_responded(&self) -> bool {
        self.response.load(Ordering::SeqCst) >= self.question.load(Ordering::SeqCst) || self.is_absent()
    }

    /// Returns whether it is the loop of a caller, and runs.
    fn is_caller(&self) -> bool {
        self.loop_of == LoopOf::Caller && !self.is_absent()
    }

    fn is_absent(&self) -> bool {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        self.loop_of != LoopOf::Engine && since.is_some_and(|since| since.elapsed() >= ABSENT_AFTER)
    }
}
