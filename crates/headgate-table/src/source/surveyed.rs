//! Several files, each surveyed once before the first row is read: that it can be read, that it has the columns that are
//! used, and its fingerprint. Later, each file is opened anew and must be unchanged. So at most one is open, however many
//! there are, and yet the job reads what was there when it began.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, OnceLock};

use arrow_schema::{DataType, Field, Fields};
use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::options::SourceOptions;
use headgate_core::source_size::SourceSize;
use twox_hash::XxHash3_128;

use super::batches::Rows;
use super::file_rows;
use super::fingerprint::{FilesFingerprint, Fingerprint, OpenedInput};
use super::form::Form;
use super::keep;
use super::listed::Listed;
use super::opened::Opened;
use crate::columns::kept::with_leaves;

pub(super) struct Surveyed {
    options: SourceOptions,
    listed: Listed,
    known: Vec<SurveyedFile>,
    first: First,
    fingerprint: FilesFingerprint,
    rows: Option<u64>,
}

/// The facts about a file.
struct SurveyedFile {
    form: Form,
    ends: OpenedInput,
    /// The number of rows, or `None` if it is not known without reading the file.
    rows: Option<u64>,
    ends_in_half_line: Arc<OnceLock<bool>>,
}

/// The facts about the first file that the others must share.
struct First {
    form: Form,
    header: u128,
    kept: Fields,
}

/// The index of each file by its device and inode.
type Seen = HashMap<(u64, u64), usize>;

impl Surveyed {
    /// # Errors
    /// `Input`: a file can't be read, lacks a column, or is listed twice. `Usage`: an option does not fit several files.
    pub(super) fn new(options: &SourceOptions) -> Result<Self, JobError> {
        let listed = Listed::of(options)?;
        // The first file, as far as its name tells.
        let first = First { form: Form::of(&listed.path(0))?, header: 0, kept: Fields::empty() };
        let fingerprint = FilesFingerprint {
            form: format!("several files of {}", first.form.name()),
            compressed: false,
            files: Some(listed.len() as u64),
            bytes: 0,
            hash: String::new(),
        };
        let mut files = Self { options: options.clone(), listed, known: Vec::new(), first, fingerprint, rows: Some(0) };
        // The columns of lines are known already.
        let keeps_all = keep::keeps_all(options) && options.kept_columns.is_none();
        let (mut hash, mut seen) = (XxHash3_128::new(), HashMap::new());
        for at in 0..files.len() {
            let found = files.survey(at, keeps_all, &mut seen)?;
            let partition = files.listed.partition(at);
            let known = serde_json::to_vec(&(files.listed.below(at), partition.used(&files.options), &found));
            hash.write(&known.map_err(|error| JobError::internal(format!("{}: {error}", files.path(at))))?);
            files.fingerprint.compressed |= found.is_compressed();
            files.fingerprint.bytes += found.bytes().unwrap_or_default();
            files.rows = files.rows.zip(files.known[at].rows).map(|(before, rows)| before + rows);
        }
        files.fingerprint.hash = format!("{:032x}", hash.finish_128());
        Ok(files)
    }

    pub(super) fn len(&self) -> usize {
        self.listed.len()
    }

    /// Returns a note on files that are not read.
    pub(super) fn note(&self) -> Option<Message> {
        self.listed.note()
    }

    pub(super) fn path(&self, at: usize) -> String {
        self.listed.path(at)
    }

    pub(super) fn rows(&self, at: usize) -> Option<u64> {
        self.known[at].rows
    }

    pub(super) fn bytes(&self, at: usize) -> u64 {
        self.known[at].ends.stamp.bytes
    }

    pub(super) fn has_columns(&self) -> bool {
        self.first.form.has_columns()
    }

    pub(super) fn kept_fields(&self) -> &Fields {
        &self.first.kept
    }

    /// Returns a hash of the first file's columns; the columns of other files are part of their rows' hashes.
    pub(super) fn header(&self) -> u128 {
        self.first.header
    }

    pub(super) fn size(&self) -> SourceSize {
        SourceSize { rows: self.rows, bytes: Some(self.fingerprint.bytes), bytes_read: 0 }
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::Files(self.fingerprint.clone())
    }

    /// Returns the rows of a file, and the hash of its columns and directories, which is combined with the hash of each
    /// row.
    pub(super) fn open(&self, at: usize) -> Result<(Box<dyn Rows>, u128), JobError> {
        let (path, partition) = (self.listed.path(at), self.listed.partition(at));
        let SurveyedFile { form, ends, ends_in_half_line, .. } = &self.known[at];
        let used = format!("{:?}", partition.used(&self.options));
        let opened = Opened::reopen(&path, *form, *ends, ends_in_half_line.clone())?;
        let mut rows = file_rows::open(Arc::new(opened), &of_one(&self.options, path), partition)?;
        if rows.kept_fields() != self.first.kept {
            rows.keep_as(&self.first.kept)?;
        }
        let counts = XxHash3_128::oneshot(format!("{:x} {used}", rows.header()).as_bytes());
        Ok((rows, counts))
    }

