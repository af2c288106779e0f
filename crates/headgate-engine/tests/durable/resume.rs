//! Jobs that are resumed by the same command, with a real server.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use headgate_core::error::JobErrorKind;
use headgate_core::options::{
    EngineOptions, Format, IfExists, JobOptions, Output, RequestOptions, RunOptions, SelectionOptions, SinkOptions,
    SourceOptions,
};
use headgate_engine::status::status;
use headgate_engine::testing::JobFigures;
use headgate_engine::{RetryOptions, Run, Summary};
use headgate_testserver::{Config, Server};

use crate::check::{check_figures, rows};
use crate::harness::{MAX_WAIT, at_every_step, eventually};
use crate::held::Held;
use crate::power::files_below;
use crate::storage::Recorder;

/// A change of the options.
type Change = fn(&mut JobOptions);

pub struct Rig {
    directory: tempfile::TempDir,
    server: Server,
    pub options: JobOptions,
}

impl Rig {
    /// Creates a job for a file of this many rows that request a server; `other` replaces the line of one row.
    pub fn new(config: Config, count: u64, other: impl Fn(u64) -> Option<String>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(config).unwrap();
        let input = directory.path().join("urls.txt");
        let address = server.address();
        let url = |row| other(row).unwrap_or_else(|| format!("http://{address}/{row}"));
        let lines: Vec<String> = (0..count).map(|row| url(row) + "\n").collect();
        fs::write(&input, lines.concat()).unwrap();
        let options = JobOptions {
            source: SourceOptions { input: input.display().to_string(), ..SourceOptions::default() },
            sink: SinkOptions {
                output: Output::Directory(directory.path().join("out")),
                format: Format::Ndjson,
                commit_interval: Some(Duration::ZERO),
                ..SinkOptions::default()
            },
            selection: SelectionOptions::default(),
            request: RequestOptions { timeout: MAX_WAIT, ..RequestOptions::default() },
            run: RunOptions { concurrency: 4, shutdown_timeout: MAX_WAIT, ..RunOptions::default() }.without_retries(),
            engine: EngineOptions { threads: Some(1), ..EngineOptions::default() },
        };
        Self { directory, server, options }
    }

    pub fn numbered(config: Config, count: u64) -> Self {
        Self::new(config, count, |_| None)
    }

    pub fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    pub fn start(&self) -> Run {
        Run::job_with(&self.options, &Recorder::new()).unwrap()
    }

    pub fn run(&self) -> Summary {
        Self::wait_for_end(&self.start())
    }

    pub fn wait_for_end(job: &Run) -> Summary {
        assert!(job.wait(MAX_WAIT), "the job does not end: {:?}", job.snapshot());
        let summary = job.summary();
        assert!(summary.failure.is_none(), "{:?}", summary.failure);
        summary
    }

    pub fn requests(&self) -> u64 {
        self.server.statistics().requests
    }

    /// Returns the error of the same command with these options.
    fn refusal(&self, change: impl FnOnce(&mut JobOptions)) -> String {
        let mut options = self.options.clone();
        change(&mut options);
        let error = Run::job_with(&options, &Recorder::new()).expect_err("another job went on");
        assert_eq!(JobErrorKind::Output, error.kind, "{error}");
        error.to_string()
    }
}

pub fn figures(summary: &Summary) -> &JobFigures {
    summary.job.as_ref().expect("a durable job")
}

#[test]
fn a_stopped_job_requests_each_row_once_over_all_its_runs() {
    let rig = Rig::numbered(Config { delay_s: 0.01..=0.01, ..Config::default() }, 60);
    let job = rig.start();
    eventually("some rows are requested", || rig.requests() >= 10);
    job.stop();
    let first = Rig::wait_for_end(&job);
    drop(job);
    assert!(first.interrupted);
    let done = rig.requests();
    let job = figures(&first);
    assert_eq!((done, 0, false, true), (job.done, job.rows_before, job.finished, job.resumable));
    assert!(done < 60, "it was stopped before its end");
    assert_eq!(done, rows(&rig.out()).len() as u64);

    let second = rig.run();
    assert_eq!(60, rig.requests());
    let job = figures(&second);
    assert_eq!((60, done, true, Some(60)), (job.done, job.rows_before, job.finished, job.rows));
    assert_eq!((60 - done, 60, 0), (second.rows, job.succeeded, job.failed));
    assert_eq!((0..60).collect::<Vec<u64>>(), rows(&rig.out()).into_keys().collect::<Vec<_>>());
    assert_eq!(2, status(&rig.out()).unwrap().run_count);
    check_figures(&rig.out());
}

