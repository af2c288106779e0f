//! Whether anybody has touched an input since a job read it: if not, its rows are taken for what they were.
//!
//! The input is not read whole for it, which might take hours. A file is known by its size, the time of its last change and
//! hashes of its first and last 64 KiB: an edit in the middle that keeps the size is told by the time. A Parquet file
//! is known by its whole footer, too. Where the file lies does not count: it may be moved. Whether a file that was touched has
//! the rows that it had is told by `content` and `compared`; a job of an older headgate, which did not remember them, is
//! refused then.
//!
//! The hash is XXH3 of 128 bits. It notices accidents; nobody gains by making two inputs alike on purpose.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::num::ParseIntError;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use arrow_array::temporal_conversions::timestamp_s_to_datetime;
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::FooterTail;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use super::form::Form;
use crate::model::error::JobError;
use crate::model::grouped::grouped;
use crate::model::options::SourceOptions;

/// How much of either end of a file is hashed. Messages name it.
const END_BYTES: u64 = 64 * 1024;
const NANOSECONDS: u32 = 1_000_000_000;

/// What an input is recognised by when a job goes on with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fingerprint {
    /// A URL with ranges and sets.
    Pattern {
        text: String,
    },
    /// A file of one of the text forms.
    Text(Ends),
    Parquet(ParquetFile),
    Several(SeveralFiles),
}

/// Files that are read one after another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeveralFiles {
    /// What each of them is read as.
    pub(super) form: String,
    /// Some of them are, each as a whole.
    pub(super) compressed: bool,
    pub(super) files: u64,
    /// Of all of them.
    pub(super) bytes: u64,
    /// Of the name of each below what was named, what its directories say, and what it is known by itself.
    pub(super) hash: Hash,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// What it is read as, which a new name may change: the rows of a `.txt` are not those of a `.csv`.
    form: String,
    bytes: u64,
    changed: ModifiedAt,
    /// Hash of the first 64 KiB.
    head: Hash,
    /// Hash of the last 64 KiB, so far as they are not among the first.
    tail: Hash,
}

/// Stored in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Hash(pub(super) u128);

impl TryFrom<String> for Hash {
    type Error = ParseIntError;

    fn try_from(text: String) -> Result<Self, ParseIntError> {
        u128::from_str_radix(&text, 16).map(Self)
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.to_string()
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParquetFile {
    ends: Ends,
    /// Hash of the footer.
    footer: Hash,
}

/// When a file was changed last, since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct ModifiedAt {
    /// Negative before 1970.
    seconds: i64,
    /// After that second.
    nanoseconds: u32,
}

impl Fingerprint {
    /// `None`: the input can't be read a second time, as standard input or a FIFO.
    ///
    /// # Errors
    /// `Input`: the file can't be read, or is no whole Parquet file.
    pub fn of(options: &SourceOptions) -> Result<Option<Self>, JobError> {
        let path = options.input.as_str();
        let form = Form::of(path)?;
        let fingerprint = match form {
            Form::Stdin => return Ok(None),
            Form::Pattern => return Ok(Some(Self::Pattern { text: path.to_owned() })),
            // To open a FIFO would be to wait for whoever writes to it.
            _ if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) => return Ok(None),
            _ => File::open(path).and_then(|file| {
                let ends = Ends::of(&file, form)?;
                Ok(if form == Form::Parquet { Self::Parquet(ParquetFile::of(&file, ends)?) } else { Self::Text(ends) })
            }),
        };
        let fingerprint = fingerprint.map_err(|error| JobError::input(format!("{path}: can't be read: {error}")))?;
        Ok(Some(fingerprint))
    }

    /// In what the input of `now`, which lies at `path`, differs from this one of then: a phrase for each difference, for a
    /// person. None: it is the same.
    pub fn differences(&self, now: &Self, path: &str) -> Vec<String> {
        match (self, now) {
            (Self::Pattern { text: then }, Self::Pattern { text: now }) if then == now => Vec::new(),
            (Self::Pattern { text: then }, Self::Pattern { text: now }) => vec![format!("{then} then, {now} now")],
            (Self::Text(then), Self::Text(now)) => then.differences(now, path),
            (Self::Parquet(then), Self::Parquet(now)) => then.differences(now, path),
            (Self::Several(then), Self::Several(now)) => then.differences(now),
            _ => vec![form_difference(self.form(), now.form())],
        }
    }

