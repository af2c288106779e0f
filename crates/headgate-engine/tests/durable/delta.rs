//! The Delta log: its size is bounded, it follows the commits whatever has happened to it, and files are kept for its readers.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use headgate_core::files::storage::Disk;
use headgate_core::options::{Format, IfExists};
use headgate_engine::clean::clean;
use headgate_engine::status::files;
use headgate_engine::testing::RunningJob;
use headgate_engine::verify::verify;
use serde_json::Value;

use crate::check::{check_finished, check_readable, check_resumes};
use crate::check_delta::{check_delta, check_delta_is_current, newest, numbers};
use crate::harness::{Bench, FORMATS, at_every_step};
use crate::power::{PowerLoss, files_below};
use crate::steps::{every_step, every_step_twice};
use crate::storage::Recorder;

fn log(bench: &Bench) -> PathBuf {
    bench.out().join("_delta_log")
}

/// Returns the path of the version that follows the newest one after so many.
fn newest_version(bench: &Bench, later: u64) -> PathBuf {
    let number = newest(&log(bench)).unwrap() + later;
    log(bench).join(format!("{number:020}.json"))
}

fn write_as_another_program(bench: &Bench) {
    fs::write(newest_version(bench, 1), "{\"commitInfo\":{\"engineInfo\":\"another\"}}\n").unwrap();
}

/// Returns a job that keeps what it replaces, for too short to notice.
fn keeping(format: Format) -> Bench {
    let mut bench = Bench::new(format);
    bench.options.sink.keep_replaced = Duration::from_millis(2);
    bench
}

/// Returns a job of which a part is committed.
fn stopped() -> Bench {
    let bench = Bench::new(Format::Parquet);
    bench.run_batches(&Recorder::new(), 1).result.unwrap();
    bench
}

#[test]
fn the_log_has_a_bounded_number_of_versions_and_a_reader_needs_few_of_them() {
    let bench = Bench::new(Format::Parquet);
    let job = bench.open(&Recorder::new()).unwrap();
    let RunningJob { mut sink, .. } = bench.start(job, Box::new(Instant::now)).unwrap();
    let mut most = 0;
    for row in 0..700 {
        assert!(sink.write(bench.batch(&[row])).unwrap().is_continue());
        most = most.max(files_below(&log(&bench)).len());
        let (newest, checkpoint) = (newest(&log(&bench)).unwrap(), numbers(&log(&bench), ".checkpoint.parquet").max());
        assert!(newest - checkpoint.unwrap_or(0) < 32, "{newest}: {checkpoint:?}");
        let oldest = numbers(&log(&bench), ".json").min().unwrap();
        assert!(newest - oldest >= 256 || oldest == 0, "{oldest} of {newest}");
    }
    drop(sink);
    assert!((280..=330).contains(&most), "{most}");
    check_delta_is_current(&bench.out());
}

/// Makes the log begin with a checkpoint.
fn rewrite(bench: &Bench) {
    fs::remove_dir_all(log(bench)).unwrap();
    clean(&bench.out(), false, &Recorder::new()).unwrap();
}

/// Leaves only the first action of a version.
fn cut(bench: &Bench, number: u64) {
    let path = log(bench).join(format!("{number:020}.json"));
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, text.split_inclusive('\n').next().unwrap()).unwrap();
}

fn remove_checkpoint(bench: &Bench) {
    rewrite(bench);
    let number = newest(&log(bench)).unwrap();
    fs::remove_file(log(bench).join(format!("{number:020}.checkpoint.parquet"))).unwrap();
}

fn damage_checkpoint(bench: &Bench) {
    rewrite(bench);
    let number = newest(&log(bench)).unwrap();
    fs::write(log(bench).join(format!("{number:020}.checkpoint.parquet")), "PAR1").unwrap();
}

