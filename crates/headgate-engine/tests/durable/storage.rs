//! A disk that records every step, and can stop or fail at one of them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use headgate_core::files::Directory;
use headgate_core::files::storage::Storage;

use crate::power::PowerLoss;

/// Error numbers of Linux.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// An operation of a job on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Create(PathBuf),
    /// A sync, with the size of the file at that moment.
    SyncFile(PathBuf, u64),
    SyncDirectory(PathBuf),
    SyncFileSystem(PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
}

/// Storage with real files. It makes nothing durable, because only [`PowerLoss`] would notice.
#[derive(Debug, Default)]
pub struct Recorder {
    script: Mutex<Script>,
    power: Option<Arc<PowerLoss>>,
}

#[derive(Debug, Default)]
struct Script {
    steps: Vec<Step>,
    /// From this step on, counted from 0, every operation fails: the process was killed.
    crash_at: Option<usize>,
    /// Only this step fails.
    fail_at: Option<usize>,
    /// The step that was refused.
    refused: Option<Step>,
    /// Commits in the order of their creation, including those that the job has removed.
    linked: Vec<(PathBuf, Vec<u8>)>,
}

impl Recorder {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Creates a disk that performs this many steps and then refuses all others.
    pub fn crashing_at(step: usize) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(Script { crash_at: Some(step), ..Script::default() }), power: None })
    }

    /// Creates a disk that fails once, after this many steps.
    pub fn failing_at(step: usize) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(Script { fail_at: Some(step), ..Script::default() }), power: None })
    }

    /// Creates a disk as [`Recorder::crashing_at`] does, on top of one that may lose its power.
    pub fn on(power: &Arc<PowerLoss>, crash_at: Option<usize>) -> Arc<Self> {
        let script = Mutex::new(Script { crash_at, ..Script::default() });
        Arc::new(Self { script, power: Some(power.clone()) })
    }

    /// Performs this many more steps, and then refuses all others.
    pub fn crash_after(&self, steps: usize) {
        let mut script = self.script.lock().unwrap();
        script.crash_at = Some(script.steps.len() + steps);
    }

    pub fn steps(&self) -> Vec<Step> {
        self.script.lock().unwrap().steps.clone()
    }

    /// Returns the new names of linked files, in their order.
    pub fn linked(&self) -> Vec<(PathBuf, Vec<u8>)> {
        self.script.lock().unwrap().linked.clone()
    }

    /// Returns the first step that was refused.
    pub fn refused(&self) -> Option<Step> {
        self.script.lock().unwrap().refused.clone()
    }

    fn perform(&self, step: Step) -> io::Result<()> {
        let mut script = self.script.lock().unwrap();
        let index = script.steps.len();
        let error = if script.crash_at.is_some_and(|crash| index >= crash) {
            Some(io::Error::other("the process was killed"))
        } else if script.fail_at == Some(index) {
            script.fail_at = None;
            let is_sync = matches!(step, Step::SyncFile(..) | Step::SyncDirectory(_) | Step::SyncFileSystem(_));
            Some(io::Error::from_raw_os_error(if is_sync { EIO } else { ENOSPC }))
        } else {
            None
        };
        if let Some(error) = error {
            script.refused.get_or_insert(step);
            return Err(error);
        }
        script.steps.push(step);
        Ok(())
    }
}

impl Storage for Recorder {
    fn create(&self, directory: &Directory, path: &Path, mode: u32) -> io::Result<File> {
        self.perform(Step::Create(path.into()))?;
        let Some(power) = &self.power else { return directory.create(path, mode) };
        if path.exists() {
            let aside = power.keep_copy(path)?;
            directory.remove(path)?;
            power.removed(path, aside);
        }
        let file = directory.create_new(path, mode)?;
        power.written(file.metadata()?.ino());
        power.added(path, None)?;
        Ok(file)
    }

    fn sync_file(&self, file: &File, path: &Path) -> io::Result<()> {
        let metadata = file.metadata()?;
        self.perform(Step::SyncFile(path.into(), metadata.len()))?;
        if let Some(power) = &self.power {
            power.synced(metadata.ino(), metadata.len());
        }
        Ok(())
    }

    fn sync_directory(&self, _directory: &Directory, path: &Path) -> io::Result<()> {
        self.perform(Step::SyncDirectory(path.into()))?;
        if let Some(power) = &self.power {
            power.synced_directory(path);
        }
        Ok(())
    }

    fn sync_file_system(&self, directory: &Directory) -> io::Result<()> {
        self.perform(Step::SyncFileSystem(directory.path().into()))?;
        if let Some(power) = &self.power {
            power.synced_all();
        }
        Ok(())
    }

    fn rename(&self, directory: &Directory, from: &Path, to: &Path) -> io::Result<()> {
        self.perform(Step::Rename(from.into(), to.into()))?;
        let Some(power) = &self.power else { return directory.rename(from, to) };
        let (moved, replaced) = (power.keep_copy(from)?, power.keep_copy(to).ok());
        directory.rename(from, to)?;
        power.renamed(from, moved, to, replaced)
    }

    /// Links and unlinks, the two steps of the default implementation on a file system with hard links.
    fn rename_new(&self, directory: &Directory, from: &Path, to: &Path) -> io::Result<()> {
        self.perform(Step::Link(from.into(), to.into()))?;
        directory.link(from, to)?;
        self.script.lock().unwrap().linked.push((to.into(), fs::read(to)?));
        if let Some(power) = &self.power {
            power.added(to, None)?;
        }
        self.remove(directory, from)
    }

    fn remove(&self, directory: &Directory, path: &Path) -> io::Result<()> {
        self.perform(Step::Remove(path.into()))?;
        let Some(power) = &self.power else { return directory.remove(path) };
        let aside = power.keep_copy(path)?;
        directory.remove(path)?;
        power.removed(path, aside);
        Ok(())
    }
}
