//! The paths of saved bodies: temporary, claimed and final.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use headgate_core::file_name::{clash_key, folded};
use headgate_core::files::SHARED;
use headgate_core::files::storage::Storage;

/// The directories of a job that saves bodies.
#[derive(Debug)]
pub struct SavePaths {
    /// The output directory.
    storage: Arc<dyn Storage>,
    /// The directory of files that are not committed.
    tmp: PathBuf,
    /// The directory of marks: names that are in use without a file of exactly that name.
    names: PathBuf,
    /// Bodies are stored in archives: then a name without its extension is claimed.
    in_archives: bool,
    _in_use: Option<InUse>,
}

impl SavePaths {
    pub fn new(storage: Arc<dyn Storage>, tmp: PathBuf, names: PathBuf) -> Self {
        Self { storage, tmp, names, in_archives: false, _in_use: None }
    }

    /// Creates a new file for a body.
    pub(super) fn create(&self, path: &Path) -> io::Result<File> {
        self.storage.create(path, SHARED)
    }

    /// Returns the same paths for bodies in archives, or in files of their own.
    #[must_use]
    pub fn in_archives(self, in_archives: bool) -> Self {
        Self { in_archives, ..self }
    }

    /// Returns the same paths for a run, which waits until all holders of `in_use` are dropped.
    #[must_use]
    pub fn with_in_use(self, in_use: InUse) -> Self {
        Self { _in_use: Some(in_use), ..self }
    }

    /// Returns the files of the output directory.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub(crate) fn are_in_archives(&self) -> bool {
        self.in_archives
    }

    /// Returns the path of the received bytes of a row. A retry of the row overwrites the file.
    pub(super) fn received(&self, ordinal: u64) -> PathBuf {
        self.tmp.join(format!("b-{ordinal}"))
    }

    /// Returns the path of the decoded body of a row.
    pub(super) fn decoded(&self, ordinal: u64) -> PathBuf {
        self.tmp.join(format!("d-{ordinal}"))
    }

    /// Returns the path of a complete file that has claimed `path`.
    pub fn claimed(&self, path: &str) -> PathBuf {
        self.tmp.join(format!("f-{}", self.clash_key(path)))
    }

    /// Returns the temporary path of an archive.
    pub fn written(&self, archive: &str) -> PathBuf {
        self.tmp.join(archive)
    }

    /// Returns the final path of a file or an archive.
    pub fn destination(&self, path: &str) -> PathBuf {
        self.storage.path().join(path)
    }

    /// Returns the paths that must not exist when this name is claimed.
    pub(super) fn conflicts(&self, path: &str) -> impl Iterator<Item = PathBuf> + use<> {
        let has_own_file = !self.in_archives;
        let small = folded(path);
        let small = (small != path).then(|| self.destination(&small));
        let destination = has_own_file.then(|| self.destination(path));
        destination.into_iter().chain(small.filter(|_| has_own_file)).chain([self.mark_path(path)])
    }

    /// Returns the path of the mark for this name and all that clash with it.
    fn mark_path(&self, path: &str) -> PathBuf {
        let key = self.clash_key(path);
        self.names.join(&key[..2]).join(key)
    }

    /// Returns the path of the mark for a claimed name, if it needs one. A file in lower case needs none.
    pub fn mark(&self, path: &str) -> Option<PathBuf> {
        (self.in_archives || folded(path) != path).then(|| self.mark_path(path))
    }

    pub fn names(&self) -> &Path {
        &self.names
    }

    fn clash_key(&self, path: &str) -> String {
        clash_key(if self.in_archives { row_key(path) } else { path })
    }
}

/// Held by everything that may still write files of saved bodies. A run ends only after all of these were dropped.
///
/// A dropped lane does not wait for the thread that writes for it. If the next run of the job started meanwhile, the thread
/// could remove or rename a file of that run.
#[derive(Debug)]
pub struct InUse {
    _held: async_channel::Sender<Infallible>,
}

/// Waits until all holders of [`InUse`] are dropped.
#[derive(Debug)]
pub struct Unused(async_channel::Receiver<Infallible>);

pub fn in_use() -> (InUse, Unused) {
    let (held, released) = async_channel::bounded(1);
    (InUse { _held: held }, Unused(released))
}

impl Unused {
    /// Blocks until no [`InUse`] is left.
    pub fn wait(&self) {
        while self.0.recv_blocking().is_ok() {}
    }
}

/// Returns the part of the name that all archive members of one row share.
pub fn row_key(member: &str) -> &str {
    let name = member.rfind('/').map_or(0, |slash| slash + 1);
    member[name..].find('.').map_or(member, |dot| &member[..name + dot])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_key_of_a_member_ends_before_the_first_dot_of_its_name() {
        for (key, member) in [("a", "a.jpg"), ("d.e/a", "d.e/a.body.json"), ("d.e/a", "d.e/a"), ("a", "a")] {
            assert_eq!(key, row_key(member));
        }
    }
}
