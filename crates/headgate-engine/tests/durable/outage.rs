//! Power losses between any two steps: bytes and names that are not durable may be lost or damaged.

use headgate_core::options::{Format, IfExists};

use crate::check::{check_finished, check_kept, check_resumes};
use crate::harness::{Bench, FORMATS, at_every_step};
use crate::power::PowerLoss;
use crate::storage::Recorder;

/// Loses power at every step of a job, in several ways.
fn every_step(format: Format, seeds: u64) {
    at_every_step(|step| {
        (0..seeds).any(|seed| {
            let bench = Bench::new(format);
            let power = PowerLoss::new();
            let disk = Recorder::on(&power, Some(step));
            let run = bench.run(&disk);
            power.lose(&bench.out(), step as u64 * seeds + seed);
            check_resumes(&bench, &run);
            disk.refused().is_none()
        })
    });
}

#[test]
fn a_power_loss_at_any_step_loses_no_committed_row_in_parquet() {
    every_step(Format::Parquet, 1);
}

#[test]
fn a_power_loss_at_any_step_loses_no_committed_row_in_ndjson() {
    every_step(Format::Ndjson, 3);
}

#[test]
fn a_power_loss_after_a_crash_loses_no_recovered_row() {
    at_every_step(|first| {
        for second in 0.. {
            let bench = Bench::new(FORMATS[first % 2]);
            let power = PowerLoss::new();
            let disk = Recorder::on(&power, Some(first));
            let run = bench.run(&disk);
            if disk.refused().is_none() {
                return true;
            }
            let opened = bench.open(&Recorder::on(&power, Some(second))).is_ok();
            power.lose(&bench.out(), (first * 100 + second) as u64);
            check_resumes(&bench, &run);
            if opened {
                break;
            }
        }
        false
    });
}

#[test]
fn a_power_loss_while_a_job_starts_over_leaves_the_old_job_or_none() {
    at_every_step(|step| {
        (0..2).any(|seed| {
            let mut bench = Bench::new(Format::Ndjson);
            bench.run(&Recorder::new()).result.unwrap();
            bench.options.sink.if_exists = IfExists::Overwrite;
            let power = PowerLoss::new();
            let disk: Recorder = Recorder::on(&power, Some(step));
            bench.edition = "second";
            let run = bench.run_batches(&disk, 1);
            power.lose(&bench.out(), step as u64 * 2 + seed);
            bench.options.sink.if_exists = IfExists::Resume;

            let job = bench.open(&Recorder::new()).unwrap();
            let is_old = !job.is_new() && job.last_commit().finished;
            bench.edition = if is_old { "first" } else { "second" };
            if !job.is_new() {
                check_kept(&bench, &run.committed, job.done_rows());
            }
            drop(job);
            bench.run(&Recorder::new()).result.unwrap();
            check_finished(&bench);
            disk.refused().is_none()
        })
    });
}
