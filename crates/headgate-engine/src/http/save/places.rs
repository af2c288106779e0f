//! Where files stand on their way to their places.

use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::storage::{Disk, Storage};
use crate::files::{Directory, SHARED};
use crate::model::file_name::{clash_key, folded};

/// The directories of a job that saves bodies.
#[derive(Debug)]
pub struct SavePlaces {
    /// The output directory.
    directory: Directory,
    storage: Arc<dyn Storage>,
    /// What is not committed.
    tmp: PathBuf,
    /// Marks of names that others may not have, where the files themselves don't say it.
    names: PathBuf,
    /// Bodies end up in archives: what others may not have is a name without its extension.
    in_archives: bool,
    _in_use: Option<InUse>,
}

impl SavePlaces {
    pub fn new(directory: Directory, tmp: PathBuf, names: PathBuf) -> Self {
        Self { directory, storage: Arc::new(Disk), tmp, names, in_archives: false, _in_use: None }
    }

    /// The same, where new files are made by this.
    #[must_use]
    pub fn on(self, storage: Arc<dyn Storage>) -> Self {
        Self { storage, ..self }
    }

    /// Makes a new file for a body.
    pub(super) fn create(&self, path: &Path) -> io::Result<File> {
        self.storage.create(&self.directory, path, SHARED)
    }

    /// The same, of a job whose bodies end up in archives.
    #[must_use]
    pub fn in_archives(self, in_archives: bool) -> Self {
        Self { in_archives, ..self }
    }

    /// The same, of a run: whoever has them may write there.
    #[must_use]
    pub fn held_by(self, in_use: InUse) -> Self {
        Self { _in_use: Some(in_use), ..self }
    }

    /// Returns the output directory.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    pub fn are_in_archives(&self) -> bool {
        self.in_archives
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
        self.tmp.join(format!("f-{}", self.clash_key(path)))
    }

    /// Of an archive that is being written.
    pub fn written(&self, archive: &str) -> PathBuf {
        self.tmp.join(archive)
    }

    /// Where it ends up.
    pub fn placed(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// What stands where this name would clash with it.
    pub(super) fn looks(&self, path: &str) -> impl Iterator<Item = PathBuf> + use<> {
        let is_own = !self.in_archives;
        let small = folded(path);
        let small = (small != path).then(|| self.placed(&small));
        let placed = is_own.then(|| self.placed(path));
        placed.into_iter().chain(small.filter(|_| is_own)).chain([self.mark_of_any(path)])
    }

    /// Stands for this name and for all that clash with it, if one of them is taken and needs a mark.
    fn mark_of_any(&self, path: &str) -> PathBuf {
        let key = self.clash_key(path);
        self.names.join(&key[..2]).join(key)
    }

    /// What is to stand there when this name is taken: of files, only that which is not spelled in small letters.
    pub fn mark(&self, path: &str) -> Option<PathBuf> {
        (self.in_archives || folded(path) != path).then(|| self.mark_of_any(path))
    }

    pub fn names(&self) -> &Path {
        &self.names
    }

    fn clash_key(&self, path: &str) -> String {
        clash_key(if self.in_archives { key_of(path) } else { path })
    }
}

/// Held by all that may still write files of saved bodies: a run has not ended before that is over.
///
/// A lane that is dropped does not wait for the thread that works for it. If the next run of the job began meanwhile, that
/// thread would remove a file of the same name, or give it a name.
#[derive(Debug)]
pub struct InUse {
    _held: async_channel::Sender<Infallible>,
}

/// Tells when nothing holds it any more.
#[derive(Debug)]
pub struct Unused(async_channel::Receiver<Infallible>);

pub fn in_use() -> (InUse, Unused) {
    let (held, released) = async_channel::bounded(1);
    (InUse { _held: held }, Unused(released))
}

impl Unused {
    /// Waits until all that holds it is gone.
    pub fn wait(&self) {
        while self.0.recv_blocking().is_ok() {}
    }
}

/// What members of one row have in common.
pub fn key_of(member: &str) -> &str {
    let name = member.rfind('/').map_or(0, |slash| slash + 1);
    member[name..].find('.').map_or(member, |dot| &member[..name + dot])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_member_ends_before_the_first_dot_of_its_name() {
        for (key, member) in [("a", "a.jpg"), ("d.e/a", "d.e/a.body.json"), ("d.e/a", "d.e/a"), ("a", "a")] {
            assert_eq!(key, key_of(member));
        }
    }
}
