use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use headgate_core::error::JobErrorKind;
use headgate_core::options::{Format, IfExists, SinkOptions};

use crate::outcomes::{batch, interrupt, names, open, open_error, options, succeeded, write};

fn finished_job() -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("results");
    write(&options(&out, Format::Parquet), [batch([succeeded(0, b"")])]);
    (parent, out)
}

fn fresh(directory: &Path, format: Format) -> SinkOptions {
    SinkOptions { if_exists: IfExists::Overwrite, ..options(directory, format) }
}

#[test]
fn a_missing_directory_is_created_with_its_parents() {
    let parent = tempfile::tempdir().unwrap();
    let out = parent.path().join("a/b");
    write(&options(&out, Format::Parquet), [batch([succeeded(0, b"")])]);

    assert_eq!(["_headgate", "part-00000001.parquet"], names(&out).as_slice());
    let job: serde_json::Value = serde_json::from_slice(&fs::read(out.join("_headgate/job.json")).unwrap()).unwrap();
    assert_eq!(6, job["format_version"]);
    let job = &job["record"];
    assert_eq!(env!("CARGO_PKG_VERSION"), job["headgate_version"]);
    assert_eq!("parquet", job["spec"]["format"]);
    assert!(job["started_at"].as_str().unwrap().ends_with('Z'), "{job}");
}

#[test]
fn an_empty_directory_is_used() {
    let out = tempfile::tempdir().unwrap();
    write(&options(out.path(), Format::Ndjson), [batch([succeeded(0, b"")])]);
    assert_eq!(["_headgate", "part-00000001.ndjson"], names(out.path()).as_slice());
}

#[test]
fn a_job_is_not_resumed_without_the_option() {
    let (_parent, out) = finished_job();
    let before = fs::read(out.join("part-00000001.parquet")).unwrap();

    let error = open_error(&SinkOptions { if_exists: IfExists::Error, ..options(&out, Format::Parquet) });

    assert_eq!(JobErrorKind::Output, error.kind);
    assert_eq!(
        format!(
            "{} already contains the results of a job: resume it (without if_exists=error), replace them with if_exists=overwrite, or choose another output",
            out.display()
        ),
        error.to_string()
    );
    assert_eq!(before, fs::read(out.join("part-00000001.parquet")).unwrap());
}

#[test]
fn fresh_removes_the_files_of_the_job_and_nothing_else() {
    let (_parent, out) = finished_job();
    fs::write(out.join("failed-00000009.ndjson"), "ours").unwrap();
    fs::write(out.join("notes.txt"), "theirs").unwrap();
    fs::write(out.join("part-1.parquet"), "theirs").unwrap();
    fs::create_dir(out.join("part-00000002.parquet")).unwrap();
    fs::write(out.join("_headgate/tmp/part-00000002.parquet"), "half").unwrap();

    drop(open(&fresh(&out, Format::Ndjson)).unwrap());

    assert_eq!(["_headgate", "notes.txt", "part-00000002.parquet", "part-1.parquet"], names(&out).as_slice());
    assert_eq!(Vec::<String>::new(), names(&out.join("_headgate/tmp")));
    assert!(fs::read_to_string(out.join("_headgate/job.json")).unwrap().contains("\"ndjson\""));
}

#[test]
fn fresh_follows_no_symlinks_out_of_the_directory() {
    let (parent, out) = finished_job();
    let theirs = parent.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("precious"), "").unwrap();
    fs::remove_dir_all(out.join("_headgate/tmp")).unwrap();
    symlink(&theirs, out.join("_headgate/tmp")).unwrap();

    drop(open(&fresh(&out, Format::Parquet)).unwrap());

    assert_eq!(["precious"], names(&theirs).as_slice());
    assert!(out.join("_headgate/tmp").symlink_metadata().unwrap().is_dir());
}

#[test]
fn a_directory_without_a_job_is_not_changed_even_with_fresh() {
    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("part-1.parquet"), "theirs").unwrap();

    for options in [options(out.path(), Format::Parquet), fresh(out.path(), Format::Parquet)] {
        let error = open_error(&options);
        assert_eq!(JobErrorKind::Output, error.kind);
        assert_eq!(
            format!(
                "{} is not empty and was not made by headgate: choose another output, or empty it yourself",
                out.path().display()
            ),
            error.to_string()
        );
        assert_eq!(["part-1.parquet"], names(out.path()).as_slice());
    }
}

