//! Changes the options of a run in progress, for the caller that holds it or through the directory of its job.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headgate_core::clock;
use headgate_core::error::{JobError, cause};
use headgate_core::live::{Live, Settings};
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::{RequestOptions, RunOptions};
use headgate_core::target::host_key;
use headgate_core::token_source::SecretFile;
use tokio::sync::watch;

use crate::engine::credentials::secret_file;
use crate::engine::renewal::Renewal;
use crate::engine::{Capacity, Engine};
use crate::job::control::{Control, ControlError, ControlFiles, ControlVersion, SettingsChange};

/// The minimum interval between two reads of the directory: a little less than that of the sink's ticks.
const POLL_INTERVAL: Duration = Duration::from_millis(450);

/// The options set for a job before this run of it began.
#[derive(Debug, Default)]
pub(super) struct StoredSettings {
    /// `None`: the run has no directory that stores its settings.
    pub(super) files: Option<ControlFiles>,
    pub(super) control: Control,
    pub(super) notes: Vec<Message>,
}

impl StoredSettings {
    /// Reads the settings, except those that the options of this run name. A job that starts over removes them.
    ///
    /// # Errors
    /// `Output`: a newer headgate has written the settings, or the directory can't be written to.
    pub(super) fn read(files: ControlFiles, run: &RunOptions, fresh: bool) -> Result<Self, JobError> {
        let unusable = |error| JobError::storage(format!("the stored settings can't be changed: {}", cause(&error)));
        if fresh {
            files.remove().map_err(unusable)?;
        }
        let (mut control, mut notes) = read_control(&files)?;
        // A run begins with the credentials of its command.
        let is_named = |name: &String| is_named(run, name) || name == OptionName::Bearer.name();
        if control.set.keys().any(is_named) {
            control = files.change(|control| control.set.retain(|name, _| !is_named(name))).map_err(unusable)?;
        }
        notes.extend(note(&control));
        Ok(Self { files: Some(files), control, notes })
    }
}

/// Returns the options with the stored settings of the job applied, and notes on these. Nothing is changed.
///
/// # Errors
/// `Output`: a newer headgate has written the settings. `Usage`: the settings contradict the named options.
pub(crate) fn in_force(files: &ControlFiles, run: &RunOptions) -> Result<(Live, Vec<Message>), JobError> {
    let (mut control, mut notes) = read_control(files)?;
    control.set.retain(|name, _| !is_named(run, name) && name != OptionName::Bearer.name());
    notes.extend(note(&control));
    Ok((with_control(&Live::new(run), &control)?, notes))
}

fn read_control(files: &ControlFiles) -> Result<(Control, Vec<Message>), JobError> {
    match files.read() {
        Ok(control) => Ok((control, Vec::new())),
        Err(ControlError::Damaged(message)) => Ok((Control::default(), vec![message])),
        Err(ControlError::Newer(message)) => Err(JobError::output(message)),
    }
}

fn is_named(run: &RunOptions, name: &str) -> bool {
    run.named_options.iter().any(|option| option.name() == name)
}

/// Returns the note on options that were set in an earlier run, if there are any.
fn note(control: &Control) -> Option<Message> {
    let set: Vec<Message> = control.options().map(|(option, text)| option.set(text).into()).collect();
    let paused = control.paused.then(|| "an earlier run left the job paused: headgate unpause continues it".into());
    let set =
        (!set.is_empty()).then(|| message!("set while the job ran, and still in force: ", Message::joined(set, ", ")));
    let notes: Vec<Message> = set.into_iter().chain(paused).collect();
    (!notes.is_empty()).then(|| Message::joined(notes, "; "))
}

/// The options of a run that may change, and the channel that publishes them.
#[derive(Debug)]
pub(super) struct LiveRun {
    /// The named options.
    base: Live,
    now: watch::Sender<Arc<Live>>,
    files: Option<ControlFiles>,
    state: Mutex<LiveRunState>,
    /// A copy of those in `state`, whose lock may be held while files are read.
    settings: Mutex<Settings>,
    notes: Arc<Mutex<Vec<Message>>>,
    /// `None`: the run has no credentials that can be renewed.
    renewal: Option<Arc<Renewal>>,
}

#[derive(Debug)]
struct LiveRunState {
    control: Control,
    stamp: Option<ControlVersion>,
    next_poll: Instant,
    /// The run's reservation at the engine, until it has ended.
    reservation: Option<(Engine, Capacity)>,
}

impl LiveRun {
    /// Creates the state of a run with the options `base` and the stored settings.
    ///
    /// # Errors
    /// `Usage`: the settings contradict the named options.
    pub(super) fn shared(
        base: Live,
        stored: StoredSettings,
        reservation: (Engine, Capacity),
        notes: Arc<Mutex<Vec<Message>>>,
        renewal: Option<Arc<Renewal>>,
    ) -> Result<Arc<Self>, JobError> {
        let StoredSettings { files, control, .. } = stored;
        let live = with_control(&base, &control)?;
        set_bearer(renewal.as_ref(), live.bearer.as_deref())?;
        let (now, _) = watch::channel(Arc::new(live));
        if let Some(files) = files.as_ref().filter(|files| files.stamp().is_some()) {
            // A process that changed a setting just before may wait for this reply.
            let _ = files.reply(control.sequence, None);
        }
        // The settings may have changed since they were read: the first poll reads them again.
        let settings = Mutex::new(control.set.clone());
        let state = LiveRunState { control, stamp: None, next_poll: clock::now(), reservation: Some(reservation) };
        Ok(Arc::new(Self { base, now, files, state: Mutex::new(state), settings, notes, renewal }))
    }