    /// Where only the content counts: whether it is read as something else, or is another pattern.
    pub fn differences_of_form(&self, now: &Self, path: &str) -> Vec<String> {
        match (self, now) {
            (Self::Pattern { .. }, Self::Pattern { .. }) => self.differences(now, path),
            _ if self.form() != now.form() => vec![form_difference(self.form(), now.form())],
            _ => Vec::new(),
        }
    }

    /// The size of a file.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Pattern { .. } => None,
            Self::Text(ends) | Self::Parquet(ParquetFile { ends, .. }) => Some(ends.bytes),
            Self::Several(several) => Some(several.bytes),
        }
    }

    /// Whether it is compressed as a whole, so that its size tells nothing of its rows.
    pub fn is_compressed(&self) -> bool {
        match self {
            Self::Pattern { .. } | Self::Parquet(_) => false,
            Self::Text(ends) => Form::is_compressed(&ends.form),
            Self::Several(several) => several.compressed,
        }
    }

    /// The input under the name it was given, with how many files it is.
    pub fn shown(&self, name: &str) -> String {
        match self {
            Self::Several(SeveralFiles { files: 1, .. }) => format!("1 file: {name}"),
            Self::Several(SeveralFiles { files, .. }) => format!("{} files: {name}", grouped(*files)),
            Self::Pattern { .. } | Self::Text(_) | Self::Parquet(_) => name.to_owned(),
        }
    }

    fn form(&self) -> &str {
        match self {
            Self::Pattern { .. } => Form::Pattern.name(),
            Self::Text(file) => &file.form,
            Self::Parquet(_) => Form::Parquet.name(),
            Self::Several(several) => &several.form,
        }
    }
}

/// What the system tells of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) bytes: u64,
    changed: ModifiedAt,
}

impl Stamp {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let changed = ModifiedAt { seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec() as u32 };
        Ok(Self { bytes: metadata.len(), changed })
    }
}

impl Ends {
    pub(super) fn of(file: &File, form: Form) -> io::Result<Self> {
        let Stamp { bytes, changed } = Stamp::of(file)?;
        let [head, tail] = Self::hashes(file, bytes)?;
        Ok(Self { form: form.name_with_compression(), bytes, changed, head, tail })
    }

    /// Of both ends of the first so many bytes.
    fn hashes(file: &File, bytes: u64) -> io::Result<[Hash; 2]> {
        let tail = bytes.saturating_sub(END_BYTES).max(END_BYTES);
        Ok([hash_at(file, 0, bytes.min(END_BYTES))?, hash_at(file, tail, bytes.saturating_sub(tail))?])
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn stamp(&self) -> Stamp {
        Stamp { bytes: self.bytes, changed: self.changed }
    }

    /// In what the content differs of a file that may have grown since.
    pub(super) fn content_differences(&self, now: &File) -> io::Result<Vec<&'static str>> {
        let [head, tail] = Self::hashes(now, self.bytes)?;
        Ok(content_differences([(self.head, head), (self.tail, tail)]))
    }

    fn differences(&self, now: &Self, path: &str) -> Vec<String> {
        let mut differences = Vec::new();
        if self.form != now.form {
            differences.push(form_difference(&self.form, &now.form));
        }
        if self.bytes != now.bytes {
            differences.push(size_difference(self.bytes, now.bytes));
        }
        if self.changed != now.changed {
            let only_this = Self { changed: self.changed, ..now.clone() } == *self;
            let remedy = if only_this { self.changed.remedy(path) } else { String::new() };
            differences.push(self.changed.difference(now.changed) + &remedy);
        }
        let content = content_differences([(self.head, now.head), (self.tail, now.tail)]);
        differences.extend(content.into_iter().map(String::from));
        differences
    }
}

