//! A file that its caller has opened.

use std::fs::File;

/// A range of a file that its caller has opened. Its position is not used, so that the caller's stays where it is.
#[derive(Debug)]
pub struct OpenFile {
    pub file: File,
    pub offset: u64,
    pub length: u64,
    /// The name by which messages call it.
    pub name: Box<str>,
}

impl PartialEq for OpenFile {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for OpenFile {}
