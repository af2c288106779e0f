//! Every mistake that ends a job before its first row, with its full message.

use std::path::Path;

use headgate_core::error::JobErrorKind;
use headgate_core::options::SourceOptions;

use crate::{Files, drain, open, open_error, options, rows};

const KNOWN: &str =
    "unknown extension: headgate reads .txt, .csv, .tsv, .ndjson, .jsonl (each also with .gz or .zst) and .parquet";

#[test]
fn an_unreadable_input_is_named_with_the_cause() {
    let files = Files::new();
    for name in ["urls", "urls.gz", "urls.xlsx", ".txt", "urls.zip", "urls.parquet.gz"] {
        files.write(name, "http://a/\n");
    }
    let cases = [
        ("none.txt", "none.txt: no such file".to_owned()),
        ("example.com", "example.com: no such file (a URL starts with its scheme, as in https://)".into()),
        ("none-*.txt", "none-*.txt: no file matches".into()),
        ("none/*/[a].txt", "none/*/[a].txt: no file matches".into()),
        ("urls.txt/x.txt", "urls.txt/x.txt: no such file".into()),
        ("urls", format!("urls: {KNOWN}")),
        ("urls.gz", format!("urls.gz: {KNOWN}")),
        ("urls.xlsx", format!("urls.xlsx: {KNOWN}")),
        (".txt", format!(".txt: {KNOWN}")),
        (
            "urls.parquet.gz",
            "urls.parquet.gz: Parquet is compressed inside and can't be read through a second compression: decompress it first".into(),
        ),
    ];
    for (name, expected) in cases {
        assert_eq!(expected, files.message(&open_error(&options(&files.path(name)))));
    }
}

#[test]
fn a_url_that_is_not_http_is_refused_before_the_input_is_read() {
    for (scheme, rest) in
        [("s3", "bucket/urls.txt"), ("ftp", "a.example/[1-3]"), ("file", "/tmp/urls.txt"), ("htps", "a/")]
    {
        let input = format!("{scheme}://{rest}");
        let expected = format!(
            "{input}: only http:// and https:// URLs can be fetched; to read a list of URLs, give the path of a local file, or pipe its lines into -"
        );
        let error = open_error(&options(Path::new(&input)));
        assert_eq!((JobErrorKind::Input, expected), (error.kind, error.to_string()));
    }
    for input in ["HTTP://a/[1-2]", "{http,https}://a/", "htt{p,ps}://a/"] {
        assert_eq!(2, rows(&options(Path::new(input))).len(), "{input}");
    }
}

#[test]
fn a_file_without_a_needed_column_is_refused_with_its_columns() {
    type Change = fn(&mut SourceOptions);
    let cases: [(&str, Change, &str); 7] = [
        (
            "id,link",
            |_| {},
            "urls.csv: there is no column \"url\" with URLs: use url_column to name the one that has them, or url to make them of other columns; the columns are \"id\", \"link\"",
        ),
        (
            "id,url",
            |options| options.url_column = "uri".into(),
            "urls.csv: there is no column \"uri\" with URLs: use url_column to name the one that has them, or url to make them of other columns; the columns are \"id\", \"url\"",
        ),
        (
            "id,url",
            |options| options.method_column = Some("verb".into()),
            "urls.csv: there is no column \"verb\" for method_column; the columns are \"id\", \"url\"",
        ),
        (
            "id,url",
            |options| options.headers_column = Some("h".into()),
            "urls.csv: there is no column \"h\" for headers_column; the columns are \"id\", \"url\"",
        ),
        (
            "id,url",
            |options| options.body_column = Some("b".into()),
            "urls.csv: there is no column \"b\" for body_column; the columns are \"id\", \"url\"",
        ),
        ("url,id,url", |_| {}, "urls.csv: there are several columns \"url\": give each its own name"),
        (
            "id,url",
            |options| options.keep = vec!["id".into(), "tag".into()],
            "urls.csv: there is no column \"tag\" to keep; the columns are \"id\", \"url\"",
        ),
    ];
    let files = Files::new();
    for (header, change, expected) in cases {
        let mut options = files.write("urls.csv", header);
        change(&mut options);
        assert_eq!(expected, files.message(&open_error(&options)));
    }
}

#[test]
fn unused_columns_may_have_any_names() {
    let files = Files::new();
    let (rows, error) = drain(open(&files.write("urls.csv", "x,url,x,\na,http://a/,b,c\n")).as_mut());
    assert_eq!((1, None), (rows.len(), error));
}

#[test]
fn an_error_names_only_the_first_of_very_many_columns() {
    let files = Files::new();
    let header: Vec<String> = (0..1000).map(|column| format!("c{column}")).collect();
    let message = files.message(&open_error(&files.write("urls.csv", header.join(","))));
    assert!(message.ends_with("\"c18\", \"c19\", and 980 more"), "{message}");
}

#[test]
fn an_invalid_header_is_an_error_with_its_line() {
    let files = Files::new();
    assert_eq!(
        "urls.csv: line 2, which should name the columns: a quotation mark is never closed",
        files.message(&open_error(&files.write("urls.csv", "\n\"id,url\n")))
    );
}

#[test]
fn a_list_of_urls_has_no_columns_to_keep() {
    let files = Files::new();
    let text = files.write("urls.txt", "http://a/\n");
    for input in [text.input.as_str(), "-", "http://h/[1-3]"] {
        let options = SourceOptions { keep: vec!["id".into()], ..options(input.as_ref()) };
        let name = if input.contains("urls.txt") { "urls.txt" } else { input };
        assert_eq!(
            format!(
                "{name}: there are no columns to keep in a list of URLs: keep is for .csv, .tsv, .ndjson and .parquet"
            ),
            files.message(&open_error(&options))
        );
    }
}

#[test]
fn utf_16_is_refused_with_the_remedy() {
    let files = Files::new();
    let text: Vec<u8> = "\u{feff}http://a/\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let expected = "is UTF-16: save it as UTF-8 (iconv -f UTF-16 -t UTF-8)";
    let (rows, error) = drain(open(&files.write("urls.txt", &text)).as_mut());
    assert_eq!(0, rows.len());
    assert_eq!(format!("urls.txt: {expected}"), files.message(&error.expect("an error")));
    assert_eq!(format!("urls.csv: {expected}"), files.message(&open_error(&files.write("urls.csv", &text))));
}
