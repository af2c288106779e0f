//! A body that is saved in a file of its own.

use crate::file_name::FileName;

/// A SHA-256 checksum.
pub type Checksum = [u8; 32];

/// The file in which the body of a row is to be saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaveAs {
    pub name: FileName,
    /// The checksum that the body must have; `None`: any.
    pub checksum: Option<Checksum>,
}

impl SaveAs {
    /// Returns about how much memory it needs.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.name.bytes()
    }
}

/// The saved file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The path below the output directory.
    pub path: Box<str>,
    /// The checksum of its contents.
    pub checksum: Checksum,
}
