//! An input that is read a second time while another reader reads it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::thread;

use crate::skip::read_plainly;
use crate::{Files, drain, drain_from, open, options, urls};

#[test]
fn concurrent_readers_of_an_input_have_the_same_rows() {
    let files = Files::new();
    for whole in read_plainly(&files) {
        let mut first = open(&whole.options);
        // One of the readers is ahead.
        let ahead = first.next_batch().expect("rows").expect("rows");
        let again = first.reopener().expect("it can be read again");
        assert_eq!(whole.options.name(), again.name);
        let rest = thread::scope(|scope| {
            let other = scope.spawn(|| {
                for _ in 0..8 {
                    let (rows, error) = drain(again.open().expect("an input that can be read").as_mut());
                    assert!(error.is_none() && rows == whole.rows, "{} once more: {error:?}", whole.options.input);
                }
            });
            let rest = drain_from(first.as_mut(), ahead.len() as u64).0;
            other.join().expect("the same rows");
            rest
        });
        assert!([ahead, rest].concat() == whole.rows, "{}", whole.options.input);
    }
}

#[test]
fn a_last_line_that_was_a_row_is_the_same_row_again_although_the_file_grows() {
    let files = Files::new();
    let options = files.write("urls.txt", "http://a/\nhttp://b/");
    let mut source = open(&options);
    assert_eq!(2, drain(source.as_mut()).0.len());
    let mut file = OpenOptions::new().append(true).open(&options.input).expect("the file");
    file.write_all(b"c\nhttp://d/\n").expect("appended");
    let mut again = source.reopener().expect("a file").open().expect("it was not changed");
    assert_eq!(["http://a/", "http://b/"].as_slice(), urls(&drain(again.as_mut()).0));
}

#[test]
fn a_pipe_cannot_be_read_again() {
    assert!(open(&options("-".as_ref())).reopener().is_none());
}
