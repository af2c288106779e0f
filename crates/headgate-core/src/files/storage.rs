//! The steps of a job on its output directory, which tests stop, refuse or record.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::Path;

use super::Directory;

/// What a job asks of a file system. Each call is one step of the protocol; a crash may come between any two. Paths begin with
/// that of the directory, and lead nowhere else ([`Directory`]).
pub trait Storage: Debug + Send + Sync {
    /// Creates an empty file in place of what had the name. `mode` is its mode, less the umask.
    fn create(&self, directory: &Directory, path: &Path, mode: u32) -> io::Result<File> {
        directory.create(path, mode)
    }

    /// Makes the bytes of a file durable.
    fn sync_file(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_all()
    }

    /// Makes durable which names a directory has.
    fn sync_directory(&self, directory: &Directory, path: &Path) -> io::Result<()> {
        directory.sync(path)
    }

    /// Makes durable all that was written to the file system of this directory, bytes and names. `directory` must
    /// have been opened before the writes: Linux reports a failed write once to each file that was open then (syncfs(2)).
    fn sync_file_system(&self, directory: &Directory) -> io::Result<()> {
        directory.sync_file_system()
    }

    /// Moves a file; what was there under the new name is gone.
    fn rename(&self, directory: &Directory, from: &Path, to: &Path) -> io::Result<()> {
        directory.rename(from, to)
    }

    /// Gives a file the new name, in one step, only if nothing has that name: `AlreadyExists` otherwise.
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

/// The file system as it is.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl Storage for Disk {}
