//! The results that are in a job's directory, against those that were committed.
//!
//! Nothing is given out that was not committed, and nothing that was is left out: each part there should be is looked for, by its
//! name and length, and each part there is must be one of them. Its content is compared with the checksum in its commit: by
//! whoever reads it, always; when a job is only looked at or gone on with, as long as that takes no time
//! ([`CHECKED_BYTES`]).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use headgate_core::error::{JobError, cause};
use headgate_core::file_name::OWN_DIRECTORY;
use headgate_core::files::{Directory, length};
use headgate_core::message;
use headgate_table::parts::name::{PartName, UNPLACED};
use headgate_table::parts::read::{describe_part, open_committed, ways_on};
use rustix::fs::FileType;

use super::commit::{Commit, PartRecord};
use super::lock::{self, Holder};
use super::log::{CommitLog, Gap, Logged};
use super::parts::PartList;

/// Contents of results are compared with their checksums up to this size: some 0.1 s from memory. To do so with more is asked for.
const CHECKED_BYTES: u64 = 1 << 30;
/// How often, and how long apart, a directory is looked at again that another process changes meanwhile.
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The results of a job as of its newest commit, all of which are there.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) newest: Commit,
    pub(super) parts: PartList,
    /// Where each part is: not in its place yet, after a kill or for an instant.
    pub(super) files: Vec<ResultFile>,
    /// A commit that is damaged or gone, where the files themselves told what it said.
    pub(super) damaged_commit: Option<PathBuf>,
    /// Commits since the newest checkpoint.
    pub(super) since_checkpoint: u64,
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
    /// None: whoever reads them does that.
    None,
    /// All, if they are few enough and the job does not run, whose progress is asked for every now and then.
    Some,
    All,
}

