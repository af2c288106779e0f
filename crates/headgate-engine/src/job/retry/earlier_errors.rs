//! The first error of each row that is retried, so that its result keeps it if the retry fails for another reason: an expired
//! token must not hide what was wrong.
//!
//! The column `error_detail` has the detail of the last error, followed by the first one. A further retry keeps that first error
//! and replaces the last one, so the text does not grow.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ArrayRef, BooleanArray, RecordBatch, StringArray};
use headgate_core::error::JobError;

use crate::job::records::{outcomes, rows, with_column};

const DETAIL: &str = "error_detail";
const MESSAGE: &str = "error_message";
/// Introduces the first error.
const BEFORE: &str = "before: ";
const SEPARATOR: &str = "; ";
/// Follows the kind of an error.
const COLON: &str = ": ";
/// The maximum length of an error in characters.
const MAX_CHARS: usize = 500;
/// The maximum size of the different texts in a round. Beyond it, errors are kept by their kinds.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The first errors of the rows of a round.
#[derive(Debug, Default)]
pub(super) struct EarlierErrors {
    /// The index of the text of each row.
    rows: BTreeMap<u64, u32>,
    texts: Vec<Arc<str>>,
    indices: HashMap<Arc<str>, u32>,
    bytes: usize,
}

impl EarlierErrors {
    /// Adds the errors of the failed rows of a part for which `is_retried` holds.
    pub(super) fn add(&mut self, records: &RecordBatch, is_retried: impl Fn(u64) -> bool) -> Result<(), JobError> {
        let (Some(details), messages) = (text_column(records, DETAIL), text_column(records, MESSAGE)) else {
            return Ok(());
        };
        for (at, (row, kind)) in rows(records)?.into_iter().zip(outcomes(records)).enumerate() {
            if is_retried(row as u64) {
                let error = first_error(kind, value(messages, at), value(Some(details), at));
                self.insert(row as u64, error);
            }
        }
        Ok(())
    }

    fn insert(&mut self, row: u64, mut error: String) {
        if self.bytes + error.len() > MAX_BYTES && !self.indices.contains_key(&*error) {
            error.truncate(kind_of(&error).len());
        }
        let index = self.indices.get(&*error).copied().unwrap_or_else(|| {
            let (text, index) = (Arc::<str>::from(error), self.texts.len() as u32);
            self.bytes += text.len();
            self.texts.push(text.clone());
            self.indices.insert(text, index);
            index
        });
        self.rows.insert(row, index);
    }

    fn of(&self, row: u64) -> Option<&str> {
        self.rows.get(&row).map(|index| &*self.texts[*index as usize])
    }

    /// Returns the new outcomes with the first error of each row that has failed for another reason.
    pub(super) fn add_to(&self, records: &RecordBatch, failed: Option<&BooleanArray>) -> Result<RecordBatch, JobError> {
        let (Some(failed), Some(details)) = (failed, text_column(records, DETAIL)) else { return Ok(records.clone()) };
        if self.rows.is_empty() || failed.true_count() == 0 {
            return Ok(records.clone());
        }
        let outcomes = rows(records)?.into_iter().zip(outcomes(records)).enumerate();
        let details: StringArray = outcomes
            .map(|(at, (row, kind))| {
                let detail = value(Some(details), at);
                let first = self.of(row as u64).filter(|first| failed.value(at) && kind_of(first) != kind);
                first.map(|first| with_first(detail, first)).or_else(|| detail.map(str::to_owned))
            })
            .collect();
        with_column(records, DETAIL, &(Arc::new(details) as ArrayRef))
    }
}

/// Returns the first error of a row: that in its detail, or else its own.
fn first_error(kind: String, message: Option<&str>, detail: Option<&str>) -> String {
    let first = detail.and_then(|detail| {
        let later = detail.find(&format!("{SEPARATOR}{BEFORE}")).map(|at| &detail[at + SEPARATOR.len()..]);
        later.unwrap_or(detail).strip_prefix(BEFORE)
    });
    if let Some(first) = first {
        return first.to_owned();
    }
    let what = match (message, detail) {
        (Some(message), Some(detail)) => format!("{message} ({detail})"),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) => return kind,
    };
    format!("{kind}{COLON}{what}").chars().take(MAX_CHARS).collect()
}

fn with_first(detail: Option<&str>, first: &str) -> String {
    detail.map_or_else(|| format!("{BEFORE}{first}"), |detail| format!("{detail}{SEPARATOR}{BEFORE}{first}"))
}

fn kind_of(error: &str) -> &str {
    error.split(COLON).next().unwrap_or(error)
}

fn text_column<'a>(records: &'a RecordBatch, name: &str) -> Option<&'a StringArray> {
    records.column_by_name(name).and_then(|column| column.as_string_opt::<i32>())
}

fn value(column: Option<&StringArray>, at: usize) -> Option<&str> {
    column.filter(|column| column.is_valid(at)).map(|column| column.value(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_error_are_kept() {
        let (kind, address) = ("connect".to_owned(), Some("127.0.0.1:9"));
        let first = first_error(kind, Some("connection refused"), address);
        assert_eq!("connect: connection refused (127.0.0.1:9)", first);
        let second = with_first(None, &first);
        assert_eq!("before: connect: connection refused (127.0.0.1:9)", second);
        assert_eq!(first, first_error("status:401".into(), None, Some(&second)));
        let third = with_first(Some("the time"), &first);
        assert_eq!("the time; before: connect: connection refused (127.0.0.1:9)", third);
        assert_eq!(first, first_error("timeout".into(), Some("too slow"), Some(&third)));
        assert_eq!(
            ("connect", "status:503"),
            (kind_of(&first), kind_of(&first_error("status:503".into(), None, None)))
        );
        assert_eq!(MAX_CHARS, first_error("tls".into(), None, Some(&"é".repeat(5000))).chars().count());
    }

    #[test]
    fn the_errors_of_a_round_are_bounded() {
        let mut errors = EarlierErrors::default();
        for row in 0..50_000 {
            errors.insert(row, format!("tls: {row}{}", "x".repeat(490)));
        }
        assert!(errors.bytes <= MAX_BYTES + 490, "{}", errors.bytes);
        assert_eq!(Some("tls"), errors.of(49_999));
        assert!(errors.of(0).is_some_and(|error| error.starts_with("tls: 0x")));
    }
}
