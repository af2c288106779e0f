//! What responses show about the credentials of a run, for each origin that gets them: whether they were accepted, and for how
//! many rows in a row they were refused.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headgate_core::fail_on::is_unauthorized;
use headgate_core::origin::Origin;
use lru::LruCache;

/// Origins of which something is remembered. One that was evicted begins anew.
const MAX_ORIGINS: NonZeroUsize = NonZeroUsize::new(65_536).expect("more than zero");
/// Refused rows in a row, before an origin has accepted the credentials, that show that it does not accept them.
const MOST_AT_FIRST: u32 = 20;
/// Refused rows in a row afterwards: a few rows may need other permissions.
const MOST_LATER: u32 = 100;
const FORBIDDEN: u16 = 403;

/// The credentials of a run at one origin.
#[derive(Debug)]
pub struct OriginCredentials {
    pub origin: Origin,
    /// They were accepted, and no response has refused them since: nothing changes with another success.
    is_accepted: AtomicBool,
    is_refused: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    was_accepted: bool,
    /// Responses in a row that refuse the credentials.
    refusals: u32,
    /// Rows in a row that ended with such a response.
    rows: u32,
    /// The lowest ordinal of these rows.
    first: u64,
}

/// The rows that ended with refused credentials, without a success between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedRows {
    pub rows: u32,
    /// The lowest ordinal.
    pub first: u64,
}

impl OriginCredentials {
    fn new(origin: Origin) -> Self {
        Self {
            origin,
            is_accepted: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Returns whether no more rows are sent there, as the origin does not accept the credentials.
    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// Records that no more rows are sent there. Returns whether they were before.
    pub fn refuse(&self) -> bool {
        !self.is_refused.swap(true, Ordering::Relaxed)
    }

    /// Records a response that does not refuse the credentials.
    pub fn note_status(&self, status: u16) {
        // A 404 or a 500 may come before the credentials are looked at.
        if status < 400 && !self.is_accepted.load(Ordering::Relaxed) {
            *self.state() = State { was_accepted: true, ..State::default() };
            self.is_accepted.store(true, Ordering::Relaxed);
        }
    }

    /// Records a response that refuses the credentials. Returns how many did in a row.
    pub fn note_refusal(&self) -> u32 {
        self.is_accepted.store(false, Ordering::Relaxed);
        let mut state = self.state();
        state.refusals = state.refusals.saturating_add(1);
        state.refusals
    }

    /// Records that a row ended with such a response. Returns the rows that did so in a row, if they are too many.
    pub fn note_refused_row(&self, status: u16, ordinal: u64) -> Option<RefusedRows> {
        let mut state = self.state();
        if status == FORBIDDEN && state.was_accepted {
            // A token that is accepted need not give access to everything.
            return None;
        }
        state.rows = state.rows.saturating_add(1);
        state.first = if state.rows == 1 { ordinal } else { state.first.min(ordinal) };
        let most = if state.was_accepted { MOST_LATER } else { MOST_AT_FIRST };
        (state.rows >= most).then_some(RefusedRows { rows: state.rows, first: state.first })
    }

    /// Forgets the refusals: the credentials were renewed.
    fn renew(&self) {
        let mut state = self.state();
        *state = State { was_accepted: state.was_accepted, ..State::default() };
        self.is_refused.store(false, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a response with this status may refuse the credentials of its request.
pub fn refuses_credentials(status: u16) -> bool {
    is_unauthorized(status) || status == FORBIDDEN
}

/// The origins that get credentials in a run.
#[derive(Debug)]
pub(crate) struct CredentialTable(Mutex<LruCache<Origin, Arc<OriginCredentials>>>);

impl Default for CredentialTable {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_ORIGINS)))
    }
}

impl CredentialTable {
    pub(crate) fn of(&self, origin: &Origin) -> Arc<OriginCredentials> {
        let mut origins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        origins.get_or_insert(origin.clone(), || Arc::new(OriginCredentials::new(origin.clone()))).clone()
    }

    pub(crate) fn renew(&self) {
        let origins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        origins.iter().for_each(|(_, origin)| origin.renew());
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::target;

    use super::*;

    fn credentials() -> Arc<OriginCredentials> {
        CredentialTable::default().of(&target::parse("https://api.example/").expect("a URL").origin)
    }

    fn rows_until_refused(credentials: &OriginCredentials, status: u16) -> Option<RefusedRows> {
        (100..1000).find_map(|row| credentials.note_refused_row(status, row))
    }

    #[test]
    fn twenty_rows_in_a_row_show_that_credentials_were_never_accepted() {
        for status in [401, 403, 407] {
            let refused = rows_until_refused(&credentials(), status);
            assert_eq!(Some(RefusedRows { rows: 20, first: 100 }), refused, "{status}");
        }
    }

    #[test]
    fn after_a_success_more_rows_are_needed_and_403_shows_nothing() {
        let credentials = credentials();
        assert!((0..19).all(|row| credentials.note_refused_row(401, row).is_none()));
        credentials.note_status(404);
        credentials.note_status(200);
        assert_eq!(Some(RefusedRows { rows: 100, first: 100 }), rows_until_refused(&credentials, 401));
        credentials.note_refusal();
        credentials.note_status(204);
        assert_eq!(None, rows_until_refused(&credentials, 403));
    }

    #[test]
    fn new_credentials_get_a_new_chance() {
        let table = CredentialTable::default();
        let credentials = table.of(&target::parse("https://api.example/").expect("a URL").origin);
        assert!(rows_until_refused(&credentials, 401).is_some() && credentials.refuse() && !credentials.refuse());
        table.renew();
        assert!(!credentials.is_refused());
        assert_eq!(Some(20), rows_until_refused(&credentials, 401).map(|refused| refused.rows));
    }
}