/// Replaces the log by a link to another directory, which has a file.
fn link(bench: &Bench) {
    let other = bench.parent.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::rename(newest_version(bench, 0), other.join("00000000000000000000.json")).unwrap();
    fs::remove_dir_all(log(bench)).unwrap();
    symlink(&other, log(bench)).unwrap();
}

#[test]
fn a_log_that_was_removed_or_changed_is_rewritten() {
    let changes: [fn(&Bench); 13] = [
        |bench| fs::remove_dir_all(log(bench)).unwrap(),
        write_as_another_program,
        |bench| fs::write(newest_version(bench, 0), "").unwrap(),
        |bench| fs::remove_file(newest_version(bench, 0)).unwrap(),
        // The directory was restored from a copy, but not its Delta log.
        |bench| fs::copy(newest_version(bench, 0), newest_version(bench, 1)).map(drop).unwrap(),
        |bench| cut(bench, 1),
        |bench| cut(bench, 0),
        |bench| fs::remove_file(log(bench).join(format!("{:020}.json", 0))).unwrap(),
        remove_checkpoint,
        damage_checkpoint,
        |bench| fs::write(log(bench).join("_last_checkpoint"), "{}").unwrap(),
        link,
        |bench| {
            fs::remove_dir_all(log(bench)).unwrap();
            fs::write(log(bench), "a file").unwrap();
        },
    ];
    for (index, change) in changes.iter().enumerate() {
        let bench = stopped();
        change(&bench);
        let found = verify(&bench.out(), &Disk).unwrap();
        assert_eq!(1, found.problems.len(), "{index}: {found:?}");
        clean(&bench.out(), false, &Recorder::new()).unwrap();
        check_delta_is_current(&bench.out());
        assert_eq!(0, verify(&bench.out(), &Disk).unwrap().problem_count, "{index}");

        let bench = stopped();
        change(&bench);
        bench.run(&Recorder::new()).result.unwrap();
        check_finished(&bench);
        let linked = bench.parent.path().join("other");
        assert!(!linked.exists() || files_below(&linked).len() == 1, "what a link leads to stays");
    }
}

#[test]
fn a_job_of_an_earlier_version_has_no_log_and_nothing_else_is_said_of_it() {
    let bench = stopped();
    assert!(files(&bench.out()).unwrap().delta);
    fs::remove_dir_all(log(&bench)).unwrap();
    assert!(!files(&bench.out()).unwrap().delta);
    let found = verify(&bench.out(), &Disk).unwrap();
    assert!(found.problems[0].message.starts_with("the results have no Delta log"), "{found:?}");
    clean(&bench.out(), false, &Recorder::new()).unwrap();
    assert!(files(&bench.out()).unwrap().delta);
}

#[test]
fn a_crash_while_the_log_is_rewritten_does_no_harm() {
    at_every_step(|step| {
        let bench = stopped();
        write_as_another_program(&bench);
        let disk = Recorder::crashing_at(step);
        let run = bench.run(&disk);
        if disk.refused().is_none() {
            run.result.unwrap();
            check_finished(&bench);
            return true;
        }
        bench.run(&Recorder::new()).result.unwrap();
        check_finished(&bench);
        false
    });
}

#[test]
fn a_power_loss_while_the_log_is_rewritten_leaves_no_reader_without_its_checkpoint() {
    at_every_step(|step| {
        let mut is_last = false;
        for seed in 0..2 {
            let bench = stopped();
            cut(&bench, 1);
            let power = PowerLoss::new();
            let disk = Recorder::on(&power, Some(step));
            let _ = bench.run(&disk);
            power.lose(&bench.out(), seed);
            check_delta(&bench.out());
            bench.run(&Recorder::new()).result.unwrap();
            check_finished(&bench);
            is_last = disk.refused().is_none();
        }
        is_last
    });
}

