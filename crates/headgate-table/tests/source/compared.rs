//! An input that was read before is identified by its rows, whatever happened to its file.

use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use flate2::Compression;
use flate2::write::GzEncoder;
use headgate_core::options::SourceOptions;
use headgate_table::source::Source;
use headgate_table::source::compared::{Beyond, Comparison, InputThen};
use headgate_table::source::content::{Content, Unread};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;

use crate::skip::{Whole, read_plainly};
use crate::{Files, drain, drain_from, open, urls};

/// Opens a source that compares its rows with stored content.
fn tracking(options: &SourceOptions, then: Option<&Content>) -> Box<dyn Source> {
    let mut source = open(options);
    source.track(&options.name(), then, Unread::Trusted).expect("the same columns");
    source
}

/// Returns the content of the first rows of an input, after reading all of its rows.
pub fn read(options: &SourceOptions, rows: Option<u64>) -> InputThen {
    let mut source = open(options);
    let tracked = source.track(&options.name(), None, Unread::Trusted).expect("columns").expect("a file");
    let (all, error) = drain(source.as_mut());
    assert_eq!(None, error);
    let count = all.len() as u64;
    let content = tracked.up_to(rows.unwrap_or(count)).expect("it was read whole");
    let fingerprint = source.fingerprint().expect("a file");
    InputThen { fingerprint, rows: rows.is_none().then_some(count), content }
}

/// Returns the URLs of all rows, or the error if the input is refused.
pub fn compared(
    files: &Files,
    options: &SourceOptions,
    then: &InputThen,
    beyond: Beyond,
) -> Result<Vec<String>, String> {
    let mut source = tracking(options, Some(&then.content));
    let comparison = Comparison { options: options.clone(), then: then.clone(), beyond };
    source.check_first(comparison.into_check());
    match drain(source.as_mut()) {
        (rows, None) => Ok(rows.iter().map(|row| row.url.to_string()).collect()),
        (rows, Some(error)) => {
            assert!(rows.is_empty(), "rows were handed on: {rows:?}");
            Err(files.message(&error))
        }
    }
}

pub fn check_refused(expected: &str, files: &Files, options: &SourceOptions, then: &InputThen, beyond: Beyond) {
    let refusal = compared(files, options, then, beyond).expect_err(expected);
    assert!(refusal.starts_with(expected), "{refusal}");
}

fn urls_of(rows: Range<u64>) -> Vec<String> {
    rows.map(|row| format!("http://host/{row}")).collect()
}

fn lines(rows: u64) -> String {
    urls_of(0..rows).join("\n") + "\n"
}

fn gzip(text: &str, level: u32) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(level));
    gzip.write_all(text.as_bytes()).expect("in memory");
    gzip.finish().expect("in memory")
}

/// A function that returns the bytes of a file with the URLs of a text.
type Form<'a> = &'a dyn Fn(&str) -> Vec<u8>;

/// Writes a file with an unused column and row groups of this many rows.
fn parquet(files: &Files, urls: &[String], other: i64, group_rows: usize) -> SourceOptions {
    let path = files.path("urls.parquet");
    let url: ArrayRef = Arc::new(urls.iter().map(Some).collect::<StringArray>());
    let unused: ArrayRef = Arc::new(urls.iter().map(|_| Some(other)).collect::<Int64Array>());
    let records = RecordBatch::try_from_iter([("url", url), ("unused", unused)]).expect("columns");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
    let file = fs::File::create(&path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, records.schema(), Some(properties)).expect("a schema");
    writer.write(&records).expect("rows");
    writer.close().expect("an end");
    crate::options(&path)
}

#[test]
fn the_content_is_the_same_however_many_rows_were_skipped() {
    let files = Files::new();
    let in_files = read_plainly(&files).into_iter().filter(|whole| !whole.options.input.contains("://"));
    for Whole { options, rows, .. } in in_files {
        let whole = read(&options, None).content;
        assert_eq!(rows.len() as u64, whole.rows());
        proptest!(ProptestConfig::with_cases(16), |(steps in proptest::collection::vec((0..9_u64, 0..3000_u64), 1..4))| {
            let mut source = open(&options);
            let tracked = source.track(&options.name(), Some(&whole), Unread::Trusted).expect("columns").expect("rows");
            let mut next = 0;
            for (batches, skip) in &steps {
                for _ in 0..*batches {
                    let batch = source.next_batch().expect("the same rows").unwrap_or_default();
                    next += batch.len() as u64;
                }
                source.skip_to(next + skip).expect("the same rows");
                next = (next + skip).min(rows.len() as u64);
            }
            let (_, error) = drain_from(source.as_mut(), next);
            prop_assert_eq!(None, error);
            let again = tracked.up_to(rows.len() as u64);
            prop_assert_eq!(Some(&whole), again.as_ref(), "{}", options.input);
        });
    }
}

