use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Fields, Schema};
use headgate_core::options::SourceOptions;
use headgate_table::columns::kept::KeptCodec;

use crate::{Files, defects, drain, open};

fn keep(names: &[&str], options: SourceOptions) -> SourceOptions {
    SourceOptions { keep: names.iter().map(ToString::to_string).collect(), ..options }
}

/// Returns the kept columns as they would be in the result.
pub fn kept(options: &SourceOptions) -> RecordBatch {
    let mut source = open(options);
    let fields = source.kept_fields();
    let (rows, error) = drain(source.as_mut());
    assert_eq!(None, error);
    let encoded: Vec<_> = rows.into_iter().map(|row| row.extra.and_then(|extra| extra.kept)).collect();
    let columns =
        KeptCodec::new(&fields).expect("fields that the source accepted").decode(encoded.iter().map(Option::as_deref));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.expect("what the source encoded")).expect("columns")
}

fn text_columns(columns: &[(&str, &[Option<&str>])]) -> RecordBatch {
    let fields: Fields = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, true)).collect();
    let arrays = columns.iter().map(|(_, texts)| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns")
}

#[test]
fn csv_columns_are_kept_as_text_in_the_requested_order_and_each_once() {
    let files = Files::new();
    let options = files.write("urls.csv", "id,url,tag\n1,http://a/,x\n2,http://b/,\nragged\n4,http://d/,z\n");
    let expected = text_columns(&[
        ("tag", &[Some("x"), Some(""), None, Some("z")]),
        ("id", &[Some("1"), Some("2"), None, Some("4")]),
    ]);
    assert_eq!(expected, kept(&keep(&["tag", "id", "tag"], options)));
}

#[test]
fn ndjson_values_are_kept_as_text_and_other_types_as_their_json() {
    let files = Files::new();
    let options = files.write(
        "urls.ndjson",
        "{\"url\":\"http://a/\",\"id\":\"\\u00e9\"}\n{\"url\":\"http://b/\",\"id\":1.50}\nno json\n\
         {\"url\":\"http://c/\",\"id\":{\"a\": []}}\n{\"url\":\"http://d/\",\"id\":null}\n{\"url\":\"http://e/\"}\n",
    );
    let expected = text_columns(&[("id", &[Some("é"), Some("1.50"), None, Some("{\"a\": []}"), None, None])]);
    assert_eq!(expected, kept(&keep(&["id"], options)));
}

#[test]
fn the_url_column_may_be_kept_under_its_own_name() {
    let files = Files::new();
    for (name, text) in [("urls.csv", "link\nhttp://a/\n"), ("urls.ndjson", "{\"link\":\"http://a/\"}\n")] {
        let options = SourceOptions { url_column: "link".into(), ..keep(&["link"], files.write(name, text)) };
        assert_eq!(text_columns(&[("link", &[Some("http://a/")])]), kept(&options), "{name}");
    }
}

#[test]
fn all_columns_but_the_url_column_are_kept_in_their_order() {
    let files = Files::new();
    let options = files.write("urls.csv", "id,url,tag\n1,http://a/,x\n");
    let id = ("id", &[Some("1")][..]);
    let (url, tag) = (("url", &[Some("http://a/")][..]), ("tag", &[Some("x")][..]));
    assert_eq!(text_columns(&[id, tag]), kept(&keep(&["*"], options.clone())));
    assert_eq!(text_columns(&[tag, id]), kept(&keep(&["tag", "*"], options.clone())));
    assert_eq!(text_columns(&[id, tag, url]), kept(&keep(&["*", "url"], options.clone())));
    let elsewhere = SourceOptions { url_column: "tag".into(), ..options.clone() };
    assert_eq!(text_columns(&[id, url, tag]), kept(&keep(&["*"], elsewhere)));
    let made = SourceOptions { url: Some("http://a/{id}".into()), ..options };
    assert_eq!(text_columns(&[id, url, tag]), kept(&keep(&["*"], made)));
}

#[test]
fn every_row_has_its_own_kept_columns_across_batches() {
    let files = Files::new();
    let ids: Vec<String> = (0..5000).map(|id| id.to_string()).collect();
    let text = format!("url,id\nhttp://a/,{}\n", ids.join("\nhttp://a/,"));
    let options = keep(&["id"], files.write("urls.csv", text));
    let expected: Vec<Option<&str>> = ids.iter().map(|id| Some(id.as_str())).collect();
    assert_eq!(text_columns(&[("id", &expected)]), kept(&options));
}

#[test]
fn kept_columns_count_toward_the_bytes_of_a_batch() {
    let files = Files::new();
    let line = format!("http://a/,{}\n", "x".repeat(500_000));
    let mut source = open(&keep(&["id"], files.write("urls.csv", format!("url,id\n{}", line.repeat(10)))));
    let mut lengths = Vec::new();
    while let Some(batch) = source.next_batch().expect("a good file") {
        lengths.push(batch.len());
    }
    assert_eq!(vec![3, 3, 3, 1], lengths);
}

#[test]
fn a_kept_cell_that_is_not_utf_8_is_a_defect() {
    let files = Files::new();
    let options = keep(&["id"], files.write("urls.csv", b"url,id\nhttp://a/,\xE9\n"));
    let (rows, _) = drain(open(&options).as_mut());
    assert_eq!(
        [Some("the column \"id\" is not UTF-8 (line 2: byte 0xE9 after 0 valid ones)")].as_slice(),
        defects(&rows)
    );
}
