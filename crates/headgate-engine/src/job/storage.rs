//! The interface between a durable job and the disk. All operations that its guarantees depend on use it, and tests stop, refuse
//! or record them here.

use std::io::{self, Write as _};
use std::path::Path;

pub use headgate_core::files::storage::{Disk, Storage};
use headgate_core::files::{Directory, PRIVATE};

/// Writes a small file that may have hashes of secrets, and makes its bytes durable, but not its name.
pub(super) fn write_file(storage: &dyn Storage, directory: &Directory, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = storage.create(directory, path, PRIVATE)?;
    file.write_all(bytes)?;
    storage.sync_file(&file, path)
}

/// Removes a file, if it exists.
pub(super) fn remove_if_exists(storage: &dyn Storage, directory: &Directory, path: &Path) -> io::Result<()> {
    match storage.remove(directory, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
