//! Files that another process writes to while they are read: the job has the rows that existed when its file was opened.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::time::{Duration, SystemTime};

use headgate_core::error::JobError;
use headgate_core::options::SourceOptions;
use headgate_core::row::Row;
use headgate_table::source::Source;

use crate::compressed::{gzip, zstandard};
use crate::{Files, drain, open, rows, urls};

const COUNT: usize = 40_000;

/// Returns so many bytes of lines that reading them takes several reads, even if they are compressed.
fn lines(count: usize) -> Vec<String> {
    let mut state = 1_u64;
    let mut line = |row| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(row);
        format!("http://host/{state:020}/{:020}", state.rotate_left(32))
    };
    (0..count as u64).map(&mut line).collect()
}

type Compress = fn(&[u8]) -> Vec<u8>;

const PLAIN: Compress = <[u8]>::to_vec;

/// Each text format and compression: its file name, its header, the text around a URL in a line, and its encoder.
const FORMS: [(&str, &str, [&str; 2], Compress); 5] = [
    ("urls.txt", "", ["", ""], PLAIN),
    ("urls.csv", "id,url\n", ["7,", ""], PLAIN),
    ("urls.ndjson", "", ["{\"url\":\"", "\"}"], PLAIN),
    ("urls.txt.gz", "", ["", ""], gzip),
    ("urls.csv.zst", "id,url\n", ["7,", ""], zstandard),
];

fn text(header: &str, [before, after]: [&str; 2], urls: &[String]) -> String {
    let lines: Vec<String> = urls.iter().map(|url| format!("{before}{url}{after}\n")).collect();
    header.to_owned() + &lines.concat()
}

/// Writes a file with an old modification time, so that each later change has another one.
fn old(files: &Files, name: &str, bytes: impl AsRef<[u8]>) -> SourceOptions {
    let options = files.write(name, bytes);
    set_time(&options, 1_000_000_000);
    options
}

fn set_time(options: &SourceOptions, seconds: u64) {
    let file = File::options().append(true).open(&options.input).expect("a file");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
}

fn append(options: &SourceOptions, bytes: &[u8]) {
    let mut file = File::options().append(true).open(&options.input).expect("a file");
    file.write_all(bytes).expect("room");
}

fn write_at(options: &SourceOptions, place: u64, bytes: &[u8]) {
    let mut file = File::options().write(true).open(&options.input).expect("a file");
    file.seek(SeekFrom::Start(place)).expect("a place");
    file.write_all(bytes).expect("room");
}

fn cut(options: &SourceOptions, bytes: u64) {
    File::options().write(true).open(&options.input).expect("a file").set_len(bytes).expect("a size");
}

fn size(options: &SourceOptions) -> u64 {
    fs::metadata(&options.input).expect("a file").len()
}

/// Compares two lists without showing all of them if they differ.
fn assert_same(expected: &[String], rows: &[Row]) {
    assert_eq!(expected.len(), rows.len());
    let other = expected.iter().zip(urls(rows)).find(|(expected, url)| expected != url);
    assert_eq!(None, other);
}

/// Returns the note, without the directory.
fn note(files: &Files, source: &dyn Source) -> Option<String> {
    source.note().map(|note| files.without_directory(&note.to_string()))
}

#[test]
fn a_file_that_grows_while_it_is_read_ends_at_the_size_it_had_when_opened() {
    let files = Files::new();
    let all = lines(COUNT + 1000);
    let (then, later) = all.split_at(COUNT);
    for (name, header, around, compress) in FORMS {
        let options = old(&files, name, compress(text(header, around, then).as_bytes()));
        let bytes = size(&options);
        let mut source = open(&options);
        let first = source.next_batch().expect("a good file").expect("rows");
        append(&options, &compress(text("", around, later).as_bytes()));
        let (rest, error) = drain_rest(source.as_mut());
        assert_eq!(None, error, "{name}");
        assert_same(then, &[first, rest].concat());
        assert_eq!((Some(COUNT as u64), Some(bytes)), (source.size().rows, source.size().bytes), "{name}");
        let note = note(&files, source.as_ref()).expect("a note");
        assert!(note.starts_with(&format!("{name} grew while it was read, from ")), "{note}");
        assert!(note.ends_with("the rows are those that were there when it was opened"), "{note}");
    }
}

/// Reads the rows after the first batch.
fn drain_rest(source: &mut dyn Source) -> (Vec<Row>, Option<JobError>) {
    let mut rows = Vec::new();
    loop {
        match source.next_batch() {
            Ok(Some(batch)) => rows.extend(batch),
            Ok(None) => return (rows, None),
            Err(error) => return (rows, Some(error)),
        }
    }
}

