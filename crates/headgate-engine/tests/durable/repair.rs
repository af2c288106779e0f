//! Repairs of damaged jobs, with a crash between any two steps.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use headgate_core::files::Directory;
use headgate_core::files::storage::{Disk, Storage};
use headgate_core::options::Format;
use headgate_engine::status::files;
use headgate_engine::verify::{ProblemKind, repair, verify};
use serde_json::{Value, json};
use twox_hash::XxHash3_128;

use crate::check::{check_finished, rows};
use crate::damage::change_a_byte;
use crate::harness::{Bench, FORMATS, ROWS, at_every_step, rewrite};
use crate::power::files_below;
use crate::storage::Recorder;

/// Too many open files.
const EMFILE: i32 = 24;

fn finished(bench: Bench) -> Bench {
    bench.run(&Recorder::new()).result.unwrap();
    bench
}

/// Returns the file of the rows that succeeded (`part`) or `failed`.
fn file(bench: &Bench, kind: &str) -> PathBuf {
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    files_below(&bench.out()).into_iter().find(|path| name(path).starts_with(kind)).unwrap()
}

#[test]
fn a_crash_at_any_step_of_a_repair_is_repaired_by_the_next() {
    for (format, kind) in FORMATS.into_iter().flat_map(|format| ["part", "failed"].map(|kind| (format, kind))) {
        at_every_step(|step| {
            let bench = finished(Bench::new(format));
            change_a_byte(&file(&bench, kind));
            let disk = Recorder::crashing_at(step);
            let first = repair(&bench.out(), &disk);
            let is_last = disk.refused().is_none();
            assert_eq!(is_last, first.is_ok(), "{first:?}");
            let repaired = if is_last { first } else { repair(&bench.out(), &Recorder::new()) }.unwrap();
            assert_eq!(0, repaired.problem_count, "{repaired:?}");
            assert_eq!(if kind == "part" { 2 * ROWS / 5 } else { 3 * ROWS / 5 }, repaired.rows);
            bench.run(&Recorder::new()).result.unwrap();
            check_finished(&bench);
            assert_eq!(0, verify(&bench.out(), &Disk).unwrap().problem_count);
            is_last
        });
    }
}

#[test]
fn a_job_of_which_nothing_is_left_has_a_file_without_rows() {
    let bench = finished(Bench::new(Format::Parquet));
    for kind in ["part", "failed"] {
        change_a_byte(&file(&bench, kind));
    }
    assert_eq!(0, repair(&bench.out(), &Recorder::new()).unwrap().rows);
    let left = files(&bench.out()).unwrap();
    assert_eq!((1, 0, true), (left.files.len(), left.rows, left.delta), "{left:?}");
    assert!(bench.out().join("part-00000000.parquet").exists());
    bench.run(&Recorder::new()).result.unwrap();
    check_finished(&bench);
}

#[test]
fn a_crash_of_the_job_leaves_nothing_that_verify_calls_damage() {
    for format in FORMATS {
        at_every_step(|step| {
            let bench = Bench::new(format);
            let disk = Recorder::crashing_at(step);
            bench.run(&disk);
            if let Ok(found) = verify(&bench.out(), &Disk) {
                let problems = found.problems.iter().filter(|problem| problem.kind != ProblemKind::DeltaLog);
                assert_eq!(0, problems.count(), "after step {step}: {found:?}");
            }
            disk.refused().is_none()
        });
    }
}

#[test]
fn rows_with_saved_bodies_are_not_repaired_because_their_names_stay_used() {
    let bench = finished(Bench::saving(Format::Parquet));
    let part = file(&bench, "part");
    let sound = fs::read(&part).unwrap();
    change_a_byte(&part);
    let refused = repair(&bench.out(), &Recorder::new()).unwrap_err().to_string();
    assert!(refused.contains("saved as files") && refused.contains("nothing was repaired"), "{refused}");
    fs::write(&part, sound).unwrap();
    // Rows that failed have no bodies.
    fs::remove_file(file(&bench, "failed")).unwrap();
    assert_eq!(Some(2 * ROWS / 5), repair(&bench.out(), &Recorder::new()).unwrap().repaired_rows);
    bench.run(&Recorder::new()).result.unwrap();
    check_finished(&bench);
}

/// A disk on which the first part can't be opened or read once.
#[derive(Debug)]
struct Unreadable {
    directory: Directory,
    has_failed: AtomicBool,
    opens: bool,
}

impl Storage for Unreadable {
    fn directory(&self) -> &Directory {
        &self.directory
    }

    fn read(&self, path: &Path) -> io::Result<File> {
        let is_part =
            ["part-", "failed-"].iter().any(|kind| path.file_name().unwrap().to_str().unwrap().starts_with(kind));
        if !is_part || self.has_failed.swap(true, SeqCst) {
            return self.directory.file(path);
        }
        // The memory of this process has nothing at its first address: reading it is EIO.
        if self.opens { File::open("/proc/self/mem") } else { Err(io::Error::from_raw_os_error(EMFILE)) }
    }
}

