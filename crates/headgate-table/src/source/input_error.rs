//! Why the bytes of an input end before those of its file, as an [`io::Error`] carries it through readers.

use std::io;

use headgate_core::error::JobError;
use headgate_core::grouped::grouped;
use headgate_core::message;
use headgate_core::message::OptionName;

#[derive(Debug, thiserror::Error)]
pub(super) enum InputError {
    /// The content has changed since the file was opened.
    #[error("{0}")]
    Changed(String),
    /// The last line has no line end, and the file has grown.
    #[error("the last line is still being written")]
    HalfLine,
    /// The file, or what follows a member of it, is not gzip data.
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

    /// Returns the error of a file that had `then` bytes when it was opened.
    pub(super) fn truncated(then: u64, now: u64) -> Self {
        let (then, now) = (grouped(then), grouped(now));
        Self::Changed(format!("truncated while it was read: it had {then} bytes when it was opened, now {now}"))
    }

    /// Returns the error of a job whose input was changed, or `None` for other errors; `position` is how far it was read.
    pub(super) fn changed(error: &io::Error, name: &str, position: &str) -> Option<JobError> {
        let Self::Changed(what) = Self::of(error)? else { return None };
        Some(JobError::input(message!(
            "{name}: {what}, {position}; restore the file to resume, or start over with ",
            OptionName::IfExists.set("overwrite")
        )))
    }
}
