//! Jobs that save bodies: each step of them can be the last, and no file is there that is not whole, or not named.

use headgate_engine::model::options::Format;
use proptest::prelude::*;

use crate::check::{check_finished, check_goes_on, check_kept, check_readable, rows};
use crate::harness::{Bench, FORMATS, ROWS, at_every_step};
use crate::power::{PowerLoss, files_below};
use crate::storage::{Recorder, Step};

fn every_step(format: Format, disk: fn(usize) -> std::sync::Arc<Recorder>) {
    at_every_step(|step| {
        let bench = Bench::saving(format);
        let disk = disk(step);
        let run = bench.run(disk.clone());
        if disk.refused().is_none() {
            run.result.unwrap();
            check_finished(&bench);
            assert!(step > 60, "a run has more steps than {step}");
            return true;
        }
        assert!(run.result.is_err(), "after step {step}");
        check_goes_on(&bench, &run);
        false
    });
}

#[test]
fn a_crash_at_any_step_loses_no_file_and_leaves_none_behind() {
    for format in FORMATS {
        every_step(format, Recorder::crashing_at);
    }
}

#[test]
fn a_disk_that_fails_once_costs_no_file() {
    for format in FORMATS {
        every_step(format, Recorder::failing_at);
    }
}

#[test]
fn a_crash_while_it_recovers_from_a_crash_loses_no_file() {
    at_every_step(|first| {
        for second in 0.. {
            let bench = Bench::saving(Format::Ndjson);
            let disk = Recorder::crashing_at(first);
            let run = bench.run(disk.clone());
            if disk.refused().is_none() {
                return true;
            }
            let disk = Recorder::crashing_at(second);
            if bench.open(disk.clone()).is_ok() {
                break;
            }
            assert!(disk.refused().is_some());
            check_goes_on(&bench, &run);
        }
        false
    });
}

#[test]
fn a_crash_while_it_starts_over_leaves_no_file_of_the_old_job_beside_the_new_one() {
    at_every_step(|step| {
        let mut bench = Bench::saving(Format::Ndjson);
        bench.run(Recorder::new()).result.unwrap();
        let disk = Recorder::crashing_at(step);
        bench.options.sink.fresh = true;
        bench.edition = "second";
        let run = bench.run(disk.clone());
        if disk.refused().is_none() {
            run.result.unwrap();
            check_finished(&bench);
            return true;
        }
        // Some of the files of the old job may be gone, and its rows with them: it was to go.
        bench.run(Recorder::new()).result.unwrap();
        check_finished(&bench);
        false
    });
}

#[test]
fn files_are_durable_before_the_commit_and_in_their_places_before_its_parts() {
    let bench = Bench::saving(Format::Parquet);
    let disk = Recorder::new();
    bench.run(disk.clone()).result.unwrap();
    let (out, steps) = (bench.out(), disk.steps());
    let at = |wanted: &dyn Fn(&Step) -> bool, from: usize| (from..steps.len()).find(|at| wanted(&steps[*at]));
    let mut commits = 0;
    let mut from = 0;
    while let Some(link) = at(&|step| matches!(step, Step::Link(..)), from) {
        let synced = at(&|step| *step == Step::SyncFileSystem(out.clone()), from).unwrap();
        assert!(synced < link, "all files, in one step, before the commit");
        let is_saved = |step: &Step| matches!(step, Step::Rename(_, to) if to.to_string_lossy().to_lowercase().contains("images/"));
        let is_part = |step: &Step| matches!(step, Step::Rename(_, to) if to.parent() == Some(&out));
        let next = at(&|step| matches!(step, Step::Link(..)), link + 1).unwrap_or(steps.len());
        let last_file = (link..next).rfind(|at| is_saved(&steps[*at]));
        let first_part = (link..next).find(|at| is_part(&steps[*at]));
        if let (Some(file), Some(part)) = (last_file, first_part) {
            assert!(file < part);
            commits += 1;
        }
        assert!((from..link).skip(1).all(|at| !is_saved(&steps[at])), "no file before its commit");
        from = next.min(steps.len() - 1);
        if next == steps.len() {
            break;
        }
    }
    assert_eq!(3, commits, "one for each batch");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn a_loss_of_power_loses_no_file_that_was_committed(step in 0_usize..160, seed: u64, second in 0_usize..60, ndjson: bool) {
        let power = PowerLoss::new();
        let mut bench = Bench::saving(FORMATS[usize::from(ndjson)]);
        bench.power = Some(power.clone());
        let run = bench.run(Recorder::on(&power, Some(step)));
        power.go_off(&bench.out(), seed);
        // And once more while it recovers.
        drop(bench.open(Recorder::on(&power, Some(second))));
        power.go_off(&bench.out(), seed ^ 1);
        check_readable(&bench);
        let job = bench.open(Recorder::new()).unwrap();
        check_kept(&bench, &run.committed, job.done_rows());
        drop(job);
        bench.run(Recorder::new()).result.unwrap();
        check_finished(&bench);
        prop_assert_eq!(ROWS as usize, rows(&bench.out()).len());
        prop_assert!(files_below(&bench.out().join("_headgate/tmp")).is_empty());
    }
}
