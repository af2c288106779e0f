//! Jobs whose input is written to while it is read.

use std::fs::{self, File};
use std::io::{BufReader, Write as _};
use std::sync::Once;
use std::time::{Duration, SystemTime};

use headgate_core::options::{Format, Output};
use headgate_engine::{RetryOptions, Run};

use crate::harness::{Rig, eventually, ordinals};
use crate::scripted::{Scripted, read_head};

const ROWS: u64 = 4000;
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Creates a job with one request at a time. It is near the beginning of its input when `happens` is called, because the first
/// request
/// is in flight.
fn rig(rows: u64, happens: impl Fn(&File) + Send + Sync + 'static) -> Rig {
    let mut rig = Rig::file("urls.txt", "").one_by_one();
    rig.options.run.read_ahead = 64;
    let path = rig.path("urls.txt");
    let (once, input) = (Once::new(), path.clone());
    let server = Scripted::start(move |mut stream, _| {
        let mut requests = BufReader::new(stream.try_clone().unwrap());
        while read_head(&mut requests).is_some() {
            once.call_once(|| happens(&File::options().append(true).open(&input).unwrap()));
            if stream.write_all(RESPONSE).is_err() {
                return;
            }
        }
    });
    // Long lines cause many reads of the input for few requests.
    let pad = "x".repeat(500);
    let lines: Vec<_> = (0..rows).map(|row| server.url(&format!("/{row}/{pad}\n"))).collect();
    write_input(&rig, lines.concat().as_bytes());
    rig
}

/// Writes the input, with an old modification time.
fn write_input(rig: &Rig, bytes: &[u8]) {
    let path = rig.path("urls.txt");
    fs::write(&path, bytes).unwrap();
    let file = File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
}

fn cut_in_half(input: &File) {
    input.set_len(input.metadata().unwrap().len() / 2 + 7).unwrap();
}

#[test]
fn a_truncated_input_ends_the_job_which_resumes_once_the_input_is_restored() {
    let rig = rig(ROWS, cut_in_half);
    let bytes = fs::read(rig.path("urls.txt")).unwrap();
    let (rows, summary) = rig.run();

    let failure = summary.failure.expect("the input was cut");
    assert_eq!("input", failure.kind);
    assert!(
        failure.message.to_string().contains("urls.txt: truncated while it was read: it had "),
        "{}",
        failure.message
    );
    // No note says that the input was only touched.
    assert!(summary.notes.is_empty(), "{:?}", summary.notes);
    let count = rows.len() as u64;
    assert!(0 < count && count < ROWS / 2 + 7, "{count} rows");
    assert_eq!((0..count).collect::<Vec<_>>(), ordinals(&rows));
    assert!(rows.iter().all(|row| row.url.len() == rows[0].url.len() + row.row.to_string().len() - 1));
    let job = summary.job.expect("a durable job");
    assert_eq!((count, false), (job.done, job.finished));

    write_input(&rig, &bytes);
    let (rows, summary) = rig.run();
    assert!(summary.failure.is_none(), "{:?}", summary.failure);
    assert_eq!((0..ROWS).collect::<Vec<_>>(), ordinals(&rows));
    let job = summary.job.expect("a durable job");
    assert_eq!((ROWS, count, true), (job.done, job.rows_before, job.finished));
}

#[test]
fn a_truncated_input_is_detected_without_a_job_directory() {
    // Without a window, the number of rows read ahead is the size of the queue.
    let mut rig = rig(4 * ROWS, cut_in_half);
    rig.options.sink.output = Output::Nowhere;
    rig.options.sink.format = Format::None;
    let job = rig.start();
    assert!(job.wait(crate::harness::MAX_WAIT));
    let failure = job.summary().failure.expect("the input was cut");
    assert_eq!("input", failure.kind);
    assert!(failure.message.to_string().contains("truncated while it was read"), "{}", failure.message);
}

#[test]
fn rows_added_while_a_job_runs_are_not_read_and_a_note_says_so() {
    let rig = rig(ROWS, |mut input| {
        let last = format!("http://127.0.0.1:1/{}\n", "late".repeat(100));
        input.write_all(last.repeat(93).as_bytes()).unwrap();
    });
    let (rows, summary) = rig.run();
    assert!(summary.failure.is_none(), "{:?}", summary.failure);
    assert_eq!((0..ROWS).collect::<Vec<_>>(), ordinals(&rows));
    assert!(summary.job.expect("a durable job").finished);
    assert_eq!(1, summary.notes.len(), "{:?}", summary.notes);
    assert!(summary.notes[0].to_string().contains("urls.txt grew while it was read, from "), "{:?}", summary.notes);
}

/// Parts of failed rows are retried one after the other, which may require opening the input again: an earlier row
/// may have failed later.
#[test]
fn a_retry_sends_no_rows_of_a_file_that_replaced_its_input() {
    const NO: &[u8] = b"HTTP/1.1 503 Not Now\r\ncontent-length: 0\r\n\r\n";
    let mut rig = Rig::file("urls.txt", "").concurrency(2, 1);
    rig.options.sink.commit_interval = Some(Duration::ZERO);
    // Each part of failed rows is retried separately.
    rig.options.sink.part_size = 1;
    let (first_part, input, other) = (rig.path("out/failed-00000001.ndjson"), rig.path("urls.txt"), rig.path("other"));
    let server = Scripted::start(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let reply = if other.exists() {
                fs::rename(&other, &input).unwrap();
                RESPONSE
            } else {
                if head.starts_with("GET /first ") {
                    eventually("the second row is committed", || first_part.exists());
                }
                NO
            };
            if stream.write_all(reply).is_err() {
                return;
            }
        }
    });
    write_input(&rig, format!("{}\n{}\n", server.url("/first"), server.url("/second")).as_bytes());
    let (rows, _) = rig.run();
    assert_eq!(vec![0, 1], ordinals(&rows));
    assert!(rig.path("out/failed-00000002.ndjson").exists(), "two parts");

    fs::write(rig.path("other"), format!("{0}\n{0}\n", server.url("/another"))).unwrap();
    let options = RetryOptions { output: rig.path("out"), job: rig.options.clone(), ..RetryOptions::default() };
    let job = Run::retry(options).unwrap();
    let (rows, summary) = rig.finish(&job);

    let failure = summary.failure.expect("another file");
    assert_eq!("input", failure.kind);
    assert!(
        failure.message.to_string().contains("it was replaced or changed since the retry began"),
        "{}",
        failure.message
    );
    let statuses: Vec<_> = rows.iter().map(|row| (row.row, row.status)).collect();
    assert_eq!(vec![(0, Some(503)), (1, Some(200))], statuses);
    assert!(rows.iter().all(|row| !row.url.ends_with("/another")));
}
