//! Asking failed rows again: one `failed-*` part after another is read, its rows are asked, and it is replaced by one commit. Rows
//! answered this time move to a `part-*`; the others keep their history: their attempts add up.
//!
//! Source and sink of such a run take rounds: the source gives the rows of one part, or of a few small ones, and those of the
//! next only when the sink has replaced the first. What is held is the numbers of a round's rows. A round may take long; so
//! that a crash costs no more of it than of any run, its parts are replaced every now and then, with what is known by then.

mod only;
mod rounds;
mod sink;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{Fields, SchemaRef};
use headgate_core::boundary_salt::BoundarySalt;
use headgate_core::defaults::DEFAULT_USER_AGENT;
use headgate_core::error::{ErrorKind, JobError};
use headgate_core::files::Directory;
use headgate_core::grouped::grouped;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::option_rules::Mistake;
use headgate_core::options::{JobOptions, Output, SelectionOptions, SourceOptions};
use headgate_core::row::RowBatch;
use headgate_core::source_size::SourceSize;
use headgate_http::idempotency_key::KeySalt;
use headgate_table::columns::result::ResultColumns;
use headgate_table::parts::read::read_part;
use headgate_table::source::compared::{Beyond, Comparison};
use headgate_table::source::content::{Content, Unread};
use headgate_table::source::fingerprint::Fingerprint;
use headgate_table::source::selected::Selected;
use headgate_table::source::{self, Reopener, Source};

use super::commit::PartRecord;
use super::credential_scope;
use super::directory::JobDirectory;
use super::done_rows::DoneRows;
use super::manifest::{InputNow, Manifest};
use super::open::{RunningJob, done_rows_of};
use super::part_format::PartFormat;
use super::records::{attempts_of, kinds, rows};
use super::status;
use super::storage::Storage;
use super::writer::{JobWriter, MonotonicClock, Standing};

pub use self::only::Only;
use self::rounds::{Round, Rounds};
use self::sink::RetrySink;

/// Rows of the parts of a round, asked or not: all are written anew with each commit. The last part may go beyond.
const ROUND_ROWS: u64 = 65_536;

/// Which rows to ask again, and how.
#[derive(Debug, Clone, Default)]
pub struct RetryOptions {
    /// The job's directory.
    pub output: PathBuf,
    /// Empty: all rows that failed, but for those that are no valid requests.
    pub only: Vec<Only>,
    /// How the work is done. What belongs to the job (input, columns, method …) is the job's own, but for headers and body, whose values are
    /// not stored: they must be those of the job.
    pub job: JobOptions,
}

impl RetryOptions {
    /// Returns the mistakes in where the job is.
    pub fn mistakes(&self) -> Option<Mistake> {
        let message = match self.output.to_str() {
            Some("") => "is missing: name the directory of a job",
            Some("-") => "must be the directory of a job: what went to standard output is not remembered",
            _ => return None,
        };
        Some(Mistake { option: OptionName::Output, message: message.into() })
    }
}

/// A job's directory, taken by this process, with rows to be asked again.
pub struct OpenRetry {
    directory: JobDirectory,
    part_format: PartFormat,
    schema: SchemaRef,
    standing: Standing,
    done_rows: DoneRows,
    rounds: Arc<Rounds>,
    key_salt: KeySalt,
    notes: Vec<Message>,
}

/// What a retry needs: where outcomes go, where rows come from, and how.
pub struct Retry {
    pub job: OpenRetry,
    pub source: Box<dyn Source>,
    pub columns: ResultColumns,
    pub options: JobOptions,
}