#[test]
fn a_part_that_cannot_be_read_is_no_damage_and_stays() {
    for (format, opens) in FORMATS.into_iter().flat_map(|format| [false, true].map(|opens| (format, opens))) {
        let bench = finished(Bench::new(format));
        let before = files_below(&bench.out());
        let disk = |directory: Directory| -> Arc<dyn Storage> {
            Arc::new(Unreadable { directory, has_failed: AtomicBool::new(false), opens })
        };
        let refused = repair(&bench.out(), &disk).unwrap_err().to_string();
        let cause = if opens { "input/output error" } else { "too many open files" };
        assert!(refused.contains("can't read") && refused.to_lowercase().contains(cause), "{refused}");
        assert!(refused.contains("may be intact, so nothing was changed"), "{refused}");
        assert_eq!(before, files_below(&bench.out()));
        check_finished(&bench);
        assert_eq!(0, verify(&bench.out(), &Disk).unwrap().problem_count);
    }
}

#[test]
fn a_part_that_this_user_may_not_read_is_no_damage() {
    for format in FORMATS {
        let bench = finished(Bench::new(format));
        let part = file(&bench, "part");
        fs::set_permissions(&part, Permissions::from_mode(0o000)).unwrap();
        if File::open(&part).is_ok() {
            return; // root may read it
        }
        for refused in [verify(&bench.out(), &Disk), repair(&bench.out(), &Disk)] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(&format!("can't read {}: permission denied", part.display())), "{refused}");
        }
        fs::set_permissions(&part, Permissions::from_mode(0o600)).unwrap();
        check_finished(&bench);
    }
}

#[test]
fn a_link_in_place_of_a_part_is_called_one_and_stays() {
    for format in FORMATS {
        let bench = finished(Bench::new(format));
        let (part, moved) = (file(&bench, "part"), bench.parent.path().join("moved"));
        fs::rename(&part, &moved).unwrap();
        symlink(&moved, &part).unwrap();
        for refused in [verify(&bench.out(), &Disk), repair(&bench.out(), &Disk)] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(&format!("{} is a symbolic link: move the file", part.display())), "{refused}");
        }
        assert!(part.is_symlink());
        fs::rename(&moved, &part).unwrap();
        check_finished(&bench);
    }
}

/// A disk whose user interrupts the command after some looks for that.
#[derive(Debug)]
struct Interrupted {
    directory: Directory,
    looks: AtomicUsize,
}

impl Storage for Interrupted {
    fn directory(&self) -> &Directory {
        &self.directory
    }

    fn check_interrupt(&self) -> io::Result<()> {
        let left = self.looks.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| io::Error::other("interrupted"))
    }
}

#[test]
fn an_interrupt_changes_nothing() {
    for format in FORMATS {
        let bench = Bench::new(format);
        bench.run_batches(&Recorder::new(), 1).result.unwrap();
        let before = files_below(&bench.out());
        let part = file(&bench, "part");
        let sound = fs::read(&part).unwrap();
        change_a_byte(&part);
        let disk = |looks| {
            move |directory: Directory| -> Arc<dyn Storage> {
                Arc::new(Interrupted { directory, looks: AtomicUsize::new(looks) })
            }
        };
        for looks in 0..2 {
            for command in [verify, repair] {
                let interrupted = command(&bench.out(), &disk(looks)).unwrap_err().to_string();
                assert!(interrupted.contains("interrupted"), "{looks}: {interrupted}");
            }
        }
        assert_eq!(before, files_below(&bench.out()));
        fs::write(&part, sound).unwrap();
        bench.run(&Recorder::new()).result.unwrap();
        check_finished(&bench);
    }
}

#[test]
fn a_saved_body_that_is_missing_or_damaged_is_a_problem_of_its_row() {
    for format in FORMATS {
        let bench = finished(Bench::saving(format));
        let body = |row| bench.out().join(Bench::path(row));
        fs::remove_file(body(5)).unwrap();
        change_a_byte(&body(6));
        let found = verify(&bench.out(), &Disk).unwrap();
        let problems: Vec<_> = found.problems.iter().map(|problem| (problem.kind, problem.message.as_str())).collect();
        let missing = format!("the body of row 5, {}: is missing", body(5).display());
        let damaged = format!("{} is damaged: it is not the body of row 6", body(6).display());
        assert!(problems.iter().all(|(kind, _)| *kind == ProblemKind::SavedBody), "{problems:?}");
        let mut messages: Vec<_> = problems.iter().map(|(_, message)| *message).collect();
        messages.sort_unstable_by_key(|message| message.contains("damaged"));
        assert_eq!([missing, damaged].as_slice(), messages);
        assert!(found.problems[0].advice.contains("restore it from a copy"));
        // There is nothing that a repair can do.
        let repaired = repair(&bench.out(), &Disk).unwrap();
        assert_eq!((None, 2), (repaired.repaired_rows, repaired.problem_count));
    }
}

#[test]
fn a_missing_archive_is_a_problem() {
    let bench = finished(Bench::archiving(Format::Parquet));
    let is_archive = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "tar");
    fs::remove_file(files_below(&bench.out()).into_iter().find(is_archive).unwrap()).unwrap();
    let found = verify(&bench.out(), &Disk).unwrap();
    assert!(found.problem_count > 0, "{found:?}");
    assert!(found.problems.iter().all(|problem| problem.kind == ProblemKind::SavedBody), "{found:?}");
}

