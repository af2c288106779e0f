//! Compares the result files in a job's directory with the commits.
//!
//! Exactly the committed parts are returned: each of them must exist with its name and length, and there must be no other part.
//! The content of a part is compared with the checksum in its commit. A reader of the part always does that. A command that
//! only reports on a job or resumes it does so if the results are small ([`CHECKED_BYTES`]).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use headgate_core::error::JobError;
use headgate_core::file_name::OWN_DIRECTORY;
use headgate_core::files::Metadata;
use headgate_core::files::storage::{Storage, if_found};
use headgate_core::message;
use headgate_table::parts::name::{PartName, UNPLACED};
use headgate_table::parts::read::{describe_part, open_committed, part_advice, recovery_advice};
use rustix::fs::FileType;

use super::commit::{Commit, PartRecord};
use super::lock::{self, Holder};
use super::log::{CommitLog, Gap, LogContents};
use super::parts::PartList;

/// Contents are compared with their checksums up to this total size, which takes some 0.1 s from memory. Beyond it, a reader or
/// `headgate verify` compares them.
const CHECKED_BYTES: u64 = 1 << 30;
/// How often, and at which interval, a directory is read if another process changes it meanwhile.
pub(super) const MAX_READS: u32 = 10;
pub(super) const READ_INTERVAL: Duration = Duration::from_millis(20);

/// The results of a job as of its newest commit. All of its parts exist.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) newest: Commit,
    pub(super) parts: PartList,
    /// The file of each part. During a commit, or after a kill, it may not be in its place yet.
    pub(super) files: Vec<ResultFile>,
    /// A commit that is damaged or missing, and was reconstructed from the part files.
    pub(super) damaged_commit: Option<PathBuf>,
    /// Commits since the newest checkpoint.
    pub(super) since_checkpoint: u64,
}

/// What the log and the directory of a job list, before they are compared.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) newest: Commit,
    pub(super) parts: PartList,
    /// Files with names of parts, and their sizes.
    pub(super) existing: BTreeMap<String, u64>,
    damaged_commit: Option<PathBuf>,
    since_checkpoint: u64,
}

#[derive(Debug, Clone)]
pub(super) struct ResultFile {
    pub(super) path: PathBuf,
    pub(super) record: PartRecord,
    pub(super) is_in_place: bool,
}

/// Which contents are compared with their checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    /// None: the reader of the parts compares them.
    None,
    /// All, if they are small and the job does not run: the status of a running job is requested often.
    IfSmall,
}

impl Results {
    /// Reads a directory that another process may write to.
    ///
    /// # Errors
    /// `Output`: a part is missing, differs from the committed one in length or content, or was never committed; or the log can't
    /// be read.
    pub(super) fn read(storage: &Arc<dyn Storage>, contents: Contents) -> Result<Self, JobError> {
        let is_running = || lock::holder(storage.directory()) != Holder::None;
        let log = CommitLog::new(storage.clone());
        let mut reads = 1;
        loop {
            let (was_running, newest) = (is_running(), log.newest_number()?);
            let is_last = reads == MAX_READS;
            // Changes by another process look like damage. Without a new commit, the content of a part can't have changed, and
            // if the job does not run, nothing can.
            let found = match Self::of(storage) {
                Ok(results) if was_running && contents == Contents::IfSmall => return Ok(results),
                Ok(results) => match results.check_contents(storage.as_ref(), contents) {
                    Err(_) if !is_last && log.newest_number()? != newest => None,
                    checked => Some(checked),
                },
                Err(_) if !is_last && (was_running || is_running() || log.newest_number()? != newest) => None,
                Err(error) => Some(Err(error)),
            };
            if let Some(found) = found {
                return found;
            }
            reads += 1;
            thread::sleep(READ_INTERVAL);
        }
    }

    /// Reads a directory that this process has locked.
    ///
    /// # Errors
    /// As [`Results::read`].
    pub(super) fn read_locked(storage: &Arc<dyn Storage>) -> Result<Self, JobError> {
        let results = Self::of(storage)?;
        check_added(storage.as_ref(), &results.newest, &results.files)?;
        results.check_contents(storage.as_ref(), Contents::IfSmall)
    }

