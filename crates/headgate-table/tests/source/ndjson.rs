use proptest::prelude::*;

use crate::{Files, body, defects, headers, method, rows, urls};

#[test]
fn an_object_per_line_may_have_method_headers_and_body() {
    let files = Files::new();
    for name in ["urls.ndjson", "urls.jsonl"] {
        let rows = rows(&files.write(
            name,
            "\u{feff}{\"url\": \"http://a/\\u00e9\", \"method\": \"PUT\", \"other\": {\"x\": [1]}, \"body\": \"a\\nb\"}\r\n\n \n\
             {\"url\":\"http://b/\",\"method\":null,\"headers\":null,\"body\":null}",
        ));
        assert_eq!(["http://a/é", "http://b/"].as_slice(), urls(&rows));
        assert_eq!((Some("PUT"), Some(&b"a\nb"[..])), (method(&rows[0]), body(&rows[0])));
        assert_eq!(None, rows[1].extra);
    }
}

#[test]
fn a_body_that_is_not_a_string_is_sent_as_its_json_text() {
    let cases = [
        (r#"{"b": 1.50,  "a": [true]}"#, r#"{"b": 1.50,  "a": [true]}"#),
        ("[1, 12345678901234567890123]", "[1, 12345678901234567890123]"),
        ("1.0", "1.0"),
        (r#""""#, ""),
    ];
    let files = Files::new();
    for (json, expected) in cases {
        let rows = rows(&files.write("urls.ndjson", format!("{{\"url\":\"http://a/\",\"body\":{json}}}\n")));
        assert_eq!(Some(expected.as_bytes()), body(&rows[0]), "{json}");
    }
}

#[test]
fn headers_are_an_object_or_its_json_text() {
    let cases: [(&str, &[(&str, &str)]); 6] = [
        (r#"{"A":"x","b":1.50,"C":true,"D":null}"#, &[("A", "x"), ("b", "1.50"), ("C", "true")]),
        (r#"{"B":["1",2,null],"A":[],"B":"3"}"#, &[("B", "1"), ("B", "2"), ("B", "3")]),
        (r#"{"é":"a\"b\u00e9"}"#, &[("é", "a\"bé")]),
        (r#""{\"A\":\"x\"}""#, &[("A", "x")]),
        (r#""""#, &[]),
        ("{}", &[]),
    ];
    let files = Files::new();
    for (json, expected) in cases {
        let rows = rows(&files.write("urls.ndjson", format!("{{\"url\":\"http://a/\",\"headers\":{json}}}\n")));
        assert_eq!((expected, [None].as_slice()), (headers(&rows[0]).as_slice(), defects(&rows).as_slice()), "{json}");
    }
}

#[test]
fn an_invalid_line_is_a_defect_of_its_row_and_the_job_continues() {
    let cases: [(&[u8], &str, &str); 14] = [
        (b"{", "", "not JSON: EOF while parsing an object (line 3: column 1)"),
        (b"http://a/", "", "not JSON: expected value (line 3: column 1)"),
        (b"{\"url\":\"http://a/\"} x", "", "not JSON: trailing characters (line 3: column 21)"),
        (b"[\"http://a/\"]", "", "not a JSON object (line 3)"),
        (b"\"http://a/\"", "", "not a JSON object (line 3)"),
        (b"17", "", "not a JSON object (line 3)"),
        (b"{\"uri\":\"http://a/\"}", "", "there is no \"url\" (line 3)"),
        (b"{\"url\":null}", "", "there is no \"url\" (line 3)"),
        (b"{\"url\":17}", "", "\"url\" is a number, not a string (line 3)"),
        (b"{\"url\":[]}", "", "\"url\" is a list, not a string (line 3)"),
        (b"{\"url\":\"\"}", "", "the URL is empty (line 3)"),
        (b"{\"url\":\"http://\xFF/\"}", "", "the line is not UTF-8 (line 3: byte 0xFF after 15 valid ones)"),
        (b"{\"url\":\"http://a/\",\"method\":{}}", "http://a/", "\"method\" is an object, not a string (line 3)"),
        (
            b"{\"url\":\"http://a/\",\"headers\":{\"A\":{}}}",
            "http://a/",
            "a header is an object: a value is a string or a list of strings (line 3: `A`)",
        ),
    ];
    let good = b"{\"url\":\"http://good/\"}\n";
    let files = Files::new();
    for (line, url, defect) in cases {
        let rows = rows(&files.write("urls.ndjson", [good, &b"\n"[..], line, b"\n", good].concat()));
        let shown = String::from_utf8_lossy(line);
        assert_eq!(["http://good/", url, "http://good/"].as_slice(), urls(&rows), "{shown}");
        assert_eq!([None, Some(defect), None].as_slice(), defects(&rows), "{shown}");
    }
}

#[test]
fn a_line_of_20_mb_is_a_defect() {
    let files = Files::new();
    let text = format!("{{\"url\":\"{}\"}}\n{{\"url\":\"http://a/\"}}\n", "x".repeat(20_000_000));
    let rows = rows(&files.write("urls.ndjson", text));
    assert_eq!([Some("longer than 16777216 bytes (line 1)"), None].as_slice(), defects(&rows));
}

#[test]
fn deeply_nested_json_does_no_harm() {
    let files = Files::new();
    let deep = "[".repeat(1_000_000);
    let text = format!("{{\"other\":{deep}\n{{\"url\":\"http://a/\"}}\n");
    let rows = rows(&files.write("urls.ndjson", text));
    assert_eq!(["", "http://a/"].as_slice(), urls(&rows));
}

proptest! {
    #[test]
    fn any_text_written_as_json_is_read_back(cells in proptest::collection::vec((".{1,30}", any::<String>()), 0..20)) {
        let line = |(url, body): &(String, String)| {
            let text = |text| serde_json::to_string(text).expect("in memory");
            format!("{{\"body\":{},\"url\":{}}}\n", text(body), text(url))
        };
        let files = Files::new();
        let rows = rows(&files.write("urls.ndjson", cells.iter().map(line).collect::<String>()));
        prop_assert_eq!(cells.iter().map(|(url, _)| url.as_str()).collect::<Vec<_>>(), urls(&rows));
        for ((_, expected), row) in cells.iter().zip(&rows) {
            prop_assert_eq!(Some(expected.as_bytes()), body(row));
        }
    }
}
