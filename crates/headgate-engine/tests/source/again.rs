//! An input that is read once more beside whoever reads it.

use std::fs::OpenOptions;
use std::io::Write as _;

use headgate_engine::model::row::Row;
use headgate_engine::source::Source;

use crate::skip::read_plainly;
use crate::{Files, drain, open, options, urls};

/// Reads one batch. Whether there was one.
fn read_on(source: &mut dyn Source, rows: &mut Vec<Row>) -> bool {
    let batch = source.next_batch().expect("an input that can be read");
    batch.map(|batch| rows.extend(batch)).is_some()
}

#[test]
fn two_who_read_an_input_in_turns_have_the_same_rows() {
    let files = Files::new();
    for whole in read_plainly(&files) {
        let mut first = open(&whole.options);
        let (mut rows, mut rows_again) = (Vec::new(), Vec::new());
        read_on(first.as_mut(), &mut rows);
        let again = first.again().expect("it can be read again");
        assert_eq!(whole.options.input, again.name);
        let mut again = again.open().expect("an input that can be read");
        while read_on(again.as_mut(), &mut rows_again) | read_on(first.as_mut(), &mut rows) {}
        assert!(rows == whole.rows && rows_again == whole.rows, "{}", whole.options.input);
        assert_eq!(first.kept_fields(), again.kept_fields());
    }
}

#[test]
fn a_last_line_that_was_a_row_is_one_again_although_somebody_writes_on() {
    let files = Files::new();
    let options = files.write("urls.txt", "http://a/\nhttp://b/");
    let mut source = open(&options);
    assert_eq!(2, drain(source.as_mut()).0.len());
    let mut file = OpenOptions::new().append(true).open(&options.input).expect("the file");
    file.write_all(b"c\nhttp://d/\n").expect("appended");
    let mut again = source.again().expect("a file").open().expect("it was not changed");
    assert_eq!(["http://a/", "http://b/"].as_slice(), urls(&drain(again.as_mut()).0));
}

#[test]
fn what_comes_from_a_pipe_cannot_be_read_again() {
    assert!(open(&options("-".as_ref())).again().is_none());
}
