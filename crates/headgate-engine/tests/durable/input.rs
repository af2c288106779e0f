//! Resumes a job whose input has changed meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use headgate_core::options::{JobOptions, RunOptions};
use headgate_engine::status::status;
use headgate_engine::{RetryOptions, Run, Summary};
use headgate_testserver::{Config, Server};

use crate::check::{check_figures, rows};
use crate::harness::{MAX_WAIT, eventually};
use crate::held::Held;
use crate::power::files_below;
use crate::resume::{Rig, figures};
use crate::storage::Recorder;

/// Rows of a job that was stopped: row 2 waits for its response, and no row beyond the window was started.
const ROWS: u64 = 40;
const WINDOW: u64 = 20;
const DONE: u64 = WINDOW + 1;

fn stopped(held: &Held) -> Rig {
    let mut rig = Rig::new(Config::default(), ROWS, |row| (row == 2).then(|| held.url()));
    rig.options.run.read_ahead = WINDOW;
    rig.options.run.shutdown_timeout = Duration::ZERO;
    let job = rig.start();
    eventually("the window is full", || status(&rig.out()).is_ok_and(|status| status.done == DONE));
    job.stop();
    assert!(!figures(&Rig::wait_for_end(&job)).finished);
    rig.options.run.shutdown_timeout = MAX_WAIT;
    held.release();
    rig
}

fn finished() -> Rig {
    let rig = Rig::new(Config::default(), ROWS, |_| None);
    rig.run();
    rig
}

fn input(rig: &Rig) -> PathBuf {
    rig.options.source.input.clone().into()
}

/// Replaces the input by another file with another modification time.
fn write_input(rig: &Rig, text: &str) {
    let other = input(rig).with_extension("other");
    fs::write(&other, text).unwrap();
    touch(&other);
    fs::rename(other, input(rig)).unwrap();
}

fn touch(path: &PathBuf) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

fn text(rig: &Rig) -> String {
    fs::read_to_string(input(rig)).unwrap()
}

/// Returns one line of the input.
fn first_line(rig: &Rig) -> String {
    text(rig).lines().next().unwrap().to_owned() + "\n"
}

/// Returns the files of the job with their contents, except for those that each run writes: the lock, and the series.
fn contents(rig: &Rig) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_of_run = |path: &PathBuf| path.ends_with("lock") || path.ends_with("series.ndjson");
    let files = files_below(&rig.out()).into_iter().filter(|path| !is_of_run(path));
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Runs the same command, which changes nothing, and returns its error.
fn refused(rig: &Rig) -> String {
    let (before, requests) = (contents(rig), rig.requests());
    let job = rig.start();
    assert!(job.wait(MAX_WAIT));
    let failure = job.summary().failure.expect("it was not refused");
    drop(job);
    assert_eq!("input", failure.kind);
    assert_eq!((before, requests), (contents(rig), rig.requests()), "{}", failure.message);
    failure.message.to_string()
}

fn check_finished(rig: &Rig, summary: &Summary, rows_in_all: u64) {
    let job = figures(summary);
    assert_eq!((rows_in_all, Some(rows_in_all), true), (job.done, job.rows, job.finished));
    assert_eq!((0..rows_in_all).collect::<Vec<_>>(), rows(&rig.out()).into_keys().collect::<Vec<_>>());
    check_figures(&rig.out());
}

#[test]
fn a_job_resumes_with_the_same_rows_whatever_the_modification_time_of_their_file() {
    let held = Held::new();
    let rig = stopped(&held);
    touch(&input(&rig));
    check_finished(&rig, &rig.run(), ROWS);
    assert_eq!(ROWS - 1, rig.requests());
}

#[test]
fn a_finished_job_compares_the_rows_of_a_replaced_input_once() {
    let rig = finished();
    write_input(&rig, &text(&rig));
    check_finished(&rig, &rig.run(), ROWS);
    let runs = status(&rig.out()).unwrap().run_count;
    let before = contents(&rig);
    check_finished(&rig, &rig.run(), ROWS);
    assert_eq!((before, runs), (contents(&rig), status(&rig.out()).unwrap().run_count));
    assert_eq!(ROWS, rig.requests());
}

