//! What a job would do, without doing it: how many rows there are, which requests they make and to which hosts, and how
//! fast the options let them proceed. Nothing is sent, and nothing is created.
//!
//! At most the first [`MAX_ROWS`](sample) rows are sampled, and made into requests by the code that sends them. The figures
//! of the other rows are extrapolated, which is inaccurate for a list that is sorted by host.

mod budget;
mod ceilings;
mod disk;
mod equal;
mod hosts;
mod invalid;
mod masked;
mod sample;
mod size;

use std::fs;

use serde::Serialize;

pub(crate) use self::budget::ExpectedUse;
pub(crate) use self::ceilings::Ceiling;
use self::ceilings::{AssumedLatency, SampledWork, ceilings};
pub(crate) use self::disk::DiskUse;
use self::disk::KnownResults;
pub(crate) use self::hosts::HostRows;
pub(crate) use self::invalid::InvalidCause;
pub(crate) use self::masked::PlannedRequest;
use self::sample::InputSample;
pub(crate) use self::size::Size;
use headgate_core::boundary_salt::BoundarySalt;
use headgate_core::credentials::credential_options;
use headgate_core::error::JobError;
use headgate_core::limits::HostBy;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::network_options::NetworkOptions;
use headgate_core::options::{Format, JobOptions, Output, RequestOptions, SourceOptions};
use headgate_core::secret::MASK;
use headgate_http::defaults::Defaults;
use headgate_http::dial::transport::TransportConfigs;
use headgate_http::idempotency_key::KeySalt;
use headgate_table::columns::result::ResultColumns;
use headgate_table::source::{self, Source};

use crate::engine::machine;
use crate::engine::memory_limit::MemoryLimit;
use crate::job::control::ControlFiles;
use crate::job::look::{FoundJob, inspect};
use crate::job::{DoneRows, no_rows_for};
use crate::run::checks::{check, check_ports, local_ports, note_window};
use crate::run::job::completed;
use crate::run::live::in_force;

/// The result. Python reads it as JSON, under these names.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// The input as it was named, without a user.
    pub input: String,
    /// The directory of the results, if one was named.
    pub output: Option<String>,
    #[serde(flatten)]
    pub size: Size,
    #[serde(flatten)]
    pub used: ExpectedUse,
    pub directory: DirectoryUse,
    /// Rows of an earlier job that are replaced.
    pub rows_replaced: u64,
    /// What counts as one host: `name`, `origin` or `address`. Addresses are not looked up: hostnames are counted instead.
    pub hosts_by: &'static str,
    /// The number of hosts of the sampled rows.
    pub different_hosts: u64,
    /// The hosts with the most of these rows, ten at most.
    pub hosts: Vec<HostRows>,
    /// Sampled rows that are not valid requests.
    pub invalid_rows: u64,
    /// Why they are not, the most frequent cause first. If there are more causes, only the first ones are told apart.
    pub invalid_causes: Vec<InvalidCause>,
    /// Sampled requests that are equal to an earlier one.
    pub equal_requests: u64,
    /// `None`: the results go to no directory, or all rows are done.
    pub disk: Option<DiskUse>,
    /// `None`: the job has none.
    pub credentials: Option<CredentialUse>,
    /// The first requests to be sent. If all sampled rows are done, and other rows are not, the first of these.
    pub requests: Vec<PlannedRequest>,
    /// The rates that the options allow, the lowest first.
    pub ceilings: Vec<Ceiling>,
    /// The addresses that may be connected to.
    pub network: NetworkOptions,
    pub latency_s: Option<f64>,
    /// The time until the job is done, as far as the ceilings tell. `None`: no bound is known, or the number of rows is
    /// not.
    pub seconds: Option<f64>,
    pub machine: Machine,
    pub notes: Vec<Message>,
}

/// The use of the directory of the results and its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DirectoryUse {
    /// It does not exist, or is empty.
    New,
    Resumed,
    /// The job in it is finished.
    Finished,
    Replaced,
    /// No directory was named.
    None,
}

/// The destinations of a job's credentials.
#[derive(Debug, Serialize)]
pub struct CredentialUse {
    pub origins: Vec<String>,
    /// Sampled rows whose hosts do not get the credentials.
    pub rows_without: u64,
}

/// The needs of the job and the capacity of this machine.
#[derive(Debug, Serialize)]
pub struct Machine {
    pub concurrency: u64,
    pub threads: u64,
    pub files: u64,
    pub files_allowed: u64,
    /// Connections to one address, if all rows go there.
    pub ports: u64,
    /// `None`: the system does not report it.
    pub ports_there_are: Option<u64>,
}