impl OpenRetry {
    /// `check`: what all options of a job must pass, those that are the job's own among them.
    ///
    /// # Errors
    /// `Output`: there is no job, another process writes to it, or it is damaged. `Input`: its input can't be read any more.
    /// `Usage`: headers or body are not those of the job. Those of `check`.
    pub fn open(
        options: RetryOptions,
        check: impl FnOnce(&JobOptions) -> Result<(), JobError>,
        storage: Arc<dyn Storage>,
    ) -> Result<Retry, JobError> {
        let RetryOptions { output, only, job } = options;
        let manifest = status::manifest(&output)?;
        let job = with_manifest(job, &manifest, &output)?;
        check(&job)?;
        let directory = JobDirectory::claim(&output, false, storage)?;
        if directory.manifest()? != Some(manifest.clone()) {
            let shown = output.display();
            return Err(JobError::output(format!(
                "the job in {shown} was started over meanwhile: see headgate status"
            )));
        }
        let fingerprint = source::open::fingerprint(&job.source).map_err(|error| moved(&error, &output))?;
        let results = directory.recover()?;
        let then = results.newest.input.clone();
        let now = InputNow { fingerprint: fingerprint.as_ref(), is_to_be_compared: then.is_some() };
        // Where no row is asked again, nobody needs to know how.
        if matching(&results.newest.totals.errors, &only) > 0 {
            manifest.check_retry(&job, &now, &output)?;
        }
        let done_rows = done_rows_of(&results.newest)?;
        let content = then.as_ref().map(|then| then.content.clone());
        let is_there = fingerprint == manifest.input.fingerprint;
        let mut first = open_input(&job.source, fingerprint.as_ref(), content.as_ref())
            .map_err(|error| if is_there { error } else { moved(&error, &output) })?;
        if let Some(then) = then.filter(|then| Some(&then.fingerprint) != fingerprint.as_ref()) {
            // All rows that are asked again were read then.
            let comparison = Comparison { options: job.source.clone(), then, beyond: Beyond::Anything };
            first.check_first(comparison.into_check());
        }
        let columns = ResultColumns::new(&job.source, &job.selection, first.kept_fields())?;
        let schema = columns.schema();
        let part_format = PartFormat::new(job.sink.format, &schema)?;

        let parts: Vec<_> = results.parts.iter().filter(|part| part.is_failed()).cloned().collect();
        let rounds = Arc::<Rounds>::default();
        let errors = &results.newest.totals.errors;
        let left_out = note_left_out(errors, &only);
        let source = RetrySource {
            options: job.source.clone(),
            fingerprint,
            content,
            directory: directory.opened().clone(),
            schema: schema.clone(),
            rows: matching(errors, &only),
            only,
            kept: columns.kept.clone(),
            parts: parts.into_iter(),
            input: Selected::new(first, &job.source.name(), Vec::new()),
            stage: Stage::BetweenRounds,
            round_bytes: job.sink.part_bytes,
            rounds: rounds.clone(),
        };
        let key_salt = manifest.key_salt();
        let notes = results.note().map(Message::from).into_iter().chain(left_out).collect();
        let open =
            Self { directory, part_format, schema, standing: results.into(), done_rows, rounds, key_salt, notes };
        Ok(Retry { job: open, source: Box::new(source), columns, options: job })
    }

    /// What its user should know.
    pub(crate) fn notes(&self) -> &[Message] {
        &self.notes
    }

    /// What keys of its rows follow from.
    pub(crate) fn key_salt(&self) -> KeySalt {
        self.key_salt
    }

    pub(crate) fn start(self, options: &JobOptions, clock: MonotonicClock) -> Result<RunningJob, JobError> {
        let mut writer =
            JobWriter::new(self.directory, self.part_format, &options.sink, self.standing, "retry", clock)?;
        if options.source.save_to.is_some() {
            writer.save_bodies(options.source.save_format);
        }
        let (watched, responders) = (writer.watched(), writer.responders());
        let sink = RetrySink::new(writer, self.done_rows, self.schema, self.rounds);
        Ok(RunningJob { sink: Box::new(sink), watched, responders })
    }
}

/// The options of the job, with those of the retry for how the work is done.
fn with_manifest(mut job: JobOptions, manifest: &Manifest, output: &Path) -> Result<JobOptions, JobError> {
    if manifest.input.fingerprint.is_none() {
        return Err(JobError::output(format!(
            "the job in {} read {}, which can't be read again: its failed rows can't be requested again",
            output.display(),
            manifest.input.name
        )));
    }
    let spec = &manifest.spec;
    let boundary_salt = BoundarySalt::default();
    boundary_salt.set(manifest.key_salt().bytes());
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
    job.selection = SelectionOptions { cost_from: job.selection.cost_from, ..spec.selection.clone() };
    job.request.network.add(&spec.network);
    job.request.user_agent = spec.user_agent.clone().unwrap_or_else(|| DEFAULT_USER_AGENT.into());
    credential_scope::complete(&mut job, &manifest.credentials_for)?;
    Ok(job)
}

