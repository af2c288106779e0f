//! A name for a file, which no other row of the job gets. The file system keeps the account: no list of names is in memory.
//!
//! Each step that takes a name comes before the look whether it was taken. So of two rows with one name, one at the most finds
//! it free, however their steps interleave, and whatever is committed meanwhile.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::errors::{NotSaved, cannot_write};
use super::places::SavePlaces;
use crate::model::error::{ErrorKind, Failure, JobError};
use crate::model::reason::Reason;
use crate::model::saved::{Checksum, Saved};

/// What became of a body that was to be saved: a file that has its name, or why the job can't go on.
pub type Outcome = Result<Claim, JobError>;

/// A file that is whole, under a name that is its own. It goes unless it is kept.
#[derive(Debug)]
pub struct Claim {
    claimed: PathBuf,
    /// `None`: it was kept.
    saved: Option<Box<Saved>>,
    /// As long as it may remove the file.
    places: Arc<SavePlaces>,
}

impl Claim {
    /// What was written to `from` is to be at `path`.
    ///
    /// # Errors
    /// `duplicate_name`: that is taken. The file is left where it is, or gone.
    pub(super) fn new(
        places: &Arc<SavePlaces>,
        from: &Path,
        path: String,
        checksum: Checksum,
    ) -> Result<Self, NotSaved> {
        let claimed = places.claimed(&path);
        match places.directory().rename_new(from, &claimed) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(taken(path)),
            renamed => renamed.map_err(|error| cannot_write(&claimed, &error))?,
        }
        let saved = Box::new(Saved { path: path.as_str().into(), checksum });
        let claim = Self { claimed, saved: Some(saved), places: places.clone() };
        for look in places.looks(&path) {
            match places.directory().look(&look) {
                Ok(_) => return Err(taken(path)),
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound => {}
                    // A file stands where a directory would have to be.
                    io::ErrorKind::NotADirectory => return Err(taken(path)),
                    io::ErrorKind::InvalidFilename => {
                        let reason = Reason::new("the file system can't have the name of its file").with(path);
                        return Err(NotSaved::Failed(Failure::new(ErrorKind::InvalidRequest, reason).lasting()));
                    }
                    _ => return Err(cannot_write(&look, &error)),
                },
            }
        }
        Ok(claim)
    }

    /// It is for the job now.
    pub fn keep(mut self) -> Option<Box<Saved>> {
        self.saved.take()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.saved.is_some() {
            // What stays behind is swept when the job is opened again.
            let _ = self.places.directory().remove(&self.claimed);
        }
    }
}

fn taken(path: String) -> NotSaved {
    let reason = Reason::new("another row has this file name").with(path);
    NotSaved::Failed(Failure::new(ErrorKind::DuplicateName, reason).lasting())
}
