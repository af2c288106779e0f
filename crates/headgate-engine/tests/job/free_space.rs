//! A job stops before the file system of its output is full, and what it has received is committed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use headgate_core::error::JobError;
use headgate_core::files::storage::Storage;
use headgate_core::files::{Directory, Space};
use headgate_engine::status::status;
use headgate_engine::{RetryOptions, Run, Summary};
use headgate_testserver::Server;

use crate::harness::{MAX_WAIT, Rig, eventually, server, url};

const MIB: u64 = 1024 * 1024;
const MIN_FREE: u64 = 100 * MIB;
const PLENTY: u64 = 1 << 40;

/// A file system that reports the free space that the test sets.
#[derive(Debug, Clone)]
struct Disk(Arc<AtomicU64>);

#[derive(Debug)]
struct Files(Disk, Directory);

impl Storage for Files {
    fn directory(&self) -> &Directory {
        &self.1
    }

    fn space(&self) -> Option<Space> {
        Some(Space { total: PLENTY, free: self.0.0.load(SeqCst) })
    }
}

impl Disk {
    fn with(free: u64) -> Self {
        Self(Arc::new(AtomicU64::new(free)))
    }

    fn set(&self, free: u64) {
        self.0.store(free, SeqCst);
    }

    fn storage(&self) -> impl Fn(Directory) -> Arc<dyn Storage> + Send + Sync + use<> {
        let disk = self.clone();
        move |directory| Arc::new(Files(disk.clone(), directory)) as Arc<dyn Storage>
    }

    fn start(&self, rig: &Rig) -> Result<Run, JobError> {
        Run::job_with(&rig.options, &self.storage())
    }
}

fn rig(urls: impl IntoIterator<Item = String>) -> Rig {
    let mut rig = Rig::urls(urls).concurrency(8, 2);
    rig.options.sink.min_free = Some(MIN_FREE);
    rig
}

fn many(server: &Server, rows: u64) -> Rig {
    rig((0..rows).map(|row| url(server.address(), &format!("/row/{row}"))))
}

fn failure(summary: &Summary) -> (&str, String) {
    let failure = summary.failure.as_ref().expect("a failure");
    (failure.kind, failure.message.to_string())
}

#[test]
fn a_run_that_finds_too_little_space_commits_what_it_has_received_and_is_resumed_later() {
    let (server, disk) = (server(), Disk::with(PLENTY));
    let rig = many(&server, 100_000);
    let job = disk.start(&rig).unwrap();
    eventually("rows are done", || job.snapshot().rows > 100);
    disk.set(MIN_FREE - MIB);
    let (rows, summary) = rig.finish(&job);
    let (kind, message) = failure(&summary);
    assert_eq!("storage", kind);
    let shown = rig.path("out").display().to_string();
    assert_eq!(
        format!(
            "the file system of {shown} has only 99.0 MiB free; 100 MiB must stay free (min_free): free some space, and \
             the same command continues"
        ),
        message
    );
    assert!(rows.len() < 100_000, "it did not stop");
    let done = summary.job.expect("a job").done;
    assert_eq!((done, done), (rows.len() as u64, server.statistics().requests), "a request without a result");

    disk.set(PLENTY);
    let (rows, summary) = rig.finish(&disk.start(&rig).unwrap());
    assert_eq!((100_000, None), (rows.len(), summary.failure.map(|failure| failure.message.to_string())));
    assert_eq!(100_000, server.statistics().requests);
}

#[test]
fn requests_in_flight_are_finished_unless_very_little_space_is_left() {
    let (server, disk) = (server(), Disk::with(PLENTY));
    let hang = url(server.address(), "/fault/hang-before-headers");
    let rig = rig([url(server.address(), "/good"), hang]);
    let job = disk.start(&rig).unwrap();
    eventually("one row is done", || job.snapshot().rows == 1);
    disk.set(MIN_FREE - MIB);
    eventually("the run stops", || job.snapshot().stopping);
    assert!(!job.wait(Duration::from_millis(700)), "it does not wait for what is in flight");
    disk.set(MIN_FREE / 2 - 1);
    let (rows, summary) = rig.finish(&job);
    assert_eq!(("storage", 1), (failure(&summary).0, rows.len()));
}

