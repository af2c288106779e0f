//! The files of an input: those that are named, those of a directory, and those that a pattern matches.
//!
//! Their order does not depend on the file system: as they were named, and within a directory or a pattern by their paths,
//! compared byte by byte, directory after directory. Names that begin with `_` or `.` are not data (`_SUCCESS`,
//! `.part-0.parquet.crc`, our own `_headgate`), unless the pattern says so. Other readers of such directories do the same.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern};
use headgate_core::error::JobError;
use headgate_core::grouped::grouped;
use headgate_core::message;
use headgate_core::message::Message;
use headgate_core::options::SourceOptions;
use walkdir::{DirEntry, WalkDir};

use super::form::{Form, KNOWN};
use super::partition::Partition;

/// Each takes some hundred bytes of memory.
const MAX_FILES: usize = 1_000_000;

/// The text that makes an input a URL.
const AFTER_SCHEME: &str = "://";

/// `*` stays within a directory; `**` matches any number of directories.
pub(super) const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

/// The files of an input, in order.
#[derive(Debug)]
pub(super) struct Listed {
    arguments: Vec<Argument>,
    /// The index of a file's argument, and its path below the argument's directory.
    files: Vec<(u32, Box<str>)>,
    skipped: Skipped,
}

/// The files of directories that are in no form that is read.
#[derive(Debug, Default)]
struct Skipped {
    count: u64,
    /// The first of them by its path.
    first: Option<PathBuf>,
}

#[derive(Debug)]
struct Argument {
    /// The directory of its files; empty: the working directory.
    directory: PathBuf,
    above: Partition,
}

/// Returns whether the input is more than the one file, stream or URL that it names.
pub(super) fn is_several(options: &SourceOptions) -> bool {
    let input = options.input.as_str();
    if !options.more_inputs.is_empty() {
        return true;
    }
    if !is_path(input) {
        return false;
    }
    let path = Path::new(input);
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => true,
        // A single file whose directories have columns that are used.
        Ok(metadata) => metadata.is_file() && !Partition::above(directory_of(path)).used(options).is_empty(),
        Err(_) => is_pattern(input),
    }
}

/// Returns the input as an absolute path, so that a later command finds it from any directory.
pub fn absolute(input: &str) -> Option<PathBuf> {
    let path = Path::new(input);
    if path.is_absolute() || path.exists() || !is_pattern(input) {
        return std::path::absolute(path).ok();
    }
    let here = std::path::absolute(".").ok()?;
    Some(Path::new(&Pattern::escape(here.to_str()?)).join(path))
}

pub(super) fn is_path(input: &str) -> bool {
    input != "-" && !input.contains(AFTER_SCHEME)
}

pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn directory_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

impl Listed {
    /// # Errors
    /// `Usage`: a URL or stream can't be combined with others. `Input`: a file does not exist, or a directory can't be
    /// read.
    pub(super) fn of(options: &SourceOptions) -> Result<Self, JobError> {
        let mut listed = Self { arguments: Vec::new(), files: Vec::new(), skipped: Skipped::default() };
        for input in options.inputs() {
            listed.add(input)?;
        }
        Ok(listed)
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns a note on files of directories that are not read.
    pub(super) fn note(&self) -> Option<Message> {
        let first = self.skipped.first.as_ref()?.display();
        Some(match self.skipped.count {
            1 => message!("{first} was not read: headgate reads {KNOWN}"),
            count => {
                let others = grouped(count - 1);
                message!("{first} and {others} more files of other formats were not read: headgate reads {KNOWN}")
            }
        })
    }

    pub(super) fn path(&self, at: usize) -> String {
        let (argument, below) = &self.files[at];
        self.arguments[*argument as usize].directory.join(&**below).display().to_string()
    }

    /// Returns a file's path below its argument, which is the same when all files are moved.
    pub(super) fn below(&self, at: usize) -> &str {
        &self.files[at].1
    }

    pub(super) fn partition(&self, at: usize) -> Partition {
        let (argument, below) = &self.files[at];
        self.arguments[*argument as usize].above.below(Path::new(&**below))
    }

    fn add(&mut self, input: &str) -> Result<(), JobError> {
        if !is_path(input) {
            let what = if input == "-" { "standard input" } else { "a URL" };
            return Err(JobError::usage(format!("{what} can't be combined with other inputs: only files can")));
        }
        let path = Path::new(input);
        let (directory, found) = match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                let search = Search::new(path, path).all()?;
                self.skipped.add(search.skipped);
                if search.found.is_empty() {
                    return Err(JobError::input(format!(
                        "{input}: there is no file in this directory that can be read: headgate reads {KNOWN}"
                    )));
                }
                (path, search.found)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_pattern(input) => {
                let found = self.matching(input)?;
                return if found { Ok(()) } else { Err(JobError::input(format!("{input}: no file matches"))) };
            }
            // What is wrong with it is reported when it is opened.
            _ => (directory_of(path), vec![path.file_name().map_or_else(|| path.into(), PathBuf::from)]),
        };
        self.push(directory, found)
    }