/// Returns the files that the versions of the log add.
fn added(bench: &Bench) -> BTreeSet<String> {
    let versions = files_below(&log(bench)).into_iter().filter(|path| path.extension().is_some_and(|it| it == "json"));
    let actions: Vec<Value> = versions
        .flat_map(|path| {
            fs::read_to_string(path)
                .unwrap()
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect::<Vec<_>>()
        })
        .collect();
    actions.iter().filter_map(|action| action["add"]["path"].as_str()).map(str::to_owned).collect()
}

#[test]
fn a_job_that_starts_over_begins_a_new_log() {
    let mut bench = Bench::new(Format::Parquet);
    bench.run(&Recorder::new()).result.unwrap();
    let earlier = added(&bench);
    bench.options.sink.if_exists = IfExists::Overwrite;
    bench.edition = "second";
    bench.run(&Recorder::new()).result.unwrap();
    check_finished(&bench);
    assert_eq!(Some(0), numbers(&log(&bench), ".json").min());
    let both: Vec<_> = added(&bench).intersection(&earlier).cloned().collect();
    assert_eq!(Vec::<String>::new(), both, "a reader of the first job would read rows of the second one");
    bench.options.sink.format = Format::Ndjson;
    bench.run(&Recorder::new()).result.unwrap();
    check_finished(&bench);
    assert_eq!(0, files_below(&log(&bench)).len());
}

#[test]
fn a_crash_at_any_step_of_a_job_that_keeps_files_loses_no_row_and_leaves_no_file() {
    for format in FORMATS {
        every_step(|| keeping(format), Recorder::crashing_at);
    }
    every_step_twice(|| keeping(Format::Ndjson));
}

#[test]
fn kept_files_stay_until_a_later_run_or_clean_removes_them() {
    let count = |bench: &Bench| parquet_files(bench).len();
    for cleans in [false, true] {
        let mut bench = Bench::new(Format::Parquet);
        bench.options.sink.keep_replaced = Duration::from_secs(3600);
        bench.run(&Recorder::new()).result.unwrap();
        assert_eq!(2 + 6, count(&bench), "{:?}", parquet_files(&bench));
        check_readable(&bench);
        assert_eq!(0, verify(&bench.out(), &Disk).unwrap().problem_count);
        if cleans {
            let lock = bench.out().join("_headgate/lock");
            fs::remove_file(&lock).unwrap();
            let dry = clean(&bench.out(), true, &Recorder::new()).unwrap();
            assert!(!lock.exists(), "a directory that can't be written to can be inspected");
            assert_eq!((6, 8), (dry.files.len(), count(&bench)));
            assert_eq!(dry, clean(&bench.out(), false, &Recorder::new()).unwrap());
        } else {
            // What remains of the time is that of the run now.
            bench.options.sink.keep_replaced = Duration::ZERO;
            bench.start(bench.open(&Recorder::new()).unwrap(), Box::new(Instant::now)).map(drop).unwrap();
        }
        check_finished(&bench);
    }
}

fn parquet_files(bench: &Bench) -> Vec<PathBuf> {
    let files = fs::read_dir(bench.out()).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "parquet")).collect()
}

#[test]
fn a_crash_at_any_step_of_clean_loses_no_row() {
    at_every_step(|first| {
        for second in 0.. {
            let bench = Bench::new(FORMATS[first % 2]);
            let disk = Recorder::crashing_at(first);
            let run = bench.run(&disk);
            if disk.refused().is_none() {
                return true;
            }
            let disk = Recorder::crashing_at(second);
            let cleaned = clean(&bench.out(), false, &disk);
            if disk.refused().is_none() && bench.out().join("_headgate/job.json").exists() {
                match cleaned {
                    Ok(_) => assert_eq!(0, files_below(&bench.out().join("_headgate/tmp")).len()),
                    Err(error) => assert!(error.to_string().contains("was being started over"), "{error}"),
                }
            }
            check_resumes(&bench, &run);
            if disk.refused().is_none() {
                break;
            }
        }
        false
    });
}