    fn of(storage: &Arc<dyn Storage>) -> Result<Self, JobError> {
        let listed = Listed::read(storage)?;
        let files = listed.locate(storage.as_ref())?;
        if let Some(name) = listed.unnamed().next() {
            let (path, log) = (storage.path().join(name), CommitLog::new(storage.clone()).path().display().to_string());
            let shown = path.display();
            return Err(JobError::storage(if listed.newest.number == 0 {
                message!("{shown} is there, but {log} has no commits; ", recovery_advice())
            } else {
                message!(
                    "{shown} is there, but no commit of this job names it: move it out of the directory, or remove it with headgate clean"
                )
            }));
        }
        let Listed { newest, parts, damaged_commit, since_checkpoint, .. } = listed;
        Ok(Self { newest, parts, files, damaged_commit, since_checkpoint })
    }

    /// Returns a note for the user if the log has a damaged commit.
    pub(super) fn note(&self) -> Option<String> {
        let damaged = self.damaged_commit.as_ref()?.display();
        Some(format!("{damaged} is damaged or missing; the results themselves are intact, and nothing is lost"))
    }

    fn check_contents(self, storage: &dyn Storage, contents: Contents) -> Result<Self, JobError> {
        if contents == Contents::IfSmall && self.parts.bytes() <= CHECKED_BYTES {
            self.files.iter().try_for_each(|file| file.check_content(storage))?;
        }
        Ok(self)
    }
}

impl Listed {
    /// # Errors
    /// `Output`: the directory or the log can't be read.
    pub(super) fn read(storage: &Arc<dyn Storage>) -> Result<Self, JobError> {
        // Listed before the log is read, so that a part that is committed in between is not mistaken for a foreign file.
        let mut existing = part_files(storage.as_ref())?;
        let log = CommitLog::new(storage.clone());
        let LogContents { newest, parts, since_checkpoint } = log.read()?.unwrap_or_else(|| LogContents {
            newest: Commit::zero(),
            parts: Ok(PartList::default()),
            since_checkpoint: 0,
        });
        // The last steps of the newest commit may be missing, and replaced files may be kept for readers.
        for name in newest.replaced_names() {
            existing.remove(name);
        }
        let (parts, damaged_commit) = match parts {
            Ok(parts) => (parts, None),
            Err(gap) => (rebuild_list(storage.as_ref(), &newest, &existing, &gap)?, Some(gap.commit)),
        };
        Ok(Self { newest, parts, existing, damaged_commit, since_checkpoint })
    }

    /// Returns the files of all parts.
    ///
    /// # Errors
    /// `Output`: a part is missing, or has another length.
    pub(super) fn locate(&self, storage: &dyn Storage) -> Result<Vec<ResultFile>, JobError> {
        self.parts.iter().map(|record| self.file(storage, record)).collect()
    }

    /// Returns the file of a part.
    ///
    /// # Errors
    /// As [`Listed::locate`].
    pub(super) fn file(&self, storage: &dyn Storage, record: &PartRecord) -> Result<ResultFile, JobError> {
        locate(storage, &self.newest, record, self.existing.get(&record.name).copied())
    }

    /// Returns the names of files that no commit names.
    pub(super) fn unnamed(&self) -> impl Iterator<Item = &String> {
        self.existing.keys().filter(|name| !self.parts.has(name))
    }
}

/// Checks the contents of the parts that the newest commit adds, before those that it removes are removed.
///
/// # Errors
/// `Output`: the content of a part is not what was committed.
pub(super) fn check_added(storage: &dyn Storage, newest: &Commit, files: &[ResultFile]) -> Result<(), JobError> {
    let is_new = |file: &&ResultFile| newest.adds.iter().any(|added| added.name == file.record.name);
    files.iter().filter(is_new).try_for_each(|file| file.check_content(storage))
}

impl ResultFile {
    fn check_content(&self, storage: &dyn Storage) -> Result<(), JobError> {
        open_committed(storage, &self.path, self.record.crc32).map(drop)
    }
}

/// Returns the path at which a part is written before it is moved to its place. Readers of results ignore its name, even those
/// that search all directories.
pub(super) fn unplaced_path(root: &Path, name: &str) -> PathBuf {
    root.join(OWN_DIRECTORY).join("tmp").join(format!("{name}{UNPLACED}"))
}

