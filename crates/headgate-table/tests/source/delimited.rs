use std::fmt::Write as _;

use headgate_core::options::SourceOptions;
use proptest::prelude::*;

use crate::{Files, body, defects, headers, method, rows, urls};

#[test]
fn a_csv_row_may_have_method_headers_and_body_and_empty_cells_are_absent() {
    let files = Files::new();
    let rows = rows(&files.write(
        "urls.csv",
        "id,url,method,headers,body\r\n\
         1,http://a/,POST,\"{\"\"Accept\"\": \"\"x\"\", \"\"Cookie\"\": [\"\"a=1\"\", \"\"b=2\"\"]}\",\"two\r\nlines\"\r\n\
         \r\n\
         2,http://b/,,,\r\n",
    ));
    assert_eq!(["http://a/", "http://b/"].as_slice(), urls(&rows));
    assert_eq!(Some("POST"), method(&rows[0]));
    assert_eq!(vec![("Accept", "x"), ("Cookie", "a=1"), ("Cookie", "b=2")], headers(&rows[0]));
    assert_eq!(Some(&b"two\r\nlines"[..]), body(&rows[0]));
    assert_eq!(None, rows[1].extra);
}

#[test]
fn tabs_separate_the_fields_of_a_tsv() {
    let files = Files::new();
    let rows = rows(&files.write("urls.tsv", "id\turl\n1,5\thttp://a/\n"));
    assert_eq!(["http://a/"].as_slice(), urls(&rows));
}

#[test]
fn a_byte_order_mark_is_not_part_of_the_first_name() {
    let files = Files::new();
    for text in ["\u{feff}url\nhttp://a/\n", "\u{feff}\"url\"\nhttp://a/"] {
        assert_eq!(["http://a/"].as_slice(), urls(&rows(&files.write("urls.csv", text))));
    }
}

#[test]
fn columns_may_be_renamed_by_options() {
    let files = Files::new();
    let options = SourceOptions {
        url_column: "link".into(),
        method_column: Some("verb".into()),
        headers_column: Some("with".into()),
        body_column: Some("data".into()),
        ..files.write("urls.csv", "url,data,with,verb,link\nno,d,\"{\"\"A\"\":1}\",PUT,http://a/\n")
    };
    let rows = rows(&options);
    assert_eq!(["http://a/"].as_slice(), urls(&rows));
    assert_eq!((Some("PUT"), Some(&b"d"[..])), (method(&rows[0]), body(&rows[0])));
    assert_eq!(vec![("A", "1")], headers(&rows[0]));
}

#[test]
fn an_invalid_line_is_a_defect_of_its_row_and_the_job_continues() {
    let good = "x,http://good/,";
    let cases: [(&[u8], &str, &str); 9] = [
        (
            b"x,http://a/",
            "http://a/",
            "the line has more or fewer fields than the first line names columns (line 3: 2, not 3)",
        ),
        (b"x", "", "the line has more or fewer fields than the first line names columns (line 3: 1, not 3)"),
        (
            b"x,http://a/,,y",
            "http://a/",
            "the line has more or fewer fields than the first line names columns (line 3: 4, not 3)",
        ),
        (b"x,,", "", "the URL is empty (line 3)"),
        (b"x,http://\xE9/,", "http://\u{fffd}/", "the URL is not UTF-8 (line 3: byte 0xE9 after 7 valid ones)"),
        (b"x,http://a/,\xE9", "http://a/", "the headers are not UTF-8 (line 3: byte 0xE9 after 0 valid ones)"),
        (b"x,http://a/,hello", "http://a/", "the headers are not JSON: expected value (line 3: column 1)"),
        (b"x,http://a/,[1]", "http://a/", "the headers are not a JSON object (line 3)"),
        (b"x,\"http://a/,", "", "a quotation mark is never closed (line 3)"),
    ];
    let files = Files::new();
    for (line, url, defect) in cases {
        let text = [b"id,url,headers\n", good.as_bytes(), b"\n", line, b"\n", good.as_bytes(), b"\n"].concat();
        let rows = rows(&files.write("urls.csv", text));
        let shown = String::from_utf8_lossy(line);
        assert_eq!(["http://good/", url, "http://good/"].as_slice(), urls(&rows), "{shown}");
        assert_eq!([None, Some(defect), None].as_slice(), defects(&rows), "{shown}");
    }
}

#[test]
fn an_unclosed_quote_affects_only_its_own_line() {
    let files = Files::new();
    let mut text = "url,note\nhttp://a/,\"never closed\n".to_owned();
    // The value is longer than the bound of a record.
    for row in 0..1_000_000 {
        let _ = writeln!(text, "http://host/{row:07},fine");
    }
    let rows = rows(&files.write("urls.csv", text));
    assert_eq!(1_000_001, rows.len());
    assert_eq!(Some("a quotation mark is not closed within 16777216 bytes (line 2)"), defects(&rows[..1])[0]);
    assert_eq!("http://host/0000000", rows[1].url.as_ref());
    assert!(defects(&rows[1..]).iter().all(Option::is_none));
}

#[test]
fn a_line_of_20_mb_is_a_defect() {
    let files = Files::new();
    let text = format!("url\n{}\nhttp://a/\n", "x".repeat(20_000_000));
    let rows = rows(&files.write("urls.csv", text));
    assert_eq!([Some("longer than 16777216 bytes (line 2)"), None].as_slice(), defects(&rows));
}

#[test]
fn a_file_without_rows_is_a_job_without_rows() {
    let files = Files::new();
    for text in ["", "\n\n", "\u{feff}", "url", "id,url\n"] {
        assert_eq!(0, rows(&files.write("urls.csv", text)).len(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_text_written_as_csv_is_read_back(
        cells in proptest::collection::vec(("[^\0]{1,30}", proptest::collection::vec(any::<u8>(), 0..30)), 0..20),
    ) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["body", "url"]).expect("in memory");
        for (url, body) in &cells {
            writer.write_record([body.as_slice(), url.as_bytes()]).expect("in memory");
        }
        let files = Files::new();
        let rows = rows(&files.write("urls.csv", writer.into_inner().expect("in memory")));
        prop_assert_eq!(cells.iter().map(|(url, _)| url.as_str()).collect::<Vec<_>>(), urls(&rows));
        for ((_, expected), row) in cells.iter().zip(&rows) {
            prop_assert_eq!(expected.as_slice(), body(row).unwrap_or_default());
        }
    }
}
