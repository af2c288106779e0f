//! The files of a job, behind one interface.

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;

use super::{Directory, Entries, Metadata, PRIVATE, Space};

/// The files of a job in its output directory: the job protocol has no other access to the disk. Paths begin with that of the
/// directory, and can't leave it. Each call that changes something is one step of the protocol; a crash may come between any
/// two. Tests implement single operations to record, refuse or delay them.
pub trait Storage: Debug + Send + Sync {
    /// Returns the local directory, where all operations take place that a storage does not implement, and advisory locks.
    fn directory(&self) -> &Directory;

    /// Opens a file to read it.
    fn read(&self, path: &Path) -> io::Result<File> {
        self.directory().file(path)
    }

    /// Returns an error if the user has interrupted the command. What reads long files calls it every few MB.
    fn check_interrupt(&self) -> io::Result<()> {
        Ok(())
    }

    /// Opens a file to read it and write to its end.
    fn append(&self, path: &Path) -> io::Result<File> {
        self.directory().file_to_append(path)
    }

    fn list(&self, path: &Path) -> io::Result<Entries> {
        self.directory().entries(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.directory().metadata(path)
    }

    /// Creates an empty file, and removes a file or link that had this name. `mode` is its mode, less the umask.
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.directory().create(path, mode)
    }

    /// Creates a directory if it is missing. Its parent must exist.
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.directory().create_directory(path)
    }

    /// Makes the bytes of a file durable.
    fn sync_file(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_all()
    }

    /// Makes the names in a directory durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.directory().sync(path)
    }

    /// Makes everything durable that was written to the file system since the storage was opened, bytes and names: Linux
    /// reports a failed write once to each file that was open then (syncfs(2)).
    fn sync_file_system(&self) -> io::Result<()> {
        self.directory().sync_file_system()
    }

    /// Returns the space of the storage, of which saved bodies take a part, too. `None`: it has no bound, or does not report it.
    fn space(&self) -> Option<Space> {
        self.directory().space()
    }

    /// Moves a file, and replaces a file that had the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.directory().rename(from, to)
    }

    /// Moves a file, unless the new name exists: then the error is `AlreadyExists`.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.directory().rename_new(from, to)
    }

    /// Removes a file or a link.
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.directory().remove(path)
    }

    fn remove_empty_directory(&self, path: &Path) -> io::Result<()> {
        self.directory().remove_empty_directory(path)
    }
}

/// The local file system.
impl Storage for Directory {
    fn directory(&self) -> &Directory {
        self
    }
}

/// Creates the storage of the files below an open directory.
pub trait OpenStorage: Send + Sync {
    fn open(&self, directory: Directory) -> Arc<dyn Storage>;
}

impl<F: Fn(Directory) -> Arc<dyn Storage> + Send + Sync> OpenStorage for F {
    fn open(&self, directory: Directory) -> Arc<dyn Storage> {
        self(directory)
    }
}

/// Stores jobs in the local file system.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl OpenStorage for Disk {
    fn open(&self, directory: Directory) -> Arc<dyn Storage> {
        Arc::new(directory)
    }
}

impl dyn Storage + '_ {
    /// Returns the path of the output directory.
    pub fn path(&self) -> &Path {
        self.directory().path()
    }

    pub fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(if_found(self.metadata(path))?.is_some())
    }

    pub fn is_directory(&self, path: &Path) -> bool {
        self.metadata(path).is_ok_and(|found| found.kind == FileType::Directory)
    }

    /// Returns whether the path is a regular file of this length.
    pub fn is_file_of(&self, path: &Path, bytes: u64) -> bool {
        self.metadata(path).is_ok_and(|found| found.kind == FileType::RegularFile && found.bytes == bytes)
    }

    /// Writes a small file that may have hashes of secrets, and makes its bytes durable, but not its name.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.create(path, PRIVATE)?;
        file.write_all(bytes)?;
        self.sync_file(&file, path)
    }

    /// Creates a directory and its parents, as far as they are missing.
    pub fn create_directories(&self, path: &Path) -> io::Result<()> {
        let mut missing: Vec<&Path> = path.ancestors().take_while(|above| *above != self.path()).collect();
        missing.reverse();
        missing.into_iter().try_for_each(|path| self.create_directory(path))
    }

    /// Removes a file, if it exists.
    pub fn remove_if_exists(&self, path: &Path) -> io::Result<()> {
        if_found(self.remove(path)).map(drop)
    }

    /// Removes everything in a directory. Links are removed and not followed.
    pub fn clear(&self, path: &Path) -> io::Result<()> {
        for entry in self.list(path)? {
            let (name, kind) = entry?;
            let path = path.join(name);
            if kind == FileType::Directory { self.remove_directory(&path)? } else { self.remove(&path)? }
        }
        Ok(())
    }

    /// Removes a directory and everything in it.
    pub fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.clear(path)?;
        self.remove_empty_directory(path)
    }

    /// Returns the names in a directory, or none if it is missing.
    pub fn names(&self, path: &Path) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
        let entries = if_found(self.list(path))?;
        Ok(entries.into_iter().flatten().map(|entry| entry.map(|(name, _)| name)))
    }
}

/// Returns `None` for a file that does not exist.
pub fn if_found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}
