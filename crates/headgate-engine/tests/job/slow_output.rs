//! An output that takes nothing for a while: workers wait, and no row is lost, however the job ends meanwhile.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::endings::Fifo;
use crate::harness::{PATIENCE, eventually, server, url};

/// So large that a row with such a body is handed to the sink at once.
const LARGE_BODY_BYTES: usize = 1024 * 1024;
/// Long enough for a worker to hand on the few rows that it has.
const A_WHILE: Duration = Duration::from_millis(300);

/// Where the first part would be written is a FIFO, which holds the sink until it is read.
struct HeldPart {
    go: mpsc::Sender<()>,
    text: JoinHandle<String>,
}

impl HeldPart {
    /// For a job that has not been given any row yet.
    fn new(output: &Path) -> Self {
        let path = output.join("_headgate/tmp/part-00000001.ndjson.tmp");
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a FIFO");
        let (go, wait) = mpsc::channel();
        let text = thread::spawn(move || {
            let mut part = File::open(path).expect("the FIFO");
            wait.recv().expect("the test goes on");
            let mut text = String::new();
            part.read_to_string(&mut text).expect("results");
            text
        });
        Self { go, text }
    }

    /// Reads what is written, to the end.
    fn release(self) -> JoinHandle<String> {
        self.go.send(()).expect("a reader");
        self.text
    }
}

/// How many of the rows that the job counts were written.
fn written(text: &str) -> u64 {
    text.lines().count() as u64
}

#[test]
fn a_few_rows_that_wait_for_the_sink_when_the_input_ends_are_written() {
    let server = server();
    let mut fifo = Fifo::new();
    fifo.rig.options.engine.threads = Some(1);
    let job = fifo.rig.start();
    let held = HeldPart::new(&fifo.rig.path("out"));
    // One for the sink and four for its queue; then nothing goes.
    for rows in 1..=5 {
        fifo.write(&format!("{}\n", url(server.address(), &format!("/bytes/{LARGE_BODY_BYTES}"))));
        eventually("the row is done", || job.snapshot().rows == rows);
    }
    fifo.write(&format!("{}\n", url(server.address(), "/small")));
    eventually("the last row is done", || job.snapshot().rows == 6);
    assert!(!job.wait(A_WHILE));
    let rig = fifo.close();
    assert!(!job.wait(A_WHILE));

    let text = held.release();
    assert!(job.wait(PATIENCE));
    assert_eq!((6, 6), (written(&text.join().unwrap()), job.summary().rows));
    drop(rig);
}

#[test]
fn what_was_counted_is_written_when_a_job_is_ended_that_waits_for_its_output() {
    let server = server();
    let mut fifo = Fifo::new();
    fifo.rig.options.run.concurrency = 64;
    let job = fifo.rig.start();
    let held = HeldPart::new(&fifo.rig.path("out"));
    for size in [LARGE_BODY_BYTES / 8, 0] {
        fifo.write(&format!("{}\n", url(server.address(), &format!("/bytes/{size}"))).repeat(300));
    }
    eventually("the output holds the job back", || job.snapshot().rows > 40);
    job.abort();
    assert!(!job.wait(A_WHILE));
    let text = held.release();
    assert!(job.wait(PATIENCE));
    assert_eq!(job.summary().rows, written(&text.join().unwrap()));
}

#[test]
fn an_aborted_job_ends_though_nobody_takes_its_output() {
    let server = server();
    let fifo = Fifo::new();
    let job = fifo.rig.start();
    let held = HeldPart::new(&fifo.rig.path("out"));
    fifo.write(&format!("{}\n", url(server.address(), &format!("/bytes/{LARGE_BODY_BYTES}"))));
    eventually("the row is done", || job.snapshot().rows == 1);
    job.stop();
    assert!(!job.wait(A_WHILE), "a stop waits for the output");

    job.abort();

    assert!(!job.wait(Duration::ZERO), "there is a moment to write in");
    eventually("the job has ended", || job.wait(A_WHILE));
    held.release().join().expect("a reader");
}
