//! An output that blocks for a while: workers wait, and no row is lost, however the job ends meanwhile.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use headgate_core::files::Directory;
use headgate_core::files::storage::Storage;
use headgate_engine::Run;

use crate::endings::Fifo;
use crate::harness::{MAX_WAIT, eventually, server, url};

/// Large enough that a row with such a body is passed to the sink at once.
const LARGE_BODY_BYTES: usize = 1024 * 1024;
/// Long enough for a worker to pass on the few rows that it has.
const A_WHILE: Duration = Duration::from_millis(300);

/// A file system on which the sink waits for its first part until the test releases it.
#[derive(Debug, Default)]
struct HeldOutput {
    is_released: Mutex<bool>,
    released: Condvar,
}

impl HeldOutput {
    fn start(fifo: &Fifo) -> (Arc<Self>, Run) {
        let held = Arc::new(Self::default());
        let its = held.clone();
        let storage = move |directory| Arc::new(HeldFiles(its.clone(), directory)) as Arc<dyn Storage>;
        let job = Run::job_with(&fifo.rig.options, &storage).expect("a job that can be started");
        (held, job)
    }

    fn release(&self) {
        *self.is_released.lock().unwrap() = true;
        self.released.notify_all();
    }
}

#[derive(Debug)]
struct HeldFiles(Arc<HeldOutput>, Directory);

impl Storage for HeldFiles {
    fn directory(&self) -> &Directory {
        &self.1
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        let Self(held, directory) = self;
        if path.extension().is_some_and(|extension| extension == "tmp") && path.to_string_lossy().contains("part-") {
            drop(held.released.wait_while(held.is_released.lock().unwrap(), |is_released| !*is_released));
        }
        directory.create(path, mode)
    }
}

#[test]
fn a_few_rows_that_wait_for_the_sink_when_the_input_ends_are_written() {
    let server = server();
    let mut fifo = Fifo::new();
    fifo.rig.options.engine.threads = Some(1);
    let (held, job) = HeldOutput::start(&fifo);
    // One batch is in the sink and four are in its queue; further ones have to wait.
    for rows in 1..=5 {
        fifo.write(&format!("{}\n", url(server.address(), &format!("/bytes/{LARGE_BODY_BYTES}"))));
        eventually("the row is done", || job.snapshot().rows == rows);
    }
    fifo.write(&format!("{}\n", url(server.address(), "/small")));
    eventually("the last row is done", || job.snapshot().rows == 6);
    assert!(!job.wait(A_WHILE));
    let rig = fifo.close();
    assert!(!job.wait(A_WHILE));

    held.release();
    let (rows, summary) = rig.finish(&job);
    assert_eq!((6, 6), (rows.len(), summary.rows));
}

#[test]
fn a_sink_that_waits_for_its_disk_is_reported_and_workers_that_have_ended_are_not_called_unresponsive() {
    let server = server();
    let fifo = Fifo::new();
    let (held, job) = HeldOutput::start(&fifo);
    fifo.write(&format!("{}\n", url(server.address(), "/row")));
    let rig = fifo.close();
    eventually("the sink waits", || job.snapshot().writing_s.is_some_and(|seconds| seconds > 1.0));
    assert_eq!((1, 0.0), (job.snapshot().rows, job.snapshot().unresponsive_s));
    held.release();
    rig.finish(&job);
    assert_eq!(None, job.snapshot().writing_s);
}

#[test]
fn counted_rows_are_written_when_a_job_that_waits_for_its_output_is_stopped() {
    let server = server();
    let mut fifo = Fifo::new();
    fifo.rig.options.run.concurrency = 64;
    let (held, job) = HeldOutput::start(&fifo);
    for size in [LARGE_BODY_BYTES / 8, 0] {
        fifo.write(&format!("{}\n", url(server.address(), &format!("/bytes/{size}"))).repeat(300));
    }
    eventually("workers wait for the output", || job.snapshot().rows > 40);
    job.abort();
    assert!(!job.wait(Duration::ZERO), "an aborted job has a second to write its last rows");
    held.release();
    assert!(job.wait(MAX_WAIT));
    // On a busy machine, writing the rows may take longer than the wait for an aborted job.
    eventually("what was counted is in the result", || job.summary().rows == fifo.rig.results().len() as u64);
}

#[test]
fn an_aborted_job_ends_though_no_reader_reads_its_output() {
    let server = server();
    let fifo = Fifo::new();
    let (held, job) = HeldOutput::start(&fifo);
    fifo.write(&format!("{}\n", url(server.address(), &format!("/bytes/{LARGE_BODY_BYTES}"))));
    eventually("the row is done", || job.snapshot().rows == 1);
    job.stop();
    assert!(!job.wait(A_WHILE), "a stop waits for the output");

    job.abort();

    assert!(!job.wait(Duration::ZERO), "there is a moment to write in");
    eventually("the job has ended", || job.wait(A_WHILE));
    held.release();
}
