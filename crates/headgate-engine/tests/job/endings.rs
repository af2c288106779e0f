//! How a job ends when its source or its sink fails: done rows are kept, and the error names the cause.

use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use headgate_core::options::{Format, Output};
use headgate_engine::preview;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::harness::{Rig, eventually, ordinals, server, url};

/// An input that the test writes while the job reads it.
pub struct Fifo {
    pub rig: Rig,
    writer: File,
}

impl Fifo {
    pub fn new() -> Self {
        let mut rig = Rig::new("");
        let path = rig.path("rows.txt");
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a FIFO");
        // Opening for reading and writing does not wait for a reader (fifo(7)).
        let writer = File::options().read(true).write(true).open(&path).expect("both ends of the FIFO");
        rig.options.source.input = path.display().to_string();
        Self { rig, writer }
    }

    pub fn write(&self, text: &str) {
        (&self.writer).write_all(text.as_bytes()).expect("a reader");
    }

    /// Closes the input; a job that has opened it ends.
    pub fn close(self) -> Rig {
        self.rig
    }
}

#[test]
fn a_pipe_that_its_writer_closes_ends_the_job() {
    let server = server();
    let fifo = Fifo::new();
    let job = fifo.rig.start();
    fifo.write(&format!("{0}\n{0}", url(server.address(), "/row")));
    let rig = fifo.close();
    let (rows, summary) = rig.finish(&job);
    assert_eq!((vec![0, 1], 2), (ordinals(&rows), summary.rows));
    assert!(!summary.interrupted);
}

#[test]
fn rows_before_an_input_error_are_done_and_kept() {
    let server = server();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    for row in 0..20_000 {
        writeln!(encoder, "{}", url(server.address(), &format!("/{row}"))).unwrap();
    }
    let mut bytes = encoder.finish().unwrap();
    bytes.truncate(bytes.len() / 4);
    let (rows, summary) = Rig::file("urls.txt.gz", bytes).run();
    let count = rows.len() as u64;
    assert!((4000..6000).contains(&count), "{count} rows");
    assert_eq!((0..count).collect::<Vec<_>>(), ordinals(&rows));
    assert_eq!((count, count), (summary.rows, summary.succeeded));
    let failure = summary.failure.expect("the input is broken");
    assert_eq!("input", failure.kind);
    assert!(failure.message.to_string().contains("urls.txt.gz"), "{}", failure.message);
}

#[test]
fn an_output_error_ends_the_job() {
    let server = server();
    let mut rig = Rig::new(url(server.address(), "/[1-1000000000]")).concurrency(32, 2);
    // Each batch is a new part.
    rig.options.sink.part_size = 1;
    let job = rig.start();
    eventually("a part is there", || !rig.results().is_empty());
    fs::rename(rig.path("out"), rig.path("elsewhere")).unwrap();
    assert!(job.wait(crate::harness::MAX_WAIT));
    let failure = job.summary().failure.expect("the output is gone");
    assert_eq!("output", failure.kind);
    assert!(failure.message.to_string().contains("/out"), "{}", failure.message);
}

#[test]
fn rows_committed_before_an_output_error_are_kept() {
    let server = server();
    let mut fifo = Fifo::new();
    fifo.rig.options.sink.commit_interval = Some(Duration::ZERO);
    let job = fifo.rig.start();
    let tmp = fifo.rig.path("out/_headgate/tmp");
    // A directory has the name of the first part of succeeded rows.
    fs::create_dir(tmp.join("part-00000001.ndjson.tmp")).unwrap();
    fifo.write("no url\n");
    eventually("the part of failed rows exists", || !fifo.rig.results().is_empty());
    fifo.write(&format!("{}\n", url(server.address(), "/row")));
    let (rows, summary) = fifo.rig.finish(&job);
    assert_eq!(vec![0], ordinals(&rows));
    assert_eq!("output", summary.failure.expect("a part could not be written").kind);
}

#[test]
fn every_row_is_in_the_parquet_files() {
    let server = server();
    let mut rig = Rig::new(url(server.address(), "/[1-2500]")).concurrency(32, 2);
    rig.options.sink.format = Format::Parquet;
    let job = rig.start();
    assert!(job.wait(crate::harness::MAX_WAIT));
    assert_eq!(Some(2500), preview(&rig.path("out"), 3, false).expect("results").total_rows);
}

#[test]
fn a_job_without_output_counts_its_results() {
    let server = server();
    let mut rig = Rig::new(url(server.address(), "/[1-2500]")).concurrency(32, 2);
    rig.options.sink.format = Format::None;
    rig.options.sink.output = Output::Nowhere;
    let job = rig.start();
    assert!(job.wait(crate::harness::MAX_WAIT));
    assert_eq!((2500, 2500), (job.summary().succeeded, server.statistics().requests));
}