#[test]
fn a_finished_job_sends_no_more_requests() {
    let rig = Rig::numbered(Config::default(), 9);
    rig.run();
    let runs = status(&rig.out()).unwrap().run_count;
    let again = rig.run();
    let job = figures(&again);
    assert_eq!((9, 9, 9, true), (rig.requests(), job.done, job.rows_before, job.finished));
    assert_eq!((0, runs), (again.rows, status(&rig.out()).unwrap().run_count));
}

#[test]
fn a_different_job_is_not_resumed_in_the_same_directory() {
    let mut rig = Rig::numbered(Config::default(), 9);
    rig.options.request.headers = vec![("x-tenant".into(), "s3cr3t".into())];
    rig.options.request.body = Some(b"body".to_vec());
    rig.run();
    let changes: [(&str, Change); 11] = [
        ("format was ndjson, now it is parquet", |options| options.sink.format = Format::Parquet),
        ("url_column was url, now it is link", |options| options.source.url_column = "link".into()),
        ("method_column was not given, now it is verb", |options| options.source.method_column = Some("verb".into())),
        ("headers_column was not given, now it is h", |options| options.source.headers_column = Some("h".into())),
        ("body_column was not given, now it is b", |options| options.source.body_column = Some("b".into())),
        ("method was not given, now it is PUT", |options| options.request.method = Some("PUT".into())),
        ("fail_on was unauthorized,408,425,429,5xx, now it is 404", |options| {
            options.request.fail_on = "404".parse().unwrap();
        }),
        ("user_agent was the default, now it is mine", |options| options.request.user_agent = "mine".into()),
        ("headers was x-tenant, now it is not given", |options| options.request.headers.clear()),
        ("the value of headers x-tenant has changed", |options| options.request.headers[0].1 = "other".into()),
        ("data is a different body", |options| options.request.body = Some(b"other".to_vec())),
    ];
    for (difference, change) in changes {
        let refusal = rig.refusal(change);
        assert!(refusal.contains(difference), "{difference}: {refusal}");
        assert!(!refusal.contains("s3cr3t") && refusal.contains("if_exists=overwrite"), "{refusal}");
    }
    assert!(rig.refusal(|options| options.sink.if_exists = IfExists::Error).contains("if_exists=error"));

    // Options of performance are not part of the job's identity.
    rig.options.engine.threads = Some(2);
    rig.options.run = RunOptions { concurrency: 2, read_ahead: 5, ..RunOptions::default() }.without_retries();
    rig.options.sink.commit_interval = Some(Duration::from_secs(1));
    rig.options.request.timeout = Duration::from_secs(1);
    assert_eq!(9, figures(&rig.run()).rows_before);
    assert_eq!(9, rig.requests());
}

#[test]
fn a_job_resumes_with_renewed_credentials_and_not_without_them() {
    let mut rig = Rig::numbered(Config::default(), 9);
    let headers = |x_key: &str| vec![("x-a".into(), "1".into()), ("X-Key".into(), x_key.into())];
    rig.options.request.headers = headers("secret");
    rig.options.request.secret_headers = vec!["x-key".into()];
    rig.options.request.bearer = Some("secret".into());
    rig.options.request.credentials_for = vec!["*".into()];
    rig.run();
    for (missing, change) in [
        ("the header authorization is missing, and its value isn't stored", |options| {
            options.request.bearer = None;
        }),
        ("the header x-key is missing, and its value isn't stored", |options| {
            options.request.headers.pop();
        }),
    ] as [(&str, Change); 2]
    {
        let refusal = rig.refusal(change);
        assert!(refusal.contains(missing) && !refusal.contains("has changed"), "{refusal}");
    }
    // The token comes from another option, a key has another value, its name is stored from now on, and a new key is added.
    rig.options.request.headers = headers("renewed");
    rig.options.request.headers.push(("Cookie".into(), "new".into()));
    rig.options.request.secret_headers.clear();
    rig.options.request.bearer = None;
    rig.options.request.user = Some("me:new".into());
    assert_eq!(9, figures(&rig.run()).rows_before);
    let refusal = rig.refusal(|options| options.request.headers[0].1 = "2".into());
    assert!(refusal.contains("the value of headers x-a has changed"), "{refusal}");
}

