//! Damage from outside: it is detected, the file is named, and nothing is changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use headgate_core::error::{JobError, JobErrorKind};
use headgate_core::options::Format;
use headgate_engine::preview;
use headgate_engine::status::{parts, status};

use crate::check::check_finished;
use crate::harness::{Bench, FORMATS};
use crate::power::files_below;
use crate::storage::{Recorder, Step};

/// Creates a job with two commits of its rows, and a finished job.
fn jobs(format: Format) -> [Bench; 2] {
    [1, usize::MAX].map(|batches| {
        let bench = Bench::new(format);
        bench.run_batches(&Recorder::new(), batches).result.unwrap();
        bench
    })
}

/// Returns files with their contents, except for the lock, which names the last writer.
fn contents(bench: &Bench) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = files_below(&bench.out()).into_iter().filter(|path| !path.ends_with("lock"));
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn commits(bench: &Bench) -> Vec<PathBuf> {
    files_below(&bench.out().join("_headgate/log"))
}

/// Returns the files of the job, of commits and of parts.
fn files_of_ours(bench: &Bench) -> Vec<PathBuf> {
    contents(bench).into_keys().collect()
}

/// Checks that the same command is refused with a message about that file.
fn check_refused(bench: &Bench, named: &str) {
    let before = contents(bench);
    let error = open_error(bench);
    assert!(matches!(error.kind, JobErrorKind::Output | JobErrorKind::Storage | JobErrorKind::Damage), "{error}");
    assert!(error.to_string().contains(named), "{named}: {error}");
    assert_eq!(before, contents(bench), "{error}");
}

