//! Jobs that save bodies. Each step may be the last one, and no file is incomplete or without its row.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use headgate_core::options::Format;
use proptest::prelude::*;

use crate::check::{check_finished, check_kept, rows};
use crate::harness::{Bench, FORMATS, ROWS};
use crate::power::{PowerLoss, files_below};
use crate::steps::{every_step, every_step_twice};
use crate::storage::{Recorder, Step};

#[test]
fn a_crash_at_any_step_loses_no_file_and_leaves_none_behind() {
    for format in FORMATS {
        every_step(|| Bench::saving(format), Recorder::crashing_at);
    }
}

#[test]
fn a_disk_that_fails_once_loses_no_file() {
    for format in FORMATS {
        every_step(|| Bench::saving(format), Recorder::failing_at);
    }
}

#[test]
fn a_crash_during_recovery_loses_no_file() {
    every_step_twice(|| Bench::saving(Format::Ndjson));
}

#[test]
fn files_are_durable_before_the_commit_and_renamed_before_its_parts() {
    let bench = Bench::saving(Format::Parquet);
    let disk = Recorder::new();
    bench.run(&disk).result.unwrap();
    let (out, steps) = (bench.out(), disk.steps());
    let is_saved =
        |step: &Step| matches!(step, Step::Rename(_, to) if to.extension().is_some_and(|extension| extension == "txt"));
    let is_part = |step: &Step| matches!(step, Step::Rename(_, to) if to.parent() == Some(&out));
    let is_commit = |path: &Path| path.parent().is_some_and(|log| log.ends_with("_headgate/log"));
    let links: Vec<usize> =
        (0..steps.len()).filter(|at| matches!(&steps[*at], Step::Link(_, to) if is_commit(to))).collect();
    let (mut before, mut placed) = (0, BTreeSet::new());
    for (index, link) in links.iter().enumerate() {
        let synced = (before..*link).rfind(|at| steps[*at] == Step::SyncFileSystem(out.clone()));
        let synced = synced.expect("all files, in one step, before the commit");
        assert!(!steps[synced..*link].iter().any(is_saved), "what was moved since is not durable");
        let next = links.get(index + 1).copied().unwrap_or(steps.len());
        let files: Vec<usize> = (*link..next).filter(|at| is_saved(&steps[*at])).collect();
        let first_part = (*link..next).find(|at| is_part(&steps[*at]));
        assert!(files.iter().all(|file| Some(*file) < first_part), "files before the part that names them");
        placed.extend(files.iter().map(|file| format!("{:?}", steps[*file])));
        before = *link;
    }
    assert_eq!(9, placed.len());
}

#[test]
fn a_job_whose_saved_files_were_removed_resumes() {
    for format in FORMATS {
        let bench = Bench::saving(format);
        bench.run_batches(&Recorder::new(), 1).result.unwrap();
        for directory in ["images", "Images"] {
            fs::remove_dir_all(bench.out().join(directory)).unwrap();
        }
        bench.run(&Recorder::new()).result.unwrap();
        assert_eq!(ROWS as usize, rows(&bench.out()).len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn a_power_loss_loses_no_committed_file(step in 0_usize..160, seed: u64, second in 0_usize..60, ndjson: bool) {
        let power = PowerLoss::new();
        let mut bench = Bench::saving(FORMATS[usize::from(ndjson)]);
        bench.power = Some(power.clone());
        let run = bench.run(&Recorder::on(&power, Some(step)));
        power.lose(&bench.out(), seed);
        // The job crashes a second time, during recovery.
        drop(bench.open(&Recorder::on(&power, Some(second))));
        power.lose(&bench.out(), seed ^ 1);
        // A part may be durable in place while its rows' files are still in `tmp`: the next open of the job moves them.
        let job = bench.open(&Recorder::new()).unwrap();
        check_kept(&bench, &run.committed, job.done_rows());
        drop(job);
        bench.run(&Recorder::new()).result.unwrap();
        check_finished(&bench);
        prop_assert_eq!(ROWS as usize, rows(&bench.out()).len());
        prop_assert!(files_below(&bench.out().join("_headgate/tmp")).is_empty());
    }
}
