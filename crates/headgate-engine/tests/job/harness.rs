//! A server, a job that requests it, and the results of the job.

use std::fmt::Write as _;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use headgate_core::options::{
    EngineOptions, Format, JobOptions, Output, RequestOptions, RunOptions, SelectionOptions, SinkOptions, SourceOptions,
};
use headgate_core::status_set::StatusSet;
use headgate_engine::testing::FailureExample;
use headgate_engine::{Run, Summary};
use headgate_testserver::{Config, Server};
use serde::Deserialize;
use tempfile::TempDir;

/// How long to wait for an expected event: far longer than it takes on a loaded machine.
pub const MAX_WAIT: Duration = Duration::from_secs(120);

/// One row of a result.
#[derive(Debug, Clone, Deserialize)]
pub struct ResultRow {
    pub row: u64,
    pub url: String,
    pub method: String,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub error_message: Option<String>,
    pub error_detail: Option<String>,
    pub attempts: u16,
    pub final_url: Option<String>,
    pub redirects: Option<Vec<Hop>>,
    headers: Option<Vec<Header>>,
    body: Option<String>,
    body_base64: Option<String>,
    pub received_bytes: u64,
    pub body_encoding: Option<String>,
    pub body_truncated: bool,
    pub path: Option<String>,
    pub sha256: Option<String>,
    pub elapsed_us: u64,
    pub ttfb_us: Option<u64>,
    pub http_version: Option<String>,
    pub remote_addr: Option<String>,
}

/// One redirect of a row.
#[derive(Debug, Clone, Deserialize)]
pub struct Hop {
    pub status: u16,
    pub location: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Header {
    name: String,
    value: Option<String>,
    value_base64: Option<String>,
}

impl ResultRow {
    pub fn body(&self) -> Option<Vec<u8>> {
        bytes(self.body.as_ref(), self.body_base64.as_ref())
    }

    pub fn text(&self) -> &str {
        self.body.as_deref().expect("a body that is text")
    }

    /// Returns the headers in their order, or `None` without a response.
    pub fn headers(&self) -> Option<Vec<(&str, Vec<u8>)>> {
        let headers = self.headers.as_ref()?.iter();
        let value = |header: &Header| bytes(header.value.as_ref(), header.value_base64.as_ref()).expect("a value");
        Some(headers.map(|header| (header.name.as_str(), value(header))).collect())
    }

    pub fn kind(&self) -> Option<&str> {
        self.error.as_deref()
    }

    pub fn message(&self) -> &str {
        self.error_message.as_deref().unwrap_or_default()
    }

    pub fn detail(&self) -> &str {
        self.error_detail.as_deref().unwrap_or_default()
    }

    /// Returns whether the row is in a file of failed rows.
    pub fn is_failed(&self, fail_on: &StatusSet) -> bool {
        self.error.is_some() || self.status.is_some_and(|status| fail_on.contains(status))
    }

    /// Returns the request as the server's `/echo` received it.
    pub fn echo(&self) -> Echo {
        serde_json::from_str(self.text()).expect("the response of /echo")
    }
}

/// The request that the server's `/echo` reports.
#[derive(Debug, Deserialize)]
pub struct Echo {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
}

impl Echo {
    pub fn all(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str()).collect()
    }
}

fn bytes(text: Option<&String>, base64: Option<&String>) -> Option<Vec<u8>> {
    match (text, base64) {
        (Some(text), _) => Some(text.clone().into_bytes()),
        (None, Some(base64)) => Some(STANDARD.decode(base64).expect("base64")),
        (None, None) => None,
    }
}

/// A job that has not started, with its own directory.
pub struct Rig {
    directory: TempDir,
    pub options: JobOptions,
}

