use headgate_core::headers::Headers;
use headgate_core::options::Format;

use crate::outcomes::{batch, failed, names, options, succeeded, write};

#[test]
fn a_line_holds_every_column_in_order() {
    let directory = tempfile::tempdir().unwrap();
    write(&options(directory.path(), Format::Ndjson), [batch([succeeded(7, b"Hello, World!"), failed(8)])]);

    assert_eq!(
        concat!(
            r#"{"row":7,"url":"http://127.0.0.1/7","method":"GET","status":200,"failed":false,"error":null,"error_message":null,"error_detail":null,"#,
            r#""attempts":1,"final_url":null,"redirects":null,"headers":[{"name":"server","value":"nginx"},"#,
            r#"{"name":"set-cookie","value":"a=1"},{"name":"set-cookie","value":"b=2"}],"body":"Hello, World!","#,
            r#""received_bytes":13,"body_encoding":null,"body_truncated":false,"started_at":"2026-05-14T09:30:00.000042Z","elapsed_us":1500,"ttfb_us":1200,"#,
            r#""http_version":"HTTP/1.1","remote_addr":"127.0.0.1:80"}"#,
            "\n"
        ),
        std::fs::read_to_string(directory.path().join("part-00000001.ndjson")).unwrap()
    );
    assert_eq!(
        concat!(
            r#"{"row":8,"url":"http://127.0.0.1/8","method":"GET","status":null,"failed":true,"error":"connect","#,
            r#""error_message":"connection refused","error_detail":null,"attempts":1,"final_url":null,"redirects":null,"headers":null,"body":null,"#,
            r#""received_bytes":0,"body_encoding":null,"body_truncated":false,"started_at":"2026-05-14T09:30:00.000042Z","elapsed_us":1500,"ttfb_us":null,"#,
            r#""http_version":null,"remote_addr":null}"#,
            "\n"
        ),
        std::fs::read_to_string(directory.path().join("failed-00000001.ndjson")).unwrap()
    );
}

#[test]
fn binary_bytes_are_base64_under_a_separate_key() {
    let mut outcome = succeeded(0, b"\xff\xfe\x00");
    let headers = &mut outcome.response.as_mut().unwrap().headers;
    *headers = Headers::from_iter([("x-latin", &b"caf\xe9"[..])]);
    let directory = tempfile::tempdir().unwrap();
    write(&options(directory.path(), Format::Ndjson), [batch([outcome])]);

    let line = std::fs::read_to_string(directory.path().join("part-00000001.ndjson")).unwrap();
    assert!(
        line.contains(r#","headers":[{"name":"x-latin","value_base64":"Y2Fm6Q=="}],"body_base64":"//4A","#),
        "{line}"
    );
    assert!(!line.contains(r#""body":"#), "{line}");
}

#[test]
fn a_row_is_one_line_of_json_whatever_its_body_holds() {
    let body = "line\nreturn\r tab\t nul\0 control\x07 quote\" backslash\\ separator\u{2028} é 🦀";
    let mut empty = succeeded(1, b"");
    empty.response.as_mut().unwrap().headers = Headers::default();
    let directory = tempfile::tempdir().unwrap();
    write(&options(directory.path(), Format::Ndjson), [batch([succeeded(0, body.as_bytes()), empty])]);

    let text = std::fs::read_to_string(directory.path().join("part-00000001.ndjson")).unwrap();
    let lines: Vec<serde_json::Value> =
        text.split_terminator('\n').map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(2, lines.len());
    assert_eq!(body, lines[0]["body"]);
    assert_eq!("", lines[1]["body"]);
    assert_eq!(serde_json::json!([]), lines[1]["headers"]);
}

#[test]
fn a_body_longer_than_every_buffer_is_written_completely() {
    let text = "0123456789abcdef\n".repeat(100_000);
    let bytes = [0xff_u8, 0x00, 0x7f].repeat(500_000);
    let directory = tempfile::tempdir().unwrap();
    write(&options(directory.path(), Format::Ndjson), [batch([succeeded(0, text.as_bytes()), succeeded(1, &bytes)])]);

    let written = std::fs::read_to_string(directory.path().join("part-00000001.ndjson")).unwrap();
    let lines: Vec<serde_json::Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(text, lines[0]["body"]);
    assert_eq!("/wB/".repeat(500_000), lines[1]["body_base64"]);
}

#[test]
fn lines_are_also_written_to_parts() {
    let directory = tempfile::tempdir().unwrap();
    let options = headgate_core::options::SinkOptions { part_size: 1000, ..options(directory.path(), Format::Ndjson) };
    write(&options, (0..3).map(|ordinal| batch([succeeded(ordinal, &[b'x'; 1000])])));

    let expected = ["_headgate", "part-00000001.ndjson", "part-00000002.ndjson", "part-00000003.ndjson"];
    assert_eq!(expected, names(directory.path()).as_slice());
}