/// Changes the newest commit of a finished job, which lists all of its parts.
fn change_commit(bench: &Bench, change: impl FnOnce(&mut Value)) {
    let newest = files_below(&bench.out().join("_headgate/log")).into_iter().max().unwrap();
    rewrite(&newest, |record| {
        change(record);
        let hash = |part: &Value| {
            let [name, rows, bytes, crc32] = ["name", "rows", "bytes", "crc32"].map(|key| &part[key]);
            XxHash3_128::oneshot(format!("{} {rows} {bytes} {crc32}", name.as_str().unwrap()).as_bytes())
        };
        let parts = record["parts"].as_array().unwrap().clone();
        record["parts_sum"] = format!("{:032x}", parts.iter().map(hash).fold(0, u128::wrapping_add)).into();
        record["totals"]["parts"] = parts.len().into();
        record["totals"]["bytes"] = parts.iter().map(|part| part["bytes"].as_u64().unwrap()).sum::<u64>().into();
    });
}

/// Returns each problem with its message and advice.
fn problems(bench: &Bench) -> Vec<(ProblemKind, String, &'static str)> {
    let found = verify(&bench.out(), &Disk).unwrap().problems;
    found.into_iter().map(|problem| (problem.kind, problem.message, problem.advice)).collect()
}

const START_OVER: &str = "restore the directory from a copy, or start over with --if-exists overwrite";

#[test]
fn a_file_without_a_commit_is_a_problem() {
    let bench = finished(Bench::new(Format::Parquet));
    let foreign = bench.out().join("part-00000077.parquet");
    fs::copy(file(&bench, "part"), &foreign).unwrap();
    let message = format!("{} is there, but no commit names it", foreign.display());
    assert_eq!(vec![(ProblemKind::UnnamedFile, message, "headgate clean removes it")], problems(&bench));
}

#[test]
fn totals_that_are_not_those_of_the_files_are_a_problem() {
    for format in FORMATS {
        let bench = finished(Bench::new(format));
        let of_kind = "the files have 3 rows that failed with connect, the commit has 4";
        let of_rows = "the files have 9 rows that succeeded and 6 that failed, the commit has 10 and 5";
        for (message, changed) in [
            (of_kind, json!({"succeeded": 9, "failed": 6, "errors": {"connect": 4, "status:503": 3}})),
            (of_rows, json!({"succeeded": 10, "failed": 5, "errors": {"connect": 2, "status:503": 3}})),
        ] {
            change_commit(&bench, |commit| commit["totals"] = changed);
            assert_eq!(vec![(ProblemKind::Totals, message.to_owned(), START_OVER)], problems(&bench));
        }
    }
}

#[test]
fn rows_in_two_files_are_a_problem() {
    for format in FORMATS {
        let bench = finished(Bench::new(format));
        let part = file(&bench, "part");
        let twin = part.file_name().unwrap().to_str().unwrap().replace("part-0", "part-1");
        fs::copy(&part, bench.out().join(&twin)).unwrap();
        change_commit(&bench, |commit| {
            let parts = commit["parts"].as_array_mut().unwrap();
            let mut record = parts.iter().find(|record| record["rows"] == 9).unwrap().clone();
            record["name"] = twin.clone().into();
            parts.push(record);
            (commit["next_part"], commit["totals"]["succeeded"]) = (json!(20_000_000), json!(18));
        });
        let message = format!("9 rows of {} are there twice", bench.out().join(&twin).display());
        let found: Vec<_> = problems(&bench).into_iter().filter(|(kind, ..)| *kind != ProblemKind::DeltaLog).collect();
        assert_eq!(vec![(ProblemKind::RowsTwice, message, START_OVER)], found);
    }
}

#[test]
fn rows_in_files_that_are_not_done_are_marked_as_done_and_not_fetched_a_second_time() {
    for (format, is_damaged) in FORMATS.into_iter().flat_map(|format| [false, true].map(|damaged| (format, damaged))) {
        let bench = finished(Bench::new(format));
        // Row 14 failed.
        change_commit(&bench, |commit| {
            (commit["done"], commit["watermark"], commit["finished"]) = (json!(14), json!(14), json!(false));
        });
        let message = "1 rows are in files and not done, the first is row 14".to_owned();
        let uncounted = (ProblemKind::UncountedRows, message, "headgate verify --repair marks them as done");
        assert_eq!(vec![uncounted], problems(&bench));
        if is_damaged {
            change_a_byte(&file(&bench, "part"));
        }
        let repaired = repair(&bench.out(), &Disk).unwrap();
        let lost = if is_damaged { 9 } else { 0 };
        assert_eq!((Some(lost), 0), (repaired.repaired_rows, repaired.problem_count), "{repaired:?}");
        bench.run(&Recorder::new()).result.unwrap();
        check_finished(&bench);
        assert_eq!(ROWS as usize, rows(&bench.out()).len());
    }
}