impl ParquetFile {
    pub(super) fn of(file: &File, ends: Ends) -> io::Result<Self> {
        let no_footer = || io::Error::new(io::ErrorKind::InvalidData, "not a complete Parquet file");
        let footer_end = ends.bytes.checked_sub(FOOTER_SIZE as u64).ok_or_else(no_footer)?;
        let mut tail = [0; FOOTER_SIZE];
        file.read_exact_at(&mut tail, footer_end)?;
        let footer_bytes = FooterTail::try_new(&tail).map_err(|_| no_footer())?.metadata_length() as u64;
        let start = footer_end.checked_sub(footer_bytes).ok_or_else(no_footer)?;
        Ok(Self { footer: hash_at(file, start, footer_bytes)?, ends })
    }

    fn differences(&self, now: &Self, path: &str) -> Vec<String> {
        let mut differences = self.ends.differences(&now.ends, path);
        if self.footer != now.footer {
            differences.push("footer differs".into());
        }
        differences
    }
}

impl SeveralFiles {
    fn differences(&self, now: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        if self.form != now.form {
            differences.push(form_difference(&self.form, &now.form));
        }
        if self.files != now.files {
            differences.push(format!("files: {} then, {} now", grouped(self.files), grouped(now.files)));
        }
        if self.bytes != now.bytes {
            differences.push(size_difference(self.bytes, now.bytes));
        }
        if differences.is_empty() && self != now {
            differences.push("names, times or contents of its files differ".into());
        }
        differences
    }
}

impl ModifiedAt {
    fn difference(self, now: Self) -> String {
        // Tools that copy a file may round its time; then only nanoseconds tell the two apart.
        let same_microsecond = self.seconds == now.seconds && self.nanoseconds / 1000 == now.nanoseconds / 1000;
        let digits = if same_microsecond { 9 } else { 6 };
        format!("changed at {} then, {} now", self.text(digits), now.text(digits))
    }

    fn remedy(self, path: &str) -> String {
        let (time, file) = (self.decimal(), shell_word(path));
        format!("; if the content is the same, put the time back: touch -d @{time} {file}")
    }

    /// RFC 3339 with so many digits after the second; where the calendar does not reach, seconds since 1970.
    fn text(self, digits: usize) -> String {
        let Some(second) = timestamp_s_to_datetime(self.seconds) else { return format!("@{}", self.decimal()) };
        // chrono promises ISO 8601 for `Debug`.
        format!("{second:?}.{}Z", &format!("{:09}", self.nanoseconds)[..digits])
    }

    /// Seconds since 1970, as `touch` takes them.
    fn decimal(self) -> String {
        let nanoseconds = i128::from(self.seconds) * i128::from(NANOSECONDS) + i128::from(self.nanoseconds);
        let (sign, nanoseconds) = (if nanoseconds < 0 { "-" } else { "" }, nanoseconds.unsigned_abs());
        format!("{sign}{}.{:09}", nanoseconds / u128::from(NANOSECONDS), nanoseconds % u128::from(NANOSECONDS))
    }
}

/// A phrase for each of first and last bytes, where they are not the same.
fn content_differences(ends: [(Hash, Hash); 2]) -> Vec<&'static str> {
    let phrases = ["first 64 KiB differ", "last 64 KiB differ"];
    ends.into_iter().zip(phrases).filter(|((then, now), _)| then != now).map(|(_, phrase)| phrase).collect()
}

fn form_difference(then: &str, now: &str) -> String {
    format!("read as {then} then, as {now} now")
}

fn size_difference(then: u64, now: u64) -> String {
    format!("size: {} bytes then, {} now", grouped(then), grouped(now))
}

/// A path as one word of a command, that a person may copy.
fn shell_word(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(&byte);
    let directory = if path.starts_with('-') { "./" } else { "" };
    if path.bytes().all(plain) {
        return format!("{directory}{path}");
    }
    format!("'{directory}{}'", path.replace('\'', r"'\''"))
}

fn hash_at(file: &File, start: u64, length: u64) -> io::Result<Hash> {
    hash(file, start, length).map(Hash)
}

/// Of the bytes that there are of these. Where the file is read on at is left alone.
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
