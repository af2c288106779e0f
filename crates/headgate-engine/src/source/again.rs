//! An input that is open, to be read once more beside whoever reads it: the same file, even if its name now leads to another,
//! and no more of it than there was when it was opened.

use std::sync::Arc;

use super::opened::Opened;
use super::{Source, open};
use crate::model::error::JobError;
use crate::model::options::SourceOptions;

#[derive(Debug, Clone)]
pub struct Again {
    options: SourceOptions,
    /// `None`: it is no file.
    opened: Option<Arc<Opened>>,
}

impl Again {
    pub(super) fn new(options: &SourceOptions, opened: Option<Arc<Opened>>) -> Self {
        Self { options: options.clone(), opened }
    }

    /// The input, for messages.
    pub fn name(&self) -> &str {
        &self.options.input
    }

    /// Its rows from the first one on.
    ///
    /// # Errors
    /// `Input`: it can't be read any more, or was changed.
    pub fn open(&self) -> Result<Box<dyn Source>, JobError> {
        open::begin(&self.options, self.opened.clone())
    }
}