    /// Surveys the next file, and returns its fingerprint. `keeps_all`: each file's own columns are all kept.
    fn survey(&mut self, at: usize, keeps_all: bool, seen: &mut Seen) -> Result<Fingerprint, JobError> {
        let path = self.listed.path(at);
        let form = Form::of(&path)?;
        if form.name() != self.first.form.name() {
            let (one, other, its, form) = (self.listed.path(0), &path, self.first.form.name(), form.name());
            return Err(JobError::input(format!(
                "{one} is read as {its} and {other} as {form}: all files of an input must have one form"
            )));
        }
        let opened = Arc::new(Opened::open(&path, form)?);
        let Some(ends) = opened.ends() else {
            return Err(JobError::input(format!(
                "{path}: is not a regular file: what can be read only once can't be combined with other files"
            )));
        };
        self.refuse_duplicate(at, &opened, seen)?;
        let mut options = of_one(&self.options, path.clone());
        if at > 0 && keeps_all {
            // The first file's columns precede those that only this file has.
            options.keep.push(keep::ALL.to_owned());
        }
        let rows = file_rows::open(opened, &options, self.listed.partition(at))?;
        let unknown = || JobError::internal(format!("{path}: it can't be recognized on resume"));
        let fingerprint = rows.fingerprint().ok_or_else(unknown)?;
        if at == 0 {
            self.first.header = rows.header();
            self.first.kept = rows.kept_fields();
            if keeps_all {
                // `*` means the columns of the first file.
                self.options.keep = self.first.kept.iter().map(|field| field.name().clone()).collect();
            }
        }
        let kept = rows.kept_fields();
        if let Some(more) = kept.get(self.first.kept.len()) {
            let (name, one) = (more.name(), self.listed.path(0));
            return Err(JobError::input(message!(
                "{path}: there is a column {name:?}, which {one} doesn't have: list the columns to keep, without *, in ",
                OptionName::Keep
            )));
        }
        compare_kept(&path, &kept, &self.listed.path(0), &self.first.kept)?;
        let known = SurveyedFile { form, ends, rows: rows.size().rows, ends_in_half_line: Arc::default() };
        self.known.push(known);
        Ok(fingerprint)
    }

    /// Refuses a file that is listed twice through links. Two hard links count as two files.
    fn refuse_duplicate(&self, at: usize, opened: &Opened, seen: &mut Seen) -> Result<(), JobError> {
        let path = self.listed.path(at);
        let cannot_be_read = |error| JobError::input(format!("{path}: can't be read: {error}"));
        let metadata = opened.file().metadata().map_err(cannot_be_read)?;
        let Some(before) = seen.insert((metadata.dev(), metadata.ino()), at) else { return Ok(()) };
        let before = self.listed.path(before);
        let is_same = fs::canonicalize(&before).and_then(|one| Ok(one == fs::canonicalize(&path)?));
        if is_same.map_err(cannot_be_read)? {
            let what = if before == path { "is named twice".into() } else { format!("is the same file as {before}") };
            return Err(JobError::input(format!("{path}: {what}: its rows would be requested twice")));
        }
        Ok(())
    }
}

/// Returns the options for one of the files.
fn of_one(options: &SourceOptions, path: String) -> SourceOptions {
    SourceOptions { input: path, more_inputs: Vec::new(), ..options.clone() }
}

/// Checks that the kept columns of a file have the same types as those of the first file.
fn compare_kept(path: &str, kept: &Fields, first: &str, first_kept: &Fields) -> Result<(), JobError> {
    for (here, there) in kept.iter().zip(first_kept) {
        let (name, its, other) = (here.name(), here.data_type(), there.data_type());
        if plain(here) != plain(there) {
            return Err(JobError::input(format!(
                "{path}: the column {name:?} can't be kept: its type is {its} here, and {other} in {first}"
            )));
        }
    }
    Ok(())
}

/// Returns the type of a column, however its text is laid out.
fn plain(field: &Field) -> DataType {
    let leaf = |leaf: &Field| {
        let data_type = match leaf.data_type() {
            DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
            DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
            other => other.clone(),
        };
        Field::new(leaf.name(), data_type, true)
    };
    with_leaves(field, &mut { leaf }).data_type().clone()
}