/// Finds the file of a part. `found` is the length of the file in its place, if there is one.
fn locate(
    storage: &dyn Storage,
    newest: &Commit,
    record: &PartRecord,
    found: Option<u64>,
) -> Result<ResultFile, JobError> {
    let place = storage.path().join(&record.name);
    let file = |path, is_in_place| Ok(ResultFile { path, record: record.clone(), is_in_place });
    if found == Some(record.bytes) {
        return file(place, true);
    }
    let written = unplaced_path(storage.path(), &record.name);
    let look = |path: &Path| {
        if_found(storage.metadata(path)).map_err(|error| JobError::of_file("can't read", path.display(), &error))
    };
    let is_whole = |there: &Metadata| there.kind == FileType::RegularFile && there.bytes == record.bytes;
    if newest.adds.iter().any(|added| added.name == record.name) && look(&written)?.as_ref().is_some_and(is_whole) {
        return file(written, false);
    }
    let (shown, bytes, rows) = (place.display(), record.bytes, record.rows);
    if found.is_none()
        && let Some(there) = look(&place)?
    {
        // The part may have been moved there since the directory was listed.
        if is_whole(&there) {
            return file(place, true);
        }
        if there.kind != FileType::RegularFile {
            let what = if there.kind == FileType::Symlink { "a symbolic link" } else { "not a regular file" };
            return Err(JobError::output(message!(
                "{shown} is {what}: move the file with its {rows} rows there itself; parts on another disk need a mount"
            )));
        }
    }
    Err(JobError::damage(match found {
        None => message!("{shown} is missing, and with it {rows} rows; ", part_advice()),
        Some(found) => {
            message!("{shown} is damaged: it has {found} bytes and should have {bytes}; ", part_advice())
        }
    }))
}

/// Rebuilds the committed list of parts from the files, because a commit is damaged or missing.
///
/// # Errors
/// `Output`, naming that commit: the files do not match the newest commit.
fn rebuild_list(
    storage: &dyn Storage,
    newest: &Commit,
    existing: &BTreeMap<String, u64>,
    gap: &Gap,
) -> Result<PartList, JobError> {
    let place = |name: &String| (name.clone(), storage.path().join(name));
    let mut paths: BTreeMap<String, PathBuf> = existing.keys().map(place).collect();
    for part in &newest.adds {
        paths.entry(part.name.clone()).or_insert_with(|| unplaced_path(storage.path(), &part.name));
    }
    let found = paths.len();
    let record = |(name, path): (String, PathBuf)| match gap.known.get(&name) {
        Some(known) => Some(known.clone()),
        None => describe_part(storage, &path).map(|(rows, bytes, crc32)| PartRecord { name, rows, bytes, crc32 }).ok(),
    };
    let records: Option<Vec<PartRecord>> = paths.into_iter().map(record).collect();
    let list = records.and_then(|records| PartList::new(records).ok());
    list.filter(|list| list.is_that_of(newest)).ok_or_else(|| {
        let counted = newest.totals.parts;
        JobError::storage(message!(
            gap.error.message.clone(),
            "; the result files can't replace it, because they don't match the newest commit ({found} are there, it counts {counted})"
        ))
    })
}

/// Returns the files with names of parts, and their sizes. A directory or a link with such a name is ignored.
///
/// # Errors
/// `Output`: the directory can't be read.
pub(super) fn part_files(storage: &dyn Storage) -> Result<BTreeMap<String, u64>, JobError> {
    let mut files = part_like_files(storage)?;
    files.retain(|name, _| PartName::parse(name).is_some_and(|name| !name.is_placeholder()));
    Ok(files)
}

/// Returns the files of [`part_files`], and the one without rows that is there before the first commit.
///
/// # Errors
/// As [`part_files`].
pub(super) fn part_like_files(storage: &dyn Storage) -> Result<BTreeMap<String, u64>, JobError> {
    let root = storage.path();
    let looked = || -> io::Result<BTreeMap<String, u64>> {
        let mut files = BTreeMap::new();
        for entry in storage.list(root)? {
            let (name, kind) = entry?;
            let Some(name) = name.to_str().filter(|name| PartName::parse(name).is_some()) else { continue };
            if kind == FileType::RegularFile {
                // It may have been removed since the directory was listed.
                let found = if_found(storage.metadata(&root.join(name)))?;
                files.extend(found.map(|found| (name.to_owned(), found.bytes)));
            }
        }
        Ok(files)
    };
    looked().map_err(|error| JobError::of_file("can't read", root.display(), &error))
}
