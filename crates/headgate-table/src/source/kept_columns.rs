//! The meaning of `*` among the columns to keep, where each line has its own: the names in the first lines, in the order in
//! which they come, and those of directories.
//!
//! It is determined once, when the job begins, and the job remembers it ([`SourceOptions::kept_columns`]). So all its
//! results have the same columns, however the input grows. Further members of a line are kept in the column [`REST`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use headgate_core::error::JobError;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::options::SourceOptions;

use super::MAX_RECORD_BYTES;
use super::form::Form;
use super::input::OpenInput;
use super::json_object::members;
use super::keep::{keeps_all, names};
use super::lines::{Line, Lines};
use super::listed::{Listed, is_several};
use super::opened::Opened;

/// The column of the members of a line that have no column: an object, as text.
pub(super) const REST: &str = "kept_rest";

/// At most this many lines are sampled, and no line that begins beyond `MAX_BYTES`.
const MAX_LINES: usize = 1_000;
const MAX_BYTES: usize = 1024 * 1024;
/// Names beyond this number are not columns, but members of [`REST`].
const MAX_COLUMNS: usize = 1_000;

/// Returns the options with the meaning of `*`, where it must be determined and is not known yet.
///
/// # Errors
/// `Input`: the input can be read only once; a column has the name of [`REST`]. Also the errors of listing the files.
pub fn decided(options: &SourceOptions) -> Result<Cow<'_, SourceOptions>, JobError> {
    if options.kept_columns.is_some() || !keeps_all(options) {
        return Ok(Cow::Borrowed(options));
    }
    let mut sample = SampledNames::default();
    if is_several(options) {
        let listed = Listed::of(options)?;
        if !is_ndjson(&listed.path(0)) {
            return Ok(Cow::Borrowed(options));
        }
        (0..listed.len()).for_each(|at| sample.sample_file(&listed.path(at)));
        let mut partitions: HashSet<Vec<String>> = HashSet::new();
        for at in 0..listed.len() {
            let names: Vec<String> = listed.partition(at).names().map(String::from).collect();
            if !partitions.contains(&names) {
                for name in &names {
                    sample.add_name(name);
                }
                partitions.insert(names);
            }
        }
    } else if is_ndjson(&options.input) {
        if fs::metadata(&options.input).is_ok_and(|metadata| !metadata.is_file()) {
            let name = &options.input;
            return Err(JobError::input(message!(
                "{name}: each line has its own columns, and what can be read only once can't be looked at before its first row: list those to keep, without *, in ",
                OptionName::Keep
            )));
        }
        sample.sample_file(&options.input);
    } else {
        return Ok(Cow::Borrowed(options));
    }
    let columns: Vec<&str> = sample.names.iter().map(String::as_str).collect();
    let columns = names(options, &columns);
    if columns.iter().any(|name| name == REST) {
        let name = options.name();
        return Err(JobError::input(message!(
            "{name}: the column {REST:?} can't be kept: by that name the result has what lines have beyond its columns; list the columns to keep, without *, in ",
            OptionName::Keep
        )));
    }
    Ok(Cow::Owned(SourceOptions { kept_columns: Some(columns), ..options.clone() }))
}

fn is_ndjson(path: &str) -> bool {
    Path::new(path).exists() && matches!(Form::of_name(path), Some(Form::Ndjson(_)))
}

/// The names in the sampled lines, in the order in which they come.
#[derive(Default)]
struct SampledNames {
    names: Vec<String>,
    known: HashSet<String>,
    lines: usize,
    bytes: usize,
}

impl SampledNames {
    fn is_complete(&self) -> bool {
        self.lines >= MAX_LINES || self.bytes >= MAX_BYTES
    }

    /// Adds the names in the first lines of a file. What can't be read is an error later, when the whole file is read.
    fn sample_file(&mut self, path: &str) {
        let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        let Some(form) = Form::of_name(path).filter(|_| is_file && !self.is_complete()) else { return };
        let Ok((_, reader)) = Opened::open(path, form).and_then(|opened| OpenInput::open(Arc::new(opened))) else {
            return;
        };
        let mut lines = Lines::new(reader, MAX_RECORD_BYTES);
        while !self.is_complete()
            && let Ok(Some((_, line))) = lines.next_row(None)
        {
            let (Line::Whole(line) | Line::TooLong(line)) = line;
            self.add_line(line);
        }
    }

    /// Adds the names in a line. A line that is not an object has none.
    fn add_line(&mut self, line: &[u8]) {
        self.lines += 1;
        self.bytes += line.len();
        let mut names = Vec::new();
        let read = str::from_utf8(line).is_ok_and(|line| members(line, |name, _| names.push(name)).is_ok());
        if read {
            for name in &names {
                self.add_name(name);
            }
        }
    }

    fn add_name(&mut self, name: &str) {
        if self.names.len() < MAX_COLUMNS && !self.known.contains(name) {
            self.known.insert(name.to_owned());
            self.names.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of<'a>(lines: impl IntoIterator<Item = &'a str>) -> SampledNames {
        let mut sample = SampledNames::default();
        lines.into_iter().for_each(|line| sample.add_line(line.as_bytes()));
        sample
    }

    #[test]
    fn names_keep_their_first_order_and_only_objects_count() {
        let lines =
            [r#"{"b":1,"\u0061":null}"#, r#"{"x":1,"b":2"#, r#"{"y":1} {}"#, r#"["z"]"#, "{\"\u{e9}\":{\"n\":1}}"];
        assert_eq!(["b", "a", "é"], names_of(lines).names[..]);
    }

    #[test]
    fn the_sample_and_the_number_of_columns_are_bounded() {
        let many: Vec<String> = (0..5_000).map(|column| format!("\"c{column}\":1")).collect();
        let line = format!("{{{}}}", many.join(","));
        let sample = names_of([line.as_str()]);
        assert_eq!((MAX_COLUMNS, Some("c999")), (sample.names.len(), sample.names.last().map(String::as_str)));
        assert!(!sample.is_complete());
        assert!(names_of(std::iter::repeat_n("{}", MAX_LINES)).is_complete());
        assert!(names_of([" ".repeat(MAX_BYTES).as_str()]).is_complete());
    }
}
