//! Claims a file name for one row of the job. The file system has the names: there is no list of them in memory.
//!
//! Each step first claims a name and then checks whether it was free. So of two rows with one name, at most one finds it free,
//! however their steps interleave, and whatever is committed meanwhile.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headgate_core::error::{ErrorKind, Failure, JobError};
use headgate_core::reason::Reason;
use headgate_core::saved::{Checksum, Saved};

use super::errors::{SaveError, cannot_write};
use super::paths::SavePaths;

/// The result of saving a body: a file with its own name, or why the job can't continue.
pub(crate) type SaveResult = Result<Claim, JobError>;

/// A complete file under a name of its own. Dropping the claim removes the file, unless it was kept.
#[derive(Debug)]
pub struct Claim {
    claimed: PathBuf,
    /// `None` if the file was kept.
    saved: Option<Box<Saved>>,
    /// Held while the claim may remove the file.
    paths: Arc<SavePaths>,
}

impl Claim {
    /// Claims `path` for the file that was written to `from`.
    ///
    /// # Errors
    /// `duplicate_name`: another row has the name. The file stays at `from`, or is removed.
    pub(super) fn new(
        paths: &Arc<SavePaths>,
        from: &Path,
        path: String,
        checksum: Checksum,
    ) -> Result<Self, SaveError> {
        let claimed = paths.claimed(&path);
        match paths.storage().rename_new(from, &claimed) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(duplicate_name(path)),
            renamed => renamed.map_err(|error| cannot_write(&claimed, &error))?,
        }
        let saved = Box::new(Saved { path: path.as_str().into(), checksum });
        let claim = Self { claimed, saved: Some(saved), paths: paths.clone() };
        for conflict in paths.conflicts(&path) {
            match paths.storage().metadata(&conflict) {
                Ok(_) => return Err(duplicate_name(path)),
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound => {}
                    // A file has the name of a directory of the path.
                    io::ErrorKind::NotADirectory => return Err(duplicate_name(path)),
                    io::ErrorKind::InvalidFilename => {
                        let reason = Reason::new("the file system can't have the name of its file").with(path);
                        return Err(SaveError::Failed(Failure::new(ErrorKind::InvalidRequest, reason).lasting()));
                    }
                    _ => return Err(cannot_write(&conflict, &error)),
                },
            }
        }
        Ok(claim)
    }

    /// Passes the file on to the job.
    pub fn keep(mut self) -> Option<Box<Saved>> {
        self.saved.take()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.saved.is_some() {
            // If this fails, the next run of the job removes the file when it opens the directory.
            let _ = self.paths.storage().remove(&self.claimed);
        }
    }
}

fn duplicate_name(path: String) -> SaveError {
    let reason = Reason::new("another row has this file name").with(path);
    SaveError::Failed(Failure::new(ErrorKind::DuplicateName, reason).lasting())
}