    /// Adds the files that a pattern matches, and returns whether there are any.
    fn matching(&mut self, input: &str) -> Result<bool, JobError> {
        let mut parts = Path::new(input).components().peekable();
        let mut directory = PathBuf::new();
        while let Some(part) = parts.next_if(|part| !is_pattern(&part.as_os_str().to_string_lossy())) {
            directory.push(part);
        }
        let parts: Vec<String> = parts.map(|part: Component<'_>| part.as_os_str().to_string_lossy().into()).collect();
        let patterns = Patterns::new(&parts).map_err(|error| {
            JobError::input(format!("{input}: no file has this name, and it is not a pattern: {error}"))
        })?;
        let here = Path::new(".");
        let from = if directory.as_os_str().is_empty() { here } else { &directory };
        if !from.is_dir() {
            return Ok(false);
        }
        let search = Search::new(from, from).matching(&patterns)?;
        self.skipped.add(search.skipped);
        let any = !search.found.is_empty();
        self.push(&directory, search.found)?;
        Ok(any)
    }

    /// Adds files that were found below a directory, in order.
    fn push(&mut self, directory: &Path, mut found: Vec<PathBuf>) -> Result<(), JobError> {
        if self.files.len() + found.len() > MAX_FILES {
            return Err(too_many());
        }
        found.sort();
        let argument = self.arguments.len() as u32;
        for file in found {
            let below = file.to_str().ok_or_else(|| {
                let path = directory.join(&file);
                JobError::input(format!("{}: the name is not UTF-8: rename the file", path.display()))
            })?;
            self.files.push((argument, below.into()));
        }
        self.arguments.push(Argument { directory: directory.to_owned(), above: Partition::above(directory) });
        Ok(())
    }
}

impl Skipped {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.take().into_iter().chain(other.first).min();
    }
}

fn too_many() -> JobError {
    JobError::input(format!("these are more than {} files: name fewer", grouped(MAX_FILES as u64)))
}

/// The parts of a pattern, one for each directory level.
struct Patterns {
    whole: Pattern,
    /// The parts before `**`.
    parts: Vec<Pattern>,
    /// The parts that match names which are otherwise skipped.
    hidden: Vec<Pattern>,
    is_deep: bool,
}

impl Patterns {
    fn new(parts: &[String]) -> Result<Self, glob::PatternError> {
        let is_deep = |part: &&String| *part == "**";
        let of = |part: &String| Pattern::new(part);
        Ok(Self {
            whole: Pattern::new(&parts.join("/"))?,
            parts: parts.iter().take_while(|part| !is_deep(part)).map(of).collect::<Result<_, _>>()?,
            hidden: parts.iter().filter(|part| is_hidden(part)).map(of).collect::<Result<_, _>>()?,
            is_deep: parts.iter().any(|part| is_deep(&part)),
        })
    }

