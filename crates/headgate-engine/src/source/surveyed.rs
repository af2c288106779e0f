//! Several files, each looked at once before the first row is read: that it can be read, that it has the columns that are
//! used, and what it is. When it is its turn, it is opened anew and must be what it was: so never more than one is open, however
//! many there are, and yet the job reads what was there when it began, as it does of one file.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, OnceLock};

use arrow_schema::{DataType, Field, Fields};
use twox_hash::XxHash3_128;

use super::batches::Rows;
use super::file_rows;
use super::fingerprint::{Ends, FilesFingerprint, Fingerprint};
use super::form::Form;
use super::keep;
use super::listed::Listed;
use super::opened::Opened;
use crate::columns::kept::with_leaves;
use crate::message;
use crate::model::error::JobError;
use crate::model::message::OptionName;
use crate::model::options::SourceOptions;
use crate::model::source_size::SourceSize;

pub(super) struct Surveyed {
    options: SourceOptions,
    listed: Listed,
    known: Vec<Known>,
    first: First,
    fingerprint: FilesFingerprint,
    rows: Option<u64>,
}

/// What is known of a file.
struct Known {
    form: Form,
    ends: Ends,
    /// `None`: not without reading it.
    rows: Option<u64>,
    ends_in_half_line: Arc<OnceLock<bool>>,
}

/// What the others must have, too, and which file has it.
struct First {
    form: Form,
    header: u128,
    kept: Fields,
}

/// Device and number of each file, which has several names where it is linked, and which of the files it is.
type Seen = HashMap<(u64, u64), usize>;

impl Surveyed {
    /// # Errors
    /// `Input`: a file that can't be read, that lacks a column, or that is there twice. `Usage`: an option does not go with them.
    pub(super) fn new(options: &SourceOptions) -> Result<Self, JobError> {
        let listed = Listed::of(options)?;
        // What the first file is, as far as that is known by its name.
        let first = First { form: Form::of(&listed.path(0))?, header: 0, kept: Fields::empty() };
        let fingerprint = FilesFingerprint {
            form: format!("several files of {}", first.form.name()),
            compressed: false,
            files: Some(listed.len() as u64),
            bytes: 0,
            hash: String::new(),
        };
        let mut files = Self { options: options.clone(), listed, known: Vec::new(), first, fingerprint, rows: Some(0) };
        // Which columns lines have is known already.
        let keeps_all = keep::keeps_all(options) && options.kept_columns.is_none();
        let (mut hash, mut seen) = (XxHash3_128::new(), HashMap::new());
        for at in 0..files.len() {
            let found = files.look_at(at, keeps_all, &mut seen)?;
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

    /// What says which columns there are; that of other files counts with their rows.
    pub(super) fn header(&self) -> u128 {
        self.first.header
    }

    pub(super) fn size(&self) -> SourceSize {
        SourceSize { rows: self.rows, bytes: Some(self.fingerprint.bytes), bytes_read: 0 }
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::Files(self.fingerprint.clone())
    }

    /// The rows of a file, from the first one on, and what counts for each of them beside what it has: which columns there are,
    /// and what directories say.
    pub(super) fn open(&self, at: usize) -> Result<(Box<dyn Rows>, u128), JobError> {
        let (path, partition) = (self.listed.path(at), self.listed.partition(at));
        let Known { form, ends, ends_in_half_line, .. } = &self.known[at];
        let used = format!("{:?}", partition.used(&self.options));
        let opened = Opened::reopen(&path, *form, *ends, ends_in_half_line.clone())?;
        let mut rows = file_rows::open(Arc::new(opened), &of_one(&self.options, path), partition)?;
        if rows.kept_fields() != self.first.kept {
            rows.keep_as(&self.first.kept)?;
        }
        let counts = XxHash3_128::oneshot(format!("{:x} {used}", rows.header()).as_bytes());
        Ok((rows, counts))
    }

    /// Looks at a file, which is the next one, and returns what it is known by. `keeps_all`: all columns are kept, which each
    /// file says for itself.
    fn look_at(&mut self, at: usize, keeps_all: bool, seen: &mut Seen) -> Result<Fingerprint, JobError> {
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
        self.refuse_second(at, &opened, seen)?;
        let mut options = of_one(&self.options, path.clone());
        if at > 0 && keeps_all {
            // Behind those of the first file come those that only this one has.
            options.keep.push(keep::ALL.to_owned());
        }
        let rows = file_rows::open(opened, &options, self.listed.partition(at))?;
        let unknown = || JobError::internal(format!("{path}: it can't be known again"));
        let fingerprint = rows.fingerprint().ok_or_else(unknown)?;
        if at == 0 {
            self.first.header = rows.header();
            self.first.kept = rows.kept_fields();
            if keeps_all {
                // What `*` stands for is what the first file has.
                self.options.keep = self.first.kept.iter().map(|field| field.name().clone()).collect();
            }
        }
        let kept = rows.kept_fields();
        if let Some(more) = kept.get(self.first.kept.len()) {
            let (name, one) = (more.name(), self.listed.path(0));
            return Err(JobError::input(message!(
                "{path}: there is a column {name:?}, which {one} has not: list the columns to keep, without *, in ",
                OptionName::Keep
            )));
        }
        compare_kept(&path, &kept, &self.listed.path(0), &self.first.kept)?;
        let known = Known { form, ends, rows: rows.size().rows, ends_in_half_line: Arc::default() };
        self.known.push(known);
        Ok(fingerprint)
    }

    /// Two names that lead to one file by links are one; two that were given to it (hard links) are as good as two files.
    fn refuse_second(&self, at: usize, opened: &Opened, seen: &mut Seen) -> Result<(), JobError> {
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

/// The options for one of the files.
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

/// The type of a column, however its text is laid out.
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
