//! A job taken by this process: a new one, or one that goes on.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::JobOptions;
use headgate_http::idempotency_key::KeySalt;
use headgate_table::parts::time::now_text;
use headgate_table::sink::Sink;
use headgate_table::source::compared::InputThen;
use headgate_table::source::fingerprint::Fingerprint;

use super::commit::Commit;
use super::directory::JobDirectory;
use super::done_rows::DoneRows;
use super::manifest::{InputNow, Manifest};
use super::part_format::PartFormat;
use super::sink::DurableSink;
use super::storage::Storage;
use super::watched::Watched;
use super::writer::{JobWriter, MonotonicClock, Standing, TrackedInput};
use crate::queue::responders::Responders;
use crate::queue::window::Window;

/// A job's directory, taken by this process, that holds the job which the options ask for, or none.
pub struct OpenJob {
    directory: JobDirectory,
    part_format: PartFormat,
    manifest: Manifest,
    is_new: bool,
    /// It takes the place of results that are there.
    replaces: bool,
    standing: Standing,
    done_rows: DoneRows,
    /// What its user is told.
    note: Option<Message>,
    input: Option<TrackedInput>,
    /// What the input was, where it was touched since: before they are compared, nothing of the job may change.
    then: Option<InputThen>,
}

/// A job that results can be written to.
pub struct RunningJob {
    pub sink: Box<dyn Sink>,
    /// How far it is.
    pub watched: Arc<Watched>,
    /// The hosts that responded in its earlier runs: those of this run are noted here, and stored with each commit.
    pub responders: Arc<Responders>,
}

impl OpenJob {
    /// Takes the directory and brings it to where its newest commit says it is. Of a new job nothing is written yet.
    ///
    /// `schema` is that of the results, `fingerprint` that of the input, `input_rows` its rows where they are known.
    ///
    /// # Errors
    /// `Output`: the directory is somebody else's, is written to by another process, is damaged, or holds another job.
    /// `Usage`: the options do not go with what is kept.
    pub fn open(
        path: &Path,
        options: &JobOptions,
        schema: &SchemaRef,
        fingerprint: Option<Fingerprint>,
        input_rows: Option<u64>,
        storage: Arc<dyn Storage>,
    ) -> Result<Self, JobError> {
        let part_format = PartFormat::new(options.sink.format, schema)?;
        let fresh = options.sink.fresh;
        let directory = JobDirectory::claim(path, fresh, storage)?;
        let found = if fresh { None } else { directory.manifest()? };
        let mut key_salt = None;
        if let Some(manifest) = found.filter(|manifest| !manifest.clearing) {
            let results = directory.recover()?;
            if results.newest.number > 0 {
                let then = results.newest.input.as_ref();
                let now = InputNow { fingerprint: fingerprint.as_ref(), is_to_be_compared: then.is_some() };
                let then = then.filter(|then| Some(&then.fingerprint) != fingerprint.as_ref()).cloned();
                let rows = results.newest.range.end;
                let then = then.map(|then| InputThen { rows: rows.or(then.rows), ..then });
                check_resume(path, &manifest, options, &now)?;
                if manifest.spec.source.kept_columns != options.source.kept_columns {
                    let shown = path.display();
                    return Err(JobError::output(format!(
                        "the job in {shown} was begun meanwhile: run the same command again to go on with it"
                    )));
                }
                let done_rows = done_rows_of(&results.newest)?;
                let part_format = PartFormat::new(options.sink.format, schema)?;
                let manifest = manifest.resumed_with(options, fingerprint.as_ref());
                directory.renew(&manifest)?;
                let note = results.note().map(Message::from);
                let mut standing: Standing = results.into();
                if then.is_some() && options.sink.allow_grown {
                    // Nobody knows any more where it ends.
                    (standing.last.range.end, standing.last.finished) = (None, false);
                }
                return Ok(Self {
                    directory,
                    part_format,
                    manifest,
                    is_new: false,
                    replaces: false,
                    standing,
                    done_rows,
                    note,
                    input: None,
                    then,
                });
            }
            // It was begun and nothing came of it: as good as none. But servers may have seen its keys.
            let now = InputNow { fingerprint: fingerprint.as_ref(), is_to_be_compared: false };
            key_salt = manifest.check(options, &now, path).is_ok().then(|| manifest.key_salt());
        }
        let started_at = now_text().map_err(|error| JobError::internal(format!("the time: {error}")))?;
        let key_salt = key_salt.map_or_else(KeySalt::random, Ok)?;
        let manifest =
            Manifest::new(options, fingerprint, input_rows, schema, started_at, key_salt, KeySalt::random()?);
        let replaces = fresh && directory.holds_rows()?;
        let (standing, done_rows) = (Standing::zero(), DoneRows::default());
        Ok(Self {
            directory,
            part_format,
            manifest,
            is_new: true,
            replaces,
            standing,
            done_rows,
            note: None,
            input: None,
            then: None,
        })
    }

