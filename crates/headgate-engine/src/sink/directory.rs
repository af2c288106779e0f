//! The output directory: whose it is, who writes to it now, and how a finished part appears in it.
//!
//! ```text
//! OUT/part-00000001.parquet …    complete at every moment
//! OUT/_headgate/job.json         says that the directory is ours, and in which version
//! OUT/_headgate/lock             held by the process that writes
//! OUT/_headgate/tmp/             parts being written
//! ```
//!
//! Nothing is deleted before the lock is held and every check has passed; and only what carries one of our names.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::cause;
use super::part::PartName;
use super::time::TimeText;
use crate::error::JobError;
use crate::options::Format;

/// Rises when an older headgate could misread the directory.
const FORMAT_VERSION: u32 = 1;
/// Far beyond any `job.json` of ours.
const MAX_JOB_FILE_BYTES: u64 = 1024 * 1024;

pub(crate) const OWN_DIRECTORY: &str = "_headgate";

#[derive(Debug, Serialize, Deserialize)]
struct JobFile {
    format_version: u32,
    headgate_version: String,
    started_at: String,
    format: String,
}

/// An output directory that this process alone writes to, until it is dropped.
#[derive(Debug)]
pub(super) struct ResultDirectory {
    path: PathBuf,
    /// The lock lives as long as the open file.
    _lock: File,
}

impl ResultDirectory {
    /// Takes the directory for a new job, with nothing of a former one in it.
    pub(super) fn claim(path: &Path, format: Format, fresh: bool) -> Result<Self, JobError> {
        if path.as_os_str().is_empty() {
            return Err(JobError::usage("the output directory has no name: give one with -o"));
        }
        let shown = path.display();
        let unusable = |error: io::Error| JobError::output(format!("cannot write to {shown}: {}", cause(&error)));

        match fs::metadata(path) {
            Ok(metadata) if !metadata.is_dir() => {
                return Err(JobError::output(format!("{shown} is not a directory: choose another -o")));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(path).map_err(|error| {
                    JobError::output(format!("cannot create the directory {shown}: {}", cause(&error)))
                })?;
            }
            Err(error) => return Err(unusable(error)),
        }
        if is_foreign(path).map_err(unusable)? {
            return Err(JobError::output(format!(
                "{shown} is not empty and was not made by headgate: choose another -o, or empty it yourself"
            )));
        }

        create_dir(&path.join(OWN_DIRECTORY)).map_err(unusable)?;
        let directory = Self { path: path.to_owned(), _lock: lock(path)? };
        // Only now does nobody else change what is there.
        if let Some(job) = directory.read_job_file()? {
            if job.format_version > FORMAT_VERSION {
                return Err(JobError::output(format!(
                    "{shown} was made by headgate {}, which is newer than this one: choose another -o",
                    job.headgate_version
                )));
            }
            if !fresh {
                return Err(JobError::output(format!(
                    "{shown} already holds the results of a job: replace them with --fresh, or choose another -o"
                )));
            }
        }
        directory.start_over(format).map_err(unusable)?;
        Ok(directory)
    }

    pub(super) fn path_of(&self, name: PartName) -> PathBuf {
        self.path.join(name.to_string())
    }

    /// A new file for the part, where no reader looks.
    pub(super) fn create(&self, name: PartName) -> io::Result<File> {
        File::create(self.tmp().join(name.to_string()))
    }

    /// Makes a finished part one of the results: whole or not at all, also if the machine stops in between.
    pub(super) fn publish(&self, file: &File, name: PartName) -> io::Result<()> {
        file.sync_all()?;
        fs::rename(self.tmp().join(name.to_string()), self.path_of(name))?;
        sync_directory(&self.path)
    }

    /// Removes a part that will not be published. What stays behind is swept by the next job.
    pub(super) fn discard(&self, name: PartName) {
        let _ = fs::remove_file(self.tmp().join(name.to_string()));
    }

