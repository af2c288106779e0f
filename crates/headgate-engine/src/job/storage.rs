//! Everything a durable job does to the disk that matters to its promise, and nothing else: the one seam at which tests
//! stop, refuse or record a step.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// What a job asks of a file system. Each call is one step of the protocol; a crash may come between any two.
pub trait Storage: Debug + Send + Sync {
    /// A new file, empty; what was there under the name is gone.
    fn create(&self, path: &Path) -> io::Result<File> {
        File::create(path)
    }

    /// Makes the bytes of a file durable.
    fn sync_file(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_all()
    }

    /// Makes durable which names a directory has.
    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    /// Makes durable all that was written to the file system of this directory, bytes and names. `directory` was opened before:
    /// Linux tells each open file once of what could not be written since, and a new one of no more than nobody was told of.
    fn sync_file_system(&self, directory: &File, _path: &Path) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        return nix::unistd::syncfs(directory).map_err(io::Error::from);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = directory;
            nix::unistd::sync();
            Ok(())
        }
    }

    /// Moves a file; what was there under the new name is gone.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Gives a file the new name, in one step, only if nothing has that name: `AlreadyExists` otherwise.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::hard_link(from, to) {
            Ok(()) => fs::remove_file(from),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            // Some file systems have no hard links. Whoever writes holds the job's lock, so that a look before is enough.
            Err(_) if to.try_exists()? => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// The file system as it is.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl Storage for Disk {}

/// Writes a small file, durable but for its name.
pub(super) fn write_file(storage: &dyn Storage, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = storage.create(path)?;
    file.write_all(bytes)?;
    storage.sync_file(&file, path)
}

/// Removes a file that may be gone already.
pub(super) fn remove_if_there(storage: &dyn Storage, path: &Path) -> io::Result<()> {
    match storage.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
