//! Jobs that save bodies in archives. Each step may be the last one, and no archive is incomplete or without its rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Instant;

use headgate_core::options::{Format, SinkOptions};
use headgate_engine::testing::RunningJob;
use proptest::prelude::*;

use crate::check::{check_finished, check_kept, rows, saved_paths};
use crate::check_saved::in_archives;
use crate::harness::{Bench, FORMATS, ROWS};
use crate::power::{PowerLoss, files_below};
use crate::steps::{every_step, every_step_twice};
use crate::storage::Recorder;

/// Saves all bodies in one archive, which is committed when the job ends.
fn in_one_archive(format: Format) -> Bench {
    let mut bench = Bench::archiving(format);
    bench.options.sink.part_size = SinkOptions::default().part_size;
    bench
}

#[test]
fn a_crash_at_any_step_leaves_no_partial_archive_and_no_row_without_its_body() {
    for format in FORMATS {
        every_step(|| Bench::archiving(format), Recorder::crashing_at);
    }
    every_step(|| in_one_archive(Format::Ndjson), Recorder::crashing_at);
}

#[test]
fn a_disk_that_fails_once_loses_no_body() {
    for format in FORMATS {
        every_step(|| Bench::archiving(format), Recorder::failing_at);
    }
}

#[test]
fn a_crash_during_recovery_loses_no_body() {
    every_step_twice(|| in_one_archive(Format::Ndjson));
}

#[test]
fn the_name_of_a_removed_archive_is_not_reused() {
    let bench = Bench::archiving(Format::Ndjson);
    let archives = |paths: &BTreeMap<u64, String>| -> BTreeSet<String> {
        paths.values().map(|path| path.split_once('/').unwrap().0.to_owned()).collect()
    };
    bench.run_batches(&Recorder::new(), 2).result.unwrap();
    let taken = saved_paths(&bench.out());
    for archive in archives(&taken) {
        fs::remove_file(bench.out().join(archive)).unwrap();
    }
    bench.run(&Recorder::new()).result.unwrap();
    let there = in_archives(&bench);
    assert!(archives(&taken).is_disjoint(&archives(&there)));
    assert_eq!(saved_paths(&bench.out()), taken.into_iter().chain(there).collect());
}

#[test]
fn failed_rows_are_committed_while_no_archive_is_open() {
    let bench = in_one_archive(Format::Ndjson);
    let (failed, succeeded): (Vec<u64>, Vec<u64>) = (0..ROWS).partition(|row| bench.expected(*row).failed);
    let job = bench.open(&Recorder::new()).unwrap();
    let RunningJob { mut sink, progress, .. } = bench.start(job, Box::new(Instant::now)).unwrap();
    let done = || progress.commit().done_rows().unwrap().rows_done();
    let _ = sink.write(bench.batch(&failed)).unwrap();
    assert_eq!(failed.len() as u64, done());
    // The archive of this body is not complete.
    let _ = sink.write(bench.batch(&succeeded)).unwrap();
    assert_eq!(failed.len() as u64, done());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn a_power_loss_loses_no_committed_archive(step in 0_usize..160, seed: u64, second in 0_usize..60, ndjson: bool) {
        let power = PowerLoss::new();
        let mut bench = Bench::archiving(FORMATS[usize::from(ndjson)]);
        bench.power = Some(power.clone());
        let run = bench.run(&Recorder::on(&power, Some(step)));
        power.lose(&bench.out(), seed);
        // The job crashes a second time, during recovery.
        drop(bench.open(&Recorder::on(&power, Some(second))));
        power.lose(&bench.out(), seed ^ 1);
        // A part may be durable in place while its archive is still in `tmp`: the next open of the job moves it.
        let job = bench.open(&Recorder::new()).unwrap();
        check_kept(&bench, &run.committed, job.done_rows());
        drop(job);
        bench.run(&Recorder::new()).result.unwrap();
        check_finished(&bench);
        prop_assert_eq!(ROWS as usize, rows(&bench.out()).len());
        prop_assert!(files_below(&bench.out().join("_headgate/tmp")).is_empty());
    }
}
