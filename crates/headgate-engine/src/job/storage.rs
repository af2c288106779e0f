//! Everything a durable job does to the disk that matters to its promise, and nothing else: the one seam at which tests
//! stop, refuse or record a step.

use std::io::{self, Write as _};
use std::path::Path;

pub use headgate_core::files::storage::{Disk, Storage};
use headgate_core::files::{Directory, PRIVATE};

/// Writes a small file that may hold hashes of secrets, durable but for its name.
pub(super) fn write_file(storage: &dyn Storage, directory: &Directory, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = storage.create(directory, path, PRIVATE)?;
    file.write_all(bytes)?;
    storage.sync_file(&file, path)
}

/// Removes a file that may be gone already.
pub(super) fn remove_if_there(storage: &dyn Storage, directory: &Directory, path: &Path) -> io::Result<()> {
    match storage.remove(directory, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
