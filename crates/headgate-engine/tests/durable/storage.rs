//! A disk that records every step, and can stop or fail at one of them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use headgate_core::files::Directory;
use headgate_core::files::storage::{OpenStorage, Storage};

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
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    script: Arc<Mutex<Script>>,
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
    pub fn new() -> Self {
        Self::default()
    }

    fn of(script: Script) -> Self {
        Self { script: Arc::new(Mutex::new(script)), power: None }
    }

    /// Creates a disk that performs this many steps and then refuses all others.
    pub fn crashing_at(step: usize) -> Self {
        Self::of(Script { crash_at: Some(step), ..Script::default() })
    }

    /// Creates a disk that fails once, after this many steps.
    pub fn failing_at(step: usize) -> Self {
        Self::of(Script { fail_at: Some(step), ..Script::default() })
    }

    /// Creates a disk as [`Recorder::crashing_at`] does, on top of one that may lose its power.
    pub fn on(power: &Arc<PowerLoss>, crash_at: Option<usize>) -> Self {
        Self { power: Some(power.clone()), ..Self::of(Script { crash_at, ..Script::default() }) }
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

impl OpenStorage for Recorder {
    fn open(&self, directory: Directory) -> Arc<dyn Storage> {
        Arc::new(Recorded { recorder: self.clone(), directory })
    }
}

/// The files of one directory, with the steps recorded.
#[derive(Debug)]
struct Recorded {
    recorder: Recorder,
    directory: Directory,
}

impl Storage for Recorded {
    fn directory(&self) -> &Directory {
        &self.directory
    }

    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.recorder.perform(Step::Create(path.into()))?;
        let Some(power) = &self.recorder.power else { return self.directory.create(path, mode) };
        if path.exists() {
            let aside = power.keep_copy(path)?;
            self.directory.remove(path)?;
            power.removed(path, aside);
        }
        let file = self.directory.create_new(path, mode)?;
        power.written(file.metadata()?.ino());
        power.added(path, None)?;
        Ok(file)
    }

    fn sync_file(&self, file: &File, path: &Path) -> io::Result<()> {
        let metadata = file.metadata()?;
        self.recorder.perform(Step::SyncFile(path.into(), metadata.len()))?;
        if let Some(power) = &self.recorder.power {
            power.synced(metadata.ino(), metadata.len());
        }
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.recorder.perform(Step::SyncDirectory(path.into()))?;
        if let Some(power) = &self.recorder.power {
            power.synced_directory(path);
        }
        Ok(())
    }

    fn sync_file_system(&self) -> io::Result<()> {
        self.recorder.perform(Step::SyncFileSystem(self.directory.path().into()))?;
        if let Some(power) = &self.recorder.power {
            power.synced_all();
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.recorder.perform(Step::Rename(from.into(), to.into()))?;
        let Some(power) = &self.recorder.power else { return self.directory.rename(from, to) };
        let (moved, replaced) = (power.keep_copy(from)?, power.keep_copy(to).ok());
        self.directory.rename(from, to)?;
        power.renamed(from, moved, to, replaced)
    }

    /// Links and unlinks: the two steps on a file system that has hard links, and can't rename to a new name in one step.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.recorder.perform(Step::Link(from.into(), to.into()))?;
        self.directory.link(from, to)?;
        self.recorder.script.lock().unwrap().linked.push((to.into(), fs::read(to)?));
        if let Some(power) = &self.recorder.power {
            power.added(to, None)?;
        }
        self.remove(from)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.recorder.perform(Step::Remove(path.into()))?;
        let Some(power) = &self.recorder.power else { return self.directory.remove(path) };
        let aside = power.keep_copy(path)?;
        self.directory.remove(path)?;
        power.removed(path, aside);
        Ok(())
    }
}
