//! Where files stand on their way to their places.

use std::path::{Path, PathBuf};

use crate::model::file_name::{clash_key, folded};

/// The directories of a job that saves bodies.
#[derive(Debug)]
pub struct SavePlaces {
    /// The output directory.
    root: PathBuf,
    /// What is not committed.
    tmp: PathBuf,
    /// Marks of names with capitals, which others may not have in small letters.
    names: PathBuf,
}

impl SavePlaces {
    pub fn new(root: &Path, tmp: PathBuf, names: PathBuf) -> Self {
        Self { root: root.to_owned(), tmp, names }
    }

    /// Of what comes of the body of a row: when the row is asked again, it takes the place of that.
    pub(super) fn received(&self, ordinal: u64) -> PathBuf {
        self.tmp.join(format!("b-{ordinal}"))
    }

    /// Of the same without its content codings.
    pub(super) fn decoded(&self, ordinal: u64) -> PathBuf {
        self.tmp.join(format!("d-{ordinal}"))
    }

    /// Of a file that is whole and has claimed this path.
    pub fn claimed(&self, path: &str) -> PathBuf {
        self.tmp.join(format!("f-{}", clash_key(path)))
    }

    /// Where it ends up.
    pub fn placed(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Where the name would be in small letters, if it isn't.
    pub(super) fn placed_in_small(&self, path: &str) -> Option<PathBuf> {
        Some(folded(path)).filter(|folded| folded != path).map(|folded| self.root.join(folded))
    }

    /// Stands for this name and for all that differ in case alone, if one of them is taken that has capitals.
    pub(super) fn mark_of_any(&self, path: &str) -> PathBuf {
        let key = clash_key(path);
        self.names.join(&key[..2]).join(key)
    }

    /// What is to stand there when this name is taken.
    pub fn mark(&self, path: &str) -> Option<PathBuf> {
        (folded(path) != path).then(|| self.mark_of_any(path))
    }

    pub fn names(&self) -> &Path {
        &self.names
    }
}