impl Results {
    /// Looks at a directory that others may write to.
    ///
    /// # Errors
    /// `Output`: a part is missing, has another length or content than was committed, or is there uncommitted; or the log cannot
    /// be read.
    pub(super) fn look(root: &Path, contents: Contents) -> Result<Self, JobError> {
        let directory = opened(root)?;
        let is_running = || lock::holder(&directory) != Holder::None;
        let log = CommitLog::new(directory.clone());
        let mut looks = 1;
        loop {
            let (was_running, newest) = (is_running(), log.newest_number()?);
            let is_last = looks == LOOKS;
            // What another process changes meanwhile looks like damage. While there is no new commit, the content of a part is
            // certain, and of a job that does not run, everything.
            let found = match Self::of(&directory) {
                Ok(results) if was_running && contents == Contents::Some => return Ok(results),
                Ok(results) => match results.compared(&directory, contents) {
                    Err(_) if !is_last && log.newest_number()? != newest => None,
                    compared => Some(compared),
                },
                Err(_) if !is_last && (was_running || is_running() || log.newest_number()? != newest) => None,
                Err(error) => Some(Err(error)),
            };
            if let Some(found) = found {
                return found;
            }
            looks += 1;
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Looks at a directory that nobody else writes to.
    ///
    /// # Errors
    /// As [`Results::look`].
    pub(super) fn claimed(directory: &Directory) -> Result<Self, JobError> {
        let results = Self::of(directory)?;
        // What the newest commit adds may be about to take the place of what it removes.
        let is_new = |file: &&ResultFile| results.newest.adds.iter().any(|added| added.name == file.record.name);
        results.files.iter().filter(is_new).try_for_each(|file| file.compare(directory))?;
        results.compared(directory, Contents::Some)
    }

    fn of(directory: &Directory) -> Result<Self, JobError> {
        // Before the log: what is committed in between is not taken for foreign then.
        let mut there = part_files(directory)?;
        let log = CommitLog::new(directory.clone());
        let Logged { newest, parts, since_checkpoint } = log.read()?.unwrap_or_else(|| Logged {
            newest: Commit::zero(),
            parts: Ok(PartList::default()),
            since_checkpoint: 0,
        });
        for name in &newest.removes {
            // Its removal is the first of the commit's last steps, which may be missing.
            there.remove(name);
        }
        let (parts, damaged_commit) = match parts {
            Ok(parts) => (parts, None),
            Err(gap) => (rebuilt(directory, &newest, &there, &gap)?, Some(gap.commit)),
        };
        let mut files = Vec::new();
        for record in parts.iter() {
            let found = there.remove(&record.name);
            files.push(locate(directory, &newest, record, found)?);
        }
        if let Some(name) = there.into_keys().next() {
            let (path, log) = (directory.path().join(name), log.path().display());
            let shown = path.display();
            return Err(JobError::output(if newest.number == 0 {
                message!("{shown} is there, but {log} has no commits; ", ways_on())
            } else {
                message!("{shown} is there, but no commit of this job names it: move it out of the directory")
            }));
        }
        Ok(Self { newest, parts, files, damaged_commit, since_checkpoint })
    }

    /// What the user is told of a log that has a damaged commit.
    pub(super) fn note(&self) -> Option<String> {
        let damaged = self.damaged_commit.as_ref()?.display();
        Some(format!("{damaged} is damaged or missing; the results themselves are intact, and nothing is lost"))
    }

    fn compared(self, directory: &Directory, contents: Contents) -> Result<Self, JobError> {
        if contents == Contents::All || contents == Contents::Some && self.parts.bytes() <= CHECKED_BYTES {
            self.files.iter().try_for_each(|file| file.compare(directory))?;
        }
        Ok(self)
    }
}

impl ResultFile {
    fn compare(&self, directory: &Directory) -> Result<(), JobError> {
        open_committed(directory, &self.path, self.record.crc32).map(drop)
    }
}

/// Where a part is written before it gets its place. Its name is none that readers of results take, some of which look into
/// every directory.
pub(super) fn unplaced(directory: &Directory, name: &str) -> PathBuf {
    let tmp = directory.path().join(OWN_DIRECTORY).join("tmp");
    // As an older headgate has left it.
    let older = tmp.join(name);
    if directory.exists(&older).unwrap_or(false) { older } else { tmp.join(format!("{name}{UNPLACED}")) }
}

/// Opens an output directory to look at it.
///
/// # Errors
/// `Output`: it can't be read.
pub(super) fn opened(root: &Path) -> Result<Directory, JobError> {
    Directory::open(root).map_err(|error| JobError::output(format!("can't read {}: {}", root.display(), cause(&error))))
}

/// `found`: how long the file is that stands in its place.
fn locate(
    directory: &Directory,
    newest: &Commit,
    record: &PartRecord,
    found: Option<u64>,
) -> Result<ResultFile, JobError> {
    let place = directory.path().join(&record.name);
    let file = |path, is_in_place| Ok(ResultFile { path, record: record.clone(), is_in_place });
    if found == Some(record.bytes) {
        return file(place, true);
    }
    let written = unplaced(directory, &record.name);
    let is_whole = |path: &Path| directory.is_file_of(path, record.bytes);
    if newest.adds.iter().any(|added| added.name == record.name) && is_whole(&written) {
        return file(written, false);
    }
    // It may have been put there since the directory was listed.
    if found.is_none() && is_whole(&place) {
        return file(place, true);
    }
    let (shown, bytes, rows) = (place.display(), record.bytes, record.rows);
    Err(JobError::output(match found {
        None => message!("{shown} is missing, and with it {rows} rows; ", ways_on()),
        Some(found) => message!("{shown} is damaged: it has {found} bytes and should have {bytes}; ", ways_on()),
    }))
}

/// The list of parts, made from the files themselves where a commit can't say it. It is the committed one.
///
/// # Errors
/// `Output`: it is not; names that commit.
fn rebuilt(
    directory: &Directory,
    newest: &Commit,
    there: &BTreeMap<String, u64>,
    gap: &Gap,
) -> Result<PartList, JobError> {
    let place = |name: &String| (name.clone(), directory.path().join(name));
    let mut paths: BTreeMap<String, PathBuf> = there.keys().map(place).collect();
    for part in &newest.adds {
        paths.entry(part.name.clone()).or_insert_with(|| unplaced(directory, &part.name));
    }
    let found = paths.len();
    let record = |(name, path): (String, PathBuf)| match gap.known.get(&name) {
        Some(known) => Some(known.clone()),
        None => {
            describe_part(directory, &path).map(|(rows, bytes, crc32)| PartRecord { name, rows, bytes, crc32 }).ok()
        }
    };
    let records: Option<Vec<PartRecord>> = paths.into_iter().map(record).collect();
    let list = records.and_then(|records| PartList::new(records).ok());
    list.filter(|list| list.is_that_of(newest)).ok_or_else(|| {
        let counted = newest.totals.parts;
        JobError::output(message!(
            gap.trouble.message.clone(),
            "; the result files can't replace it, because they don't match the newest commit ({found} are there, it counts {counted})"
        ))
    })
}

/// Files with the names of parts, and their sizes. A directory or a link with such a name is not one of ours.
///
/// # Errors
/// `Output`: the directory can't be read.
pub(super) fn part_files(directory: &Directory) -> Result<BTreeMap<String, u64>, JobError> {
    let root = directory.path();
    let looked = || -> io::Result<BTreeMap<String, u64>> {
        let mut files = BTreeMap::new();
        for entry in directory.entries(root)? {
            let (name, kind) = entry?;
            let Some(name) = name.to_str().filter(|name| PartName::parse(name).is_some()) else { continue };
            if kind == FileType::RegularFile {
                match directory.look(&root.join(name)) {
                    // It was removed since the directory was listed.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    found => drop(files.insert(name.to_owned(), length(&found?))),
                }
            }
        }
        Ok(files)
    };
    looked().map_err(|error| JobError::output(format!("can't read {}: {}", root.display(), cause(&error))))
}
