//! Settings of a running job, changed by several callers at the same time.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use headgate_core::limits::MaxFailures;
use headgate_core::live::Settings;
use headgate_engine::set::ChangeResult;
use headgate_engine::status::status;
use headgate_engine::{RetryOptions, Run, SettingsChange, set};

use crate::endings::Fifo;
use crate::harness::{MAX_WAIT, Rig};
use crate::scripted::{Scripted, read_head};

fn setting(name: &str, value: u64) -> Settings {
    [(name.to_owned(), value.to_string())].into()
}

#[test]
fn no_change_is_lost_that_the_process_of_the_job_and_others_make_at_the_same_time() {
    const CHANGES: u64 = 4;
    let fifo = Fifo::new();
    let (job, out) = (fifo.rig.start(), fifo.rig.path("out"));
    let change_from_outside = |name: &str| {
        for value in 1..=CHANGES {
            let change = SettingsChange { paused: None, set: setting(name, value) };
            assert_eq!(ChangeResult::Applied, set::send(&out, &change, MAX_WAIT).unwrap());
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| change_from_outside("concurrency"));
        scope.spawn(|| change_from_outside("burst"));
        for name in ["retries", "max_failures"] {
            let job = &job;
            scope.spawn(move || (1..=50 * CHANGES).for_each(|value| job.set(setting(name, value)).unwrap()));
        }
    });
    let stored = status(&out).unwrap().settings.set;
    let many = 50 * CHANGES;
    let expected = [("burst", CHANGES), ("concurrency", CHANGES), ("retries", many), ("max_failures", many)];
    assert_eq!(Settings::from(expected.map(|(name, value)| (name.to_owned(), value.to_string()))), stored);
    assert_eq!(CHANGES, job.snapshot().concurrency);
    fifo.close().finish(&job);
}

#[test]
fn a_setting_that_the_run_refuses_is_removed_and_takes_no_other_with_it() {
    let fifo = Fifo::new();
    let (job, out) = (fifo.rig.start(), fifo.rig.path("out"));
    // More than the machine allows.
    let refused = SettingsChange { paused: None, set: setting("concurrency", 1_000_000_000) };
    thread::scope(|scope| {
        scope.spawn(|| (0..3).for_each(|_| drop(set::send(&out, &refused, Duration::from_secs(2)).unwrap())));
        scope.spawn(|| (1..=100).for_each(|value| job.set(setting("retries", value)).unwrap()));
    });
    job.set(setting("burst", 7)).unwrap();
    let stored = status(&out).unwrap().settings.set;
    let expected = [("burst", 7), ("retries", 100)].map(|(name, value)| (name.to_owned(), value.to_string()));
    assert_eq!(Settings::from(expected), stored);
    fifo.close().finish(&job);
}

#[test]
fn a_retry_that_stops_itself_keeps_the_settings_of_its_job() {
    let lock = Arc::new(Mutex::new(()));
    let passes = lock.clone();
    let server = Scripted::start(move |mut stream, _| {
        while read_head(&mut stream).is_some() {
            drop(passes.lock().unwrap());
            if stream.write_all(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n").is_err() {
                break;
            }
        }
    });
    let mut rig = Rig::new(server.url("/[1-20]")).one_by_one();
    rig.options.run.retrying.retries = 0;
    let job = rig.start();
    assert!(job.wait(MAX_WAIT));
    assert_eq!(20, job.summary().failed);
    drop(job);
    let mut options = RetryOptions { output: rig.path("out"), job: rig.options.clone(), ..RetryOptions::default() };
    options.job.run.max_failures = MaxFailures::Count(3);
    let closed = lock.lock().unwrap();
    let retry = Run::retry(options).expect("it starts");
    retry.set(setting("burst", 7)).unwrap();
    drop(closed);
    assert!(retry.wait(MAX_WAIT));
    assert!(retry.summary().stopped_by.is_some());
    assert_eq!(setting("burst", 7), status(&rig.path("out")).unwrap().settings.set);
}
