//! The credentials of a run that are renewed while it goes on, as its workers see them: whether new ones are awaited, and when
//! a refused row is sent with them. `credentials/` fetches them.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::options::RequestOptions;
use headgate_core::schedule::retry::NewCredentials;
use headgate_http::live_defaults::LiveDefaults;

/// Refused responses in a row, without a success between them, that show that the credentials themselves are refused.
const MANY: u32 = 10;
/// The shortest time between two renewals that refused rows cause.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// That time after renewals that did not help.
const LONGEST_INTERVAL: Duration = Duration::from_secs(15);

/// The credentials of a run, as its workers see them.
#[derive(Debug)]
pub(crate) struct Renewal {
    pub(crate) defaults: Arc<LiveDefaults>,
    pub(super) state: Mutex<State>,
    pub(super) changed: Condvar,
}

#[expect(clippy::struct_excessive_bools, reason = "facts, each by itself")]
#[derive(Debug)]
pub(super) struct State {
    /// There is a source of new credentials.
    pub(super) has_source: bool,
    /// Hosts that get credentials wait for new ones.
    pub(super) is_awaited: bool,
    /// The earliest time of the next renewal.
    pub(super) not_before: Option<Instant>,
    pub(super) renewed_at: Option<Instant>,
    /// When they are fetched next, for rows that wait for that.
    pub(super) scheduled_at: Option<Instant>,
    /// The last renewal has brought the same credentials as before.
    pub(super) is_unchanged: bool,
    /// The time after a renewal in which a few refused rows cause no other.
    interval: Duration,
    /// A file with a token that was set while the run goes on.
    pub(super) bearer: Option<PathBuf>,
    /// A row waits for credentials of which the last fetch failed.
    pub(super) is_fetch_requested: bool,
    pub(super) has_ended: bool,
}

/// Ends the renewal of credentials when the run ends.
pub(crate) struct EndRenewal(pub(crate) Option<Arc<Renewal>>);

impl Drop for EndRenewal {
    fn drop(&mut self) {
        if let Some(renewal) = &self.0 {
            renewal.change(|state| state.has_ended = true);
        }
    }
}

impl Renewal {
    /// Returns the renewal of credentials of a run with these options. If they are tokens, the first one is awaited.
    pub(crate) fn new(defaults: Arc<LiveDefaults>, options: &RequestOptions) -> Arc<Self> {
        let state = State {
            has_source: options.token.source.is_some() || !options.secret_files.is_empty(),
            is_awaited: options.token.source.is_some(),
            not_before: None,
            renewed_at: None,
            scheduled_at: None,
            is_unchanged: false,
            interval: SHORTEST_INTERVAL,
            bearer: None,
            is_fetch_requested: false,
            has_ended: false,
        };
        Arc::new(Self { defaults, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Returns whether hosts that get credentials wait for new ones.
    pub(crate) fn is_awaited(&self) -> bool {
        self.state().is_awaited
    }

    /// Requests a renewal, as a response has refused the credentials of this version, and `in_a_row` responses did since the last
    /// success. Returns when the row is sent with new ones; `None`: there are no others.
    pub(super) fn refused(&self, version: u64, in_a_row: u32) -> Option<NewCredentials> {
        let mut state = self.state();
        if version < self.defaults.version() {
            return Some(NewCredentials::Renewed);
        }
        if !state.has_source {
            return None;
        }
        if !state.is_awaited {
            let (now, is_certain) = (clock::now(), in_a_row >= MANY);
            let interval = if is_certain { SHORTEST_INTERVAL } else { state.interval };
            let not_before = state.renewed_at.map(|at| at + interval).filter(|at| *at > now);
            if not_before.is_some() && state.is_unchanged {
                return None;
            }
            if let Some(at) = not_before.filter(|_| !is_certain) {
                state.scheduled_at = Some(at);
                self.changed.notify_all();
                return Some(NewCredentials::Later(at));
            }
            (state.is_awaited, state.not_before) = (true, not_before);
        }
        // After a fetch that has failed, the next row that needs credentials has them fetched.
        state.is_fetch_requested = true;
        self.changed.notify_all();
        Some(NewCredentials::Awaited)
    }

    /// Records whether a row that was refused before has been accepted with new credentials.
    pub(super) fn note_retry(&self, is_accepted: bool) {
        let mut state = self.state();
        state.interval = if is_accepted { SHORTEST_INTERVAL } else { (state.interval * 2).min(LONGEST_INTERVAL) };
    }

    /// Notes that a row waits for credentials.
    pub(super) fn request_fetch(&self) {
        let mut state = self.state();
        if !state.is_fetch_requested {
            state.is_fetch_requested = true;
            self.changed.notify_all();
        }
    }

    /// Reads the token from this file from now on.
    pub(crate) fn set_bearer(&self, path: PathBuf) {
        self.change(|state| (state.has_source, state.bearer) = (true, Some(path)));
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use headgate_http::defaults::Defaults;

    use super::*;

    fn renewal() -> Arc<Renewal> {
        let options = RequestOptions::default();
        let renewal = Renewal::new(LiveDefaults::new(Defaults::new(&options).expect("valid")), &options);
        renewal.change(|state| state.has_source = true);
        renewal
    }

    #[test]
    fn rows_that_are_refused_together_cause_one_renewal() {
        let renewal = renewal();
        assert_eq!(Some(NewCredentials::Awaited), renewal.refused(0, 1));
        assert_eq!(Some(NewCredentials::Awaited), renewal.refused(0, 2));
        renewal.defaults.renew(Defaults::new(&RequestOptions::default()).expect("valid"));
        assert_eq!(Some(NewCredentials::Renewed), renewal.refused(0, 3));
    }

    #[test]
    fn a_single_refusal_just_after_a_renewal_causes_no_other_and_many_do() {
        let renewal = renewal();
        renewal.change(|state| state.renewed_at = Some(Instant::now()));
        assert!(matches!(renewal.refused(0, 1), Some(NewCredentials::Later(_))));
        renewal.note_retry(false);
        assert_eq!(2 * SHORTEST_INTERVAL, renewal.state().interval);
        assert_eq!(Some(NewCredentials::Awaited), renewal.refused(0, MANY));
        assert!(renewal.state().not_before.is_some(), "not more often than once a second");
        renewal.note_retry(true);
        assert_eq!(SHORTEST_INTERVAL, renewal.state().interval);
    }

    #[test]
    fn refused_rows_fail_if_a_renewal_has_just_brought_nothing_new() {
        let renewal = renewal();
        renewal.change(|state| (state.renewed_at, state.is_unchanged) = (Some(Instant::now()), true));
        assert_eq!(None, renewal.refused(0, MANY));
    }
}
