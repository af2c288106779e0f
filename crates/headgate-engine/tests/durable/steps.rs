//! A crash between any two steps, and the run after it.

use headgate_core::options::{Format, IfExists};

use crate::check::{check_finished, check_kept, check_readable, check_resumes, rows};
use crate::harness::{Bench, at_every_step};
use crate::storage::Recorder;

/// Checks that no committed row is lost when this disk refuses each of the steps of such a job.
pub fn every_step(bench: impl Fn() -> Bench + Sync, disk: fn(usize) -> Recorder) {
    at_every_step(|step| {
        let bench = bench();
        let disk = disk(step);
        let run = bench.run(&disk);
        if disk.refused().is_none() {
            run.result.unwrap();
            check_finished(&bench);
            assert!(step > 40, "a run has more steps than {step}");
            return true;
        }
        assert!(run.result.is_err(), "after step {step}");
        check_resumes(&bench, &run);
        false
    });
}

/// Crashes at any step, and again at any step of the recovery.
pub fn every_step_twice(bench: impl Fn() -> Bench + Sync) {
    at_every_step(|first| {
        for second in 0.. {
            let bench = bench();
            let disk = Recorder::crashing_at(first);
            let run = bench.run(&disk);
            if disk.refused().is_none() {
                return true;
            }
            let disk = Recorder::crashing_at(second);
            if bench.open(&disk).is_ok() {
                break;
            }
            assert!(disk.refused().is_some());
            check_resumes(&bench, &run);
        }
        false
    });
}

#[test]
fn a_crash_at_any_step_neither_loses_nor_duplicates_a_row_in_parquet() {
    every_step(|| Bench::new(Format::Parquet), Recorder::crashing_at);
}

#[test]
fn a_crash_at_any_step_neither_loses_nor_duplicates_a_row_in_ndjson() {
    every_step(|| Bench::new(Format::Ndjson), Recorder::crashing_at);
}

#[test]
fn a_crash_during_recovery_neither_loses_nor_duplicates_a_row() {
    every_step_twice(|| Bench::new(Format::Ndjson));
}

#[test]
fn a_crash_while_a_job_starts_over_leaves_the_old_job_or_the_new_one() {
    at_every_step(|step| {
        let mut bench = Bench::new(Format::Ndjson);
        bench.run(&Recorder::new()).result.unwrap();
        let disk = Recorder::crashing_at(step);
        bench.options.sink.if_exists = IfExists::Overwrite;
        bench.edition = "second";
        let run = bench.run(&disk);
        bench.options.sink.if_exists = IfExists::Resume;
        if disk.refused().is_none() {
            run.result.unwrap();
            check_finished(&bench);
            return true;
        }
        // A reader sees the rows of one of the two jobs.
        let of_first = |body: &Vec<u8>| body.starts_with(b"first");
        if rows(&bench.out()).values().any(|row| row.body.as_ref().is_some_and(of_first)) {
            bench.edition = "first";
        }
        check_readable(&bench);
        // A job that resumes without if_exists=overwrite finds one of the two jobs unchanged, or starts a new one.
        let job = bench.open(&Recorder::new()).unwrap();
        if job.is_new() {
            bench.edition = "third";
        } else {
            check_kept(&bench, &run.committed, job.done_rows());
        }
        drop(job);
        bench.run(&Recorder::new()).result.unwrap();
        check_finished(&bench);
        false
    });
}
