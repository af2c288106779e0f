//! Jobs that read several files: they resume where they stopped, even after the files have changed.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use headgate_core::options::{JobOptions, RunOptions, SourceOptions};
use headgate_engine::status::status;
use headgate_engine::{RetryOptions, Run};
use headgate_testserver::Config;

use crate::check::{check_figures, rows};
use crate::harness::{MAX_WAIT, eventually};
use crate::held::Held;
use crate::resume::{Rig, figures};
use crate::storage::Recorder;

const ROWS: u64 = 40;
const FILES: u64 = 8;
const WINDOW: u64 = 20;

/// Creates a job whose rows are split into files of a directory. The name of each subdirectory is the body of its rows; row 12
/// waits.
fn rig(row_12: Option<&str>) -> Rig {
    let mut rig = Rig::new(Config::default(), ROWS, |row| row_12.filter(|_| row == 12).map(String::from));
    let input = PathBuf::from(&rig.options.source.input);
    let text = fs::read_to_string(&input).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (file, urls) in lines.chunks((ROWS / FILES) as usize).enumerate() {
        put(&rig, &format!("part={}/{file}.csv", file / 2), urls);
    }
    rig.options.source = SourceOptions {
        input: directory(&rig).display().to_string(),
        body_column: Some("part".into()),
        ..rig.options.source.clone()
    };
    rig
}

fn directory(rig: &Rig) -> PathBuf {
    rig.out().with_file_name("data")
}

fn put(rig: &Rig, path: &str, urls: &[&str]) {
    let path = directory(rig).join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("url\n{}\n", urls.join("\n"))).unwrap();
}

/// Creates a job that was stopped while row 12, in the third file, waited and the window was full.
fn stopped(held: &Held) -> Rig {
    let mut rig = rig(Some(&held.url()));
    rig.options.run.read_ahead = WINDOW;
    rig.options.run.shutdown_timeout = Duration::ZERO;
    let job = rig.start();
    eventually("the window is full", || status(&rig.out()).is_ok_and(|status| status.done == 12 + WINDOW - 1));
    job.stop();
    assert!(!figures(&Rig::wait_for_end(&job)).finished);
    drop(job);
    rig.options.run.shutdown_timeout = MAX_WAIT;
    held.release();
    rig
}

fn check_finished(rig: &Rig, rows_in_all: u64) {
    let summary = rig.run();
    let job = figures(&summary);
    assert_eq!((rows_in_all, true), (job.done, job.finished));
    assert_eq!((0..rows_in_all).collect::<Vec<_>>(), rows(&rig.out()).into_keys().collect::<Vec<_>>());
    check_figures(&rig.out());
}

fn refused(rig: &Rig) -> String {
    let requests = rig.requests();
    let job = rig.start();
    assert!(job.wait(MAX_WAIT));
    let failure = job.summary().failure.expect("it was not refused");
    assert_eq!(requests, rig.requests());
    failure.message.to_string().replace(&format!("{}/", directory(rig).parent().unwrap().display()), "")
}

#[test]
fn a_stopped_job_resumes_in_the_middle_of_its_files() {
    let held = Held::new();
    let rig = stopped(&held);
    check_finished(&rig, ROWS);
    // Row 12 was requested twice, and the first time from another server.
    assert_eq!(ROWS - 1, rig.requests());
    check_finished(&rig, ROWS);
    assert_eq!(ROWS - 1, rig.requests());
    assert_eq!(format!("8 files: {}", directory(&rig).display()), status(&rig.out()).unwrap().input);
}

#[test]
fn a_job_resumes_after_its_files_were_touched_or_moved_but_not_after_a_row_changed() {
    let held = Held::new();
    let mut rig = stopped(&held);
    let third = directory(&rig).join("part=1/2.csv");
    File::options().append(true).open(&third).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let whole = fs::read_to_string(&third).unwrap();
    fs::write(&third, whole.replace("/11\n", "/eleven\n")).unwrap();
    let refusal = refused(&rig);
    assert!(refusal.starts_with("data/part=1/2.csv, of 8 files: row 11 has changed since it was read"), "{refusal}");
    fs::write(&third, whole).unwrap();
    fs::rename(directory(&rig).join("part=0"), directory(&rig).join("part=00")).unwrap();
    assert!(refused(&rig).starts_with("data/part=00/0.csv, of 8 files: row 0 has changed"));
    fs::rename(directory(&rig).join("part=00"), directory(&rig).join("part=0")).unwrap();

    let moved = directory(&rig).with_file_name("moved");
    fs::rename(directory(&rig), &moved).unwrap();
    rig.options.source.input = moved.join("*/*.csv").display().to_string();
    check_finished(&rig, ROWS);
}

#[test]
fn files_added_at_the_end_are_done_if_allowed() {
    let held = Held::new();
    let mut rig = stopped(&held);
    let one = format!("http://127.0.0.1:1/{}", 0);
    put(&rig, "part=4/9.csv", &[&one, &one]);
    assert!(refused(&rig).starts_with("data: it has only grown: its first "));
    rig.options.sink.allow_append = true;
    check_finished(&rig, ROWS + 2);
    put(&rig, "part=2/9.csv", &[&one]);
    assert!(refused(&rig).starts_with("data/part=2/9.csv, of 10 files: row 30 has changed"));
}

#[test]
fn failed_rows_of_several_files_are_retried_from_any_working_directory() {
    let mut rig = rig(Some("http://127.0.0.1:1/"));
    // The files are named one by one, and by a pattern.
    let mut inputs = ["part=0", "part=1/2.csv", "part=1/3.c[s]v", "part=2", "part=3"]
        .map(|input| directory(&rig).join(input).display().to_string())
        .into_iter();
    rig.options.source.input = inputs.next().unwrap();
    rig.options.source.more_inputs = inputs.collect();
    check_finished(&rig, ROWS);
    let job = JobOptions {
        engine: rig.options.engine.clone(),
        run: RunOptions::default().without_retries(),
        ..JobOptions::default()
    };
    let options = RetryOptions { output: rig.out(), job, ..RetryOptions::default() };
    let job = Run::retry_with(options, &Recorder::new()).unwrap();
    assert!(job.wait(MAX_WAIT));
    assert_eq!((1, None), (job.summary().rows, job.summary().failure.map(|failure| failure.message.to_string())));
}

#[test]
fn results_cannot_be_written_where_the_input_would_include_them() {
    let mut rig = rig(None);
    let parent = directory(&rig).parent().unwrap().to_owned();
    for (input, is_refused) in [
        ("", true),
        (".", true),
        ("*", true),
        ("**/*.ndjson", true),
        ("data", false),
        ("*/*.csv", false),
        ("d*", false),
    ] {
        rig.options.source.input = parent.join(input).display().to_string();
        let error = Run::job_with(&rig.options, &Recorder::new()).err().map(|error| error.to_string());
        let is_this = error.as_ref().is_some_and(|error| error.contains(" lies within the input "));
        assert_eq!(is_refused, is_this, "{input}: {error:?}");
    }
}