#[test]
fn a_job_that_finds_too_little_space_is_refused_before_it_sends_anything() {
    let server = server();
    let mut rig = many(&server, 10);
    let refused = Disk::with(MIN_FREE - MIB).start(&rig).expect_err("it started").to_string();
    assert!(refused.contains("min_free"), "{refused}");
    rig.options.sink.min_free = None;
    let refused = Disk::with(1024 * MIB - 1).start(&rig).expect_err("it started").to_string();
    assert!(refused.contains("1.0 GiB must stay free"), "{refused}");
    assert_eq!(0, server.statistics().requests);
    rig.options.sink.min_free = Some(0);
    assert_eq!(10, rig.finish(&Disk::with(0).start(&rig).unwrap()).0.len());
}

#[test]
fn a_retry_leaves_space_for_the_rows_that_it_rewrites() {
    const SHORT: Duration = Duration::from_millis(300);
    let (server, disk) = (server(), Disk::with(PLENTY));
    let mut rig = rig([url(server.address(), "/fault/hang-before-headers"), url(server.address(), "/good")]);
    rig.options.request.timeout = SHORT;
    rig.finish(&disk.start(&rig).unwrap());
    let retry = |timeout, free| {
        disk.set(free);
        let mut options = RetryOptions { output: rig.path("out"), job: rig.options.clone(), ..RetryOptions::default() };
        options.job.request.timeout = timeout;
        Run::retry_with(options, &disk.storage())
    };
    let refused = retry(SHORT, MIN_FREE - MIB).expect_err("it started").to_string();
    assert!(refused.contains("min_free"), "{refused}");

    let before = server.statistics().requests;
    let job = retry(MAX_WAIT, PLENTY).unwrap();
    eventually("the request is sent", || server.statistics().requests > before);
    disk.set(MIN_FREE);
    eventually("the retry stops", || job.snapshot().stopping);
    disk.set(0);
    let (rows, summary) = rig.finish(&job);
    let message = failure(&summary).1;
    assert!(message.contains("are to be written, and 100 MiB must stay free"), "{message}");
    assert_eq!([1, 1], [rows[0].attempts, rows[1].attempts]);

    let (rows, summary) = rig.finish(&retry(SHORT, PLENTY).unwrap());
    // The attempt of the retry that was stopped counts, too.
    assert_eq!(([3, 1], true), ([rows[0].attempts, rows[1].attempts], summary.failure.is_none()));
}

#[test]
fn parts_are_merged_as_far_as_there_is_space() {
    const ROWS: usize = 8;
    const BODY: u64 = 10_000;
    let server = server();
    let mut rig = rig((0..ROWS).map(|row| url(server.address(), &format!("/bytes/{BODY}?{row}")))).concurrency(1, 1);
    // Each batch, and so about each row, is a part.
    rig.options.sink.commit_interval = Some(Duration::ZERO);
    rig.options.run.limits.rate = Some("5/s".parse().unwrap());
    let run = |more| rig.finish(&Disk::with(MIN_FREE + more).start(&rig).unwrap());
    let parts = || {
        let status = status(&rig.path("out")).unwrap();
        (status.parts, status.finished)
    };

    let (rows, summary) = run(BODY - 1);
    assert_eq!(ROWS, rows.len());
    assert!(failure(&summary).1.contains("must stay free"), "{summary:?}");
    let (unmerged, is_finished) = parts();
    assert!(!is_finished);

    let (rows, summary) = run(3 * BODY);
    assert_eq!((ROWS, true), (rows.len(), summary.failure.is_none()), "{summary:?}");
    assert_eq!((unmerged.div_ceil(2), true), parts());
    assert_eq!(ROWS as u64, server.statistics().requests);
}
