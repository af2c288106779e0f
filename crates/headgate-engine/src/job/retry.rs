//! Retries rows: reads one `failed-*` part after another, and each `part-*` if rows that succeeded are retried as well. The
//! parts of the rows are replaced in one commit. Rows that succeed now are in a `part-*` then. The attempts of a row add up.
//!
//! A retry works in rounds: the source reads the rows of one part, or of a few small ones, and continues with the next parts
//! when the sink has replaced these. Of a round's rows, compressed sets of their numbers are kept in memory. A round may take long. So that a
//! crash loses no more of it than of any run, its parts are also replaced at intervals, with the outcomes so far.

mod earlier_errors;
mod only;
mod rounds;
mod sink;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{Fields, SchemaRef};
use headgate_core::boundary_salt::BoundarySalt;
use headgate_core::credentials::credential_options;
use headgate_core::defaults::DEFAULT_USER_AGENT;
use headgate_core::error::{ErrorKind, JobError};
use headgate_core::files::storage::{OpenStorage, Storage};
use headgate_core::grouped::grouped;
use headgate_core::inherited::inherit;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::option_rules::Mistake;
use headgate_core::options::{JobOptions, Output, SelectionOptions, SourceOptions};
use headgate_core::row::RowBatch;
use headgate_core::source_size::SourceSize;
use headgate_http::idempotency_key::KeySalt;
use headgate_table::columns::result::ResultColumns;
use headgate_table::parts::name::PartKind;
use headgate_table::parts::read::read_columns;
use headgate_table::source::compared::{Beyond, Comparison};
use headgate_table::source::content::{Content, Unread};
use headgate_table::source::fingerprint::Fingerprint;
use headgate_table::source::selected::Selected;
use headgate_table::source::{self, Reopener, Source};

use super::commit::PartRecord;
use super::credential_scope;
use super::directory::JobDirectory;
use super::done_rows::DoneRows;
use super::heartbeat::RunDescription;
use super::log::CommitLog;
use super::manifest::{InputNow, Manifest};
use super::open::{RunningJob, done_rows_of};
use super::part_format::PartFormat;
use super::records::{OUTCOME_COLUMNS, attempts_of, outcomes, rows};
use super::status;
use super::writer::{CommittedState, JobWriter, MonotonicClock};

pub use self::only::Only;
use self::rounds::{RetryRound, Rounds};
use self::sink::RetrySink;

/// The rows of the parts of a round, retried or not: each commit rewrites all of them. The last part may exceed this.
const ROUND_ROWS: u64 = 65_536;

/// The options of a retry.
#[derive(Debug, Clone, Default)]
pub struct RetryOptions {
    /// The job's directory.
    pub output: PathBuf,
    /// The rows to retry. Empty: all that failed, except invalid requests.
    pub only: Vec<Only>,
    /// The options for how the work is done. Options that belong to the job (input, columns, method …) are replaced by those of
    /// the job. Values of headers and bodies are not stored: they must be the same as in the job.
    pub job: JobOptions,
}

impl RetryOptions {
    /// Returns the mistake in the directory of the job, if there is one.
    pub fn mistake(&self) -> Option<Mistake> {
        let message = match self.output.to_str() {
            Some("") => "is missing: name the directory of a job",
            Some("-") => "must be the directory of a job: what went to standard output is not recorded",
            _ => return None,
        };
        Some(Mistake { option: OptionName::Output, message: message.into() })
    }
}

/// A job's directory, locked for this process, with rows to retry.
pub struct OpenRetry {
    directory: JobDirectory,
    part_format: PartFormat,
    schema: SchemaRef,
    committed: CommittedState,
    done_rows: DoneRows,
    rounds: Arc<Rounds>,
    includes_succeeded: bool,
    key_salt: KeySalt,
    notes: Vec<Message>,
}

/// The parts of a retry: its sink, its source, and the options.
pub struct Retry {
    pub job: OpenRetry,
    pub source: Box<dyn Source>,
    pub columns: ResultColumns,
    pub options: JobOptions,
}