impl Rig {
    /// Creates a job for the rows of a URL pattern or of a file.
    pub fn new(input: impl Into<String>) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let options = JobOptions {
            source: SourceOptions { input: input.into(), ..SourceOptions::default() },
            sink: SinkOptions {
                output: Output::Directory(directory.path().join("out")),
                format: Format::Ndjson,
                ..SinkOptions::default()
            },
            selection: SelectionOptions::default(),
            request: RequestOptions { timeout: MAX_WAIT, ..RequestOptions::default() },
            run: RunOptions { concurrency: 8, shutdown_timeout: MAX_WAIT, ..RunOptions::default() }.without_retries(),
            engine: EngineOptions { threads: Some(2), ..EngineOptions::default() },
        };
        Self { directory, options }
    }

    /// Creates a job for these URLs, in a text file.
    pub fn urls<T: AsRef<str>>(urls: impl IntoIterator<Item = T>) -> Self {
        let mut text = String::new();
        for url in urls {
            writeln!(text, "{}", url.as_ref()).expect("memory");
        }
        Self::file("urls.txt", text)
    }

    /// Creates a job for these objects, each a row.
    pub fn objects(rows: &[serde_json::Value]) -> Self {
        let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
        let mut rig = Self::file("rows.ndjson", lines.join("\n"));
        let named = |key: &str| rows.iter().any(|row| row.get(key).is_some()).then(|| key.to_owned());
        let source = &mut rig.options.source;
        source.method_column = named("method");
        source.headers_column = named("headers");
        source.body_column = named("body");
        rig
    }

    pub fn file(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let mut rig = Self::new("");
        let path = rig.path(name);
        fs::write(&path, bytes).expect("a file in a temporary directory");
        rig.options.source.input = path.display().to_string();
        rig
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn concurrency(mut self, concurrency: usize, threads: usize) -> Self {
        self.options.run.concurrency = concurrency;
        self.options.engine.threads = Some(threads);
        self
    }

    /// Uses one lane of one worker, so that rows run one after the other.
    pub fn one_by_one(self) -> Self {
        self.concurrency(1, 1)
    }

    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.request.timeout = timeout;
        self
    }

    pub fn method(mut self, method: &str) -> Self {
        self.options.request.method = Some(method.into());
        self
    }

    pub fn start(&self) -> Run {
        Run::job(&self.options).expect("a job that can be started")
    }

    /// Returns the rows written so far, in the order of the input.
    pub fn results(&self) -> Vec<ResultRow> {
        read_results(&self.path("out"), self.options.request.fail_on.statuses())
    }

    /// Runs the job to its end.
    pub fn finish(&self, job: &Run) -> (Vec<ResultRow>, Summary) {
        assert!(job.wait(MAX_WAIT), "the job does not end: {:?}", job.snapshot());
        (self.results(), job.summary())
    }

    pub fn run(&self) -> (Vec<ResultRow>, Summary) {
        self.finish(&self.start())
    }

    /// Runs a job that succeeds, and returns its rows.
    pub fn rows(&self) -> Vec<ResultRow> {
        let (rows, summary) = self.run();
        assert!(summary.failure.is_none(), "{:?}", summary.failure);
        assert_eq!(rows.len() as u64, summary.rows);
        rows
    }

    /// Runs a job of one row, and returns it.
    pub fn row(&self) -> ResultRow {
        let mut rows = self.rows();
        assert_eq!(1, rows.len());
        rows.remove(0)
    }

    /// Runs a job of one row that fails, and returns the row and the example of its error kind in the summary.
    pub fn failed_row(&self) -> (ResultRow, FailureExample) {
        let (mut rows, summary) = self.run();
        assert_eq!((1, 1), (rows.len(), summary.failed));
        let row = rows.remove(0);
        let example = summary.error_examples.into_values().next().expect("an example");
        assert_eq!(row.message(), &*example.message);
        (row, example)
    }
}

/// Returns the rows of all parts, succeeded and failed, in the order of the input.
fn read_results(directory: &Path, fail_on: &StatusSet) -> Vec<ResultRow> {
    let mut rows: Vec<ResultRow> = Vec::new();
    for entry in fs::read_dir(directory).expect("the output directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "ndjson") {
            let failed = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("failed-"));
            for line in fs::read_to_string(&path).expect("a part").lines() {
                let row: ResultRow = serde_json::from_str(line).expect("a line of results");
                assert_eq!(failed, row.is_failed(fail_on), "{}: {line}", path.display());
                rows.push(row);
            }
        }
    }
    rows.sort_by_key(|row| row.row);
    rows
}

pub fn ordinals(rows: &[ResultRow]) -> Vec<u64> {
    rows.iter().map(|row| row.row).collect()
}

pub fn server() -> Server {
    Server::start(Config::default()).expect("a server on a free port")
}

pub fn slow_server(delay_s: RangeInclusive<f64>) -> Server {
    Server::start(Config { delay_s, ..Config::default() }).expect("a server on a free port")
}

pub fn server_at(host: IpAddr) -> std::io::Result<Server> {
    Server::start(Config { host, ..Config::default() })
}

pub fn url(address: SocketAddr, path: &str) -> String {
    format!("http://{address}{path}")
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + MAX_WAIT;
    while !condition() {
        assert!(Instant::now() < until, "it never came to pass that {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
