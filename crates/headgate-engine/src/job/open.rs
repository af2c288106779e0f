//! Opens a job for this process: a new one, or one to resume.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use headgate_core::error::JobError;
use headgate_core::files::storage::{OpenStorage, Storage};
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::{IfExists, JobOptions};
use headgate_core::schedule::budget::Budgets;
use headgate_http::idempotency_key::KeySalt;
use headgate_table::parts::time::now_text;
use headgate_table::sink::Sink;
use headgate_table::source::compared::InputThen;
use headgate_table::source::fingerprint::Fingerprint;

use super::commit::Commit;
use super::delta;
use super::directory::JobDirectory;
use super::done_rows::DoneRows;
use super::free_space::shortage_after;
use super::heartbeat::{Heartbeat, RunDescription};
use super::manifest::{InputNow, Manifest};
use super::part_format::PartFormat;
use super::results::{Contents, Results};
use super::sink::DurableSink;
use super::watched::JobProgress;
use super::writer::{CommittedState, JobWriter, MonotonicClock, TrackedInput};
use crate::queue::responders::Responders;
use crate::queue::window::Window;

/// A job with its directory, locked for this process: a new job, or the stored one with the same options.
pub struct OpenJob {
    directory: JobDirectory,
    part_format: PartFormat,
    manifest: Manifest,
    is_new: bool,
    /// The job replaces existing results.
    replaces: bool,
    committed: CommittedState,
    done_rows: DoneRows,
    /// A note for the user.
    note: Option<Message>,
    input: Option<TrackedInput>,
    /// The earlier content of an input that was touched since. Before it is compared, nothing of the job may change.
    then: Option<InputThen>,
    /// No row is left to do.
    is_over: bool,
}

/// A job with a sink for its outcomes.
pub struct RunningJob {
    pub sink: Box<dyn Sink>,
    pub progress: Arc<JobProgress>,
    /// The hosts that responded in earlier runs. Those of this run are added, and each commit stores them.
    pub responders: Arc<Responders>,
    /// The budgets of the job, of which earlier runs may have used some.
    pub budgets: Arc<Budgets>,
    pub(crate) heartbeat: Arc<Heartbeat>,
}

impl OpenJob {
    /// Locks the directory and completes its newest commit. A new job writes nothing yet.
    ///
    /// `schema` is that of the results, `fingerprint` that of the input, `input_rows` the number of its rows if it is known.
    ///
    /// # Errors
    /// `Output`: the directory has files of another program, is locked by another process, is damaged, or has another job.
    /// `Usage`: the format can't hold the kept columns.
    pub fn open(
        path: &Path,
        options: &JobOptions,
        schema: &SchemaRef,
        fingerprint: Option<Fingerprint>,
        input_rows: Option<u64>,
        storage: &dyn OpenStorage,
    ) -> Result<Self, JobError> {
        let part_format = PartFormat::new(options.sink.format, schema)?;
        let fresh = options.sink.overwrites();
        let started_at = now_text().map_err(|error| JobError::internal(format!("the time: {error}")))?;
        let run = RunDescription {
            command: "fetch".into(),
            input: options.source.name().into_owned(),
            format: options.sink.format.name().into(),
            job_started_at: fresh.then(|| started_at.clone()),
        };
        let mut directory = JobDirectory::open_locked(path, fresh, run, storage)?;
        let found = if fresh { None } else { directory.manifest()? };
        let mut key_salt = None;
        if let Some(manifest) = found.filter(|manifest| !manifest.clearing) {
            let results = directory.recover(options.sink.keep_replaced)?;
            if results.newest.number > 0 {
                let then = results.newest.input.as_ref();
                let now = InputNow { fingerprint: fingerprint.as_ref(), is_compared_later: then.is_some() };
                let then = then.filter(|then| Some(&then.fingerprint) != fingerprint.as_ref()).cloned();
                let rows = results.newest.range.end;
                let then = then.map(|then| InputThen { rows: rows.or(then.rows), ..then });
                check_resume(path, &manifest, options, &now)?;
                directory.heartbeat().set_job(&manifest.started_at);
                if manifest.spec.source.kept_columns != options.source.kept_columns {
                    let shown = path.display();
                    return Err(JobError::output(format!(
                        "another process started the job in {shown} meanwhile: run the same command again to resume it"
                    )));
                }
                let done_rows = done_rows_of(&results.newest)?;
                let part_format = PartFormat::new(options.sink.format, schema)?;
                let manifest = manifest.resumed_with(options, fingerprint.as_ref());
                directory.update_manifest(&manifest)?;
                let note = results.note().map(Message::from);
                let mut committed: CommittedState = results.into();
                if then.is_some() && options.sink.allow_append {
                    // The number of rows is no longer known.
                    (committed.last.range.end, committed.last.finished) = (None, false);
                }
                let is_over = committed.last.is_over(options.source.max_rows);
                if !is_over {
                    committed.last.finished = false;
                    committed.last.max_rows = trial_rows(options, done_rows.watermark(), input_rows);
                }
                let is_over = is_over && then.is_none();
                return Ok(Self {
                    directory,
                    part_format,
                    manifest,
                    is_new: false,
                    replaces: false,
                    committed,
                    done_rows,
                    note,
                    input: None,
                    then,
                    is_over,
                });
            }
            // A job without commits is treated as new. But servers may have seen its keys.
            let now = InputNow { fingerprint: fingerprint.as_ref(), is_compared_later: false };
            key_salt = manifest.check(options, &now, path).is_ok().then_some(manifest.key_salt);
        }
        directory.heartbeat().set_job(&started_at);
        let key_salt = key_salt.map_or_else(KeySalt::random, Ok)?;
        let manifest =
            Manifest::new(options, fingerprint, input_rows, schema, started_at, key_salt, KeySalt::random()?);
        let replaces = fresh && directory.has_rows()?;
        let note = delta::undescribed(&manifest);
        let (mut committed, done_rows) = (CommittedState::zero(), DoneRows::default());
        committed.last.max_rows = trial_rows(options, 0, input_rows);
        (committed.last.next_part, committed.last.next_failed) = directory.first_numbers()?;
        Ok(Self {
            directory,
            part_format,
            manifest,
            is_new: true,
            replaces,
            committed,
            done_rows,
            note,
            input: None,
            then: None,
            is_over: false,
        })
    }

