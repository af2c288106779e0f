//! The steps of a job on its output directory, which tests stop, refuse or record.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::Path;

use super::Directory;

/// What a job asks of a file system. Each call is one step of the protocol; a crash may come between any two. Paths begin with
/// that of the directory, and lead nowhere else ([`Directory`]).
pub trait Storage: Debug + Send + Sync {
    /// A new file, empty; what was there under the name is gone. `mode`: who may read it, less the umask.
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

    /// Makes durable all that was written to the file system of this directory, bytes and names. `directory` was opened before:
    /// Linux tells each open file once of what could not be written since, and a new one of no more than nobody was told of.
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
            // Some file systems have no hard links. Whoever writes holds the job's lock, so that a look before is enough.
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
