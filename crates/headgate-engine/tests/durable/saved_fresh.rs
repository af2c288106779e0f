//! Which saved bodies a job that starts over removes, and which it keeps.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use headgate_core::options::{Format, IfExists, JobOptions};
use headgate_table::columns::result::ResultColumns;
use serde_json::Value;

use crate::check::check_finished;
use crate::harness::{Bench, at_every_step};
use crate::power::files_below;
use crate::storage::Recorder;

/// Jobs with each format of parts and of bodies.
const BENCHES: [fn() -> Bench; 2] = [|| Bench::saving(Format::Parquet), || Bench::archiving(Format::Ndjson)];

/// Returns a job in the same directory that starts over and saves nothing: all bodies there are those of the old job.
fn saving_nothing(mut bench: Bench) -> Bench {
    let JobOptions { source, sink, .. } = Bench::new(Format::Ndjson).options;
    bench.options.source = source;
    (bench.options.sink.part_size, bench.options.sink.if_exists) = (sink.part_size, IfExists::Overwrite);
    bench.columns = ResultColumns::default().schema();
    bench.saves = false;
    bench
}

/// Flips a bit, as a failing disk does.
fn damage(manifest: &Path) {
    let mut envelope: Value = serde_json::from_slice(&fs::read(manifest).unwrap()).unwrap();
    envelope["crc32"] = (envelope["crc32"].as_u64().unwrap() ^ 1).into();
    fs::write(manifest, envelope.to_string()).unwrap();
}

/// Returns the files in a directory that are neither results nor files of a job.
fn foreign_files(out: &Path) -> BTreeSet<String> {
    let names = files_below(out).into_iter().map(|path| path.strip_prefix(out).unwrap().display().to_string());
    names
        .filter(|name| !["_headgate/", "_delta_log/", "part-", "failed-"].iter().any(|own| name.starts_with(own)))
        .collect()
}

#[test]
fn a_crash_while_a_job_starts_over_leaves_no_body_of_the_old_job_beside_the_new_one() {
    for bench in BENCHES {
        at_every_step(|step| {
            let mut bench = bench();
            bench.run(&Recorder::new()).result.unwrap();
            let disk = Recorder::crashing_at(step);
            bench.options.sink.if_exists = IfExists::Overwrite;
            bench.edition = "second";
            let run = bench.run(&disk);
            let is_last = disk.refused().is_none();
            if is_last {
                run.result.unwrap();
            } else {
                // Some bodies of the old job and their rows may be gone, because it was being removed.
                bench.run(&Recorder::new()).result.unwrap();
            }
            check_finished(&bench);
            is_last
        });
    }
}

#[test]
fn a_job_that_starts_over_removes_the_bodies_of_one_that_was_killed_at_any_step() {
    for bench in BENCHES {
        at_every_step(|step| {
            let bench = bench();
            let disk = Recorder::crashing_at(step);
            drop(bench.run(&disk));
            let bench = saving_nothing(bench);
            bench.run(&Recorder::new()).result.unwrap();
            check_finished(&bench);
            disk.refused().is_none()
        });
    }
}

#[test]
fn starting_over_an_unreadable_job_removes_its_bodies_and_nothing_else() {
    for damage in [damage, |manifest: &Path| fs::remove_file(manifest).unwrap()] {
        for bench in BENCHES {
            at_every_step(|step| {
                let bench = bench();
                bench.run(&Recorder::new()).result.unwrap();
                let out = bench.out();
                fs::create_dir_all(out.join("images")).unwrap();
                fs::write(out.join("images/note.txt"), "mine").unwrap();
                damage(&out.join("_headgate/job.json"));
                let bench = saving_nothing(bench);
                let disk = Recorder::crashing_at(step);
                drop(bench.run(&disk));
                bench.run(&Recorder::new()).result.unwrap();
                assert_eq!(BTreeSet::from(["images/note.txt".to_owned()]), foreign_files(&out));
                disk.refused().is_none()
            });
        }
    }
}

#[test]
fn starting_over_a_job_without_saved_files_removes_no_other_files() {
    let bench = Bench::new(Format::Ndjson);
    bench.run(&Recorder::new()).result.unwrap();
    let out = bench.out();
    // A column of the input may have that name, and name an existing file.
    fs::write(out.join("part-00000099.ndjson"), "{\"row\":0,\"path\":\"mine.txt\"}\n").unwrap();
    fs::write(out.join("mine.txt"), "mine").unwrap();
    damage(&out.join("_headgate/job.json"));
    let bench = saving_nothing(bench);
    bench.run(&Recorder::new()).result.unwrap();
    assert_eq!(BTreeSet::from(["mine.txt".to_owned()]), foreign_files(&out));
}

#[test]
fn directories_and_files_behind_symlinks_are_not_removed() {
    let bench = Bench::saving(Format::Parquet);
    bench.run(&Recorder::new()).result.unwrap();
    let (out, elsewhere) = (bench.out(), tempfile::tempdir().unwrap());
    fs::remove_dir_all(out.join("images")).unwrap();
    symlink(elsewhere.path(), out.join("images")).unwrap();
    fs::write(elsewhere.path().join("0.txt"), "mine").unwrap();
    fs::remove_file(out.join("Images/1/1.txt")).unwrap();
    fs::create_dir(out.join("Images/1/1.txt")).unwrap();
    let bench = saving_nothing(bench);
    bench.run(&Recorder::new()).result.unwrap();
    assert_eq!("mine", fs::read_to_string(elsewhere.path().join("0.txt")).unwrap());
    assert_eq!(BTreeSet::from(["images".to_owned()]), foreign_files(&out), "the link");
}
