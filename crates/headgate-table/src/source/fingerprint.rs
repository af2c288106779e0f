//! Fingerprints, which tell whether an input was changed since a job read it. If not, its rows are assumed unchanged.
//!
//! Reading the whole input for this might take hours. A file is identified by its size, the time of its last change and
//! hashes of its first and last 64 KiB: the time tells of an edit in the middle that keeps the size. The path does not
//! count: a file may be moved. `content` and `compared` tell whether a file that was touched still has the same rows.
//!
//! The hash is XXH3 of 128 bits. It notices accidents; nothing is gained by making two inputs alike on purpose.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use headgate_core::grouped::grouped;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use super::compressed::Compression;
use super::form::Form;

/// How much of either end of a file is hashed. Messages name it.
const END_BYTES: u64 = 64 * 1024;

/// Identifies an input when a job is resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fingerprint {
    /// A URL with ranges and sets.
    Pattern {
        text: String,
    },
    Files(FilesFingerprint),
}

/// A file, or several that are read one after another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesFingerprint {
    /// The form that they are read as, which a new name may change: the rows of a `.txt` are not those of a `.csv`.
    pub(super) form: String,
    /// Whether some of them are compressed as a whole, so that their size does not indicate their number of rows.
    pub(super) compressed: bool,
    /// The number of files, or `None` for one file that was named itself.
    pub(super) files: Option<u64>,
    /// The total size.
    pub(super) bytes: u64,
    /// A hash of times and contents. For several files, also of their relative paths and the columns of their directories.
    pub(super) hash: String,
}

impl Fingerprint {
    /// Returns how the input of `now` differs in kind from this earlier one, whatever its rows are: it has another form, or
    /// is another pattern. `None`: it does not.
    pub fn difference_of_form(&self, now: &Self) -> Option<String> {
        match (self, now) {
            (Self::Pattern { text: then }, Self::Pattern { text: now }) => {
                (then != now).then(|| format!("{then} then, {now} now"))
            }
            _ => (self.form() != now.form()).then(|| format!("read as {} then, as {} now", self.form(), now.form())),
        }
    }

    /// Returns the size of the files.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Pattern { .. } => None,
            Self::Files(files) => Some(files.bytes),
        }
    }

    /// Returns whether a whole file is compressed, so that its size does not indicate its number of rows.
    pub fn is_compressed(&self) -> bool {
        matches!(self, Self::Files(files) if files.compressed)
    }

    /// Returns the input's name, with the number of its files.
    pub fn shown(&self, name: &str) -> String {
        match self {
            Self::Files(FilesFingerprint { files: Some(1), .. }) => format!("1 file: {name}"),
            Self::Files(FilesFingerprint { files: Some(files), .. }) => format!("{} files: {name}", grouped(*files)),
            Self::Files(_) | Self::Pattern { .. } => name.to_owned(),
        }
    }

    fn form(&self) -> &str {
        match self {
            Self::Pattern { .. } => Form::Pattern.name(),
            Self::Files(files) => &files.form,
        }
    }
}

/// The metadata of a file that tells of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileState {
    pub(super) bytes: u64,
    /// The time of the last change: seconds since 1970, and nanoseconds after these.
    modified: (i64, i64),
}

impl FileState {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { bytes: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()) })
    }
}

/// A file when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenedInput {
    pub(super) stamp: FileState,
    /// Hash of the first 64 KiB.
    head: u128,
    /// Hash of the last 64 KiB, without those that are among the first.
    tail: u128,
}

impl OpenedInput {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let stamp = FileState::of(file)?;
        let [head, tail] = Self::hashes(file, stamp.bytes)?;
        Ok(Self { stamp, head, tail })
    }

    /// Returns hashes of both ends of the first `bytes` bytes.
    fn hashes(file: &File, bytes: u64) -> io::Result<[u128; 2]> {
        let tail = bytes.saturating_sub(END_BYTES).max(END_BYTES);
        Ok([hash(file, 0, bytes.min(END_BYTES))?, hash(file, tail, bytes.saturating_sub(tail))?])
    }

    /// Returns the fingerprint of a file of this form.
    pub(super) fn fingerprint(&self, form: Form) -> Fingerprint {
        let known = format!("{:?} {:x} {:x}", self.stamp.modified, self.head, self.tail);
        Fingerprint::Files(FilesFingerprint {
            form: form.name_with_compression(),
            compressed: form.compression() != Compression::None,
            files: None,
            bytes: self.stamp.bytes,
            hash: format!("{:032x}", XxHash3_128::oneshot(known.as_bytes())),
        })
    }

    /// Returns a phrase for each end whose content differs from that of a file which may have grown since.
    pub(super) fn content_differences(&self, now: &File) -> io::Result<Vec<&'static str>> {
        let [head, tail] = Self::hashes(now, self.stamp.bytes)?;
        let ends = [(self.head, head, "first 64 KiB differ"), (self.tail, tail, "last 64 KiB differ")];
        Ok(ends.into_iter().filter(|(then, now, _)| then != now).map(|(.., phrase)| phrase).collect())
    }
}

/// Returns the hash of the bytes of this range that exist. The file's read position does not move.
pub(super) fn hash(file: &File, start: u64, length: u64) -> io::Result<u128> {
    let mut hasher = XxHash3_128::new();
    let mut buffer = vec![0; END_BYTES.min(length) as usize];
    let (mut at, end) = (start, start.saturating_add(length));
    while at < end {
        let most = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        match file.read_at(&mut buffer[..most], at) {
            Ok(0) => break,
            Ok(read) => {
                hasher.write(&buffer[..read]);
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hasher.finish_128())
}