/// An input that is not where it was can be named to `headgate fetch`, which then remembers it.
fn moved(error: &JobError, output: &Path) -> JobError {
    let message = message!(
        error.message.clone(),
        "; if it was moved, run headgate fetch once with it where it is now and ",
        OptionName::Output.set(output),
        ", as the job was begun"
    );
    JobError { kind: error.kind, message }
}

/// The input, if it is still the one of the job.
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

/// How many failed rows there are of those that are wanted.
fn matching(errors: &BTreeMap<String, u64>, only: &[Only]) -> u64 {
    errors.iter().filter(|(kind, _)| Only::any(only, kind)).map(|(_, count)| count).sum()
}

/// That rows are not asked again which nobody has named.
fn note_left_out(errors: &BTreeMap<String, u64>, only: &[Only]) -> Option<Message> {
    let kind = ErrorKind::InvalidRequest.name();
    let rows = errors.get(kind).copied().filter(|_| only.is_empty())?;
    let singular = "row was left out, because its request is";
    let plural = "rows were left out, because their requests are";
    let (rows, what) = (grouped(rows), if rows == 1 { singular } else { plural });
    Some(message!("{rows} failed {what} invalid; to retry anyway, use ", OptionName::Only.set(kind)))
}

/// How far the source of a retry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    BetweenRounds,
    InRound,
    /// All its rows were handed on. Before the next one they must be done.
    RoundIsRead,
}

/// Failed rows, taken from the input again.
struct RetrySource {
    options: SourceOptions,
    fingerprint: Option<Fingerprint>,
    /// What was read of it when the job was done.
    content: Option<Content>,
    directory: Directory,
    schema: SchemaRef,
    rows: u64,
    only: Vec<Only>,
    kept: Fields,
    /// Parts that are not begun.
    parts: std::vec::IntoIter<PartRecord>,
    input: Selected,
    stage: Stage,
    /// Bytes of the parts of a round; the last one may go beyond.
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
            let round = self.next_round()?;
            let rows = round.rows();
            let Some(first) = rows.first() else { return Ok(None) };
            if *first < self.input.position() {
                // Parts are not in the order of the input, and a source goes forward only.
                self.input = Selected::new(
                    open_input(&self.options, self.fingerprint.as_ref(), self.content.as_ref())?,
                    &self.options.name(),
                    Vec::new(),
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
        SourceSize { rows: Some(self.rows), ..SourceSize::default() }
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
    /// The next parts with rows that are to be asked again. No rows: there are no more.
    fn next_round(&mut self) -> Result<Round, JobError> {
        let (mut parts, mut attempts, mut rows, mut bytes) = (Vec::new(), Vec::new(), 0, 0);
        while rows < ROUND_ROWS
            && bytes < self.round_bytes
            && let Some(part) = self.parts.next()
        {
            let before = attempts.len();
            self.add_attempts(&part, &mut attempts)?;
            if attempts.len() > before {
                rows += part.rows;
                bytes += part.bytes;
                parts.push(part);
            }
        }
        Ok(Round::new(parts, attempts))
    }

    fn add_attempts(&self, part: &PartRecord, attempts: &mut Vec<(u64, i16)>) -> Result<(), JobError> {
        let path = self.directory.path().join(&part.name);
        for batch in read_part(&self.directory, &path, part.crc32, &self.schema)? {
            let batch = batch?;
            let tried = attempts_of(&batch)?.values().to_vec();
            let wanted = kinds(&batch).into_iter().map(|kind| Only::any(&self.only, &kind));
            let rows = rows(&batch)?.into_iter().zip(tried).zip(wanted);
            attempts.extend(rows.filter(|(_, wanted)| *wanted).map(|((row, tried), _)| (row as u64, tried)));
        }
        Ok(())
    }
}