fn open_error(bench: &Bench) -> JobError {
    bench.open(&Recorder::new()).err().expect("it opened")
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn is_part(path: &Path) -> bool {
    !path.components().any(|component| ["_headgate", "_delta_log"].iter().any(|own| component.as_os_str() == *own))
}

/// Changes one byte of a file.
pub fn change_a_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_missing_or_truncated_part_is_detected_before_the_job_starts() {
    for bench in FORMATS.into_iter().flat_map(jobs) {
        for path in files_of_ours(&bench).into_iter().filter(|path| is_part(path)) {
            let bytes = fs::read(&path).unwrap();
            fs::remove_file(&path).unwrap();
            check_refused(&bench, name(&path));
            fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
            check_refused(&bench, name(&path));
            fs::write(&path, &bytes).unwrap();
        }
        bench.run(&Recorder::new()).result.unwrap();
    }
}

#[test]
fn a_foreign_part_is_neither_counted_nor_removed() {
    for bench in FORMATS.into_iter().flat_map(jobs) {
        for foreign in ["part-00000099.parquet", "failed-00000007.ndjson"] {
            let path = bench.out().join(foreign);
            fs::write(&path, "theirs").unwrap();
            check_refused(&bench, foreign);
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn a_modified_newest_commit_or_job_file_is_refused() {
    for bench in jobs(Format::Ndjson) {
        let newest = commits(&bench).pop().unwrap();
        for path in [newest, bench.out().join("_headgate/job.json")] {
            let bytes = fs::read(&path).unwrap();
            let newer = br#"{"format_version":99,"anything":"else"}"#.to_vec();
            let cut = [0, bytes.len() / 2, bytes.len() - 2].map(|length| bytes[..length].to_vec());
            for damaged in cut.into_iter().chain([newer]) {
                fs::write(&path, damaged).unwrap();
                check_refused(&bench, name(&path));
                let error = status(&bench.out()).unwrap_err();
                assert!(error.to_string().contains(name(&path)), "{error}");
            }
            fs::write(&path, &bytes).unwrap();
            change_a_byte(&path);
            check_refused(&bench, name(&path));
            fs::write(&path, bytes).unwrap();
        }
        bench.run(&Recorder::new()).result.unwrap();
    }
}

#[test]
fn a_partially_deleted_job_directory_is_not_changed() {
    for bench in FORMATS.into_iter().flat_map(jobs) {
        let own = bench.out().join("_headgate");
        let job = fs::read(own.join("job.json")).unwrap();
        fs::remove_file(own.join("job.json")).unwrap();
        check_refused(&bench, "_headgate/job.json is missing");
        fs::write(own.join("job.json"), job).unwrap();

        // These are parts that no commit names any more.
        fs::remove_dir_all(own.join("log")).unwrap();
        check_refused(&bench, "_headgate/log has no commits");
        fs::remove_dir_all(&own).unwrap();
        check_refused(&bench, "not the directory _headgate");
    }
}

#[test]
fn a_missing_newest_commit_is_detected_by_its_parts_or_was_not_needed() {
    for bench in FORMATS.into_iter().flat_map(jobs) {
        while let Some(newest) = commits(&bench).pop() {
            fs::remove_file(newest).unwrap();
            // The Delta log follows the commits that are left.
            let contents = |bench| -> Vec<_> {
                contents(bench)
                    .into_iter()
                    .filter(|(path, _)| !path.starts_with(bench.out().join("_delta_log")))
                    .collect()
            };
            let before = contents(&bench);
            match bench.open(&Recorder::new()) {
                // That commit only recorded the end of the run.
                Ok(job) => assert!(!job.is_new() && !job.last_commit().finished),
                Err(error) => {
                    assert!(error.to_string().contains("part-") || error.to_string().contains("failed-"), "{error}");
                }
            }
            assert_eq!(before, contents(&bench));
        }
    }
}

#[test]
fn a_changed_part_is_detected_before_the_job_starts() {
    for bench in FORMATS.into_iter().flat_map(jobs) {
        for path in files_of_ours(&bench).into_iter().filter(|path| is_part(path)) {
            let bytes = fs::read(&path).unwrap();
            change_a_byte(&path);
            check_refused(&bench, name(&path));
            for error in [status(&bench.out()).unwrap_err(), preview(&bench.out(), 1, false).unwrap_err()] {
                assert!(error.to_string().contains(name(&path)), "{error}");
            }
            fs::write(path, bytes).unwrap();
        }
        bench.run(&Recorder::new()).result.unwrap();
    }
}

#[test]
fn a_damaged_old_commit_does_no_harm_if_all_parts_are_intact() {
    for format in FORMATS {
        for damage in [change_a_byte, |path: &Path| fs::remove_file(path).unwrap()] {
            let [half_done, _] = jobs(format);
            let oldest = commits(&half_done).remove(0);
            damage(&oldest);
            let job = half_done.open(&Recorder::new()).unwrap();
            let note = job.note().unwrap().to_string();
            assert!(note.contains(name(&oldest)) && note.ends_with("nothing is lost"), "{note}");
            drop(job);
            assert_eq!(5, parts(&half_done.out()).unwrap().rows);
            half_done.run(&Recorder::new()).result.unwrap();
            check_finished(&half_done);
            assert!(!oldest.exists());
        }
    }
}

#[test]
fn a_damaged_old_commit_with_a_damaged_part_is_refused() {
    for format in FORMATS {
        let [half_done, _] = jobs(format);
        let oldest = commits(&half_done).remove(0);
        change_a_byte(&oldest);
        let part = files_of_ours(&half_done).into_iter().find(|path| is_part(path)).unwrap();
        change_a_byte(&part);
        check_refused(&half_done, name(&oldest));
    }
}

#[test]
fn a_missing_directory_for_parts_is_created_again_and_kept() {
    let [bench, _] = jobs(Format::Ndjson);
    let own = bench.out().join("_headgate");
    fs::remove_dir_all(own.join("tmp")).unwrap();
    let disk = Recorder::new();
    drop(bench.open(&disk).unwrap());
    assert!(own.join("tmp").is_dir());
    assert!(disk.steps().contains(&Step::SyncDirectory(own)));
    bench.run(&Recorder::new()).result.unwrap();
    check_finished(&bench);
}