#[test]
fn results_without_a_job_file_are_not_changed_even_with_fresh() {
    let (_parent, out) = finished_job();
    fs::remove_dir_all(out.join("_headgate")).unwrap();

    for options in [options(&out, Format::Parquet), fresh(&out, Format::Parquet)] {
        let error = open_error(&options);
        assert_eq!(JobErrorKind::Output, error.kind);
        assert_eq!(
            format!(
                "{0} contains results, but not the directory _headgate that belongs to them: restore it from a copy, choose another output, or empty {0} yourself",
                out.display()
            ),
            error.to_string()
        );
        assert_eq!(["part-00000001.parquet"], names(&out).as_slice());
    }
}

#[test]
fn an_interrupted_start_does_not_prevent_a_job() {
    let out = tempfile::tempdir().unwrap();
    fs::create_dir_all(out.path().join("_headgate/tmp")).unwrap();
    fs::write(out.path().join("_headgate/lock"), "1\n").unwrap();

    write(&options(out.path(), Format::Parquet), [batch([succeeded(0, b"")])]);

    assert_eq!(["_headgate", "part-00000001.parquet"], names(out.path()).as_slice());
}

#[test]
fn a_directory_of_a_newer_headgate_is_not_changed() {
    let (_parent, out) = finished_job();
    let job = r#"{"format_version":99,"headgate_version":"9.0.0","started_at":"","format":"parquet"}"#;
    fs::write(out.join("_headgate/job.json"), job).unwrap();

    let error = open_error(&fresh(&out, Format::Parquet));

    assert_eq!(
        format!(
            "{}/_headgate/job.json was written by a newer headgate: use that version, or choose another output",
            out.display()
        ),
        error.to_string()
    );
    assert_eq!(["_headgate", "part-00000001.parquet"], names(&out).as_slice());
}

#[test]
fn a_directory_with_a_foreign_job_file_is_not_changed() {
    let (_parent, out) = finished_job();
    fs::write(out.join("_headgate/job.json"), "{}").unwrap();

    let error = open_error(&fresh(&out, Format::Parquet));

    assert!(error.to_string().contains("job.json is damaged, or was not written by headgate"), "{}", error.to_string());
    assert_eq!(["_headgate", "part-00000001.parquet"], names(&out).as_slice());
}

#[test]
fn two_jobs_cannot_write_to_one_directory() {
    let out = tempfile::tempdir().unwrap();
    let mut first = open(&options(out.path(), Format::Parquet)).unwrap();

    let error = open_error(&fresh(out.path(), Format::Parquet));

    assert_eq!(JobErrorKind::Output, error.kind);
    assert_eq!(
        format!(
            "another headgate (pid {}) is writing to {}: wait for it, or choose another output",
            std::process::id(),
            out.path().display()
        ),
        error.to_string()
    );
    let _ = first.write(batch([succeeded(0, b"")])).unwrap();
    interrupt(first.as_mut()).unwrap();
    drop(first);
    drop(open(&fresh(out.path(), Format::Parquet)).unwrap());
}

#[test]
fn a_file_as_the_output_directory_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("results");
    fs::write(&file, "theirs").unwrap();

    assert_eq!(
        format!("{} is not a directory: choose another output", file.display()),
        open_error(&fresh(&file, Format::Parquet)).to_string()
    );
    assert_eq!("theirs", fs::read_to_string(&file).unwrap());
    let below = file.join("deeper");
    let error = open_error(&options(&below, Format::Parquet));
    assert_eq!(JobErrorKind::Output, error.kind);
    assert_eq!(format!("can't write to {}: not a directory", below.display()), error.to_string());
}

#[test]
fn a_directory_that_cannot_be_created_is_named_with_the_cause() {
    // No user may create directories there, not even root.
    let error = open_error(&options(Path::new("/proc/headgate"), Format::Parquet));
    assert_eq!(JobErrorKind::Output, error.kind);
    assert_eq!("can't create the directory /proc/headgate: no such file or directory", error.to_string());
}

#[test]
fn an_output_without_a_name_is_refused() {
    let error = open_error(&options(Path::new(""), Format::Parquet));
    assert_eq!(JobErrorKind::Usage, error.kind);
    assert_eq!("the output directory has no name: give one with output", error.to_string());
}
