//! What makes an input the one that a job began with: going on with another would ask for wrong rows, or for none.
//!
//! An input is not read whole for it, which might take hours. A file is known by its size, the time of its last change and
//! hashes of its first and last 64 KiB: an edit in the middle that keeps the size is told by the time. A Parquet file
//! is known by its whole footer, too. Where the file lies does not count: it may be moved.
//!
//! The hash is XXH3 of 128 bits. It notices accidents; nobody gains by making two inputs alike on purpose.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;

use arrow_array::temporal_conversions::timestamp_s_to_datetime;
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::FooterTail;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use super::form::Form;
use crate::error::JobError;
use crate::options::SourceOptions;

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
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// What it is read as, which a new name may change: the rows of a `.txt` are not those of a `.csv`.
    form: String,
    bytes: u64,
    changed: Changed,
    /// Hash of the first 64 KiB.
    head: String,
    /// Hash of the last 64 KiB, so far as they are not among the first.
    tail: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParquetFile {
    ends: Ends,
    /// Hash of the footer.
    footer: String,
}

/// When a file was changed last, since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Changed {
    /// Negative before 1970.
    seconds: i64,
    /// After that second.
    nanoseconds: u32,
}

impl Fingerprint {
    /// `None`: the input cannot be read a second time, as standard input or a FIFO.
    ///
    /// # Errors
    /// `Input`: the file cannot be read, or is no whole Parquet file.
    pub fn of(options: &SourceOptions) -> Result<Option<Self>, JobError> {
        let path = options.input.as_str();
        let form = Form::of(path)?;
        let fingerprint = match form {
            Form::Stdin => return Ok(None),
            Form::Pattern => return Ok(Some(Self::Pattern { text: path.to_owned() })),
            // To open a FIFO would be to wait for whoever writes to it.
            _ if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) => return Ok(None),
            Form::Parquet => ParquetFile::read(path).map(Self::Parquet),
            Form::Text(_) | Form::Delimited(..) | Form::Ndjson(_) => Ends::read(path, form).map(Self::Text),
        };
        let fingerprint = fingerprint.map_err(|error| JobError::input(format!("{path}: cannot be read: {error}")))?;
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
            _ => vec![form_difference(self.form(), now.form())],
        }
    }

    fn form(&self) -> &str {
        match self {
            Self::Pattern { .. } => Form::Pattern.name(),
            Self::Text(file) => &file.form,
            Self::Parquet(_) => Form::Parquet.name(),
        }
    }
}

impl Ends {
    fn read(path: &str, form: Form) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let bytes = metadata.len();
        let tail = bytes.saturating_sub(END_BYTES).max(END_BYTES);
        Ok(Self {
            form: form.name_with_compression(),
            bytes,
            changed: Changed { seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec() as u32 },
            head: hash(&mut file, 0, END_BYTES)?,
            tail: hash(&mut file, tail, END_BYTES)?,
        })
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
        if self.head != now.head {
            differences.push("first 64 KiB differ".into());
        }
        if self.tail != now.tail {
            differences.push("last 64 KiB differ".into());
        }
        differences
    }
}

impl ParquetFile {
    fn read(path: &str) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let no_footer = || io::Error::new(io::ErrorKind::InvalidData, "not a whole Parquet file");
        let footer_end = bytes.checked_sub(FOOTER_SIZE as u64).ok_or_else(no_footer)?;
        let mut tail = [0; FOOTER_SIZE];
        file.seek(SeekFrom::Start(footer_end))?;
        file.read_exact(&mut tail)?;
        let footer_bytes = FooterTail::try_new(&tail).map_err(|_| no_footer())?.metadata_length() as u64;
        let start = footer_end.checked_sub(footer_bytes).ok_or_else(no_footer)?;
        Ok(Self { ends: Ends::read(path, Form::Parquet)?, footer: hash(&mut file, start, footer_bytes)? })
    }

    fn differences(&self, now: &Self, path: &str) -> Vec<String> {
        let mut differences = self.ends.differences(&now.ends, path);
        if self.footer != now.footer {
            differences.push("footer differs".into());
        }
        differences
    }
}

impl Changed {
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

fn form_difference(then: &str, now: &str) -> String {
    format!("read as {then} then, as {now} now")
}

fn size_difference(then: u64, now: u64) -> String {
    format!("size: {} bytes then, {} now", grouped(then), grouped(now))
}

/// `1,024`
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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

/// Of the bytes that there are of these; in hexadecimal.
fn hash(file: &mut File, start: u64, length: u64) -> io::Result<String> {
    file.seek(SeekFrom::Start(start))?;
    let mut hasher = Hasher(XxHash3_128::new());
    io::copy(&mut file.take(length), &mut hasher)?;
    Ok(format!("{:032x}", hasher.0.finish_128()))
}

struct Hasher(XxHash3_128);

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
