//! `*` among the columns to keep, for formats in which each line has its own columns.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Fields, Schema};
use headgate_core::options::SourceOptions;
use headgate_table::source::kept_columns::decided;

use crate::keep::kept;
use crate::{Files, defects, drain, open, open_error};

fn keep(names: &[&str], options: SourceOptions) -> SourceOptions {
    SourceOptions { keep: names.iter().map(ToString::to_string).collect(), ..options }
}

fn text_columns(columns: &[(&str, &[Option<&str>])]) -> RecordBatch {
    let fields: Fields = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, true)).collect();
    let arrays = columns.iter().map(|(_, texts)| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns")
}

fn names(options: &SourceOptions) -> Vec<String> {
    decided(options).expect("an input to look at").kept_columns.clone().expect("lines")
}

#[test]
fn all_columns_of_the_first_lines_are_kept_in_their_order() {
    let files = Files::new();
    let text = "{\"url\":\"http://a/\",\"b\":1.50}\nno json\n{\"a\":\"x\",\"url\":\"http://b/\",\"b\":null}\n";
    let options = files.write("urls.ndjson", text);
    let (b, a) = (("b", &[Some("1.50"), None, None][..]), ("a", &[None, None, Some("x")][..]));
    let rest = ("kept_rest", &[None, None, None][..]);
    assert_eq!(text_columns(&[b, a, rest]), kept(&keep(&["*"], options.clone())));
    assert_eq!(text_columns(&[a, b, rest]), kept(&keep(&["a", "*"], options.clone())));
    let elsewhere = SourceOptions { url_column: "a".into(), ..options };
    // A row without a URL fails, and keeps its columns.
    let url = ("url", &[Some("http://a/"), None, Some("http://b/")][..]);
    assert_eq!(text_columns(&[url, b, a, rest]), kept(&keep(&["*"], elsewhere)));
}

#[test]
fn the_remaining_fields_of_a_line_are_kept_as_json_in_one_more_column() {
    let files = Files::new();
    let mut text = "{\"url\":\"http://a/\",\"id\":1}\n".repeat(1_000);
    let late = "{\"new\": {\"n\": [1.0,  2]},\"id\":2,\"url\":\"http://b/\",\"m\\\"\\u00e9\":\"\\u00e9\",\"none\":null,\"body\":\"sent\",\"new\":3}\n";
    text.push_str(late);
    let options = keep(&["*"], files.write("urls.ndjson", text));
    let all = kept(&options);
    assert_eq!(
        ["id", "kept_rest"],
        *all.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>()
    );
    let rest = all.column(1).as_string::<i32>();
    assert_eq!(1_000, rest.iter().filter(Option::is_none).count());
    let expected = r#"{"new":{"n": [1.0,  2]},"m\"é":"\u00e9","none":null,"body":"sent","new":3}"#;
    assert_eq!(expected, rest.value(1_000));

    let (rows, _) = drain(open(&options).as_mut());
    let sent = rows.last().and_then(|row| row.extra.as_ref()?.body.clone());
    assert!(sent.is_some(), "what is kept is used all the same");
}

#[test]
fn the_columns_do_not_change_after_they_were_found() {
    let files = Files::new();
    let options = keep(&["*"], files.write("urls.ndjson", "{\"url\":\"http://a/\",\"id\":1}\n"));
    let begun = decided(&options).expect("a file").into_owned();
    let mut file = OpenOptions::new().append(true).open(&begun.input).expect("the file");
    file.write_all(b"{\"url\":\"http://b/\",\"tag\":\"x\"}\n").expect("written");
    let (id, rest) = (("id", &[Some("1"), None][..]), ("kept_rest", &[None, Some("{\"tag\":\"x\"}")][..]));
    assert_eq!(text_columns(&[id, rest]), kept(&begun));
    assert_eq!(["id", "tag"], *names(&options));
}

#[test]
fn several_files_share_the_columns_of_their_first_lines_and_of_their_directories() {
    let files = Files::new();
    for directory in ["data/day=1", "data/day=2/hour=3"] {
        std::fs::create_dir_all(files.path(directory)).expect("made");
    }
    files.write("data/day=1/0.ndjson", "{\"url\":\"http://a/\",\"id\":1}\n");
    let options = files.write("data/day=2/hour=3/1.ndjson", "{\"tag\":\"x\",\"url\":\"http://b/\",\"day\":9}\n");
    let data = options.input.split_once("/day=").expect("the path").0;
    let options = keep(&["*"], SourceOptions { input: data.into(), ..options });
    let expected = [
        ("id", &[Some("1"), None][..]),
        ("tag", &[None, Some("x")]),
        ("day", &[Some("1"), Some("2")]),
        ("hour", &[None, Some("3")]),
        ("kept_rest", &[None, None]),
    ];
    assert_eq!(text_columns(&expected), kept(&options));

    let begun = SourceOptions { kept_columns: Some(vec!["id".into()]), ..options };
    let rest = [Some("{\"day\":\"1\"}"), Some("{\"tag\":\"x\",\"day\":9,\"day\":\"2\",\"hour\":\"3\"}")];
    assert_eq!(text_columns(&[("id", &[Some("1"), None]), ("kept_rest", &rest)]), kept(&begun));
}

#[test]
fn a_line_that_is_not_an_object_is_a_row_without_columns() {
    let files = Files::new();
    let options = keep(&["*"], files.write("urls.ndjson", "[]\n"));
    assert_eq!(text_columns(&[("kept_rest", &[None])]), kept(&options));
    let (rows, _) = drain(open(&options).as_mut());
    assert_eq!(1, defects(&rows).iter().flatten().count());
}

#[test]
fn a_column_with_the_name_of_the_remaining_fields_and_a_pipe_are_refused() {
    let files = Files::new();
    let options = keep(&["*"], files.write("urls.ndjson", "{\"url\":\"http://a/\",\"kept_rest\":\"x\"}\n"));
    assert_eq!(
        "urls.ndjson: the column \"kept_rest\" can't be kept: by that name the result has what lines have beyond its columns; list the columns to keep, without *, in keep",
        files.message(&open_error(&options))
    );
    let pipe = files.write("pipe.ndjson", "");
    std::fs::remove_file(&pipe.input).expect("removed");
    assert!(std::process::Command::new("mkfifo").arg(&pipe.input).status().expect("mkfifo").success());
    assert_eq!(
        "pipe.ndjson: each line has its own columns, and what can be read only once can't be looked at before its first row: list those to keep, without *, in keep",
        files.message(&open_error(&keep(&["*"], pipe)))
    );
}
