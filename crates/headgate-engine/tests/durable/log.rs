//! The log: its size is bounded.

use std::time::Instant;

use headgate_core::options::Format;
use headgate_engine::status::{parts, status};
use headgate_engine::testing::RunningJob;
use headgate_table::sink::Ending;

use crate::harness::Bench;
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
        let job = bench.open(&Recorder::new()).unwrap();
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

    let job = bench.open(&Recorder::new()).unwrap();
    let RunningJob { mut sink, .. } = bench.start(job, Box::new(Instant::now)).unwrap();
    sink.finish(&Ending {
        input_rows: Some(next),
        undone: &[],
        stopped: &|| false,
        stopped_by: None,
        by_failures: false,
    })
    .unwrap();
    drop(sink);
    assert_eq!(1, commits());
    let status = status(&bench.out()).unwrap();
    assert_eq!((true, next, 2), (status.finished, parts(&bench.out()).unwrap().rows, status.parts));
}
