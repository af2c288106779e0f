//! Retries of failed rows, with a crash between any two steps.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headgate_core::error::{ErrorKind, JobError, JobErrorKind};
use headgate_core::files::storage::OpenStorage;
use headgate_core::options::{EngineOptions, Format, JobOptions, RunOptions, SourceOptions};
use headgate_engine::status::{parts, status};
use headgate_engine::testing::{Only, OpenRetry, Phase, Retry, RunningJob};
use headgate_engine::{RetryOptions, Run};
use headgate_table::parts::read::PartRows;
use headgate_table::sink::Ending;
use headgate_testserver::{Config, Server};

use crate::check::{check_figures, rows};
use crate::harness::{Bench, Expected, MAX_WAIT, ROWS, at_every_step, eventually, expected};
use crate::held::Held;
use crate::power::{PowerLoss, files_below};
use crate::storage::Recorder;

/// A finished job with three parts of failed rows. A retry of rows 3, 8 … succeeds, and rows 4, 9 … fail again.
struct Finished {
    bench: Bench,
    _server: Server,
}

impl Finished {
    fn new(format: Format) -> Self {
        Self::with_row_3(format, None)
    }

    /// Creates a finished job whose row 3 gets its response when the test releases the server.
    fn holding_row_3(format: Format, held: &Held) -> Self {
        Self::with_row_3(format, Some(held.url()))
    }

    fn with_row_3(format: Format, url_of_3: Option<String>) -> Self {
        let server = Server::start(Config::default()).unwrap();
        let path = |row| if row % 5 == 4 { "status/503" } else { "hello" };
        let mut urls: Vec<String> =
            (0..ROWS).map(|row| format!("http://{}/{}\n", server.address(), path(row))).collect();
        if let Some(url) = url_of_3 {
            urls[3] = url + "\n";
        }
        let mut bench = Bench::new(format);
        let input = bench.out().with_file_name("urls.txt");
        fs::write(&input, urls.concat()).unwrap();
        bench.options.source.input = input.display().to_string();
        // No part is small, so none are merged.
        bench.options.sink.part_size = 1;
        bench.run(&Recorder::new()).result.unwrap();
        assert_eq!((true, 6), status(&bench.out()).map(|status| (status.finished, status.parts)).unwrap());
        Self { bench, _server: server }
    }