    /// What is read from now on is remembered, to be known again.
    pub fn track(&mut self, input: TrackedInput) {
        self.input = Some(input);
    }

    /// What the input was that it is to be compared with, as it was touched since. `None`: it is to be taken for the same.
    pub fn to_compare_with(&self) -> Option<&InputThen> {
        self.then.as_ref()
    }

    /// Whether nothing is left to be done.
    pub fn is_over(&self) -> bool {
        self.last_commit().finished && self.then.is_none()
    }

    /// Whether nothing of it was done before.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether results that are there are to be removed for it.
    pub fn replaces_results(&self) -> bool {
        self.replaces
    }

    /// Something about its directory that its user should know.
    pub fn note(&self) -> Option<&Message> {
        self.note.as_ref()
    }

    /// What keys of its rows follow from.
    pub fn key_salt(&self) -> KeySalt {
        self.manifest.key_salt()
    }

    pub fn is_resumable(&self) -> bool {
        self.manifest.input.fingerprint.is_some()
    }

    /// How far it is.
    pub fn last_commit(&self) -> &Commit {
        &self.standing.last
    }

    /// Which rows are done.
    pub fn done_rows(&self) -> &DoneRows {
        &self.done_rows
    }

    /// Begins the run. What an earlier job left is removed now; if it is results, and nobody knows yet whether the input has
    /// a row, when there is the first outcome.
    pub fn start(
        self,
        options: &JobOptions,
        window: Arc<Window>,
        clock: MonotonicClock,
    ) -> Result<RunningJob, JobError> {
        let saves = self.manifest.saves();
        // Files are written beside what is there before the first outcome comes.
        let waits = self.replaces && !self.is_resumable() && saves.is_none();
        if self.is_new && !waits {
            self.directory.begin(&self.manifest)?;
        }
        let begins_with = waits.then_some(self.manifest);
        let mut writer =
            JobWriter::new(self.directory, self.part_format, &options.sink, self.standing, "fetch", clock)?;
        if let Some(input) = self.input {
            writer.track(input);
        }
        if let Some(format) = saves {
            writer.save_bodies(format);
        }
        let (watched, responders) = (writer.watched(), writer.responders());
        let sink = DurableSink::new(writer, self.done_rows, window, begins_with, self.then.is_some());
        Ok(RunningJob { sink: Box::new(sink), watched, responders })
    }
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
    if !options.sink.resume {
        return Err(JobError::output(message!(
            "{shown} already holds the results of a job: resume it (without ",
            OptionName::Resume.set(false),
            "), replace them with ",
            OptionName::Fresh.set(true),
            ", or choose another ",
            OptionName::Output
        )));
    }
    if manifest.input.fingerprint.is_none() && input.fingerprint.is_none() {
        let name = if manifest.input.name == "-" { "standard input" } else { &manifest.input.name };
        return Err(JobError::output(message!(
            "{shown} already holds the results of a job that read {name}, which can't be read again, so the job can't be resumed: replace them with ",
            OptionName::Fresh.set(true),
            ", or choose another ",
            OptionName::Output
        )));
    }
    manifest.check(options, input, path)
}