/// Plans a job; `latency_s` and `response_bytes` are the mean time and size of a response, if they are known.
///
/// # Errors
/// As [`Run::job`](crate::run::Run::job) with these options. `Usage`: the input can't be read twice.
#[expect(clippy::too_many_lines, reason = "one step after another, most of them a field each")]
pub fn plan(options: &JobOptions, latency_s: Option<f64>, response_bytes: Option<f64>) -> Result<Plan, JobError> {
    check(options)?;
    let mut options = completed(options)?;
    let set_notes = apply_stored_settings(&mut options)?;
    if options.request.token.source.is_some() {
        // A plan fetches none, and shows none.
        options.request.bearer = Some(MASK.into());
    }
    let options = &options;
    let JobOptions { source: requested, sink, request, run, .. } = options;
    requested.inputs().try_for_each(refuse_pipe)?;
    let boundary_salt = BoundarySalt::default();
    let read = SourceOptions { boundary_salt: boundary_salt.clone(), ..requested.clone() };
    let mut source = source::open::open(&read)?;
    let schema = ResultColumns::new(requested, &options.selection, source.kept_fields())?.schema();
    let found = match &sink.output {
        Output::Directory(path) if sink.format != Format::None => {
            inspect(path, options, &schema, source.fingerprint().as_ref())?
        }
        _ => FoundJob::Nothing,
    };
    if let FoundJob::Resumed { key_salt, .. } = &found {
        boundary_salt.set(key_salt.bytes());
    }
    let nothing_done = DoneRows::default();
    let done = if let FoundJob::Resumed { done, .. } = &found { done } else { &nothing_done };

    let mut notes = Vec::new();
    let mut defaults = Defaults::new(request)?;
    if run.retrying.idempotency_key {
        defaults = defaults.with_keys(match &found {
            FoundJob::Resumed { key_salt, .. } => *key_salt,
            FoundJob::Nothing | FoundJob::Replaced { .. } => {
                notes.push("the idempotency keys are examples: a job generates its own".into());
                KeySalt::random()?
            }
        });
    }
    notes.extend(note_proxies(request));
    let preparer = sample::preparer(defaults, TransportConfigs::default().of_run(request)?, run.limits.host_by);
    let sample = InputSample::of(source.as_mut(), preparer, options, done)?;
    let size = Size::of(source.as_ref(), &sample, requested, done.rows_done());
    if let (Output::Directory(path), FoundJob::Replaced { .. }, Some(0)) = (&sink.output, &found, size.rows) {
        return Err(no_rows_for(&requested.name(), path));
    }

    let left = size.left.unwrap_or(u64::MAX);
    let in_flight = run.concurrency.min(usize::try_from(left).unwrap_or(usize::MAX)).max(1);
    let threads = options.engine.threads.unwrap_or_else(machine::cores).min(run.concurrency);
    let files = machine::raise_open_files()?;
    let to_save = machine::files_to_save(requested.save_to.is_some());
    let needed =
        if request.http2_prior_knowledge { in_flight.min(files.fitting(to_save, threads).max(1)) } else { in_flight };
    files.check(needed, to_save, threads)?;
    let memory = MemoryLimit::of_this_process();
    memory.check(in_flight, options.engine.max_memory.unwrap_or_else(|| memory.default_budget()))?;
    notes.extend([check_ports(options, needed)?, note_window(run)].into_iter().flatten());
    if matches!(found, FoundJob::Resumed { is_over: false, .. }) {
        notes.extend(set_notes);
    }
    if matches!(found, FoundJob::Resumed { is_touched: true, .. }) {
        notes.push("the input was modified since: its rows are compared before the first request".into());
    }

    let has_bodies = schema.field_with_name("body").is_ok() || requested.save_to.is_some();
    let disk = disk_use(options, &found, &size, KnownResults::of(&found, requested, response_bytes, has_bodies));
    notes.extend(disk.and_then(|disk| disk.warning()));

    if run.limits.host_by == HostBy::Address {
        notes.push("hostnames are counted as hosts here: their addresses are not looked up".into());
    }

    let work = SampledWork { hosts: sample.hosts.all(), requests: sample.valid(), cost: sample.cost };
    let used = ExpectedUse::of_job(&run.limits, &found, size.requests_left, &sample);
    notes.extend(used.notes(size.requests_left));
    let latency = latency_s.map(|seconds| AssumedLatency { seconds, in_flight: needed });
    let ceilings = ceilings(run, &work, latency);
    let narrowest = ceilings.first().map(|ceiling| ceiling.per_s);
    let seconds = narrowest.zip(size.requests_left).map(|(per_s, requests)| {
        let seconds = requests as f64 / per_s;
        if requests > 0 { seconds.max(latency_s.unwrap_or_default()) } else { seconds }
    });
    Ok(Plan {
        input: shown_input(requested, source.as_ref()),
        output: shown_output(&sink.output),
        directory: DirectoryUse::of(&found, &sink.output),
        rows_replaced: if let FoundJob::Replaced { rows, .. } = found { rows } else { 0 },
        hosts_by: run.limits.host_by.name(),
        different_hosts: sample.hosts.count(),
        hosts: sample.hosts.top(),
        invalid_rows: sample.invalid.count(),
        invalid_causes: sample.invalid.into_causes(),
        equal_requests: sample.equal.count(),
        disk,
        credentials: credential_use(options, sample.without_credentials),
        requests: if matches!(found, FoundJob::Resumed { is_over: true, .. }) { Vec::new() } else { sample.requests },
        ceilings,
        network: request.network.clone(),
        latency_s,
        seconds,
        machine: Machine {
            concurrency: needed as u64,
            threads: threads as u64,
            files: files.needed(needed, to_save, threads),
            files_allowed: files.limit,
            ports: needed as u64,
            ports_there_are: local_ports(request),
        },
        notes,
        size,
        used,
    })
}

