//! A body that is saved in a file of its own.

use crate::model::file_name::FileName;

/// A SHA-256.
pub type Checksum = [u8; 32];

/// What a row says of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaveAs {
    pub name: FileName,
    /// The checksum that the body must have; `None`: any.
    pub checksum: Option<Checksum>,
}

impl SaveAs {
    /// About the memory it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.name.bytes()
    }
}

/// The file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Below the output directory.
    pub path: Box<str>,
    /// Of what is in the file.
    pub checksum: Checksum,
}
