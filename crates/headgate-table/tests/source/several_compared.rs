//! Several files that were read before are identified by their rows, whatever happened to the files.

use std::fs;

use headgate_core::options::SourceOptions;
use headgate_table::source::compared::{Beyond, InputThen};

use crate::Files;
use crate::compared::{check_refused, compared, read};
use crate::several::{column, inputs, parquet, write_as};

fn lines(rows: impl IntoIterator<Item = u64>) -> String {
    let urls: Vec<String> = rows.into_iter().map(|row| format!("http://host/{row}")).collect();
    urls.join("\n") + "\n"
}

/// Writes three files of ten rows each.
fn three(files: &Files) -> SourceOptions {
    for (name, first) in [("a", 0), ("b", 10), ("c", 20)] {
        write_as(files, &format!("d/{name}.txt"), lines(first..first + 10));
    }
    inputs(files, &["d"])
}

fn check_same(rows: usize, files: &Files, options: &SourceOptions, then: &InputThen, beyond: Beyond) {
    assert_eq!(Ok(rows), compared(files, options, then, beyond).map(|rows| rows.len()));
}

#[test]
fn the_same_rows_are_the_same_input_however_they_are_split_into_files() {
    let files = Files::new();
    let then = read(&three(&files), None);
    write_as(&files, "d/b.txt", "");
    write_as(&files, "d/bb.txt", lines(10..13));
    write_as(&files, "d/c.txt", format!("\n{}", lines(13..30)));
    let now = inputs(&files, &["d"]);
    for beyond in [Beyond::Same, Beyond::Grown, Beyond::Anything] {
        check_same(30, &files, &now, &then, beyond);
    }
    // Neither their location nor their names matter.
    fs::rename(files.path("d"), files.path("e")).expect("moved");
    fs::rename(files.path("e/a.txt"), files.path("e/0.txt")).expect("moved");
    check_same(30, &files, &inputs(&files, &["e/*.txt"]), &then, Beyond::Same);
}

#[test]
fn a_changed_row_is_named_with_its_file() {
    let files = Files::new();
    let then = read(&three(&files), None);
    write_as(&files, "d/b.txt", lines(10..20).replace("/13\n", "/x\n"));
    let expected = "d/b.txt, of 3 files: row 13 has changed since it was read: restore the file to resume";
    for beyond in [Beyond::Same, Beyond::Grown, Beyond::Anything] {
        check_refused(expected, &files, &inputs(&files, &["d"]), &then, beyond);
    }
}

#[test]
fn a_file_added_after_all_others_is_growth_and_one_added_before_them_is_not() {
    let files = Files::new();
    let then = read(&three(&files), None);
    write_as(&files, "d/d.txt", lines(30..33));
    let now = inputs(&files, &["d"]);
    check_refused("d: it has only grown: its first 30 rows are unchanged", &files, &now, &then, Beyond::Same);
    check_same(33, &files, &now, &then, Beyond::Grown);
    fs::rename(files.path("d/d.txt"), files.path("d/bb.txt")).expect("renamed");
    check_refused("d/bb.txt, of 4 files: row 20 has changed", &files, &now, &then, Beyond::Grown);
    fs::remove_file(files.path("d/bb.txt")).expect("a file");
    write_as(&files, "d/c.txt", lines(20..35));
    check_refused("d: it has only grown: its first 30 rows are unchanged", &files, &now, &then, Beyond::Same);
    check_same(35, &files, &now, &then, Beyond::Grown);
}

#[test]
fn a_missing_file_is_detected() {
    let files = Files::new();
    let then = read(&three(&files), None);
    fs::remove_file(files.path("d/c.txt")).expect("a file");
    let now = inputs(&files, &["d"]);
    check_refused("d: truncated: it has 20 rows now, and had at least 30", &files, &now, &then, Beyond::Grown);

    // Only the size is known of rows that were never read.
    let then = read(&three(&files), Some(5));
    fs::remove_file(files.path("d/c.txt")).expect("a file");
    check_refused("d: truncated: it has 290 bytes now, and had 440", &files, &now, &then, Beyond::Same);
    write_as(&files, "d/c.txt", lines(20..31));
    check_refused("d: it has only grown: its first 5 rows", &files, &now, &then, Beyond::Same);
    check_same(31, &files, &now, &then, Beyond::Grown);
}

#[test]
fn directory_columns_are_part_of_the_rows_if_they_are_used() {
    let files = Files::new();
    write_as(&files, "d/x=1/a.csv", "url\nhttp://a/\n");
    write_as(&files, "d/x=2/b.csv", "url\nhttp://b/\n");
    let plain = inputs(&files, &["d"]);
    let keeping = SourceOptions { keep: vec!["x".into()], ..plain.clone() };
    let (then, then_keeping) = (read(&plain, None), read(&keeping, None));
    fs::rename(files.path("d/x=2"), files.path("d/x=3")).expect("renamed");
    check_same(2, &files, &plain, &then, Beyond::Same);
    check_refused("d/x=3/b.csv, of 2 files: row 1 has changed", &files, &keeping, &then_keeping, Beyond::Grown);
}

#[test]
fn columns_in_a_different_order_make_different_rows() {
    let files = Files::new();
    write_as(&files, "d/a.csv", "url,id\nhttp://a/,http://b/\n");
    write_as(&files, "d/b.csv", "url,id\nhttp://a/,http://b/\n");
    let then = read(&inputs(&files, &["d"]), None);
    write_as(&files, "d/b.csv", "id,url\nhttp://a/,http://b/\n");
    check_refused("d/b.csv, of 2 files: row 1 has changed", &files, &inputs(&files, &["d"]), &then, Beyond::Same);
}

#[test]
fn a_difference_in_parquet_files_names_the_block_of_rows() {
    let files = Files::new();
    let write = |file: &str, row: &str| {
        let urls = [format!("http://{file}/0"), format!("http://{file}/{row}")];
        parquet(&files, &format!("d/{file}.parquet"), &[("url", column(urls.iter().map(String::as_str)))]);
    };
    for file in ["a", "b", "c"] {
        write(file, "1");
    }
    let whole = inputs(&files, &["d"]);
    let then = read(&whole, None);
    for (file, row) in [("a", 0), ("b", 2), ("c", 4)] {
        write(file, "x");
        let expected = format!("d/{file}.parquet, of 3 files: row {row} or one of the 1 after it has changed");
        check_refused(&expected, &files, &whole, &then, Beyond::Grown);
        write(file, "1");
        check_same(6, &files, &whole, &then, Beyond::Same);
    }
}
