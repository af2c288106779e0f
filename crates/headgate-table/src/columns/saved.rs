//! The columns of the paths and hashes of saved bodies.

use arrow_array::ArrayRef;
use arrow_array::builder::StringBuilder;
use headgate_core::file_name::hex;
use headgate_core::saved::Saved;

use super::refill::Refill as _;

#[derive(Debug, Default)]
pub(super) struct SavedBuilder {
    path: StringBuilder,
    sha256: StringBuilder,
}

impl SavedBuilder {
    pub(super) fn push(&mut self, saved: Option<&Saved>) {
        self.path.append_option(saved.map(|saved| &saved.path));
        self.sha256.append_option(saved.map(|saved| hex(&saved.checksum)));
    }

    /// Returns the columns, in the order of the schema.
    pub(super) fn finish_batch(&mut self) -> [ArrayRef; 2] {
        [self.path.finish_batch(), self.sha256.finish_batch()]
    }
}