impl OpenRetry {
    /// Opens the job. `check` checks its options, including those that are stored.
    ///
    /// # Errors
    /// `Output`: there is no job, another process writes to it, it is damaged, or headers or bodies differ from its own. `Input`:
    /// its input can't be read any more. Errors of `check`.
    pub fn open(
        options: RetryOptions,
        check: impl FnOnce(&JobOptions) -> Result<(), JobError>,
        storage: &dyn OpenStorage,
    ) -> Result<Retry, JobError> {
        let RetryOptions { output, only, job } = options;
        let opened = status::open(&output)?;
        let manifest = status::manifest(&opened)?;
        let mut job = with_manifest(job, &manifest, &output)?;
        // What was set last is inherited instead of what was given.
        let mut stored = manifest.inherited.clone();
        // A log that can't be read is an error once the job is locked.
        if let Some(log) = CommitLog::new(opened).read().ok().flatten() {
            stored.extend(log.newest.set);
            // A budget is that of the last run, which may have been a retry.
            for (option, budget) in
                [(OptionName::MaxRequests, log.newest.requests), (OptionName::MaxCost, log.newest.cost)]
            {
                stored.remove(option.name());
                stored.extend(budget.max.map(|max| (option.name().to_owned(), max.to_string())));
            }
        }
        let inherited = inherit(&mut job, &stored)?;
        check(&job)?;
        let run = RunDescription::of_job("retry", &manifest);
        let mut directory = JobDirectory::open_locked(&output, false, run, storage)?;
        if directory.manifest()? != Some(manifest.clone()) {
            let shown = output.display();
            return Err(JobError::output(format!(
                "the job in {shown} was started over meanwhile: see headgate status"
            )));
        }
        let fingerprint =
            source::open::fingerprint(&job.source).map_err(|error| with_advice_on_moves(&error, &output))?;
        let results = directory.recover(job.sink.keep_replaced)?;
        let then = results.newest.input.clone();
        let now = InputNow { fingerprint: fingerprint.as_ref(), is_compared_later: then.is_some() };
        let sends_credentials = credential_options(&job).next().is_some();
        let includes_succeeded = Only::may_match_succeeded(&only, &job.request.fail_on, sends_credentials);
        if includes_succeeded && job.source.save_to.is_some() {
            let why =
                " names statuses of succeeded rows, whose bodies are saved as files already: name failed rows only";
            return Err(JobError::usage(message!(OptionName::Only, why)));
        }
        // Without rows to retry, the options do not matter.
        let has_rows = includes_succeeded || count_matching(&results.newest.totals.errors, &only) > 0;
        if has_rows {
            manifest.check_retry(&job, &now, &output)?;
        }
        let done_rows = done_rows_of(&results.newest)?;
        let content = then.as_ref().map(|then| then.content.clone());
        let is_unchanged = fingerprint == manifest.input.fingerprint;
        let mut first = open_input(&job.source, fingerprint.as_ref(), content.as_ref())
            .map_err(|error| if is_unchanged { error } else { with_advice_on_moves(&error, &output) })?;
        if let Some(then) = then.filter(|then| Some(&then.fingerprint) != fingerprint.as_ref()) {
            // All rows to retry were read from the earlier content.
            let comparison = Comparison { options: job.source.clone(), then, beyond: Beyond::Anything };
            first.check_first(comparison.into_check());
        }
        let columns = ResultColumns::new(&job.source, &job.selection, first.kept_fields())?;
        let schema = columns.schema();
        let part_format = PartFormat::new(job.sink.format, &schema)?;

        let parts: Vec<_> = results
            .parts
            .iter()
            .filter(|part| includes_succeeded || part.kind() == PartKind::Failed)
            .cloned()
            .collect();
        let rounds = Arc::<Rounds>::default();
        let errors = &results.newest.totals.errors;
        let left_out = note_on_invalid_rows(errors, &only);
        let source = RetrySource {
            options: job.source.clone(),
            fingerprint,
            content,
            storage: directory.storage().clone(),
            schema: schema.clone(),
            // The commit does not have the statuses of succeeded rows.
            rows: (!includes_succeeded).then(|| count_matching(errors, &only)),
            only,
            kept: columns.kept.clone(),
            parts: parts.into_iter(),
            input: Selected::new(first, &job.source.name()),
            stage: Stage::BetweenRounds,
            round_bytes: job.sink.part_size,
            rounds: rounds.clone(),
        };
        let key_salt = manifest.key_salt;
        let inherited = note_on_inherited(inherited).filter(|_| has_rows);
        let notes = results.note().map(Message::from).into_iter().chain(left_out).chain(inherited).collect();
        let open = Self {
            directory,
            part_format,
            schema,
            committed: results.into(),
            done_rows,
            rounds,
            includes_succeeded,
            key_salt,
            notes,
        };
        Ok(Retry { job: open, source: Box::new(source), columns, options: job })
    }

    /// Returns the notes for the user.
    pub(crate) fn notes(&self) -> &[Message] {
        &self.notes
    }