#[test]
fn a_user_in_a_url_with_ranges_is_not_stored_and_must_be_given_again() {
    let mut rig = Rig::numbered(Config::default(), 0);
    let at = |user: &str, server: &Server| format!("http://{user}{}/status/503?[1-3]", server.address());
    rig.options.source.input = at("me:secret@", &rig.server);
    let summary = rig.run();
    let (out, files) = (rig.out(), files_below(&rig.out()));
    let shown = format!("{summary:?} {:?}", status(&out).unwrap());
    assert!(!shown.contains("secret"), "{shown}");
    for file in files {
        let bytes = fs::read(&file).unwrap();
        assert!(!bytes.windows(6).any(|bytes| bytes == b"secret"), "{}", file.display());
    }

    let retry = |user: Option<&str>| {
        let request = RequestOptions { user: user.map(Into::into), ..rig.options.request.clone() };
        let job = JobOptions { request, ..rig.options.clone() };
        Run::retry(RetryOptions { output: out.clone(), only: Vec::new(), job })
    };
    let without = rig.refusal(|options| options.source.input = at("", &rig.server));
    for refusal in [without, retry(None).map(drop).expect_err("it is refused").to_string()] {
        assert!(
            refusal.contains("the header authorization is missing, and its value isn't stored: give it with user"),
            "{refusal}"
        );
    }
    assert_eq!(3, Rig::wait_for_end(&retry(Some("me:renewed")).unwrap()).rows);
    rig.options.source.input = at("me:renewed@", &rig.server);
    assert_eq!(3, figures(&rig.run()).rows_before);
}

#[test]
fn a_slow_row_stops_the_watermark_and_then_the_input_but_no_row_within_the_window() {
    let slow = Held::new();
    let mut rig = Rig::new(Config::default(), 40, |row| (row == 2).then(|| slow.url()));
    rig.options.run.read_ahead = 20;
    let job = rig.start();
    // Rows 0 to 21: the window after row 2 and the rows before it.
    eventually("the window is full", || status(&rig.out()).is_ok_and(|status| status.done == 21));
    let held = status(&rig.out()).unwrap();
    assert_eq!((2, 21), (held.watermark, rig.requests()));
    slow.release();
    Rig::wait_for_end(&job);
    let done = status(&rig.out()).unwrap();
    assert_eq!((40, 40, true, 39), (done.watermark, done.done, done.finished, rig.requests()));
}

#[test]
fn a_job_that_reads_a_pipe_cannot_be_resumed_and_the_error_says_so() {
    let mut rig = Rig::numbered(Config::default(), 9);
    let text = fs::read(&rig.options.source.input).unwrap();
    let pipe = rig.directory.path().join("pipe.txt");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    rig.options.source.input = pipe.display().to_string();
    let feeder = thread::spawn({
        let pipe = pipe.clone();
        move || std::io::Write::write_all(&mut File::options().write(true).open(pipe).unwrap(), &text).unwrap()
    });
    let summary = rig.run();
    feeder.join().unwrap();
    let job = figures(&summary);
    assert_eq!((9, true, false), (job.done, job.finished, job.resumable));
    assert!(!status(&rig.out()).unwrap().resumable);

    // A writer is needed: without one, opening the pipe would block.
    let feeder = thread::spawn(move || File::options().write(true).open(pipe).map(drop));
    let refusal = rig.refusal(|_| ());
    assert!(refusal.contains("pipe.txt, which can't be read again"), "{refusal}");
    feeder.join().unwrap().unwrap();
}

#[test]
fn a_job_whose_disk_fails_ends_with_the_cause_and_resumes_once_the_disk_works() {
    at_every_step(|step| {
        let rig = Rig::numbered(Config::default(), 12);
        let disk = Recorder::failing_at(step);
        let message = match Run::job_with(&rig.options, &disk) {
            Ok(job) => {
                assert!(job.wait(MAX_WAIT));
                let summary = job.summary();
                assert_eq!(disk.refused().is_none(), figures(&summary).finished);
                summary.failure.map(|failure| failure.message.to_string())
            }
            Err(error) => Some(error.to_string()),
        };
        let is_last = disk.refused().is_none();
        assert_eq!(is_last, message.is_none(), "{message:?}");
        if let Some(message) = message {
            let causes = ["no space left on device", "input/output error"];
            assert!(causes.iter().any(|cause| message.contains(cause)), "{message}");
            assert!(message.contains(&rig.directory.path().display().to_string()), "{message}");
        }
        assert!(figures(&rig.run()).finished);
        assert_eq!((0..12).collect::<Vec<u64>>(), rows(&rig.out()).into_keys().collect::<Vec<_>>());
        check_figures(&rig.out());
        is_last
    });
}