/// The incomplete line may look like a different URL, which the input never had.
#[test]
fn a_line_that_was_incomplete_when_the_file_was_opened_is_no_row_and_a_note_says_so() {
    let files = Files::new();
    let all = lines(COUNT);
    for (name, header, around, compress) in FORMS {
        let mut half = text(header, around, &all);
        let whole = half.len();
        half.truncate(whole - 3);
        for skips in [false, true] {
            let options = old(&files, name, compress(half.as_bytes()));
            let mut source = open(&options);
            append(&options, &compress(&text(header, around, &all).as_bytes()[whole - 3..]));
            if skips {
                source.skip_to(COUNT as u64 + 5).expect("a good file");
                assert_eq!(Ok(None), source.next_batch());
                assert_eq!(Some(COUNT as u64 - 1), source.size().rows, "{name}");
            } else {
                let (rows, error) = drain(source.as_mut());
                assert_eq!(None, error, "{name}");
                assert_same(&all[..COUNT - 1], &rows);
            }
            let note = note(&files, source.as_ref()).expect("a note");
            assert!(note.ends_with(", without the last line, which was still being written"), "{note}");
        }
    }
}

#[test]
fn a_last_line_without_a_line_ending_is_a_row_if_added_bytes_begin_with_one() {
    let files = Files::new();
    for added in ["\nhttp://c/\n", "\r\nhttp://c/\r\n", ""] {
        let options = old(&files, "urls.txt", "http://a/\nhttp://b/");
        let mut source = open(&options);
        append(&options, added.as_bytes());
        let (rows, error) = drain(source.as_mut());
        assert_eq!((["http://a/", "http://b/"].as_slice(), None), (urls(&rows).as_slice(), error), "{added:?}");
    }
}

#[test]
fn a_file_that_is_truncated_while_it_is_read_yields_whole_rows_and_then_an_error_with_the_position() {
    let files = Files::new();
    let all = lines(COUNT);
    for (name, header, around, compress) in FORMS {
        let options = old(&files, name, compress(text(header, around, &all).as_bytes()));
        let then = size(&options);
        let mut source = open(&options);
        let mut read = source.next_batch().expect("a good file").expect("rows");
        let now = then - 10;
        cut(&options, now);
        let (rest, error) = drain_rest(source.as_mut());
        read.extend(rest);
        assert!(read.len() < COUNT, "{name}");
        assert_same(&all[..read.len()], &read);
        let message = files.message(error.as_ref().expect("an error"));
        let start = format!(
            "{name}: truncated while it was read: it had {} bytes when it was opened, now {}, at byte ",
            grouped(then),
            grouped(now)
        );
        assert!(message.starts_with(&start), "{message}");
        let end =
            format!(", after {} rows; restore the file to resume, or start over with if_exists=overwrite", read.len());
        assert!(message.ends_with(&end), "{message}");
        assert_eq!(Err(error.expect("an error")), source.next_batch(), "the error stays");
    }
}

/// Returns the number with separators, such as `1,024`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut groups = vec![&digits[..first]];
    groups.extend((first..digits.len()).step_by(3).map(|at| &digits[at..at + 3]));
    groups.retain(|group| !group.is_empty());
    groups.join(",")
}

#[test]
fn a_file_that_is_truncated_and_grows_to_its_old_size_is_detected() {
    let files = Files::new();
    let all = lines(COUNT);
    for again in [lines(COUNT + 1).split_off(1), lines(COUNT + 2).split_off(1)] {
        let options = old(&files, "urls.txt", text("", ["", ""], &all));
        let mut source = open(&options);
        source.next_batch().expect("a good file");
        cut(&options, 0);
        append(&options, text("", ["", ""], &again).as_bytes());
        let (_, error) = drain_rest(source.as_mut());
        let message = files.message(&error.expect("another content"));
        assert!(
            message.starts_with("urls.txt: changed while it was read (first 64 KiB differ, last 64 KiB differ), "),
            "{message}"
        );
    }
}

#[test]
fn a_change_in_place_is_detected_before_a_changed_row_is_returned() {
    let files = Files::new();
    let all = lines(COUNT);
    for (place, differs) in [(0, "first"), (size_of(&all) - 40, "last")] {
        let options = old(&files, "urls.txt", text("", ["", ""], &all));
        let mut source = open(&options);
        let mut read = source.next_batch().expect("a good file").expect("rows");
        let buffered = 256 * 1024 / (all[0].len() + 1);
        write_at(&options, place, b"ftp:");
        let (rest, error) = drain_rest(source.as_mut());
        read.extend(rest);
        assert!(read.len() <= buffered, "{} rows", read.len());
        assert_same(&all[..read.len()], &read);
        let message = files.message(&error.expect("an error"));
        let start = format!("urls.txt: changed while it was read ({differs} 64 KiB differ), at byte ");
        assert!(message.starts_with(&start), "{message}");
    }
}

