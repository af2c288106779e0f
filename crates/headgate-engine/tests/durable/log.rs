//! The log: its size is bounded, and the log of an older headgate is read.

use std::fs;
use std::time::Instant;

use headgate_core::options::Format;
use headgate_engine::status::{parts, status};
use headgate_engine::testing::RunningJob;
use headgate_table::sink::Ending;
use serde_json::{Value, json};

use crate::check::check_finished;
use crate::harness::{Bench, ROWS};
use crate::power::files_below;
use crate::storage::Recorder;

#[test]
fn the_log_of_a_job_holds_a_bounded_number_of_commits() {
    let bench = Bench::new(Format::Ndjson);
    let commits = || files_below(&bench.out().join("_headgate/log")).len();
    let mut most = 0;
    let mut next = 0_u64;
    // Checkpoints restart the log from time to time, which does not affect this bound.
    for run in 0..4 {
        let job = bench.open(Recorder::new()).unwrap();
        assert_eq!((next, run), (job.last_commit().done, job.last_commit().runs.len()));
        let RunningJob { mut sink, .. } = bench.start(job, Box::new(Instant::now)).unwrap();
        for row in next..next + 50 {
            assert!(sink.write(bench.batch(&[row])).unwrap().is_continue());
            most = most.max(commits());
        }
        next += 50;
        drop(sink);
        assert_eq!((next, next), (status(&bench.out()).unwrap().done, parts(&bench.out()).unwrap().rows));
    }
    assert_eq!(32, most);

    let job = bench.open(Recorder::new()).unwrap();
    let RunningJob { mut sink, .. } = bench.start(job, Box::new(Instant::now)).unwrap();
    sink.finish(&Ending { input_rows: Some(next), stopped: &|| false }).unwrap();
    drop(sink);
    assert_eq!(1, commits());
    let status = status(&bench.out()).unwrap();
    assert_eq!((true, next, 2), (status.finished, parts(&bench.out()).unwrap().rows, status.parts));
}

/// Returns a record in version 2 of the format: without checkpoints, and with a checksum over the record alone.
fn as_version_2(bytes: &[u8]) -> Vec<u8> {
    let mut envelope: Value = serde_json::from_slice(bytes).unwrap();
    let record = envelope["record"].as_object_mut().unwrap();
    record.remove("parts");
    record.remove("parts_sum");
    let record = envelope["record"].to_string();
    let crc32 = crc32fast::hash(record.as_bytes());
    format!("{}\n", json!({ "format_version": 2, "crc32": crc32, "record": envelope["record"] })).into_bytes()
}

#[test]
fn a_job_of_an_older_headgate_resumes() {
    for batches in [1, 2, usize::MAX] {
        let bench = Bench::new(Format::Parquet);
        let disk = Recorder::new();
        bench.run_batches(disk.clone(), batches).result.unwrap();
        // Version 2 kept all commits.
        for (path, bytes) in disk.linked() {
            fs::write(path, as_version_2(&bytes)).unwrap();
        }
        let job = bench.out().join("_headgate/job.json");
        fs::write(&job, as_version_2(&fs::read(&job).unwrap())).unwrap();

        let done = status(&bench.out()).unwrap().done;
        assert_eq!(done, parts(&bench.out()).unwrap().rows);
        assert_eq!(batches.min(3) as u64 * ROWS / 3, done);
        bench.run(Recorder::new()).result.unwrap();
        check_finished(&bench);
    }
}
