//! The heartbeat of a running job: one small file that says how far its run is.
//!
//! ```text
//! OUT/_headgate/heartbeat.json   replaced once a second by the process that runs the job, and removed at its end
//! ```
//!
//! A heartbeat that exists when a process locks the job was left by a process that was killed.
//!
//! A thread of its own writes the file, from the moment at which the job is locked: if the sink waits for a slow disk, or the
//! input for its first row, the heartbeat says so. It is no part of the durable state, so nothing is synced, it doesn't pass
//! through the job's [`Storage`](headgate_core::files::storage::Storage), and a disk that refuses it stops no job. Its size has
//! a bound, because that of a [`Snapshot`] has one. The same thread writes the job's [`Series`].

use std::fmt;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headgate_core::file_name::OWN_DIRECTORY;
use headgate_core::files::{Directory, SHARED};
use headgate_table::parts::time::now_text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::manifest::Manifest;
use super::record;
use super::series::Series;
use crate::stats::report::Snapshot;

pub(super) const NAME: &str = "heartbeat.json";
const INTERVAL: Duration = Duration::from_secs(1);

/// What a run is, before its job is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunDescription {
    /// `fetch`, `retry`, `clean` or `verify`.
    pub command: String,
    pub input: String,
    pub format: String,
    /// When its job was started, as in the manifest; `None`: it is not known yet whether the stored job is resumed.
    pub job_started_at: Option<String>,
}

/// One heartbeat: the content of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Beat {
    /// RFC 3339, UTC.
    pub at: String,
    /// The same in microseconds since 1970.
    pub at_us: u64,
    pub pid: u32,
    /// The version of headgate that has written it: another one may have other figures.
    pub headgate_version: String,
    #[serde(flatten)]
    pub run: RunDescription,
    /// A [`Snapshot`] as JSON; `None`: the run has not begun.
    pub progress: Option<Value>,
}

/// Returns the current progress of a run.
pub(crate) type Progress = Arc<dyn Fn() -> Snapshot + Send + Sync>;

/// What the heartbeats of a run say, which any thread may change.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// When the process before this one last wrote its heartbeat, if that process was killed.
    previous_killed_at: Option<String>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    run: RunDescription,
    progress: Option<Progress>,
    is_due: bool,
    has_ended: bool,
}

/// The thread that writes heartbeats until this is dropped, which removes the file.
#[derive(Debug)]
pub(super) struct HeartbeatThread {
    directory: Directory,
    heartbeat: Arc<Heartbeat>,
    thread: Option<JoinHandle<()>>,
}

impl RunDescription {
    /// Returns the description of a command that works on this job.
    pub(super) fn of_job(command: &str, manifest: &Manifest) -> Self {
        Self {
            command: command.into(),
            input: manifest.input.name.clone(),
            format: manifest.spec.format.name().into(),
            job_started_at: Some(manifest.started_at.clone()),
        }
    }
}

impl Beat {
    /// Reads the heartbeat of the job in a directory. Returns `None` if there is none that can be read.
    pub(super) fn read(directory: &Directory) -> Option<Self> {
        let bytes = record::read(directory, &path_in(directory, NAME)).ok()?;
        record::decode(&bytes).ok()
    }

    /// Returns its age, by the clocks of both processes. A time in the future counts as well: the clocks differ.
    pub(super) fn age(&self) -> Duration {
        Duration::from_micros(now_us().abs_diff(self.at_us))
    }

    /// Returns whether the run continues the job of this manifest, and doesn't replace it.
    pub(super) fn continues(&self, manifest: &Manifest) -> bool {
        self.run.job_started_at.as_ref().is_none_or(|started_at| *started_at == manifest.started_at)
    }
}

impl Heartbeat {
    /// Sets the progress that heartbeats report from now on. The next one is written at once.
    pub(crate) fn report(&self, progress: Progress) {
        let mut state = self.lock();
        if !state.has_ended {
            (state.progress, state.is_due) = (Some(progress), true);
            self.changed.notify_all();
        }
    }

    /// Returns when the process before this one last wrote its heartbeat (RFC 3339, UTC), if that was killed, or its
    /// machine stopped.
    pub(crate) fn previous_killed_at(&self) -> Option<&str> {
        self.previous_killed_at.as_deref()
    }

    /// Sets the job that the run is of.
    pub(super) fn set_job(&self, started_at: &str) {
        self.lock().run.job_started_at = Some(started_at.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(directory: &Directory, run: RunDescription, now: Option<&Snapshot>) -> io::Result<()> {
        let progress = now.map(serde_json::to_value).transpose()?;
        let headgate_version = env!("CARGO_PKG_VERSION").into();
        let beat = Beat { at: now_text()?, at_us: now_us(), pid: process::id(), headgate_version, run, progress };
        let written = path_in(directory, &format!("{NAME}.new"));
        directory.create(&written, SHARED)?.write_all(&record::encode(&beat)?)?;
        directory.rename(&written, &path_in(directory, NAME))
    }

    fn write_until_end(&self, directory: &Directory) {
        let mut series = None;
        loop {
            let mut state = self.lock();
            if !state.is_due && !state.has_ended {
                state = self.changed.wait_timeout(state, INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
            }
            state.is_due = false;
            let (run, progress, has_ended) = (state.run.clone(), state.progress.clone(), state.has_ended);
            drop(state);
            let now = progress.map(|progress| progress());
            let job = run.job_started_at.clone();
            if !has_ended {
                let _ = Self::write(directory, run, now.as_ref());
            }
            if let (Some(now), Some(job)) = (&now, job) {
                series.get_or_insert_with(|| Series::open(directory, job)).record(now, has_ended);
            }
            if has_ended {
                return;
            }
        }
    }
}

impl HeartbeatThread {
    /// Writes the first heartbeat, and starts the thread for the others.
    pub(super) fn start(directory: &Directory, run: RunDescription) -> Self {
        let previous_killed_at = Beat::read(directory).map(|beat| beat.at);
        let _ = Heartbeat::write(directory, run.clone(), None);
        let state = State { run, progress: None, is_due: false, has_ended: false };
        let heartbeat = Arc::new(Heartbeat { previous_killed_at, state: Mutex::new(state), changed: Condvar::new() });
        let (of_thread, directory) = ((heartbeat.clone(), directory.clone()), directory.clone());
        let write = move || of_thread.0.write_until_end(&of_thread.1);
        let thread = Builder::new().name("headgate-heart".into()).spawn(write).ok();
        Self { directory, heartbeat, thread }
    }

    pub(super) fn heartbeat(&self) -> &Arc<Heartbeat> {
        &self.heartbeat
    }
}

impl Drop for HeartbeatThread {
    fn drop(&mut self) {
        self.heartbeat.lock().has_ended = true;
        self.heartbeat.changed.notify_all();
        let _ = self.thread.take().map(JoinHandle::join);
        let progress = self.heartbeat.lock().progress.take();
        // It may own the last reference to the run.
        drop(progress);
        let _ = self.directory.remove(&path_in(&self.directory, NAME));
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("run", &self.run).finish_non_exhaustive()
    }
}

fn path_in(directory: &Directory, name: &str) -> PathBuf {
    directory.path().join(OWN_DIRECTORY).join(name)
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_micros() as u64)
}