    /// Copies the job to another directory.
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

/// Retries all failed rows.
fn retry(out: &Path, storage: &dyn OpenStorage) -> Result<(), JobError> {
    retry_only(out, Vec::new(), storage)
}

fn retry_only(out: &Path, only: Vec<Only>, storage: &dyn OpenStorage) -> Result<(), JobError> {
    wait_for_end(&start_retry(out, only, storage)?)
}

fn start_retry(out: &Path, only: Vec<Only>, storage: &dyn OpenStorage) -> Result<Run, JobError> {
    start_keeping_retry(out, only, Duration::ZERO, storage)
}

fn start_keeping_retry(
    out: &Path,
    only: Vec<Only>,
    keep_replaced: Duration,
    storage: &dyn OpenStorage,
) -> Result<Run, JobError> {
    let run = RunOptions { concurrency: 4, shutdown_timeout: MAX_WAIT, ..RunOptions::default() }.without_retries();
    let engine = EngineOptions { threads: Some(1), ..EngineOptions::default() };
    let mut job = JobOptions { run, engine, ..JobOptions::default() };
    // The sink commits as soon as a row is known.
    job.sink.commit_interval = Some(Duration::ZERO);
    job.sink.keep_replaced = keep_replaced;
    Run::retry_with(RetryOptions { output: out.to_owned(), only, job }, storage)
}

fn wait_for_end(job: &Run) -> Result<(), JobError> {
    assert!(job.wait(MAX_WAIT), "{:?}", job.snapshot());
    job.summary()
        .failure
        .map_or(Ok(()), |failure| Err(JobError { kind: JobErrorKind::Output, message: failure.message }))
}

/// Returns the status of the server's response in the retry.
fn expected_after_retry(row: u64) -> Expected {
    if row % 5 == 4 {
        Expected { failed: true, status: Some(503), error: None, body: None, attempts: 2 }
    } else {
        Expected { failed: false, status: Some(200), error: None, body: Some(b"Hello, World!".to_vec()), attempts: 2 }
    }
}

/// Checks that every row is present once, with its first or its retried outcome.
fn check_readable(out: &Path) -> u64 {
    let found = rows(out);
    assert!(found.keys().all(|row| *row < ROWS));
    let mut again = 0;
    for (row, result) in &found {
        let now = expected_after_retry(*row);
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

/// Checks that every failed row was retried.
fn check_finished(out: &Path) {
    assert_eq!(ROWS, rows(out).len() as u64);
    assert_eq!(2 * ROWS / 5, check_readable(out));
    let status = status(out).unwrap();
    assert!(status.finished, "{status:?}");
    assert_eq!((ROWS, 4 * ROWS / 5, ROWS / 5), (status.done, status.succeeded, status.failed));
    assert_eq!(BTreeMap::from([("status:503".into(), ROWS / 5)]), status.errors);
    assert_eq!(2, status.parts);
    check_figures(out);
}

fn crash_at_every_step(finished: &Finished, keep_replaced: Duration) {
    at_every_step(|step| {
        let (_parent, out) = finished.copy();
        let disk = Recorder::crashing_at(step);
        let started = start_keeping_retry(&out, Vec::new(), keep_replaced, &disk);
        let result = started.and_then(|job| wait_for_end(&job));
        check_readable(&out);
        let is_last = disk.refused().is_none();
        if is_last {
            result.unwrap();
            assert!(rows(&out).values().all(|row| row.attempts <= 2));
        } else {
            assert!(result.is_err(), "after step {step}");
            retry(&out, &Recorder::new()).unwrap();
        }
        check_finished(&out);
        is_last
    });
}

#[test]
fn a_crash_at_any_step_of_a_retry_neither_loses_nor_duplicates_a_row_in_parquet() {
    crash_at_every_step(&Finished::new(Format::Parquet), Duration::ZERO);
}

#[test]
fn a_crash_at_any_step_of_a_retry_that_keeps_files_leaves_none_behind() {
    crash_at_every_step(&Finished::new(Format::Parquet), Duration::from_millis(2));
}

#[test]
fn files_that_an_interrupted_run_keeps_are_kept_by_the_same_command_for_the_rest_of_their_time() {
    let finished = Finished::new(Format::Parquet);
    let out = finished.bench.out();
    let hour = Duration::from_secs(3600);
    let is_kept = |run: &Run| {
        eventually("the run keeps files", || {
            assert!(!run.wait(Duration::ZERO), "it has ended: {:?}", run.summary());
            run.snapshot().phase == Phase::Keeping
        });
        run.stop();
        wait_for_end(run).unwrap();
        let summary = run.summary();
        assert!(!summary.interrupted, "{summary:?}");
        let note = " replaced files stay in ";
        assert!(summary.notes.iter().any(|found| found.to_string().contains(note)), "{:?}", summary.notes);
        assert!(rows_are_there_twice(&out));
    };
    let nothing = || vec!["timeout".parse().unwrap()];
    let mut fetch = finished.bench.options.clone();
    fetch.sink.keep_replaced = hour;
    is_kept(&start_keeping_retry(&out, Vec::new(), hour, &Recorder::new()).unwrap());
    is_kept(&start_keeping_retry(&out, nothing(), hour, &Recorder::new()).unwrap());
    is_kept(&Run::job_with(&fetch, &Recorder::new()).unwrap());
    fetch.sink.keep_replaced = Duration::from_secs(1);
    wait_for_end(&Run::job_with(&fetch, &Recorder::new()).unwrap()).unwrap();
    check_finished(&out);
    // Files that are gone are not waited for.
    fetch.sink.keep_replaced = hour;
    wait_for_end(&Run::job_with(&fetch, &Recorder::new()).unwrap()).unwrap();
}

fn rows_are_there_twice(out: &Path) -> bool {
    let is_part = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "parquet");
    let count = fs::read_dir(out).unwrap().filter(|entry| is_part(&entry.as_ref().unwrap().path())).count();
    count > parts(out).unwrap().files.len()
}

#[test]
fn a_crash_at_any_step_of_a_retry_neither_loses_nor_duplicates_a_row_in_ndjson() {
    crash_at_every_step(&Finished::new(Format::Ndjson), Duration::ZERO);
}

#[test]
fn a_crash_loses_no_row_after_a_part_is_committed_before_its_last_row_has_ended() {
    at_every_step(|step| {
        let held = Held::new();
        let Finished { bench, _server } = Finished::holding_row_3(Format::Ndjson, &held);
        let out = bench.out();
        let disk = Recorder::crashing_at(step);
        let result = start_retry(&out, Vec::new(), &disk).and_then(|job| {
            // Rows 8 and 13 succeeded, rows 4, 9 and 14 failed with another status than before, and row 3 is unchanged.
            let known = (ROWS - 4, BTreeMap::from([("status:503".into(), 4)]));
            let is_committed = || status(&out).is_ok_and(|status| known == (status.succeeded, status.errors));
            eventually("all but row 3 is committed", || is_committed() || job.wait(Duration::ZERO));
            held.release();
            wait_for_end(&job)
        });
        check_readable(&out);
        let is_last = disk.refused().is_none();
        if is_last {
            result.unwrap();
        } else {
            assert!(result.is_err(), "after step {step}");
            held.release();
            retry(&out, &Recorder::new()).unwrap();
        }
        check_finished(&out);
        is_last
    });
}

#[test]
fn a_crash_at_any_step_of_a_retry_of_all_rows_neither_loses_nor_duplicates_a_row() {
    for format in [Format::Parquet, Format::Ndjson] {
        let finished = Finished::new(format);
        let every_outcome = || {
            let statuses = ["2xx", "4xx", "5xx"].map(|class| class.parse().unwrap());
            ErrorKind::ALL.iter().map(|kind| Only::Error(*kind)).chain(statuses).collect::<Vec<_>>()
        };
        at_every_step(|step| {
            let (_parent, out) = finished.copy();
            let disk = Recorder::crashing_at(step);
            let result = retry_only(&out, every_outcome(), &disk);
            check_readable(&out);
            let is_last = disk.refused().is_none();
            if is_last {
                result.unwrap();
            } else {
                assert!(result.is_err(), "after step {step}");
                retry_only(&out, every_outcome(), &Recorder::new()).unwrap();
            }
            assert_eq!((ROWS, ROWS), (rows(&out).len() as u64, check_readable(&out)));
            let status = status(&out).unwrap();
            assert_eq!((true, 4 * ROWS / 5, ROWS / 5), (status.finished, status.succeeded, status.failed));
            check_figures(&out);
            is_last
        });
    }
}

#[test]
fn a_status_selects_rows_that_succeeded_and_leaves_the_others_as_they_are() {
    let server = Server::start(Config::default()).unwrap();
    let mut bench = Bench::new(Format::Parquet);
    let input = bench.out().with_file_name("urls.txt");
    let urls = [404, 200, 404, 503].map(|status| format!("http://{}/status/{status}\n", server.address()));
    fs::write(&input, urls.concat()).unwrap();
    bench.options.source.input = input.display().to_string();
    wait_for_end(&Run::job_with(&bench.options, &Recorder::new()).unwrap()).unwrap();
    let before = server.statistics().requests;
    retry_only(&bench.out(), vec!["404".parse().unwrap()], &Recorder::new()).unwrap();
    assert_eq!(2, server.statistics().requests - before);
    let attempts: Vec<_> = rows(&bench.out()).into_values().map(|row| (row.failed, row.attempts)).collect();
    assert_eq!(vec![(false, 2), (false, 1), (false, 2), (true, 4)], attempts);
    check_figures(&bench.out());
}

#[test]
fn a_power_loss_at_any_step_of_a_retry_neither_loses_nor_duplicates_a_row() {
    let finished = Finished::new(Format::Ndjson);
    at_every_step(|step| {
        let (_parent, out) = finished.copy();
        let power = PowerLoss::new();
        let disk = Recorder::on(&power, Some(step));
        let _ = retry(&out, &disk);
        power.lose(&out, step as u64);
        check_readable(&out);
        retry(&out, &Recorder::new()).unwrap();
        check_finished(&out);
        disk.refused().is_none()
    });
}

#[test]
fn a_disk_error_ends_a_retry_with_the_cause_and_loses_no_row() {
    let finished = Finished::new(Format::Parquet);
    at_every_step(|step| {
        let (_parent, out) = finished.copy();
        let disk = Recorder::failing_at(step);
        let result = retry(&out, &disk);
        check_readable(&out);
        let is_last = disk.refused().is_none();
        if !is_last {
            let message = result.expect_err("a fault that matters").to_string();
            let causes = ["no space left on device", "input/output error"];
            assert!(causes.iter().any(|cause| message.contains(cause)), "{message}");
            assert!(message.contains(&out.display().to_string()), "{message}");
            retry(&out, &Recorder::new()).unwrap();
        }
        check_finished(&out);
        is_last
    });
}

#[test]
fn a_retry_without_rows_finishes_an_interrupted_retry() {
    let finished = Finished::new(Format::Ndjson);
    at_every_step(|step| {
        let (_parent, out) = finished.copy();
        let disk = Recorder::crashing_at(step);
        let result = retry(&out, &disk);
        let is_last = disk.refused().is_none();
        assert_eq!(is_last, result.is_ok());
        retry_only(&out, vec!["timeout".parse().unwrap()], &Recorder::new()).unwrap();
        assert!(status(&out).unwrap().finished);
        assert_eq!(ROWS, rows(&out).len() as u64);
        is_last
    });
}

#[test]
fn a_damaged_part_or_commit_is_detected_before_a_part_is_replaced() {
    for format in [Format::Parquet, Format::Ndjson] {
        let finished = Finished::new(format);
        let is_needed = |path: &Path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            name.starts_with("failed-") || name == "job.json" || path.parent().unwrap().ends_with("log")
        };
        let files = files_below(&finished.bench.out());
        for damaged in files.iter().filter(|path| is_needed(path)) {
            let (_parent, out) = finished.copy();
            let damaged = out.join(damaged.strip_prefix(finished.bench.out()).unwrap());
            let mut bytes = fs::read(&damaged).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&damaged, &bytes).unwrap();

            let message = retry(&out, &Recorder::new()).expect_err("it was not noticed").to_string();
            let name = damaged.file_name().unwrap().to_str().unwrap();
            assert!(message.contains(name), "{damaged:?}: {message}");
            assert_eq!(bytes, fs::read(&damaged).unwrap());
        }
    }
}