    fn own(&self) -> PathBuf {
        self.path.join(OWN_DIRECTORY)
    }

    fn tmp(&self) -> PathBuf {
        self.own().join("tmp")
    }

    fn read_job_file(&self) -> Result<Option<JobFile>, JobError> {
        let path = self.own().join("job.json");
        let mut text = String::new();
        match File::open(&path).and_then(|file| file.take(MAX_JOB_FILE_BYTES).read_to_string(&mut text)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(JobError::output(format!("cannot read {}: {}", path.display(), cause(&error)))),
        }
        let job = serde_json::from_str(&text).map_err(|error| {
            JobError::output(format!("{} was not written by headgate ({error}): choose another -o", path.display()))
        })?;
        Ok(Some(job))
    }

    fn start_over(&self, format: Format) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if is_part(&entry)? {
                fs::remove_file(entry.path())?;
            }
        }
        for entry in fs::read_dir(self.own())? {
            let entry = entry?;
            // `job.json` is replaced, never missing: without it the directory would no longer be ours.
            if entry.file_name() == "lock" || entry.file_name() == "job.json" {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        create_dir(&self.tmp())?;
        self.write_job_file(format)
    }

    fn write_job_file(&self, format: Format) -> io::Result<()> {
        let job = JobFile {
            format_version: FORMAT_VERSION,
            headgate_version: env!("CARGO_PKG_VERSION").into(),
            started_at: now()?,
            format: match format {
                Format::Parquet => "parquet",
                Format::Ndjson => "ndjson",
                Format::None => "none",
            }
            .into(),
        };
        let (written, placed) = (self.tmp().join("job.json"), self.own().join("job.json"));
        let mut file = File::create(&written)?;
        serde_json::to_writer_pretty(&mut file, &job)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(written, placed)?;
        sync_directory(&self.own())?;
        sync_directory(&self.path)
    }
}

/// Whether somebody else's files are there. Ours has a `job.json`, or is empty but for a start that was cut short.
fn is_foreign(path: &Path) -> io::Result<bool> {
    let own = path.join(OWN_DIRECTORY);
    if own.join("job.json").try_exists()? {
        return Ok(false);
    }
    let has_others = |path: &Path, ours: &[&str]| -> io::Result<bool> {
        for entry in fs::read_dir(path)? {
            let name = entry?.file_name();
            if !ours.iter().any(|known| *known == name) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    Ok(has_others(path, &[OWN_DIRECTORY])? || (own.try_exists()? && has_others(&own, &["lock", "tmp"])?))
}

/// A directory or a link with the name of a part is not one of ours.
fn is_part(entry: &fs::DirEntry) -> io::Result<bool> {
    let named = entry.file_name().to_str().and_then(PartName::parse).is_some();
    Ok(named && entry.file_type()?.is_file())
}

fn create_dir(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}

/// Keeps a second process out of the directory. Advisory, and released by the system however this process ends.
fn lock(directory: &Path) -> Result<File, JobError> {
    let path = directory.join(OWN_DIRECTORY).join("lock");
    let failed = |error: &io::Error| JobError::output(format!("cannot lock {}: {}", path.display(), cause(error)));
    let mut options = File::options();
    let mut file =
        options.read(true).write(true).create(true).truncate(false).open(&path).map_err(|error| failed(&error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let known = file.take(20).read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
            let holder = if known { format!(" (pid {})", holder.trim()) } else { String::new() };
            return Err(JobError::output(format!(
                "another headgate{holder} is writing to {}: wait for it, or choose another -o",
                directory.display()
            )));
        }
        // Some network file systems have no locks; that is no reason not to write to them.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
        Err(TryLockError::Error(error)) => return Err(failed(&error)),
    }
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(|error| failed(&error))?;
    Ok(file)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn now() -> io::Result<String> {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    let mut time = TimeText::new();
    time.format(elapsed.as_micros() as i64).map(str::to_owned).ok_or_else(|| io::Error::other("the clock is wrong"))
}