#[test]
fn the_same_rows_are_the_same_input_however_their_file_was_written() {
    let files = Files::new();
    let text = lines(3000);
    let then = read(&files.write("urls.txt", &text), None);
    let others =
        [text.clone(), text.replace('\n', "\r\n"), format!("\u{feff}\n\n{text}\n"), text.trim_end().to_owned()];
    for other in others {
        let now = files.write("urls.txt", &other);
        assert_eq!(Ok(3000), compared(&files, &now, &then, Beyond::Same).map(|rows| rows.len()));
    }
    let then = read(&files.write("urls.txt.gz", gzip(&text, 9)), None);
    let now = files.write("urls.txt.gz", [gzip(&text[..700], 1), gzip(&text[700..], 0)].concat());
    assert_eq!(Ok(3000), compared(&files, &now, &then, Beyond::Same).map(|rows| rows.len()));
}

#[test]
fn the_first_row_that_differs_is_named_and_no_row_is_returned() {
    let files = Files::new();
    let csv = |text: &str| text.replace("http", "1,http").replacen("1,", "id,url\n1,", 1);
    let json = |text: &str| text.replace("http", "{\"url\":\"http").replace('\n', "\"}\n");
    let forms: [(&str, Form); 5] = [
        ("urls.txt", &|text| text.into()),
        ("urls.csv", &|text| csv(text).into()),
        ("urls.ndjson", &|text| json(text).into()),
        ("urls.txt.gz", &|text| gzip(text, 1)),
        ("urls.txt.zst", &|text| zstd::encode_all(text.as_bytes(), 1).expect("in memory")),
    ];
    for (name, form) in forms {
        let then = read(&files.write(name, form(&lines(900))), None);
        for changed in [0, 451, 899] {
            let line = format!("http://host/{changed}\n");
            let now = files.write(name, form(&lines(900).replace(&line, "http://host/other\n")));
            let expected = format!("{name}: row {changed} has changed since it was read: restore the file to resume");
            check_refused(&expected, &files, &now, &then, Beyond::Same);
            check_refused(&expected, &files, &now, &then, Beyond::Grown);
            check_refused(&expected, &files, &now, &then, Beyond::Anything);
        }
    }
    // In a large input, the position is exact to within a few rows.
    let then = read(&files.write("urls.txt", lines(5000)), None);
    let now = files.write("urls.txt", lines(5000).replace("/4003\n", "/other\n"));
    check_refused("urls.txt: row 4,000 or one of the 7 after it has changed", &files, &now, &then, Beyond::Same);
}

#[test]
fn a_last_line_that_was_incomplete_is_a_different_row_once_complete() {
    let files = Files::new();
    let then = read(&files.write("urls.txt", "http://host/0\nhttp://host/1"), None);
    let now = files.write("urls.txt", "http://host/0\nhttp://host/10\n");
    check_refused("urls.txt: row 1 has changed", &files, &now, &then, Beyond::Grown);
}

#[test]
fn different_columns_make_a_different_input() {
    let files = Files::new();
    let then = read(&files.write("urls.csv", "url,id\nhttp://a/,http://b/\n"), None);
    let now = files.write("urls.csv", "id,url\nhttp://a/,http://b/\n");
    let mut source = open(&now);
    let error = source.track(&now.input, Some(&then.content), Unread::Trusted).expect_err("other columns");
    assert!(files.message(&error).starts_with("urls.csv: its columns have changed since it was read"), "{error}");
}

