//! The columns that say where a body was saved.

use arrow_array::ArrayRef;
use arrow_array::builder::StringBuilder;

use super::room::Refill as _;
use crate::model::file_name::hex;
use crate::model::saved::Saved;

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

    /// In the order of the schema.
    pub(super) fn take(&mut self) -> [ArrayRef; 2] {
        [self.path.take(), self.sha256.take()]
    }
}
