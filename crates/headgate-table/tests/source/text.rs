use std::io::Write as _;
use std::process::{Command, Stdio};

use headgate_core::options::SourceOptions;
use headgate_core::row::{MAX_BATCH_BYTES, MAX_URL_BYTES};
use headgate_core::source_size::SourceSize;
use proptest::prelude::*;

use crate::{Files, defects, drain, open, rows, urls};

#[test]
fn a_text_file_has_one_url_per_line_whatever_its_line_endings_and_blank_lines() {
    let cases: [(&str, &[&str]); 8] = [
        ("", &[]),
        ("\n \r\n\t\n", &[]),
        ("http://a/\nhttp://b/\n", &["http://a/", "http://b/"]),
        ("http://a/\r\nhttp://b/", &["http://a/", "http://b/"]),
        ("\u{feff}http://a/\n", &["http://a/"]),
        ("\u{feff}", &[]),
        ("\n  http://a/ \t\n\n\nhttp://b/\r\n\n", &["http://a/", "http://b/"]),
        ("# not a comment\n", &["# not a comment"]),
    ];
    let files = Files::new();
    for (text, expected) in cases {
        let rows = rows(&files.write("urls.txt", text));
        assert_eq!(expected, urls(&rows), "{text:?}");
        assert!(rows.iter().all(|row| row.extra.is_none()), "{text:?}");
    }
}

#[test]
fn a_line_that_is_not_utf_8_is_a_defect_of_its_row_and_the_job_continues() {
    let files = Files::new();
    let rows = rows(&files.write("urls.txt", b"http://a/\n\nhttp://b/\xFFx\nhttp://c/"));
    assert_eq!(["http://a/", "http://b/\u{fffd}x", "http://c/"].as_slice(), urls(&rows));
    assert_eq!(
        [None, Some("the URL is not UTF-8 (line 3: byte 0xFF after 9 valid ones)"), None].as_slice(),
        defects(&rows)
    );
}

#[test]
fn a_line_of_10_mb_is_a_defect_that_shows_only_its_beginning() {
    let files = Files::new();
    let long = format!("http://a/{}", "é".repeat(5_000_000));
    let rows = rows(&files.write("urls.txt", format!("{long}\nhttp://b/\n")));
    assert_eq!([Some("the URL is longer than 65536 bytes (line 1)"), None].as_slice(), defects(&rows));
    // 9 bytes and then characters of 2: the last one that fits into 256 bytes ends at 255.
    assert_eq!([&long[..255], "http://b/"].as_slice(), urls(&rows));
}

#[test]
fn a_url_of_the_maximum_length_is_read_completely() {
    let files = Files::new();
    for line_end in ["\n", "\r\n", ""] {
        let longest = "u".repeat(MAX_URL_BYTES);
        let read = rows(&files.write("urls.txt", format!("{longest}{line_end}")));
        assert_eq!([longest.as_str()].as_slice(), urls(&read));
        assert_eq!([None].as_slice(), defects(&read));

        let read = rows(&files.write("urls.txt", format!("{longest}u{line_end}")));
        assert_eq!([Some("the URL is longer than 65536 bytes (line 1)")].as_slice(), defects(&read));
    }
}

#[test]
fn batches_are_bounded_in_bytes() {
    let files = Files::new();
    let line = format!("{}\n", "u".repeat(60_000));
    let mut source = open(&files.write("urls.txt", line.repeat(100)));
    let mut lengths = Vec::new();
    while let Some(batch) = source.next_batch().expect("a good file") {
        assert!(batch.iter().map(|row| row.url.len()).sum::<usize>() < MAX_BATCH_BYTES + 60_000);
        lengths.push(batch.len());
    }
    assert_eq!(vec![18, 18, 18, 18, 18, 10], lengths);
}

#[test]
fn the_size_is_known_in_bytes_and_at_the_end_in_rows() {
    let files = Files::new();
    let mut source = open(&files.write("urls.txt", "http://a/\nhttp://b/\n"));
    assert_eq!(SourceSize { rows: None, bytes: Some(20), bytes_read: 0 }, source.size());
    drain(source.as_mut());
    assert_eq!(SourceSize { rows: Some(2), bytes: Some(20), bytes_read: 20 }, source.size());
}

#[test]
fn extensions_are_recognised_in_any_case() {
    let files = Files::new();
    assert_eq!(["http://a/"].as_slice(), urls(&rows(&files.write("URLS.TXT", "http://a/"))));
}

proptest! {
    #[test]
    fn lines_of_any_text_are_the_rows_of_a_naive_split(text in "[a-c \\r\\n\u{e9}]{0,300}") {
        let files = Files::new();
        let rows = rows(&files.write("urls.txt", &text));
        let lines = text.split('\n').map(|line| line.trim_matches(|c: char| c.is_ascii_whitespace()));
        let expected: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        prop_assert_eq!(expected, urls(&rows));
    }
}

/// Standard input belongs to the process, so the test runs itself as another one.
#[test]
fn standard_input_has_one_url_per_line() {
    const CHILD: &str = "HEADGATE_TEST_READS_STDIN";
    if std::env::var_os(CHILD).is_some() {
        let options = SourceOptions { input: "-".into(), ..SourceOptions::default() };
        assert_eq!(["http://a/", "http://b/"].as_slice(), urls(&rows(&options)));
        return;
    }
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "text::standard_input_has_one_url_per_line"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("this test as a process");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all("\u{feff}http://a/\r\n\nhttp://b/".as_bytes()).expect("a child that reads");
    drop(stdin);
    assert!(child.wait().expect("an end").success());
}
