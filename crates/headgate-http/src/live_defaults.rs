//! The common parts of a run's requests, which change when its credentials are renewed, or a caller sets its headers.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headgate_core::error::JobError;

use crate::defaults::{Defaults, HeaderChange};
use crate::header_lines::HeaderLine;

/// The most earlier versions that are kept, to show requests as they were sent.
const MAX_EARLIER: usize = 8;

/// The current [`Defaults`] of a run, and their version.
#[derive(Debug)]
pub struct LiveDefaults {
    version: AtomicU64,
    state: Mutex<LiveState>,
}

#[derive(Debug)]
struct LiveState {
    /// The defaults by the options of the run.
    of_options: Arc<Defaults>,
    /// What a caller has changed since.
    changes: Vec<HeaderChange>,
    current: Arc<Defaults>,
    /// The versions before, the newest one first.
    earlier: VecDeque<Arc<Defaults>>,
}

/// A header of a run as its caller sees it.
#[derive(Debug, Clone)]
pub struct LiveHeader {
    pub name: String,
    pub value: Box<[u8]>,
    pub is_credential: bool,
}

impl LiveDefaults {
    pub fn new(defaults: Defaults) -> Arc<Self> {
        let current = Arc::new(defaults);
        let state = LiveState { of_options: current.clone(), changes: Vec::new(), current, earlier: VecDeque::new() };
        Arc::new(Self { version: AtomicU64::new(0), state: Mutex::new(state) })
    }

    /// Returns the version, which increases with each change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the current defaults, which are of this version or a later one.
    pub(crate) fn get(&self) -> (u64, Arc<Defaults>) {
        let version = self.version();
        (version, self.state().current.clone())
    }

    /// Returns the defaults of a version, or the oldest ones that are kept.
    pub(crate) fn of_version(&self, version: u64) -> Arc<Defaults> {
        let state = self.state();
        let age = usize::try_from(self.version().saturating_sub(version)).unwrap_or(usize::MAX);
        let earlier = age.min(state.earlier.len()).checked_sub(1).and_then(|index| state.earlier.get(index));
        earlier.unwrap_or(&state.current).clone()
    }

    /// Returns the defaults for requests of robots.txt, which never change.
    #[must_use]
    pub fn of_robots(&self) -> Arc<Self> {
        Self::new(self.state().current.of_robots())
    }

    /// Replaces the defaults. What was learned of the origins that get credentials stays, except that they refuse them.
    pub fn renew(&self, defaults: Defaults) {
        let mut state = self.state();
        // New credentials don't make an earlier change wrong.
        let current = defaults.with_changes(&state.changes).unwrap_or_else(|_| defaults.clone());
        state.of_options = Arc::new(defaults);
        self.publish(&mut state, current);
    }

    /// Returns the headers of requests, without `host` and those of other options than `headers`.
    pub fn headers(&self) -> Vec<LiveHeader> {
        let current = self.state().current.clone();
        let header = |(line, is_credential): (&HeaderLine, bool)| LiveHeader {
            name: line.spelled().to_owned(),
            value: line.value.as_bytes().into(),
            is_credential,
        };
        current.changeable().map(header).collect()
    }

    /// Replaces all changes of the headers that the options give. Requests that are written from now on have them.
    ///
    /// # Errors
    /// `Usage`: a header can't be sent, is a credential without an origin, or is set by another option.
    pub fn change_headers(&self, changes: Vec<HeaderChange>) -> Result<(), JobError> {
        let mut state = self.state();
        let current = state.of_options.with_changes(&changes)?;
        state.changes = changes;
        self.publish(&mut state, current);
        Ok(())
    }

    fn publish(&self, state: &mut LiveState, mut current: Defaults) {
        state.current.origins.renew();
        current.origins.clone_from(&state.current.origins);
        let before = mem::replace(&mut state.current, Arc::new(current));
        state.earlier.push_front(before);
        state.earlier.truncate(MAX_EARLIER);
        self.version.fetch_add(1, Ordering::Release);
    }

    fn state(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
