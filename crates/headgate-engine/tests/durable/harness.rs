//! A job without a network: the test creates the outcomes of its rows, and writes them to the sink as the engine does.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use arrow_schema::{Fields, SchemaRef};
use aws_lc_rs::digest::{SHA256, digest};
use headgate_core::error::{ErrorKind, Failure, JobError};
use headgate_core::files::Directory;
use headgate_core::files::storage::OpenStorage;
use headgate_core::headers::Headers;
use headgate_core::memory::{MemoryBudget, Reservation};
use headgate_core::options::{Format, JobOptions, Output, SaveFormat, SinkOptions, SourceOptions};
use headgate_core::response::{Body, Response};
use headgate_core::row::{Outcome, Row};
use headgate_core::saved::Saved;
use headgate_engine::testing::{DoneRows, MonotonicClock, OpenJob, RunningJob, Window};
use headgate_http::save::paths::SavePaths;
use headgate_table::columns::builder::{OutcomeBatch, OutcomeBuilder};
use headgate_table::columns::result::ResultColumns;
use headgate_table::columns::schema::schema;
use headgate_table::sink::Ending;
use headgate_table::source::open::fingerprint;
use http::Version;
use serde_json::Value;

use crate::power::PowerLoss;

pub const FORMATS: [Format; 2] = [Format::Parquet, Format::Ndjson];

/// How long to wait for an expected event: far longer than it takes on a loaded machine.
pub const MAX_WAIT: Duration = Duration::from_secs(120);

/// The number of rows of the input.
pub const ROWS: u64 = 15;
const BATCH_ROWS: usize = 5;

/// The outcome of a row: three of five succeed, one has the status 503, and one has no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    pub failed: bool,
    pub status: Option<i16>,
    pub error: Option<String>,
    pub body: Option<Vec<u8>>,
    pub attempts: i16,
}

pub fn expected(row: u64, edition: &str) -> Expected {
    let body = Some(format!("{edition} response to row {row}").into_bytes());
    match row % 5 {
        3 => Expected { failed: true, status: Some(503), error: None, body, attempts: 1 },
        4 => Expected { failed: true, status: None, error: Some("connect".into()), body: None, attempts: 1 },
        _ => Expected { failed: false, status: Some(200), error: None, body, attempts: 1 },
    }
}

fn outcome(ordinal: u64, edition: &str) -> Outcome {
    let Expected { status, error, body, .. } = expected(ordinal, edition);
    Outcome {
        row: Row::new(ordinal, format!("http://127.0.0.1/{ordinal}")),
        method: "GET".into(),
        attempts: 1,
        started_at_us: 1_778_751_000_000_042,
        elapsed_us: 1500,
        remote_addr: status.map(|_| Arc::from("127.0.0.1:80")),
        response: status.map(|status| Response {
            status: status as u16,
            version: Version::HTTP_11,
            headers: Headers::from_iter([("server", b"nginx".as_slice())]),
            memory: Reservation::default(),
            body_encoding: None,
            body_truncated: false,
            ttfb_us: 1200,
            received_bytes: 0,
            saved: None,
            body: body.map(|bytes| Body { bytes, ..Body::default() }),
        }),
        selected: None,
        failure: error.map(|_| Failure::new(ErrorKind::Connect, "connection refused")),
    }
}

/// A job of [`ROWS`] rows and its directory.
pub struct Bench {
    pub parent: tempfile::TempDir,
    pub options: JobOptions,
    /// A word in the bodies that distinguishes this job from another one.
    pub edition: &'static str,
    /// The columns of the results.
    pub columns: SchemaRef,
    /// Whether bodies are saved.
    pub saves: bool,
    /// The simulated power loss to which the files of bodies are subject.
    pub power: Option<Arc<PowerLoss>>,
}

/// The result of one run.
pub struct Run {
    pub result: Result<(), JobError>,
    /// The rows that were committed as far as the run knew.
    pub committed: DoneRows,
}

impl Bench {
    /// Creates a job that commits every batch.
    pub fn new(format: Format) -> Self {
        let parent = tempfile::tempdir().unwrap();
        let output = Output::Directory(parent.path().join("out"));
        let sink = SinkOptions { output, format, commit_interval: Some(Duration::ZERO), ..SinkOptions::default() };
        let source = SourceOptions { input: "http://127.0.0.1/[0-14]".into(), ..SourceOptions::default() };
        Self {
            parent,
            options: JobOptions { sink, source, ..JobOptions::default() },
            edition: "first",
            columns: schema(&Fields::empty()),
            saves: false,
            power: None,
        }
    }

    /// Creates a job as [`Bench::new`] does, which saves the bodies of its responses.
    pub fn saving(format: Format) -> Self {
        let mut bench = Self::new(format);
        bench.options.source.save_to = Some("{row}.txt".into());
        bench.columns = ResultColumns { saved: true, ..ResultColumns::default() }.schema();
        bench.saves = true;
        bench
    }

    /// Creates a job as [`Bench::saving`] does, with archives of at most two rows.
    pub fn archiving(format: Format) -> Self {
        let mut bench = Self::saving(format);
        bench.options.source.save_format = SaveFormat::Tar;
        bench.options.sink.part_size = 100;
        bench
    }

    pub fn archives(&self) -> bool {
        self.saves && self.options.source.save_format == SaveFormat::Tar
    }