/// Returns the use of the disk by the rest of the job.
fn disk_use(options: &JobOptions, found: &FoundJob, size: &Size, known: KnownResults) -> Option<DiskUse> {
    let Output::Directory(path) = &options.sink.output else { return None };
    let is_over = matches!(found, FoundJob::Resumed { is_over: true, .. });
    let has_results = options.sink.format != Format::None && !is_over;
    has_results.then(|| DiskUse::of(path, size.left, known, options.sink.min_free))
}

impl KnownResults {
    fn of(found: &FoundJob, source: &SourceOptions, response_bytes: Option<f64>, has_bodies: bool) -> Self {
        let row_bytes = match found {
            // Saved bodies are not in the parts.
            FoundJob::Resumed { done, bytes, .. } if source.save_to.is_none() && done.rows_done() > 0 => {
                Some(*bytes as f64 / done.rows_done() as f64)
            }
            _ => None,
        };
        let removed = if let FoundJob::Replaced { bytes, .. } = found { *bytes } else { 0 };
        Self { row_bytes, response_bytes, has_bodies, removed }
    }
}

/// Returns the destinations of the job's credentials, or `None` if it has none.
fn credential_use(options: &JobOptions, rows_without: u64) -> Option<CredentialUse> {
    let origins = options.request.credentials_for.clone();
    credential_options(options).next().map(|_| CredentialUse { origins, rows_without })
}

/// Returns a note that the addresses behind a proxy are unknown here.
fn note_proxies(request: &RequestOptions) -> Option<Message> {
    (!request.proxies.is_empty()).then(|| {
        message!("a proxy looks up hostnames itself: only IP addresses in URLs are checked, see ", OptionName::Network)
    })
}

/// Applies the settings that were changed while the job ran, unless it starts over.
fn apply_stored_settings(options: &mut JobOptions) -> Result<Vec<Message>, JobError> {
    let JobOptions { sink, run, .. } = options;
    let Output::Directory(path) = &sink.output else { return Ok(Vec::new()) };
    if sink.overwrites() || sink.format == Format::None {
        return Ok(Vec::new());
    }
    let Some(files) = ControlFiles::of(path)? else { return Ok(Vec::new()) };
    let (live, notes) = in_force(&files, run)?;
    live.put_into(run);
    Ok(notes)
}

impl DirectoryUse {
    fn of(found: &FoundJob, output: &Output) -> Self {
        match found {
            FoundJob::Nothing if matches!(output, Output::Directory(_)) => Self::New,
            FoundJob::Nothing => Self::None,
            FoundJob::Replaced { .. } => Self::Replaced,
            FoundJob::Resumed { is_over: true, .. } => Self::Finished,
            FoundJob::Resumed { .. } => Self::Resumed,
        }
    }
}

fn shown_output(output: &Output) -> Option<String> {
    match output {
        Output::Directory(path) => Some(path.display().to_string()),
        Output::Stdout => Some("-".into()),
        Output::Nowhere => None,
    }
}

fn shown_input(requested: &SourceOptions, source: &dyn Source) -> String {
    let name = requested.name();
    source.fingerprint().map_or_else(|| name.to_string(), |fingerprint| fingerprint.shown(&name))
}

/// Refuses an input that can't be read twice: the job would miss what is read here.
fn refuse_pipe(input: &str) -> Result<(), JobError> {
    let name = match input {
        "-" => "standard input",
        _ if fs::metadata(input).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) => input,
        _ => return Ok(()),
    };
    Err(JobError::usage(message!(
        "{name} can be read only once, and a plan would use its rows up: write them into a file, and plan that"
    )))
}
