//! Why the bytes of an input end before those of its file do, as an [`io::Error`] carries it through readers.

use std::io;

use crate::message;
use crate::model::error::JobError;
use crate::model::grouped::grouped;
use crate::model::message::OptionName;

#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    /// The content is not what it was when the file was opened.
    #[error("{0}")]
    Changed(String),
    /// What was read last is no whole line, and nothing follows.
    #[error("the last line is still being written")]
    HalfLine,
    /// What follows the last member of a gzip file, or begins the file, is something else.
    #[error("no gzip data")]
    NotGzip,
    #[error("is UTF-16: save it as UTF-8 (iconv -f UTF-16 -t UTF-8)")]
    Utf16,
    /// The job can't begin with a list that has this record.
    #[error("{0}")]
    Refused(JobError),
}

impl From<InputError> for io::Error {
    fn from(error: InputError) -> Self {
        Self::other(error)
    }
}

impl InputError {
    pub(super) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Of a file that had so many bytes when it was opened.
    pub(super) fn truncated(then: u64, now: u64) -> Self {
        let (then, now) = (grouped(then), grouped(now));
        Self::Changed(format!("truncated while it was read: it had {then} bytes when it was opened, now {now}"))
    }

    /// The error of a job whose input of that name could be read up to the place, if the input was changed.
    pub(super) fn changed(error: &io::Error, name: &str, place: &str) -> Option<JobError> {
        let Self::Changed(what) = Self::of(error)? else { return None };
        Some(JobError::input(message!(
            "{name}: {what}, {place}; restore the file to resume, or start over with ",
            OptionName::Fresh.set(true)
        )))
    }
}