#[test]
fn a_job_with_changed_rows_is_not_resumed_until_its_rows_are_restored() {
    let held = Held::new();
    for (mut rig, done) in [(finished(), ROWS), (stopped(&held), DONE)] {
        let whole = text(&rig);
        let name = input(&rig).display().to_string();
        let others = [
            (whole.replacen("/7\n", "/seven\n", 1), "row 7 has changed since it was read"),
            (whole.replacen("/21\n", "/twenty\n", 1), "row 21 has changed since it was read"),
            (whole.split_inclusive('\n').take(9).collect(), "truncated: it has 9 rows now"),
        ];
        for (other, expected) in others {
            write_input(&rig, &other);
            for allow_append in [false, true] {
                rig.options.sink.allow_append = allow_append;
                let refusal = refused(&rig);
                assert!(refusal.starts_with(&format!("{name}: {expected}")), "{refusal}");
            }
            rig.options.sink.allow_append = false;
        }
        assert_eq!(done, status(&rig.out()).unwrap().done);
        write_input(&rig, &whole);
        check_finished(&rig, &rig.run(), ROWS);
    }
}

#[test]
fn undone_rows_may_change_if_the_file_size_stays_the_same() {
    let held = Held::new();
    let rig = stopped(&held);
    write_input(&rig, &text(&rig).replacen("/30\n", "/xx\n", 1));
    check_finished(&rig, &rig.run(), ROWS);
}

#[test]
fn added_rows_are_done_if_allowed_and_then_belong_to_the_job() {
    let held = Held::new();
    for mut rig in [finished(), stopped(&held)] {
        let added = rig.options.source.input.clone();
        let one = first_line(&rig);
        write_input(&rig, &(text(&rig) + &one + &one));
        let refusal = refused(&rig);
        assert!(refusal.starts_with(&format!("{added}: it has only grown: its first ")), "{refusal}");
        assert!(refusal.contains("resume with allow_append=true"), "{refusal}");

        rig.options.sink.allow_append = true;
        check_finished(&rig, &rig.run(), ROWS + 2);
        assert_eq!(Some(ROWS + 2), status(&rig.out()).unwrap().rows);
        rig.options.sink.allow_append = false;
        check_finished(&rig, &rig.run(), ROWS + 2);
    }
}

#[test]
fn a_stopped_job_that_was_allowed_to_grow_resumes_without_the_option() {
    let mut rig = finished();
    let held = Held::new();
    let one = first_line(&rig);
    write_input(&rig, &(text(&rig) + &one + &held.url() + "\n" + &one + &one + &one));
    rig.options.sink.allow_append = true;
    rig.options.run.shutdown_timeout = Duration::ZERO;
    let job = rig.start();
    eventually("all rows but one are done", || status(&rig.out()).is_ok_and(|status| status.done == ROWS + 4));
    job.stop();
    assert!(!figures(&Rig::wait_for_end(&job)).finished);
    drop(job);
    assert_eq!((false, Some(ROWS + 5)), status(&rig.out()).map(|status| (status.finished, status.rows)).unwrap());

    held.release();
    rig.options.sink.allow_append = false;
    rig.options.run.shutdown_timeout = MAX_WAIT;
    check_finished(&rig, &rig.run(), ROWS + 5);
}

#[test]
fn failed_rows_are_retried_from_a_grown_input_but_not_from_a_changed_one() {
    let failing = Server::start(Config { status: 503, ..Config::default() }).unwrap();
    let url = format!("http://{}/row", failing.address());
    let rig = Rig::new(Config::default(), ROWS, |row| (row % 10 == 5).then(|| url.clone()));
    rig.run();
    let retry = || {
        let run = RunOptions::default().without_retries();
        let job = JobOptions { engine: rig.options.engine.clone(), run, ..JobOptions::default() };
        let options = RetryOptions { output: rig.out(), job, ..RetryOptions::default() };
        let job = Run::retry_with(options, &Recorder::new()).unwrap();
        assert!(job.wait(MAX_WAIT));
        (job.summary().rows, job.summary().failure.map(|failure| failure.message.to_string()))
    };
    let whole = text(&rig);
    write_input(&rig, &(whole.clone() + "http://127.0.0.1/\n"));
    assert_eq!((4, None), retry());
    assert_eq!(8, failing.statistics().requests);

    // Row 6 is not retried, but the input can't be identified any more.
    write_input(&rig, &whole.replacen("/6\n", "/six\n", 1));
    let (rows, failure) = retry();
    assert!(failure.is_some_and(|failure| failure.contains(": row 6 has changed since it was read")));
    assert_eq!((0, 8), (rows, failing.statistics().requests));
}
