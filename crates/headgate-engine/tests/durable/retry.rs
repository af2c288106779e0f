//! Failed rows that are asked again, with a crash between any two steps of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headgate_engine::error::{JobError, JobErrorKind};
use headgate_engine::job::retry::RetryOptions;
use headgate_engine::job::status::status;
use headgate_engine::job::storage::Storage;
use headgate_engine::options::{Format, JobOptions, RunOptions};
use headgate_engine::run::Job;
use headgate_testserver::{Config, Server};

use crate::check::{check_figures, rows};
use crate::harness::{Bench, Expected, FORMATS, ROWS, expected};
use crate::power::{PowerLoss, files_below};
use crate::storage::Recorder;

const PATIENCE: Duration = Duration::from_secs(30);

/// A finished job with three parts of failed rows. Now rows 3, 8 … would be answered, and rows 4, 9 … fail again.
struct Finished {
    bench: Bench,
    _server: Server,
}

impl Finished {
    fn new(format: Format) -> Self {
        let server = Server::start(Config::default()).unwrap();
        let address = server.address();
        let path = |row| if row % 5 == 4 { "status/503" } else { "hello" };
        let lines: Vec<String> = (0..ROWS).map(|row| format!("http://{address}/{}\n", path(row))).collect();
        let mut bench = Bench::new(format);
        let input = bench.out().with_file_name("urls.txt");
        fs::write(&input, lines.concat()).unwrap();
        bench.options.source.input = input.display().to_string();
        // No part is small: none are put together.
        bench.options.sink.part_bytes = 1;
        bench.run(Recorder::new()).result.unwrap();
        assert_eq!((true, 6), status(&bench.out()).map(|status| (status.finished, status.parts)).unwrap());
        Self { bench, _server: server }
    }

    /// The job once more, in a directory of its own.
    fn copy(&self) -> (tempfile::TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("out");
        for path in files_below(&self.bench.out()) {
            let copy = out.join(path.strip_prefix(self.bench.out()).unwrap());
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(path, copy).unwrap();
        }
        (parent, out)
    }
}

/// Asks all failed rows again.
fn retry(out: &Path, storage: Arc<dyn Storage>) -> Result<(), JobError> {
    let run = RunOptions { concurrency: 4, threads: Some(1), grace: PATIENCE, ..RunOptions::default() };
    let job = JobOptions { run, ..JobOptions::default() };
    let job = Job::retry_on(RetryOptions { output: out.to_owned(), only: Vec::new(), job }, storage)?;
    assert!(job.wait(PATIENCE), "{:?}", job.snapshot());
    job.summary()
        .failure
        .map_or(Ok(()), |failure| Err(JobError { kind: JobErrorKind::Output, message: failure.message }))
}

/// What the server answers now.
fn answered_now(row: u64) -> Expected {
    if row % 5 == 4 {
        Expected { failed: true, status: Some(503), error: None, body: None, attempts: 2 }
    } else {
        Expected { failed: false, status: Some(200), error: None, body: Some(b"Hello, World!".to_vec()), attempts: 2 }
    }
}

/// Every row is there once, as it was answered the first time or since.
fn check_readable(out: &Path) -> u64 {
    let found = rows(out);
    assert!(found.keys().all(|row| *row < ROWS));
    let mut again = 0;
    for (row, result) in &found {
        let now = answered_now(*row);
        if result.attempts == 1 {
            assert_eq!(&expected(*row, "first"), result, "row {row}");
        } else {
            assert_eq!((now.failed, now.status), (result.failed, result.status), "row {row}");
            assert!(now.body.is_none() || now.body == result.body, "row {row}");
            again += 1;
        }
    }
    again
}

/// Every row that failed was asked again.
fn check_finished(out: &Path) {
    assert_eq!(ROWS, rows(out).len() as u64);
    assert_eq!(2 * ROWS / 5, check_readable(out));
    let status = status(out).unwrap();
    assert!(status.finished, "{status:?}");
    assert_eq!((ROWS, 4 * ROWS / 5, ROWS / 5), (status.done, status.answered, status.failed));
    assert_eq!(BTreeMap::from([("status:503".into(), ROWS / 5)]), status.errors);
    assert_eq!(2, status.parts);
    check_figures(out);
}

#[test]
fn a_crash_at_any_step_of_a_retry_loses_no_row_and_repeats_none() {
    for format in FORMATS {
        let finished = Finished::new(format);
        for step in 0.. {
            let (_parent, out) = finished.copy();
            let disk = Recorder::crashing_at(step);
            let result = retry(&out, disk.clone());
            check_readable(&out);
            if disk.refused().is_none() {
                result.unwrap();
                check_finished(&out);
                assert!(rows(&out).values().all(|row| row.attempts <= 2));
                break;
            }
            assert!(result.is_err(), "after step {step}");
            retry(&out, Recorder::new()).unwrap();
            check_finished(&out);
        }
    }
}

#[test]
fn a_loss_of_power_at_any_step_of_a_retry_loses_no_row_and_repeats_none() {
    let finished = Finished::new(Format::Ndjson);
    for step in 0.. {
        let (_parent, out) = finished.copy();
        let power = PowerLoss::new();
        let disk = Recorder::on(&power, Some(step));
        let _ = retry(&out, disk.clone());
        power.go_off(&out, step as u64);
        check_readable(&out);
        retry(&out, Recorder::new()).unwrap();
        check_finished(&out);
        if disk.refused().is_none() {
            break;
        }
    }
}