    /// Returns the files of the job.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        self.directory.storage()
    }

    /// Returns the salt for the keys of its rows.
    pub(crate) fn key_salt(&self) -> KeySalt {
        self.key_salt
    }

    pub(crate) fn start(self, options: &JobOptions, clock: MonotonicClock) -> Result<RunningJob, JobError> {
        let heartbeat = self.directory.heartbeat().clone();
        let mut writer =
            JobWriter::new(self.directory, self.part_format, &options.sink, self.committed, "retry", clock)?;
        if options.source.save_to.is_some() {
            writer.save_bodies(options.source.save_format);
        }
        let (progress, responders, budgets) = (writer.progress(), writer.responders(), writer.budgets());
        let sink = RetrySink::new(writer, self.done_rows, self.schema, self.rounds, self.includes_succeeded);
        Ok(RunningJob { sink: Box::new(sink), progress, responders, budgets, heartbeat })
    }
}

/// Returns the options of the job, with those of the retry for how the work is done.
fn with_manifest(mut job: JobOptions, manifest: &Manifest, output: &Path) -> Result<JobOptions, JobError> {
    if manifest.input.fingerprint.is_none() {
        return Err(JobError::output(format!(
            "the job in {} read {}, which can't be read again: its rows can't be retried",
            output.display(),
            manifest.input.name
        )));
    }
    let spec = &manifest.spec;
    let boundary_salt = BoundarySalt::default();
    boundary_salt.set(manifest.key_salt.bytes());
    let path = manifest.input.path.as_ref().map(|path| path.display().to_string());
    job.source = SourceOptions {
        input: path.unwrap_or_else(|| manifest.input.name.clone()),
        more_inputs: manifest.input.more_paths.iter().map(|path| path.display().to_string()).collect(),
        cost_column: job.source.cost_column,
        templates: job.source.templates,
        boundary_salt,
        ..spec.source.clone()
    };
    job.sink.output = Output::Directory(output.to_owned());
    job.sink.format = manifest.spec.format;
    job.request.method.clone_from(&spec.method);
    job.request.fail_on = spec.fail_on.parse().map_err(|error: String| JobError::output(error))?;
    job.request.response.clone_from(&spec.response);
    job.selection = SelectionOptions { cost_from_response: job.selection.cost_from_response, ..spec.selection.clone() };
    job.request.network.add(&spec.network);
    job.request.user_agent = spec.user_agent.clone().unwrap_or_else(|| DEFAULT_USER_AGENT.into());
    credential_scope::complete(&mut job, &manifest.credentials_for)?;
    Ok(job)
}

/// Adds the advice for an input that was moved: `headgate fetch` stores its new path.
fn with_advice_on_moves(error: &JobError, output: &Path) -> JobError {
    let message = message!(
        error.message.clone(),
        "; if it was moved, run headgate fetch once with it where it is now and ",
        OptionName::Output.set(output),
        ", as the job was started"
    );
    JobError { kind: error.kind, message }
}

/// Opens the input, if it is the same as when the retry began.
fn open_input(
    options: &SourceOptions,
    fingerprint: Option<&Fingerprint>,
    content: Option<&Content>,
) -> Result<Box<dyn Source>, JobError> {
    let mut source = source::open::open(options)?;
    if source.fingerprint().as_ref() == fingerprint {
        if content.is_some() {
            source.track(&options.name(), content, Unread::Trusted)?;
        }
        return Ok(source);
    }
    Err(JobError::input(format!(
        "{}: it was replaced or changed since the retry began: restore the original file and retry again",
        options.name()
    )))
}

/// Returns the number of failed rows to retry.
fn count_matching(errors: &BTreeMap<String, u64>, only: &[Only]) -> u64 {
    errors.iter().filter(|(kind, _)| Only::any(only, kind)).map(|(_, count)| count).sum()
}

/// Returns a note that invalid requests are not retried, unless the user named that kind.
fn note_on_invalid_rows(errors: &BTreeMap<String, u64>, only: &[Only]) -> Option<Message> {
    let kind = ErrorKind::InvalidRequest.name();
    let rows = errors.get(kind).copied().filter(|_| only.is_empty())?;
    let singular = "row was left out, because its request is";
    let plural = "rows were left out, because their requests are";
    let (rows, what) = (grouped(rows), if rows == 1 { singular } else { plural });
    Some(message!("{rows} failed {what} invalid; to retry anyway, use ", OptionName::Only.set(kind)))
}