    /// Returns the outcome of a row, without its body if that was saved.
    pub fn expected(&self, row: u64) -> Expected {
        let expected = expected(row, self.edition);
        if self.saves && !expected.failed { Expected { body: None, ..expected } } else { expected }
    }

    /// Returns the path of a row's body. The names are of each kind, and some have capitals.
    pub fn path(row: u64) -> String {
        if row.is_multiple_of(2) { format!("images/{row}.txt") } else { format!("Images/{}/{row}.txt", row % 4) }
    }

    /// Writes the body of a row as the engine does, before its outcome is known.
    fn save(&self, outcome: &mut Outcome) {
        let Some(reply) = outcome.response.as_mut().filter(|reply| reply.status == 200) else { return };
        let Some(body) = reply.body.take() else { return };
        let own = self.out().join("_headgate");
        let path = Self::path(outcome.row.ordinal);
        let places =
            SavePaths::new(Arc::new(Directory::open(&self.out()).unwrap()), own.join("tmp"), own.join("names"))
                .in_archives(self.archives());
        let claimed = places.claimed(&path);
        fs::write(&claimed, &body.bytes).unwrap();
        let checksum = digest(&SHA256, &body.bytes).as_ref().try_into().unwrap();
        if let Some(power) = &self.power {
            power.written(fs::metadata(&claimed).unwrap().ino());
            power.added(&claimed, None).unwrap();
        }
        reply.saved = Some(Box::new(Saved { path: path.into(), checksum }));
    }

    pub fn out(&self) -> PathBuf {
        self.parent.path().join("out")
    }

    pub fn open(&self, storage: &dyn OpenStorage) -> Result<OpenJob, JobError> {
        let fingerprint = fingerprint(&self.options.source)?;
        OpenJob::open(&self.out(), &self.options, &self.columns, fingerprint, Some(ROWS), storage)
    }

    pub fn start(&self, job: OpenJob, clock: MonotonicClock) -> Result<RunningJob, JobError> {
        let window = Arc::new(Window::new(self.options.run.read_ahead, job.done_rows().watermark()));
        job.start(&self.options, window, clock)
    }

    pub fn batch(&self, rows: &[u64]) -> OutcomeBatch {
        let columns = ResultColumns { saved: self.saves, ..ResultColumns::default() };
        let mut builder = OutcomeBuilder::new(&columns, MemoryBudget::new(0)).unwrap();
        for row in rows {
            let mut outcome = outcome(*row, self.edition);
            if self.saves {
                self.save(&mut outcome);
            }
            let fail_on = &self.options.request.fail_on;
            let has_status =
                outcome.response.as_ref().is_some_and(|response| fail_on.contains(response.status, || false));
            let failed = outcome.failure.is_some() || has_status;
            builder.push(outcome.as_ref(), failed);
        }
        builder.finish_batch().unwrap()
    }

    /// Writes all rows that are not done.
    pub fn run(&self, storage: &dyn OpenStorage) -> Run {
        self.run_batches(storage, usize::MAX)
    }

    /// Writes this many batches, and stops in an orderly way if rows are left.
    pub fn run_batches(&self, storage: &dyn OpenStorage, batches: usize) -> Run {
        let job = match self.open(storage) {
            Ok(job) => job,
            Err(error) => return Run { result: Err(error), committed: DoneRows::default() },
        };
        let mut committed = if job.is_new() { DoneRows::default() } else { job.done_rows().clone() };
        if job.last_commit().finished {
            return Run { result: Ok(()), committed };
        }
        // The rows are not in the order of the input, so that there is a bitmap above the watermark.
        let shuffled = (0..ROWS).map(|index| index * 7 % ROWS);
        let left: Vec<u64> = shuffled.filter(|row| !job.done_rows().is_done(*row)).collect();
        let is_all = left.chunks(BATCH_ROWS).len() <= batches;
        let result = self.start(job, Box::new(Instant::now)).and_then(|RunningJob { mut sink, progress, .. }| {
            let mut chunks = left.chunks(BATCH_ROWS).take(batches);
            let written = chunks.try_for_each(|rows| sink.write(self.batch(rows)).map(drop));
            let input_rows = is_all.then_some(ROWS);
            // The engine finishes the sink even after an error.
            // A wait for readers is ended, unless it is short.
            let keeps_long = self.options.sink.keep_replaced > Duration::from_secs(60);
            let finished = sink.finish(&Ending {
                input_rows,
                undone: &[],
                stopped: &|| keeps_long && progress.commit().finished,
                stopped_by: None,
                by_failures: false,
            });
            committed = progress.commit().done_rows().unwrap();
            written.and(finished)
        });
        Run { result, committed }
    }
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + MAX_WAIT;
    while !condition() {
        assert!(Instant::now() < until, "it never came to pass that {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs several steps at a time, because a job waits for its disk and its server; stops once `step` returns that it was the
/// last.
pub fn at_every_step(is_last: impl Fn(usize) -> bool + Sync) {
    let (next, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !ended.load(SeqCst) {
                    if is_last(next.fetch_add(1, SeqCst)) {
                        ended.store(true, SeqCst);
                    }
                }
            });
        }
    });
}

/// Changes a record in a file, and updates its checksum.
pub fn rewrite(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut envelope: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut envelope["record"]);
    let version = envelope["format_version"].as_u64().unwrap() as u32;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&version.to_le_bytes());
    hasher.update(envelope["record"].to_string().as_bytes());
    envelope["crc32"] = hasher.finalize().into();
    fs::write(path, format!("{envelope}\n")).unwrap();
}
