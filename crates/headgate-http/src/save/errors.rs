//! Errors of saving a body.

use std::io;
use std::path::Path;

use headgate_core::error::{Failure, JobError};

#[derive(Debug)]
pub(super) enum SaveError {
    /// The row fails.
    Failed(Failure),
    /// The job can't continue.
    Disk(JobError),
}

impl From<JobError> for SaveError {
    fn from(error: JobError) -> Self {
        Self::Disk(error)
    }
}

pub(super) fn cannot_write(path: &Path, error: &io::Error) -> SaveError {
    JobError::of_file("can't write", path.display(), error).into()
}

pub(super) fn cannot_read(path: &Path, error: &io::Error) -> SaveError {
    JobError::of_file("can't read", path.display(), error).into()
}
