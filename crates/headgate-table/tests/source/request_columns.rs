//! A row determines its URL, and nothing else unless an option names the column.

use std::fs::File;
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use headgate_core::options::{SourceOptions, Templates};

use crate::{Files, body, defects, headers, method, open_error, rows, urls};

fn plain(options: SourceOptions) -> SourceOptions {
    SourceOptions { input: options.input, ..SourceOptions::default() }
}

/// Returns the same row as a file of each format.
fn lists(files: &Files) -> [SourceOptions; 3] {
    let text = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let columns = [("url", text("http://a/")), ("method", text("PUT")), ("body", text("sent"))];
    let records = RecordBatch::try_from_iter(columns).expect("columns");
    let path = files.path("rows.parquet");
    let mut writer =
        ArrowWriter::try_new(File::create(&path).expect("a file"), records.schema(), None).expect("a schema");
    writer.write(&records).expect("rows");
    writer.close().expect("an end");
    [
        files.write("rows.csv", "url,method,body\nhttp://a/,PUT,sent\n"),
        files.write("rows.ndjson", r#"{"url":"http://a/","method":"PUT","body":"sent"}"#),
        crate::options(&path),
    ]
    .map(plain)
}

#[test]
fn columns_of_requests_besides_the_url_are_refused_unless_named_or_excluded() {
    let files = Files::new();
    for options in lists(&files) {
        let error = match open_first(&options) {
            Ok(()) => panic!("{} is read", options.input),
            Err(error) => files.message(&error),
        };
        let end = "the columns \"method\", \"body\" set more of a request than its URL: use them with \
                   method_column='method' and body_column='body', or leave them with url_only=true";
        assert!(error.replace("=method", "='method'").replace("=body", "='body'").ends_with(end), "{error}");

        let dismissed = rows(&SourceOptions { url_only: true, ..options.clone() });
        assert_eq!((None, None), (method(&dismissed[0]), body(&dismissed[0])), "{}", options.input);
        let named = SourceOptions { method_column: Some("method".into()), ..options.clone() };
        assert!(open_first(&named).is_err(), "the body is not named: {}", options.input);
        let named = rows(&SourceOptions { body_column: Some("body".into()), ..named });
        assert_eq!((Some("PUT"), Some(&b"sent"[..])), (method(&named[0]), body(&named[0])), "{}", options.input);
    }
}

/// Opens an input, and reads its first batch.
fn open_first(options: &SourceOptions) -> Result<(), headgate_core::error::JobError> {
    let mut source = headgate_table::source::open::open(options)?;
    source.next_batch().map(drop)
}

#[test]
fn a_later_line_with_more_than_its_url_is_a_defect_of_its_row() {
    let files = Files::new();
    let text = "{\"url\":\"http://a/\"}\n{\"url\":\"http://b/\",\"headers\":{\"a\":\"b\"}}\n{\"url\":\"http://c/\"}\n";
    let read = rows(&plain(files.write("rows.ndjson", text)));
    assert_eq!(["http://a/", "", "http://c/"].as_slice(), urls(&read));
    let defect = "it sets more of its request than the URL, which no option names (line 2: \"headers\")";
    assert_eq!([None, Some(defect), None].as_slice(), defects(&read));
}

/// The class of CVE-2023-37276 (aiohttp) and of request smuggling: these headers choose another host, or the end of a
/// request.
#[test]
fn headers_of_the_connection_are_never_taken_from_a_row() {
    let files = Files::new();
    for name in ["Host", "proxy-authorization", "Transfer-Encoding", "Content-Length", "connection", "Upgrade", "TE"] {
        let line = format!("{{\"url\":\"http://a/\",\"headers\":{{\"X-A\":\"1\",\"{name}\":\"x\"}}}}");
        let read = rows(&files.write("rows.ndjson", line));
        let defect = format!("a row can't choose this header (line 1: `{name}`)");
        assert_eq!([Some(&*defect)].as_slice(), defects(&read));
        assert!(headers(&read[0]).is_empty());

        let list = files.write("rows.csv", "url,id\nhttp://a/,1\n");
        let templates = Templates { headers: vec![(name.into(), "{id}".into())], ..Templates::default() };
        let error = open_error(&SourceOptions { templates, ..list }).to_string();
        assert_eq!(format!("header_templates: {name}: a row can't choose this header"), error);
    }
}

#[test]
fn an_empty_value_in_a_path_is_refused_unless_the_template_allows_it() {
    let files = Files::new();
    let list = files.write("rows.ndjson", "{\"id\":\"\",\"n\":null}\n{\"id\":\"x\",\"n\":\"y\"}\n");
    let empty = Some("the column \"id\" is empty, which would change the path (row 0)");
    for (expected, template, first) in [
        (empty, "http://a/{id}/b", ""),
        (empty, "http://a/x{id}", ""),
        (None, "http://a/{id:optional}/b", "http://a//b"),
        (None, "http://a/{n:optional}", "http://a/"),
        (None, "http://a/{id|}", "http://a/"),
        (None, "http://a/?q={id}", "http://a/?q="),
    ] {
        let read = rows(&SourceOptions { url: Some(template.into()), ..list.clone() });
        let defect = expected.map(|text| text.replace("row 0", "line 1"));
        assert_eq!([defect.as_deref(), None].as_slice(), defects(&read), "{template}");
        assert_eq!(first, urls(&read)[0], "{template}");
    }
}
