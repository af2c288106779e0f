//! A failing disk: the error names the file, the job keeps its rows, and resumes once the cause is removed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use headgate_core::error::JobErrorKind;
use headgate_core::files::Directory;
use headgate_core::files::storage::Storage;
use headgate_core::options::Format;

use crate::check::{check_finished, check_resumes};
use crate::harness::{Bench, FORMATS, at_every_step};
use crate::storage::{Recorder, Step};

/// Error numbers of Linux with which file systems refuse hard links (link(2)).
const EPERM: i32 = 1;
const EIO: i32 = 5;
const EXDEV: i32 = 18;
const ENOSYS: i32 = 38;

fn every_fault(format: Format) {
    at_every_step(|step| {
        let bench = Bench::new(format);
        let disk = Recorder::failing_at(step);
        let run = bench.run(&disk);
        let Some(failed) = disk.refused() else {
            run.result.unwrap();
            return true;
        };
        let error = run.result.as_ref().expect_err("a fault that matters");
        assert_eq!(JobErrorKind::Storage, error.kind, "{error}");
        let is_sync = matches!(failed, Step::SyncFile(..) | Step::SyncDirectory(_) | Step::SyncFileSystem(_));
        let cause = if is_sync { "input/output error" } else { "no space left on device" };
        assert!(error.to_string().contains(cause), "{failed:?}: {error}");
        let shown = bench.out().display().to_string();
        assert!(error.to_string().contains(&shown), "{failed:?}: {error}");
        if let Step::Create(path) | Step::SyncFile(path, _) | Step::Link(path, _) = &failed {
            check_names_the_file(&error.to_string(), path);
        }

        check_resumes(&bench, &run);
        false
    });
}

#[test]
fn a_disk_that_fails_once_loses_no_row_in_parquet() {
    every_fault(Format::Parquet);
}

#[test]
fn a_disk_that_fails_once_loses_no_row_in_ndjson() {
    every_fault(Format::Ndjson);
}

/// A disk that has no space for one file, although the file can be created.
#[derive(Debug)]
struct FullDisk {
    /// The index of that file, counted from 0.
    full_at: usize,
    files_made: AtomicUsize,
    full: Mutex<Option<PathBuf>>,
}

#[derive(Debug)]
struct FullFiles(Arc<FullDisk>, Directory);

impl Storage for FullFiles {
    fn directory(&self) -> &Directory {
        &self.1
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        if self.0.files_made.fetch_add(1, SeqCst) != self.0.full_at {
            return self.1.create(path, mode);
        }
        *self.0.full.lock().unwrap() = Some(path.into());
        File::options().write(true).open("/dev/full")
    }

    fn sync_file(&self, _file: &File, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_loses_no_row() {
    for format in FORMATS {
        for full_at in 0.. {
            let bench = Bench::new(format);
            let disk = Arc::new(FullDisk { full_at, files_made: AtomicUsize::default(), full: Mutex::default() });
            let its = disk.clone();
            let run = bench.run(&move |directory| Arc::new(FullFiles(its.clone(), directory)) as Arc<dyn Storage>);
            let Some(full) = disk.full.lock().unwrap().clone() else {
                run.result.unwrap();
                break;
            };
            let error = run.result.as_ref().expect_err("what could not be written was committed");
            assert!(error.to_string().contains("no space left on device; free some space"), "{full:?}: {error}");
            check_names_the_file(&error.to_string(), &full);
            check_resumes(&bench, &run);
        }
    }
}

/// A file system that has no hard links, and can't rename a file to a new name in one step.
#[derive(Debug)]
struct WithoutLinks {
    directory: Directory,
    /// The error with which the system refuses a hard link.
    errno: i32,
    /// Another process writes each commit first.
    has_rival: bool,
}

impl Storage for WithoutLinks {
    fn directory(&self) -> &Directory {
        &self.directory
    }

    fn rename_new(&self, _from: &Path, to: &Path) -> io::Result<()> {
        if self.has_rival {
            fs::write(to, "the commit of another process")?;
        }
        Err(io::Error::from_raw_os_error(self.errno))
    }
}

#[test]
fn a_file_system_without_hard_links_has_jobs_and_replaces_no_commit() {
    for errno in [EPERM, EIO, EXDEV, ENOSYS] {
        let bench = Bench::new(Format::Parquet);
        let with =
            |has_rival| move |directory| Arc::new(WithoutLinks { directory, errno, has_rival }) as Arc<dyn Storage>;
        bench.run_batches(&with(false), 1).result.unwrap();
        let error = bench.run(&with(true)).result.expect_err("the commit of another process was replaced").to_string();
        let (planted, _) = error.split_once(" already exists").expect("the error names the commit");
        assert_eq!("the commit of another process", fs::read_to_string(planted).unwrap());
        fs::remove_file(planted).unwrap();
        bench.run(&with(false)).result.unwrap();
        check_finished(&bench);
    }
}

fn check_names_the_file(message: &str, path: &Path) {
    let named = match path.file_name().unwrap().to_str().unwrap() {
        "commit.json" => "_headgate/log/0000",
        // The error names the directory, in which no job has started.
        "job.json" | "delta.json" | "part-00000000.parquet.tmp" => "",
        part => part.trim_end_matches(".tmp"),
    };
    assert!(message.contains(named), "{}: {message}", path.display());
}