#[test]
fn a_grown_file_is_refused_unless_allowed() {
    let files = Files::new();
    let then = read(&files.write("urls.txt", lines(3)), None);
    let now = files.write("urls.txt", lines(5));
    let expected = "urls.txt: it has only grown: its first 3 rows are unchanged, and more follow; to do those, too, resume with allow_append=true, or restore the file";
    assert_eq!(Err(expected.into()), compared(&files, &now, &then, Beyond::Same));
    assert_eq!(Ok(urls_of(0..5)), compared(&files, &now, &then, Beyond::Grown));
    assert_eq!(Ok(urls_of(0..5)), compared(&files, &now, &then, Beyond::Anything));

    // The first row groups are unchanged.
    let then = read(&parquet(&files, &urls_of(0..20), 1, 10), None);
    let now = parquet(&files, &urls_of(0..30), 1, 10);
    check_refused("urls.parquet: it has only grown: its first 20 rows", &files, &now, &then, Beyond::Same);
    assert_eq!(Ok(urls_of(0..30)), compared(&files, &now, &then, Beyond::Grown));
}

#[test]
fn a_truncated_file_is_refused() {
    let files = Files::new();
    let then = read(&files.write("urls.txt", lines(5)), None);
    let now = files.write("urls.txt", lines(3));
    for beyond in [Beyond::Same, Beyond::Grown, Beyond::Anything] {
        check_refused(
            "urls.txt: truncated: it has 3 rows now, and had at least 5: restore",
            &files,
            &now,
            &then,
            beyond,
        );
    }
}

/// Only the size is known of rows that were never read.
#[test]
fn a_different_size_after_the_rows_that_were_read_must_be_allowed() {
    let files = Files::new();
    let then = read(&files.write("urls.txt", lines(9)), Some(5));
    let same_size = files.write("urls.txt", lines(9).replace("/7\n", "/x\n"));
    assert_eq!(Ok(9), compared(&files, &same_size, &then, Beyond::Same).map(|rows| rows.len()));
    let grown = files.write("urls.txt", lines(10));
    check_refused("urls.txt: it has only grown: its first 5 rows", &files, &grown, &then, Beyond::Same);
    assert_eq!(Ok(10), compared(&files, &grown, &then, Beyond::Grown).map(|rows| rows.len()));
    // Counting the rows does not add to that.
    let counted = InputThen { rows: Some(9), ..then.clone() };
    check_refused("urls.txt: it has only grown: its first 5 rows", &files, &grown, &counted, Beyond::Same);
    let cut = files.write("urls.txt", lines(8));
    for beyond in [Beyond::Same, Beyond::Grown] {
        check_refused("urls.txt: truncated: it has 112 bytes now, and had 126", &files, &cut, &then, beyond);
    }

    let then = read(&files.write("urls.txt.gz", gzip(&lines(9), 9)), Some(5));
    let anew = files.write("urls.txt.gz", gzip(&lines(9), 0));
    check_refused("urls.txt.gz: its first 5 rows are unchanged, but it has ", &files, &anew, &then, Beyond::Same);
    assert_eq!(Ok(9), compared(&files, &anew, &then, Beyond::Grown).map(|rows| rows.len()));
}

#[test]
fn only_the_columns_that_are_read_of_a_parquet_file_count() {
    let files = Files::new();
    let mut urls = urls_of(0..40);
    let then = read(&parquet(&files, &urls, 1, 10), None);
    let unused = parquet(&files, &urls, 2, 10);
    assert_eq!(Ok(40), compared(&files, &unused, &then, Beyond::Same).map(|rows| rows.len()));

    urls[27] = "http://host/other".into();
    let now = parquet(&files, &urls, 1, 10);
    check_refused("urls.parquet: row 20 or one of the 9 after it has changed", &files, &now, &then, Beyond::Same);
    // Skipped row groups are not read if the file was not touched.
    let mut source = tracking(&now, Some(&then.content));
    source.skip_to(30).expect("a footer that is whole");
    let (rows, error) = drain_from(source.as_mut(), 30);
    assert_eq!((10, None), (rows.len(), error));
}

#[test]
fn a_change_is_detected_while_rows_are_read_without_a_comparison_before() {
    let files = Files::new();
    let then = read(&files.write("urls.txt", lines(5000)), None);
    let now = files.write("urls.txt", lines(5000).replace("/2003\n", "/other\n"));
    let (rows, error) = drain(tracking(&now, Some(&then.content)).as_mut());
    assert!(files.message(&error.expect("it was changed")).starts_with("urls.txt: row 2,000 or one of"));
    assert!(rows.len() <= 2000 && !urls(&rows).contains(&"http://host/other"), "{}", rows.len());
    assert!(tracking(&now, Some(&then.content)).skip_to(3000).is_err());
}