    /// Stores with each commit what was read of this input, so that a later run can recognize it.
    pub(crate) fn track(&mut self, input: TrackedInput) {
        self.input = Some(input);
    }

    /// Returns the earlier content that the input must be compared with, because it was touched since. `None`: it is unchanged.
    pub(crate) fn earlier_input(&self) -> Option<&InputThen> {
        self.then.as_ref()
    }

    /// Returns whether no row is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns whether replaced files of an earlier run are kept for readers.
    pub(crate) fn keeps_replaced(&self) -> bool {
        !self.committed.last.replaced.is_empty()
    }

    /// Returns whether the job has no commits.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns whether the job replaces existing results.
    pub(crate) fn replaces_results(&self) -> bool {
        self.replaces
    }

    /// Returns the note for the user on the directory.
    pub fn note(&self) -> Option<&Message> {
        self.note.as_ref()
    }

    /// Returns the files of the job.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        self.directory.storage()
    }

    /// Returns the salt for the keys of its rows.
    pub(crate) fn key_salt(&self) -> KeySalt {
        self.manifest.key_salt
    }

    pub(crate) fn heartbeat(&self) -> &Arc<Heartbeat> {
        self.directory.heartbeat()
    }

    pub(crate) fn is_resumable(&self) -> bool {
        self.manifest.input.fingerprint.is_some()
    }

    pub fn last_commit(&self) -> &Commit {
        &self.committed.last
    }

    pub fn done_rows(&self) -> &DoneRows {
        &self.done_rows
    }

    /// Begins the run. The files of an earlier job are removed now. If they are results, and the input may have no rows, they are
    /// removed when the first outcome arrives.
    pub fn start(
        mut self,
        options: &JobOptions,
        window: Arc<Window>,
        clock: MonotonicClock,
    ) -> Result<RunningJob, JobError> {
        let save_format = self.manifest.save_format();
        // Saved bodies are written before the first outcome arrives.
        let waits = self.replaces && !self.is_resumable() && save_format.is_none();
        if self.is_new {
            // Before results are removed.
            let storage = self.directory.storage();
            let earlier = if self.replaces { Results::read(storage, Contents::None).ok() } else { None };
            let removed = earlier.map_or(0, |results| results.newest.totals.bytes);
            let shortage = shortage_after(storage.as_ref(), options.sink.min_free, 0, removed);
            shortage.map_or(Ok(()), |shortage| Err(shortage.error))?;
        }
        if self.is_new && !waits {
            self.directory.begin(&self.manifest)?;
        }
        let (is_resumable, heartbeat) = (self.is_resumable(), self.heartbeat().clone());
        let begins_with = waits.then_some(self.manifest);
        let mut writer =
            JobWriter::new(self.directory, self.part_format, &options.sink, self.committed, "fetch", clock)?;
        if let Some(input) = self.input {
            writer.track(input);
        }
        if let Some(format) = save_format {
            writer.save_bodies(format);
        }
        let (progress, responders, budgets) = (writer.progress(), writer.responders(), writer.budgets());
        if !is_resumable {
            budgets.reserve_all();
        }
        let sink = DurableSink::new(writer, self.done_rows, window, begins_with, self.then.is_some(), self.is_over);
        Ok(RunningJob { sink: Box::new(sink), progress, responders, budgets, heartbeat })
    }
}

/// Returns the number of rows of a trial, which is not less than what is done; `None`: all rows are read.
fn trial_rows(options: &JobOptions, watermark: u64, input_rows: Option<u64>) -> Option<u64> {
    let rows = options.source.max_rows?.max(watermark);
    input_rows.is_none_or(|input_rows| rows < input_rows).then_some(rows)
}

pub(super) fn done_rows_of(commit: &Commit) -> Result<DoneRows, JobError> {
    commit.done_rows().map_err(|error| JobError::internal(format!("a commit: {error}")))
}

pub(super) fn check_resume(
    path: &Path,
    manifest: &Manifest,
    options: &JobOptions,
    input: &InputNow<'_>,
) -> Result<(), JobError> {
    let shown = path.display();
    if options.sink.if_exists == IfExists::Error {
        return Err(JobError::output(message!(
            "{shown} already contains the results of a job: resume it (without ",
            OptionName::IfExists.set("error"),
            "), replace them with ",
            OptionName::IfExists.set("overwrite"),
            ", or choose another ",
            OptionName::Output
        )));
    }
    if manifest.input.fingerprint.is_none() && input.fingerprint.is_none() {
        let name = if manifest.input.name == "-" { "standard input" } else { &manifest.input.name };
        return Err(JobError::output(message!(
            "{shown} already contains the results of a job that read {name}, which can't be read again, so the job can't be resumed: replace them with ",
            OptionName::IfExists.set("overwrite"),
            ", or choose another ",
            OptionName::Output
        )));
    }
    manifest.check(options, input, path)
}