    pub(super) fn receiver(&self) -> watch::Receiver<Arc<Live>> {
        self.now.subscribe()
    }

    /// Returns the current maximum of attempts in flight.
    pub(super) fn concurrency(&self) -> usize {
        self.now.borrow().concurrency
    }

    /// Returns whether the user has paused the run.
    pub(super) fn is_paused(&self) -> bool {
        self.now.borrow().paused
    }

    /// Returns the options that were set while the job ran.
    pub(super) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the run, and the stored settings of its job.
    ///
    /// # Errors
    /// `Usage`: the change is invalid, and nothing is changed. `Output`: the directory can't be written to.
    pub(super) fn change(&self, change: &SettingsChange) -> Result<(), JobError> {
        self.apply_change(change)?;
        let Some(files) = &self.files else { return Ok(()) };
        // Another process may hold the lock of the file: the sink thread must not wait for this call meanwhile.
        let control = match files.change(|control| control.apply(change)) {
            Ok(control) => control,
            Err(error) => {
                // The sink thread may have applied the file without this change.
                self.apply_change(change)?;
                return Err(JobError::storage(format!("the settings hold for this run only: {}", cause(&error))));
            }
        };
        let mut state = self.lock();
        if control.sequence < state.control.sequence {
            // A later change was applied meanwhile, and includes this one.
            return Ok(());
        }
        // Another process may have set an option, too. If the run refuses that one, only this change stays.
        let sequence = control.sequence;
        let refused = self.apply(&mut state, control).err();
        let _ = files.reply(sequence, refused.as_ref());
        drop(state);
        if refused.is_some() {
            let applied = self.apply_change(change);
            let current = self.lock().control.clone();
            let _ = files.change(|control| {
                if control.sequence == sequence {
                    control.restore(current);
                }
            });
            applied?;
        }
        Ok(())
    }

    /// Applies a change to the current settings.
    fn apply_change(&self, change: &SettingsChange) -> Result<(), JobError> {
        let mut state = self.lock();
        let mut control = state.control.clone();
        control.apply(change);
        self.apply(&mut state, control)
    }

    /// Applies the settings that were written to the directory since the last poll, if the next poll is due.
    pub(super) fn apply_changes(&self, now: Instant) {
        let Some(files) = &self.files else { return };
        let mut state = self.lock();
        if now < state.next_poll {
            return;
        }
        state.next_poll = now + POLL_INTERVAL;
        let stamp = files.stamp();
        if stamp == state.stamp {
            return;
        }
        state.stamp = stamp;
        match files.read() {
            Ok(control) => {
                let sequence = control.sequence;
                let applied = self.apply(&mut state, control);
                let _ = files.reply(sequence, applied.as_ref().err());
            }
            Err(error) => self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(error.into_message()),
        }
    }

    /// Ends the run. If `finished`, the job has ended, too, and its stored settings are removed.
    pub(super) fn end(&self, finished: bool) {
        let reservation = self.lock().reservation.take();
        drop(reservation);
        if let Some(files) = self.files.as_ref().filter(|_| finished) {
            let _ = files.remove();
        }
    }

    fn apply(&self, state: &mut LiveRunState, control: Control) -> Result<(), JobError> {
        let live = with_control(&self.base, &control)?;
        if live.bearer != self.now.borrow().bearer {
            set_bearer(self.renewal.as_ref(), live.bearer.as_deref())?;
        }
        if let Some((engine, capacity)) = &mut state.reservation
            && live.concurrency != self.now.borrow().concurrency
        {
            capacity.resize(live.concurrency, engine)?;
        }
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&control.set);
        state.control = control;
        self.now.send_if_modified(|now| {
            let changes = **now != live;
            *now = Arc::new(live);
            changes
        });
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, LiveRunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has the token read from this file from now on, if one was set.
fn set_bearer(renewal: Option<&Arc<Renewal>>, path: Option<&Path>) -> Result<(), JobError> {
    match (renewal, path) {
        (_, None) => {}
        (Some(renewal), Some(path)) => {
            let file = SecretFile { option: OptionName::Bearer, path: path.to_owned() };
            secret_file::read_into(&file, &mut RequestOptions::default()).map_err(JobError::usage)?;
            renewal.set_bearer(path.to_owned());
        }
        (None, Some(_)) => {
            let why = " can't be set: the job was started without credentials, so nothing says which hosts get them";
            return Err(JobError::usage(message!(OptionName::Bearer, "{why}")));
        }
    }
    Ok(())
}

/// Returns the options `base` with the settings of `control`.
pub(super) fn with_control(base: &Live, control: &Control) -> Result<Live, JobError> {
    Ok(Live { paused: control.paused, ..base.with(&control.set, host_key)? })
}
