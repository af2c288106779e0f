//! The thread that renews the credentials of a run.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::error::{ErrorKind, Failure, JobError};
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::RequestOptions;
use headgate_core::token_source::{SecretFile, TokenSource};
use headgate_core::virtual_clock::{self, RegisteredTimer, Working};
use headgate_http::defaults::Defaults;
use headgate_http::idempotency_key::KeySalt;

use super::command;
use super::secret_file::{self, FileVersion};
use crate::engine::failure::FirstFailure;
use crate::engine::renewal::Renewal;
use crate::engine::shared::Shared;
use crate::engine::spawn;

/// The shortest time that a command has.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval between two looks at the files.
const FILE_INTERVAL: Duration = Duration::from_secs(1);
/// The delays between fetches that fail.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// Renews the credentials of a run.
pub(crate) struct Renewer {
    pub(crate) renewal: Arc<Renewal>,
    /// Weak: the sink waits until all senders of outcomes are gone.
    pub(crate) shared: Weak<Shared>,
    pub(crate) options: RequestOptions,
    /// The options with which requests are sent now.
    pub(crate) published: RequestOptions,
    /// The salt of the rows' keys, if rows have keys.
    pub(crate) key_salt: Option<KeySalt>,
    /// Callers wait for single rows: these fail if there are no credentials, and the run goes on.
    pub(crate) is_fed: bool,
}

/// Fetches that have failed in a row.
struct Failing {
    since: Instant,
    next: Instant,
    delay: Duration,
}

/// What the thread does next.
#[derive(PartialEq, Eq)]
enum Task {
    Fetch,
    /// Read the files that have changed.
    LookAtFiles,
    /// Use the token in this file from now on.
    SetBearer(PathBuf),
    End,
}

/// Why credentials could not be fetched.
struct FetchError {
    why: Message,
    /// What the command wrote last to standard error: it is shown, and not stored, as it may have a secret.
    detail: Option<String>,
    is_lasting: bool,
}

impl From<Message> for FetchError {
    fn from(why: Message) -> Self {
        Self { why, detail: None, is_lasting: false }
    }
}

/// Starts the thread.
///
/// # Errors
/// `Internal`: the system refuses it.
pub(crate) fn start(renewer: Renewer, failure: Arc<FirstFailure>) -> Result<(), JobError> {
    spawn("headgate-credentials".into(), move || {
        let _panic = failure.on_panic("renewal of credentials");
        renewer.run();
    })
}

impl Renewer {
    fn run(mut self) {
        let mut versions = self.file_versions();
        let mut failing: Option<Failing> = None;
        loop {
            match self.next_task(failing.as_ref()) {
                Task::End => return,
                Task::LookAtFiles => {
                    let now = self.file_versions();
                    if now != versions && self.fetch_files().is_ok() {
                        versions = now;
                        self.send_current();
                    }
                    continue;
                }
                Task::SetBearer(path) => {
                    self.options.secret_files.retain(|file| file.option == OptionName::Headers);
                    self.options.secret_files.push(SecretFile { option: OptionName::Bearer, path });
                    (self.options.token.source, self.options.user) = (None, None);
                }
                Task::Fetch => {}
            }
            let began = clock::now();
            match self.fetch(failing.as_ref()) {
                Ok(()) => {
                    (failing, versions) = (None, self.file_versions());
                    self.publish();
                }
                Err(_) if self.renewal.state().has_ended => return,
                Err(error) => failing = self.fail(error, failing, began),
            }
        }
    }