/// Returns a note on the options that the retry has from its job, if there are any.
fn note_on_inherited(inherited: Vec<(OptionName, String)>) -> Option<Message> {
    let options: Vec<Message> = inherited.into_iter().map(|(option, text)| option.set(&*text).into()).collect();
    (!options.is_empty()).then(|| message!("as the job was run: ", Message::joined(options, ", ")))
}

/// The progress of a retry's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    BetweenRounds,
    InRound,
    /// All rows of the round were returned. They must be done before the next round.
    RoundIsRead,
}

/// Reads failed rows from the input again.
struct RetrySource {
    options: SourceOptions,
    fingerprint: Option<Fingerprint>,
    /// The content of the input that earlier runs have read.
    content: Option<Content>,
    storage: Arc<dyn Storage>,
    schema: SchemaRef,
    /// The number of rows to retry, if it is known.
    rows: Option<u64>,
    only: Vec<Only>,
    kept: Fields,
    /// The parts of later rounds.
    parts: std::vec::IntoIter<PartRecord>,
    input: Selected,
    stage: Stage,
    /// The bytes of the parts of a round. The last part may exceed this.
    round_bytes: u64,
    rounds: Arc<Rounds>,
}

impl Source for RetrySource {
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError> {
        loop {
            match self.stage {
                Stage::InRound => {
                    if let Some(batch) = self.input.next_batch()? {
                        return Ok(Some(batch));
                    }
                    self.stage = Stage::RoundIsRead;
                    return Ok(Some(RowBatch::new()));
                }
                Stage::RoundIsRead if !self.rounds.wait_until_replaced() => return Ok(None),
                Stage::RoundIsRead | Stage::BetweenRounds => {}
            }
            let Some(round) = self.next_round()? else { return Ok(None) };
            let rows = round.tried.rows();
            // A part without rows to retry: the run may have been stopped meanwhile.
            let Some(first) = rows.min() else { return Ok(Some(RowBatch::new())) };
            if first < self.input.position() {
                // Parts are not in the order of the input, and a source only reads forward.
                self.input = Selected::new(
                    open_input(&self.options, self.fingerprint.as_ref(), self.content.as_ref())?,
                    &self.options.name(),
                );
            }
            self.input.select(rows)?;
            self.rounds.begin(round);
            self.stage = Stage::InRound;
        }
    }

    fn skip_to(&mut self, _ordinal: u64) -> Result<(), JobError> {
        Err(JobError::internal("failed rows are not skipped"))
    }

    fn size(&self) -> SourceSize {
        SourceSize { rows: self.rows, ..SourceSize::default() }
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        self.fingerprint.clone()
    }

    fn reopener(&self) -> Option<Reopener> {
        self.input.reopener()
    }

    fn note(&self) -> Option<Message> {
        self.input.note()
    }

    fn kept_fields(&self) -> Fields {
        self.kept.clone()
    }
}

impl RetrySource {
    /// Returns the next parts with rows to retry, or one part without such rows; `None`: there are no more parts.
    fn next_round(&mut self) -> Result<Option<RetryRound>, JobError> {
        let (mut round, mut rows, mut bytes) = (RetryRound::default(), 0, 0);
        let mut is_end = true;
        while rows < ROUND_ROWS
            && bytes < self.round_bytes
            && let Some(part) = self.parts.next()
        {
            is_end = false;
            if !self.add_rows(&part, &mut round)? {
                break;
            }
            rows += part.rows;
            bytes += part.bytes;
            round.parts.push(part);
        }
        Ok((!is_end).then_some(round))
    }

    /// Adds the rows of a part that are to be retried. Returns whether there are any.
    fn add_rows(&self, part: &PartRecord, round: &mut RetryRound) -> Result<bool, JobError> {
        let path = self.storage.path().join(&part.name);
        let (mut has_rows, is_failed) = (false, part.kind() == PartKind::Failed);
        for batch in read_columns(self.storage.as_ref(), &path, part.crc32, &self.schema, &OUTCOME_COLUMNS)? {
            let batch = batch?;
            let tried = attempts_of(&batch)?.values();
            for ((row, tried), outcome) in rows(&batch)?.into_iter().zip(tried).zip(outcomes(&batch)) {
                if Only::any(&self.only, &outcome) {
                    round.tried.add(row as u64, u16::try_from(*tried).unwrap_or_default());
                    has_rows = true;
                }
            }
            if is_failed {
                let RetryRound { errors, tried, .. } = round;
                errors.add(&batch, |row| tried.of(row).is_some())?;
            }
        }
        Ok(has_rows)
    }
}
