//! The file operations of a job in its output directory, which tests stop, refuse or record.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::Path;

use super::Directory;

/// The file operations of a job. Each call is one step of the protocol; a crash may come between any two. Paths begin with
/// that of the directory, and can't leave it ([`Directory`]).
pub trait Storage: Debug + Send + Sync {
    /// Creates an empty file, and removes a file or link that had this name. `mode` is its mode, less the umask.
    fn create(&self, directory: &Directory, path: &Path, mode: u32) -> io::Result<File> {
        directory.create(path, mode)
    }

    /// Makes the bytes of a file durable.
    fn sync_file(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_all()
    }

    /// Makes the names in a directory durable.
    fn sync_directory(&self, directory: &Directory, path: &Path) -> io::Result<()> {
        directory.sync(path)
    }

    /// Makes everything durable that was written to the file system of this directory, bytes and names. `directory` must
    /// have been opened before the writes: Linux reports a failed write once to each file that was open then (syncfs(2)).
    fn sync_file_system(&self, directory: &Directory) -> io::Result<()> {
        directory.sync_file_system()
    }

    /// Moves a file, and replaces a file that had the new name.
    fn rename(&self, directory: &Directory, from: &Path, to: &Path) -> io::Result<()> {
        directory.rename(from, to)
    }

    /// Moves a file in one step, unless the new name exists: then the error is `AlreadyExists`.
    fn rename_new(&self, directory: &Directory, from: &Path, to: &Path) -> io::Result<()> {
        match directory.link(from, to) {
            Ok(()) => directory.remove(from),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // Some file systems have no hard links. The writer holds the job's lock, so checking first is enough.
            Err(_) if directory.exists(to)? => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => directory.rename(from, to),
        }
    }

    fn remove(&self, directory: &Directory, path: &Path) -> io::Result<()> {
        directory.remove(path)
    }
}

/// The real file system.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl Storage for Disk {}
