//! Tells errors of the system from those of a content.

use std::io;

/// Why a file can't be read.
#[derive(Debug)]
pub(in crate::parts) enum ReadError {
    /// The file may be intact.
    System(io::Error),
    /// The file was read, and is damaged.
    Content(String),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<String> for ReadError {
    fn from(problem: String) -> Self {
        Self::Content(problem)
    }
}