fn size_of(lines: &[String]) -> u64 {
    lines.iter().map(|line| line.len() as u64 + 1).sum()
}

/// The rows are already in the reader's buffer, so only a check at the end can detect the change.
#[test]
fn a_small_file_that_is_truncated_before_its_end_was_read_is_detected() {
    let files = Files::new();
    let options = old(&files, "urls.txt", text("", ["", ""], &lines(1500)));
    let mut source = open(&options);
    source.next_batch().expect("a good file").expect("rows");
    cut(&options, 100);
    let (_, error) = drain_rest(source.as_mut());
    assert!(files.message(&error.expect("an error")).starts_with("urls.txt: truncated while it was read: "));
}

/// This is like a change within the same tick of the clock: both ends of the file are compared in any case.
#[test]
fn a_change_whose_modification_time_was_restored_is_detected_at_the_end() {
    let files = Files::new();
    let parquet = fs::read(crate::skip::parquet(&files).input).expect("a file");
    let cases = [("urls.txt", text("", ["", ""], &lines(1500)).into_bytes()), ("urls.parquet", parquet)];
    for (name, bytes) in cases {
        let options = old(&files, name, &bytes);
        let mut source = open(&options);
        source.next_batch().expect("a good file").expect("rows");
        write_at(&options, bytes.len() as u64 - 5, b"~");
        set_time(&options, 1_000_000_000);
        let (_, error) = drain_rest(source.as_mut());
        let message = files.message(&error.expect("another content"));
        assert!(message.starts_with(&format!("{name}: changed while it was read (")), "{message}");
    }
}

#[test]
fn a_touched_file_is_read_to_its_end_with_a_note() {
    let files = Files::new();
    let all = lines(COUNT);
    for (name, compress) in [("urls.txt", PLAIN), ("urls.txt.gz", gzip)] {
        let options = old(&files, name, compress(text("", ["", ""], &all).as_bytes()));
        let mut source = open(&options);
        source.next_batch().expect("a good file");
        assert_eq!(None, note(&files, source.as_ref()));
        set_time(&options, 1_000_000_001);
        let (_, error) = drain_rest(source.as_mut());
        assert_eq!(None, error);
        assert_eq!(Some(COUNT as u64), source.size().rows);
        assert_eq!(
            Some(format!(
                "{name} was written to while it was read: its size and its first and last 64 KiB are unchanged; if something in between was changed, rows may be from either version: start over with if_exists=overwrite"
            )),
            note(&files, source.as_ref())
        );
    }
}

#[test]
fn a_file_that_is_replaced_by_a_rename_is_read_as_it_was() {
    let files = Files::new();
    let all = lines(COUNT);
    let options = old(&files, "urls.txt", text("", ["", ""], &all));
    let mut source = open(&options);
    let mut read = source.next_batch().expect("a good file").expect("rows");
    let other = files.write("other.txt", "http://other/\n");
    fs::rename(&other.input, &options.input).expect("a file to rename");
    let (rest, error) = drain_rest(source.as_mut());
    read.extend(rest);
    assert_eq!((None, None), (error, source.note()));
    assert_same(&all, &read);
}

#[test]
fn a_parquet_file_that_is_rewritten_in_place_is_detected() {
    let files = Files::new();
    let options = crate::skip::parquet(&files);
    let bytes = fs::read(&options.input).expect("a file");
    let mut other = bytes.clone();
    let place = bytes.len() - 100;
    other[place] ^= 1;
    let whole = rows(&options).len();
    let cases: [(&[u8], &str); 3] = [
        (&bytes[..bytes.len() / 2], "truncated while it was read: it had "),
        (b"PAR1", "truncated while it was read: it had "),
        (&other, "changed while it was read ("),
    ];
    for (now, expected) in cases {
        let options = old(&files, "urls.parquet", &bytes);
        let mut source = open(&options);
        let first = source.next_batch().expect("a good file").expect("rows");
        fs::write(&options.input, now).expect("room");
        let (rest, error) = drain_rest(source.as_mut());
        assert!(first.len() + rest.len() < whole);
        let message = files.message(&error.expect("another file"));
        assert!(message.starts_with(&format!("urls.parquet: {expected}")), "{message}");
        assert!(message.contains(", in row group "), "{message}");
    }
}