    /// Returns whether a directory at this depth below the first one may contain matching files.
    fn may_lead_on(&self, depth: usize, name: &str) -> bool {
        match self.parts.get(depth - 1) {
            Some(part) => (self.is_deep || depth < self.parts.len()) && part.matches_with(name, MATCHING),
            None => self.is_deep,
        }
    }

    fn is_left_out(&self, name: &str) -> bool {
        is_hidden(name) && !self.hidden.iter().any(|part| part.matches_with(name, MATCHING))
    }
}

pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with(['_', '.'])
}

/// A search for the files in a directory.
struct Search<'a> {
    directory: &'a Path,
    /// Found paths are relative to this.
    below: &'a Path,
    found: Vec<PathBuf>,
    skipped: Skipped,
}

impl<'a> Search<'a> {
    fn new(directory: &'a Path, below: &'a Path) -> Self {
        Self { directory, below, found: Vec::new(), skipped: Skipped::default() }
    }

    fn walk(&self) -> walkdir::IntoIter {
        // A link to a directory above it is an error here, and would otherwise not be followed.
        WalkDir::new(self.directory).min_depth(1).follow_links(true).into_iter()
    }

    /// Finds all files of a known form.
    fn all(mut self) -> Result<Self, JobError> {
        let mut entries = self.walk();
        while let Some(entry) = entries.next() {
            let Some(entry) = entry_of(entry)? else { continue };
            let is_directory = entry.file_type().is_dir();
            if is_hidden(&name_of(&entry)) {
                if is_directory {
                    entries.skip_current_dir();
                }
            } else if !is_directory && Form::of_name(&name_of(&entry)).is_some() {
                self.add(entry.path())?;
            } else if !is_directory {
                self.skipped.add(Skipped { count: 1, first: Some(entry.into_path()) });
            }
        }
        Ok(self)
    }

    /// Finds the files that match, and all files of a directory that matches.
    fn matching(mut self, patterns: &Patterns) -> Result<Self, JobError> {
        let mut entries = self.walk();
        while let Some(entry) = entries.next() {
            let Some(entry) = entry_of(entry)? else { continue };
            let name = name_of(&entry);
            let is_directory = entry.file_type().is_dir();
            let path = entry.path().strip_prefix(self.below).unwrap_or(entry.path()).to_string_lossy();
            let is_left_out = patterns.is_left_out(&name);
            let matches = !is_left_out && patterns.whole.matches_with(&path, MATCHING);
            if matches && is_directory {
                let inside = Search::new(entry.path(), self.below).all()?;
                self.found.extend(inside.found);
                self.skipped.add(inside.skipped);
            } else if matches {
                self.add(entry.path())?;
            }
            if is_directory && (matches || is_left_out || !patterns.may_lead_on(entry.depth(), &name)) {
                entries.skip_current_dir();
            }
        }
        Ok(self)
    }

    fn add(&mut self, path: &Path) -> Result<(), JobError> {
        if self.found.len() == MAX_FILES {
            return Err(too_many());
        }
        self.found.push(path.strip_prefix(self.below).unwrap_or(path).to_owned());
        Ok(())
    }
}

fn name_of(entry: &DirEntry) -> String {
    entry.file_name().to_string_lossy().into()
}

/// Returns the entry, or `None` for a link to a directory above it, or a broken link that can't be one of our files.
fn entry_of(entry: walkdir::Result<DirEntry>) -> Result<Option<DirEntry>, JobError> {
    let error = match entry {
        Ok(entry) => return Ok(Some(entry)),
        Err(error) => error,
    };
    if error.loop_ancestor().is_some() {
        return Ok(None);
    }
    let name = error.path().and_then(Path::file_name).map(OsStr::to_string_lossy).unwrap_or_default();
    let is_missing = error.io_error().is_some_and(|error| error.kind() == io::ErrorKind::NotFound);
    if is_missing && (is_hidden(&name) || Form::of_name(&name).is_none()) {
        return Ok(None);
    }
    let path = error.path().unwrap_or(Path::new("")).display().to_string();
    let cause = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
    Err(JobError::input(format!("{path}: can't be read: {cause}")))
}