#[test]
fn rows_with_invalid_requests_are_retried_only_if_their_error_is_named() {
    let server = Server::start(Config::default()).unwrap();
    let mut bench = Bench::new(Format::Ndjson);
    let input = bench.out().with_file_name("urls.txt");
    fs::write(&input, format!("no URL\nhttp://{}/status/503\n", server.address())).unwrap();
    bench.options.source.input = input.display().to_string();
    let first = Run::job_with(&bench.options, &Recorder::new()).unwrap();
    wait_for_end(&first).unwrap();
    let attempts = |only: Vec<Only>| {
        let run = start_retry(&bench.out(), only, &Recorder::new()).unwrap();
        wait_for_end(&run).unwrap();
        (run.summary().rows, run.summary().notes.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let note = "1 failed row was left out, because its request is invalid; to retry anyway, use only=invalid_request";
    assert_eq!((1, vec![note.to_owned()]), attempts(Vec::new()));
    assert_eq!((1, Vec::new()), attempts(vec!["invalid_request".parse().unwrap()]));
    assert_eq!((1, Vec::new()), attempts(vec!["status:503".parse().unwrap()]));
}

#[test]
fn a_moved_input_is_found_where_an_earlier_run_read_it() {
    let finished = Finished::new(Format::Ndjson);
    let out = finished.bench.out();
    let moved = out.with_file_name("moved.txt");
    fs::rename(&finished.bench.options.source.input, &moved).unwrap();
    let message = retry(&out, &Recorder::new()).expect_err("it is not where it was").to_string();
    assert!(message.contains("urls.txt: no such file; if it was moved, run headgate fetch once"), "{message}");

    let mut options = finished.bench.options.clone();
    options.source.input = moved.display().to_string();
    assert!(Run::job(&options).unwrap().wait(MAX_WAIT));

    retry(&out, &Recorder::new()).unwrap();
    check_finished(&out);
}

#[test]
fn a_retry_of_few_rows_keeps_parts_of_failed_rows_bounded() {
    let server = Server::start(Config::default()).unwrap();
    let mut bench = Bench::new(Format::Parquet);
    bench.options.source.input = format!("http://{}/[0-1999999]", server.address());
    bench.options.sink.commit_interval = Some(Duration::from_secs(3600));
    // None of these rows succeeds but the first and the last, whose numbers were chosen for that.
    let mut failed: Vec<u64> = (0..290_000).map(|index| index * 5 + 4).collect();
    failed[0] = 3;
    *failed.last_mut().unwrap() = 1_999_998;
    let job = bench.open(&Recorder::new()).unwrap();
    let now = Instant::now();
    // The clock stands still, so a part ends only when it is full.
    let RunningJob { mut sink, .. } = bench.start(job, Box::new(move || now)).unwrap();
    for rows in failed.chunks(1000) {
        let _ = sink.write(bench.batch(rows)).unwrap();
    }
    sink.finish(&Ending { input_rows: None, undone: &[], stopped: &|| false, stopped_by: None, by_failures: false })
        .unwrap();
    drop(sink);
    assert_eq!(2, status(&bench.out()).unwrap().parts);

    retry_only(&bench.out(), vec!["status:503".parse().unwrap()], &Recorder::new()).unwrap();

    let parts = parts(&bench.out()).unwrap();
    let rows = parts.files.into_iter().map(|file| {
        PartRows::new(vec![file], parts.schema.clone()).map(|batch| batch.unwrap().num_rows()).sum::<usize>()
    });
    let rows: Vec<usize> = rows.collect();
    assert_eq!((2, 290_000), (server.statistics().requests, rows.iter().sum()));
    assert!(rows.iter().all(|rows| *rows < 262_144 + 1024), "{rows:?}");
}

#[test]
fn deferred_rows_of_a_retry_can_be_read_again_while_its_source_waits() {
    let finished = Finished::new(Format::Ndjson);
    let options = RetryOptions { output: finished.bench.out(), ..RetryOptions::default() };
    let Retry { mut source, .. } = OpenRetry::open(options, |_| Ok(()), &Recorder::new()).unwrap();
    let mut handed_on = Vec::new();
    loop {
        let batch = source.next_batch().unwrap().expect("the source does not end before its rows are done");
        if batch.is_empty() {
            break;
        }
        handed_on.extend(batch);
    }
    let mut again = source.reopener().expect("a file").open().unwrap();
    for row in handed_on {
        again.skip_to(row.ordinal).unwrap();
        assert_eq!(Some(&row), again.next_batch().unwrap().unwrap().first());
        again = source.reopener().expect("a file").open().unwrap();
    }
}

#[test]
fn a_retry_may_add_costs_that_the_job_did_not_have() {
    let finished = Finished::new(Format::Ndjson);
    let source = SourceOptions { cost_column: Some("tokens".into()), ..SourceOptions::default() };
    let job = JobOptions { source, ..JobOptions::default() };
    let options = RetryOptions { output: finished.bench.out(), job, ..RetryOptions::default() };
    let error = OpenRetry::open(options, |_| Ok(()), &Recorder::new()).err().expect("it is refused");
    assert!(error.to_string().contains("there are no costs in a list of URLs"), "{error}");
}
