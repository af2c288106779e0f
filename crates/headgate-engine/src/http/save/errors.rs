//! Why a body is not saved.

use std::io;
use std::path::Path;

use crate::model::error::{Failure, JobError, cause};

#[derive(Debug)]
pub(super) enum NotSaved {
    /// The row fails.
    Failed(Failure),
    /// The job can't go on.
    Disk(JobError),
}

impl From<JobError> for NotSaved {
    fn from(error: JobError) -> Self {
        Self::Disk(error)
    }
}

pub(super) fn cannot_write(path: &Path, error: &io::Error) -> NotSaved {
    JobError::output(format!("can't write {}: {}", path.display(), cause(error))).into()
}

pub(super) fn cannot_read(path: &Path, error: &io::Error) -> NotSaved {
    JobError::output(format!("can't read {}: {}", path.display(), cause(error))).into()
}