    /// Waits until there is something to do.
    fn next_task(&self, failing: Option<&Failing>) -> Task {
        let ttl = self.options.token.ttl.filter(|_| self.options.token.source.is_some());
        let looked_at = clock::now();
        let mut state = self.renewal.state();
        loop {
            let now = clock::now();
            if state.has_ended {
                return Task::End;
            }
            if let Some(path) = state.bearer.take() {
                return Task::SetBearer(path);
            }
            let of_ttl = ttl.zip(state.renewed_at).map(|(ttl, at)| at + ttl);
            let fetch_at = match failing {
                // The next row that needs them has them fetched.
                Some(_) if self.is_fed => state.is_fetch_requested.then_some(now),
                Some(failing) => Some(failing.next),
                // A client fetches its first token for its first request.
                None if self.is_fed && state.renewed_at.is_none() && self.options.token.source.is_some() => {
                    state.is_fetch_requested.then_some(now)
                }
                None if state.is_awaited => Some(state.not_before.unwrap_or(now)),
                None => of_ttl.into_iter().chain(state.scheduled_at).min(),
            };
            if fetch_at.is_some_and(|at| at <= now) {
                (state.is_fetch_requested, state.scheduled_at) = (false, None);
                return Task::Fetch;
            }
            let look_at = (!self.options.secret_files.is_empty()).then(|| looked_at + FILE_INTERVAL);
            if look_at.is_some_and(|at| at <= now) {
                return Task::LookAtFiles;
            }
            // Rows that wait for credentials wait for this time, too.
            let is_held_up = state.is_awaited || failing.is_some();
            let _timer = fetch_at.filter(|_| is_held_up).and_then(|at| self.wake_at(at));
            let wait = fetch_at.into_iter().chain(look_at).min().map(|at| at - now);
            state = match wait {
                Some(wait) => self.renewal.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0,
                None => self.renewal.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Has a virtual clock end the wait at this time.
    fn wake_at(&self, at: Instant) -> Option<RegisteredTimer> {
        let renewal = self.renewal.clone();
        virtual_clock::call_at(at, move || {
            // Under the lock, so that the thread does not miss it between its check and its wait.
            let _state = renewal.state();
            renewal.changed.notify_all();
        })
    }

    fn file_versions(&self) -> Vec<Option<FileVersion>> {
        self.options.secret_files.iter().map(secret_file::version).collect()
    }

    fn fetch_files(&mut self) -> Result<(), Message> {
        let files = self.options.secret_files.clone();
        files.iter().try_for_each(|file| secret_file::read_into(file, &mut self.options))
    }

    fn fetch(&mut self, failing: Option<&Failing>) -> Result<(), FetchError> {
        let _working = Working::begin();
        self.fetch_files()?;
        let failing_for = failing.map_or(Duration::ZERO, |failing| clock::elapsed(failing.since));
        let timeout = self.options.token.timeout.saturating_sub(failing_for).max(SHORTEST_TIMEOUT);
        let token = match &self.options.token.source {
            None => return self.check(),
            Some(TokenSource::Command(text)) => {
                let has_ended = || self.renewal.state().has_ended;
                command::token(text, timeout, has_ended).map_err(|failure| FetchError {
                    why: message!(OptionName::TokenCommand, ": ", failure.why),
                    detail: failure.last_line,
                    is_lasting: failure.is_lasting,
                })?
            }
            Some(TokenSource::Provider(provider)) => {
                provider.token().map_err(|why| Message::from(format!("no token could be fetched: {why}")))?
            }
        };
        self.options.bearer = Some(token.into());
        self.check()
    }

    /// Checks that the credentials can be sent.
    fn check(&self) -> Result<(), FetchError> {
        Defaults::new(&self.options).map(drop).map_err(|error| error.message.into())
    }

    /// Sends requests with the current credentials from now on. Returns whether they are the same as before.
    fn send_current(&mut self) -> bool {
        let Ok(defaults) = Defaults::new(&self.options) else { return true };
        let is_unchanged = self.options == self.published;
        if !is_unchanged {
            let defaults = if let Some(salt) = self.key_salt { defaults.with_keys(salt) } else { defaults };
            self.renewal.defaults.renew(defaults);
            self.published.clone_from(&self.options);
        }
        is_unchanged
    }

    /// Sends requests with the credentials that were fetched, and lets hosts continue that waited for these.
    fn publish(&mut self) {
        let is_unchanged = self.send_current();
        self.renewal.change(|state| {
            (state.is_awaited, state.not_before, state.renewed_at) = (false, None, Some(clock::now()));
            state.is_unchanged = is_unchanged;
        });
        if let Some(shared) = self.shared.upgrade() {
            shared.scheduler.change_at(clock::now(), |scheduler, now| scheduler.await_credentials(false, now));
        }
    }

    /// Lets hosts that get credentials wait, as these could not be fetched. It stops the run if that has taken too long.
    fn fail(&self, error: FetchError, failing: Option<Failing>, began: Instant) -> Option<Failing> {
        let (now, timeout) = (clock::now(), self.options.token.timeout);
        let first = failing.is_none();
        let since = failing.as_ref().map_or(began, |failing| failing.since);
        self.renewal.change(|state| state.is_awaited = true);
        let shared = self.shared.upgrade()?;
        shared.scheduler.change_at(now, |scheduler, now| scheduler.await_credentials(true, now));
        let FetchError { why, detail, is_lasting } = error;
        let shown = detail.map_or_else(|| why.clone(), |detail| message!(why.clone(), ": {detail}"));
        if self.is_fed {
            let failure = Failure::new(ErrorKind::Credentials, shown.to_string());
            shared.scheduler.change_at(now, |scheduler, now| scheduler.fail_awaiting(&failure, now));
        } else if is_lasting && self.options.bearer.is_none() {
            shared.note(shown);
            shared.stop_run(why);
        } else if now.duration_since(since) >= timeout {
            let time = timeout.as_secs_f64();
            shared.note(shown);
            let wait = message!("; the longest time for that is ", OptionName::TokenTimeout);
            shared.stop_run(message!("there were no credentials for {time} s: ", why, wait));
        } else if first {
            shared.note(message!(shown, ": it was tried again"));
        }
        let delay = failing.map_or(FIRST_DELAY, |failing| (failing.delay * 2).min(LONGEST_DELAY));
        Some(Failing { since, next: (now + delay).min(since + timeout.max(delay)), delay })
    }
}
