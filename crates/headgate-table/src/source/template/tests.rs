//! A server decodes the values of the cells, whatever they are; a value that no encoding can represent is refused.

mod laws;

use headgate_core::options::SourceOptions;
use headgate_core::row::{BodyPiece, Row, RowBody, RowExtra};

use super::bound::RequestTemplates;
use super::cell::Cell;
use super::laws::made::{Letters, body, extra, url, with_form, with_header, with_json, with_multipart, with_url};
use crate::source::cells::RowPosition;

fn text(text: &str) -> Cell<'_> {
    Cell::Text(text.as_bytes().into())
}

fn json(json: &str) -> Cell<'_> {
    Cell::Json(json.into())
}

fn text_body(options: &SourceOptions, values: &[Cell<'_>]) -> Result<String, String> {
    body(options, values).map(|body| String::from_utf8(body).expect("text"))
}

fn usage(options: &SourceOptions) -> String {
    RequestTemplates::new(options, &mut Letters).expect_err("a mistake").to_string()
}

#[test]
fn a_value_in_a_url_stays_a_value() {
    for (expected, template, value) in [
        ("http://h/x/1", "http://h/x/{a}", "1"),
        ("http://h/a%2Fb", "http://h/{a}", "a/b"),
        ("http://h/a%3Fb%23c%26d%3De", "http://h/{a}", "a?b#c&d=e"),
        ("http://h/%252e%252e", "http://h/{a}", "%2e%2e"),
        ("http://h/...", "http://h/{a}", "..."),
        ("http://h/..a", "http://h/..{a}", "a"),
        ("http://h/..%2F..", "http://h/{a}", "../.."),
        ("http://h/%5C..", "http://h/{a}", "\\.."),
        ("http://h?q=..", "http://h?q={a}", ".."),
        ("http://h/?q=%2B%20%25&x", "http://h/?q={a}&x", "+ %"),
        ("http://h/#%0D%0A", "http://h/#{a}", "\r\n"),
        ("http://h/%C3%BC-._~", "http://h/{a}", "ü-._~"),
        ("http://1.2.3.4:80/", "http://{a}:80/", "1.2.3.4"),
        ("http://[::1]:80/", "http://{a}:80/", "[::1]"),
        ("http://[::1]:80/", "http://[{a}]:80/", "::1"),
        ("http://bücher.example/", "http://{a}.example/", "bücher"),
        ("http://h:81", "http://h:{a}", "81"),
        ("HTTPS://h/", "{a}://h/", "HTTPS"),
        ("https://h/", "http{a}://h/", "s"),
        ("http://%40%3A%2F@h/", "http://{a}@h/", "@:/"),
        ("http://h/v1/x", "{a}/x", "http://h/v1"),
        ("http://h/v1/?q", "{a}", "http://h/v1/?q"),
        ("https://h?u=http://x", "{a}?u=http://x", "https://h"),
    ] {
        assert_eq!(Ok(expected.to_owned()), url(template, &[text(value)]), "{template} with {value:?}");
    }
    assert_eq!(Ok("http://h//?q=".to_owned()), url("http://h/{a|}/?q={a|}", &[]));
    assert_eq!(
        Ok("http://h/none/18446744073709551616/%5B%5D".to_owned()),
        url("http://h/{a|none}/{b}/{c}", &[Cell::Null, json("18446744073709551616"), json("[]"),])
    );
}

#[test]
fn values_that_no_encoding_can_represent_in_a_url_are_refused_with_the_same_message() {
    let dots = "the column \"a\" can't be part of a path segment that is then . or .., which would change the path";
    let no_host = "a host of columns is a name or an IP address, and this is neither";
    let no_port = "a port of columns is a number, and this is not one";
    let no_scheme = "the column \"a\" does not begin with a URL: it has no http:// or https://";
    let no_slash = "the column \"a\" has no / behind the host, and what follows would change the host";
    let no_base_host = "the column \"a\" does not begin with a URL: it has no host";
    for (expected, detail, template, value) in [
        (dots, "..", "http://h/{a}", ".."),
        (dots, ".", "http://h/x/{a}/y", "."),
        (dots, "..", "http://h/.{a}?q", "."),
        (dots, "%2e.", "http://h/%2{a}.", "e"),
        (dots, "%2E.", "http://h/%2E{a}", "."),
        (dots, r".\t.", "http://h/.\t{a}", "."),
        (dots, r"%2\te", "http://h/%2\t{a}", "e"),
        (dots, "..", "http://h/x\\{a}", ".."),
        (dots, "..", "http://h/x/{a} \x1f", ".."),
        (dots, "..", "{b|http://h/}{a}", ".."),
        (no_host, "a/b", "http://{a}/", "a/b"),
        (no_host, "a:80", "http://{a}/", "a:80"),
        (no_host, "u@evil.example", "http://{a}.example/", "u@evil"),
        (no_host, "a b", "http://{a}/", "a b"),
        (no_host, "%2e", "http://{a}/", "%2e"),
        (no_host, "[::1", "http://{a}/", "[::1"),
        (no_host, "[::1].x", "http://{a}.x/", "[::1]"),
        (no_host, "[x]", "http://[{a}]/", "x"),
        (no_port, "8/", "http://h:{a}/", "8/"),
        ("only URLs of http and https are supported", "file", "{a}://h/", "file"),
        (no_scheme, "h/x", "{a}", "h/x"),
        (no_scheme, "ftp://h", "{a}", "ftp://h"),
        (no_slash, "http://h", "{a}.evil.example/", "http://h"),
        (no_slash, "http://h", "{a}{b|x}", "http://h"),
        (no_base_host, "http://", "{a}/x", "http://"),
        (no_base_host, "http:///x", "{a}/x", "http:///x"),
        (no_base_host, r"http://\n/", "{a}/x", "http://\n/"),
    ] {
        let message = url(template, &[text(value)]).expect_err(value);
        assert_eq!(format!("{expected} (row 0: `{detail}`)"), message, "{template} with {value:?}");
    }
    assert_eq!(
        Err("the column \"a\" has no value; {a|} sends an empty one (row 0)".to_owned()),
        url("http://h/{a}", &[])
    );
    let long = "x".repeat(70_000);
    assert_eq!(Err("the URL is longer than 65536 bytes (row 0)".to_owned()), url("http://h/{a}", &[text(&long)]));
    let not_text = Cell::Text(b"\xFF"[..].into());
    assert_eq!(Ok("http://h/%FF".to_owned()), url("http://h/{a}", &[not_text]));
}

#[test]
fn a_document_of_many_strings_is_parsed_in_one_pass() {
    let document = format!("[\n{}\"{{a}}\"]", "\"x\",\n".repeat(500_000));
    let body = text_body(&with_json(&document), &[json("1")]).expect("a body");
    assert!(body.ends_with("\"x\",\n1]"));
}

#[test]
fn a_text_that_is_not_a_template_of_urls_is_refused_with_the_option() {
    let beginning = "url: a URL begins with http:// or https://, or with a column that has the beginning of one, as in {base}/items";
    let user = "url: a user and password can only be columns here: give fixed ones with user";
    for (expected, template) in [
        (beginning, "h/{a}"),
        (beginning, "ftp://h/{a}"),
        (beginning, "x/{a}://h"),
        (user, "http://me:secret@h/{a}"),
        (user, "http://{a}:secret@h/"),
        ("url: the URL has no host", "http:///{a}"),
        ("url: the URL has no host", "http://\t\r\n/{a}"),
        ("url: the brace at character 10 isn't closed: write {column}, or {{ for a brace", "http://h/{a"),
        ("there is no column \"x\"", "http://h/{x}"),
    ] {
        assert_eq!(expected, usage(&with_url(template)), "{template}");
    }
}

#[test]
fn a_column_named_like_the_whole_text_between_the_braces_takes_precedence() {
    let values = [text("1"), text("2"), text("3"), text("4"), text("5")];
    assert_eq!(Ok("http://h/4/5/2/3".to_owned()), url("http://h/{b|c}/{c:string}/{b|x}/{c:string|x}", &values));
}

#[test]
fn a_json_string_that_is_a_single_placeholder_gets_the_cells_own_type() {
    let document =
        r#" {"model": "x", "n": "{a}", "{a}": 1.50, "s": "{a:string}", "t": "\u00e9 {a}{{}", "e": "\u0041"} "#;
    for (n, s, cell) in [
        ("5", "5", json("5")),
        ("18446744073709551616.10", "18446744073709551616.10", json("18446744073709551616.10")),
        ("true", "true", json("true")),
        (r#"[1, {"b": null}]"#, r#"[1, {\"b\": null}]"#, json(r#"[1, {"b": null}]"#)),
        (r#""a\"b\\\n""#, r#"a\"b\\\n"#, text("a\"b\\\n")),
        (r#""5""#, "5", text("5")),
    ] {
        let expected =
            format!(r#"{{"model": "x", "n": {n}, "{s}": 1.50, "s": "{s}", "t": "é {s}{{}}", "e": "\u0041"}}"#);
        assert_eq!(Ok(expected), text_body(&with_json(document), &[cell]));
    }
    assert_eq!(
        Ok("[null, \"no\", 7]".to_owned()),
        text_body(&with_json(r#"["{a}", "{a|no}", "{b|no}"]"#), &[Cell::Null, json("7")])
    );
    for document in [r#"["{a:string}"]"#, r#"["x{a}"]"#, r#"{"{a}": 1}"#] {
        assert_eq!(
            Err("the column \"a\" has no value; {a|} sends an empty one (row 0)".to_owned()),
            text_body(&with_json(document), &[])
        );
    }
    let not_text = Cell::Text(b"ab\xFF"[..].into());
    assert_eq!(
        Err("the column \"a\" is not UTF-8 (row 0: after 2 valid bytes)".to_owned()),
        text_body(&with_json(r#"["{a}"]"#), &[not_text])
    );
    let extra = extra(&with_json(r#"["{a}"]"#), &[text("x")]).expect("a body");
    assert_eq!(Some("application/json"), extra.body_type.as_deref());
}

#[test]
fn an_invalid_json_document_or_template_in_it_is_refused_without_its_text() {
    for (expected, document) in [
        ("json: not JSON: EOF while parsing an object at line 1 column 1", "{"),
        (
            "json: not JSON: key must be a string at line 2 column 2; a placeholder is in quotes: \"{column}\"",
            "[1,\n{a}",
        ),
        (
            "json: in the string on line 2: the brace at character 3 isn't closed: write {column}, or {{ for a brace",
            "[\n\"secret\",\"a {\"]",
        ),
        ("there is no column \"x\"", r#"["{x}"]"#),
    ] {
        assert_eq!(expected, usage(&with_json(document)), "{document}");
    }
}

#[test]
fn names_of_form_fields_are_sent_as_written_and_their_values_are_encoded() {
    let options = with_form(&["a[]={a}", "b=x y&{b|}", "={a}", "{a}", "{a}=1", "lit eral"]);
    let expected = "a[]=%26%3D&b=x%20y%26&%26%3D&%26%3D&%26%3D=1&lit%20eral";
    assert_eq!(Ok(expected.to_owned()), text_body(&options, &[text("&=")]));
    let extra = extra(&options, &[text("x")]).expect("a body");
    assert_eq!(Some("application/x-www-form-urlencoded"), extra.body_type.as_deref());
    let message = "data_urlencode: field 2: an @ before any = would have curl read a file: write name={column} for a value, or give files with body_file_column";
    for field in ["a@b", "@b", "a@b=c"] {
        assert_eq!(message, usage(&with_form(&["a=@b", field])));
    }
}

#[test]
fn names_in_a_multipart_form_cannot_end_a_part() {
    let options = with_multipart(&["t=x{b};type=text/plain;charset=utf-8", "f{b}=@dir/{a};filename={b}", "g=@{c}"]);
    let extra = extra(&options, &[text("x.jpg"), text("\"\r\n"), text("/tmp/ü\"")]).expect("a body");
    let boundary = extra.body_type.as_deref().and_then(|text| text.strip_prefix("multipart/form-data; boundary="));
    let boundary = boundary.expect("a boundary").to_owned();
    assert_eq!(41, boundary.len());
    let Some(RowBody::Pieces(pieces)) = extra.body else { panic!("a body in pieces") };
    let shown = pieces.iter().map(|piece| match piece {
        BodyPiece::Bytes(bytes) => String::from_utf8_lossy(bytes).replace(&boundary, "B"),
        BodyPiece::File(path) | BodyPiece::FileBelow(_, path) => format!("<{}>", path.display()),
        BodyPiece::OpenFile(file) => panic!("templates open no files: {file:?}"),
    });
    let expected = [
        "--B\r\nContent-Disposition: form-data; name=\"t\"\r\nContent-Type: text/plain;charset=utf-8\r\n\r\nx\"\r\n\r\n",
        "--B\r\nContent-Disposition: form-data; name=\"f%22%0D%0A\"; filename=\"%22%0D%0A\"\r\n",
        "Content-Type: application/octet-stream\r\n\r\n<dir/x.jpg>\r\n",
        "--B\r\nContent-Disposition: form-data; name=\"g\"; filename=\"ü%22\"\r\n",
        "Content-Type: application/octet-stream\r\n\r\n</tmp/ü\">\r\n--B--\r\n",
    ];
    assert_eq!(expected.concat(), shown.collect::<String>());
}

#[test]
fn an_invalid_field_of_a_multipart_form_is_refused() {
    let write = "form: field 1: write name=value, or name=@path for a file";
    for (expected, field) in [
        (write, "ab"),
        (write, "{b|c}"),
        ("form: field 1: a field needs a name: write name=value, or name=@path for a file", "=x"),
        ("form: field 1: there is no path behind the @: write name=@{column}, or name=@ with a path", "a=@"),
        ("form: field 1: behind ;type= there must be a media type, such as text/plain, and no column", "a=b;type={a}"),
        ("form: field 1: ;type= is there twice", "a=b;type=a/b;type=c/d"),
        (
            "form: field 1: for curl, < sends what is in a file as text: write name=@path to send a file, or name={column} for a value",
            "a=<b",
        ),
    ] {
        assert_eq!(expected, usage(&with_multipart(&[field])), "{field}");
    }
}

#[test]
fn a_path_stays_in_the_directory_that_the_template_names() {
    let path = |template: &str, value: &str| match extra(&with_multipart(&[template]), &[text(value)]) {
        Ok(RowExtra { body: Some(RowBody::Pieces(pieces)), .. }) => Ok(match &pieces[1] {
            BodyPiece::FileBelow(_, path) => format!("below {}", path.display()),
            other => format!("{other:?}"),
        }),
        Ok(other) => panic!("no file: {other:?}"),
        Err(reason) => Err(reason),
    };
    assert_eq!(Ok("below ../x/y".to_owned()), path("f=@{a}", "../x/y"));
    assert_eq!(Ok("below x/..y".to_owned()), path("f=@x/{a}", "..y"));
    // A file that the template names without a value of a row may be anywhere.
    assert_eq!(Ok("File(\"/x/y\")".to_owned()), path("f=@/x/y", ""));
    for (expected, template, value) in [
        ("the column \"a\" has a / and is not the beginning of the path (row 0: `../y`)", "f=@x/{a}", "../y"),
        ("the path of the file leads out of its directory (row 0: `x/../y`)", "f=@x/{a}/y", ".."),
        ("the path of the file leads out of its directory (row 0: `x/..`)", "f=@x/.{a}", "."),
        ("the path of the file has a NUL (row 0: `x\\x00`)", "f=@{a}", "x\0"),
        ("the path of the file is empty (row 0)", "f=@{b|}", ""),
    ] {
        assert_eq!(Err(expected.to_owned()), path(template, value));
    }
    let options = SourceOptions { body_file_column: Some("a".into()), ..SourceOptions::default() };
    let extra = extra(&options, &[text("/tmp/x")]).expect("a body");
    let here = std::env::current_dir().expect("a directory");
    let file = BodyPiece::FileBelow(here.into(), std::path::Path::new("/tmp/x").into());
    assert_eq!((Some(RowBody::Pieces([file].into())), None), (extra.body, extra.body_type));
}

fn header(template: &str, value: &str) -> Result<String, String> {
    let extra = extra(&with_header(template), &[text(value)])?;
    let (name, value) = extra.headers.into_iter().next().expect("a header");
    assert_eq!("X-A", &*name);
    Ok(String::from_utf8(value.into()).expect("text"))
}

#[test]
fn a_value_cannot_begin_another_header_and_arrives_unchanged() {
    let unfit = "the header \"X-A\" has a character that can't be sent, such as a line break";
    let lost = "the header \"X-A\" begins or ends with white space, which would be lost";
    assert_eq!(Ok("Bearer a\tü".to_owned()), header("Bearer {a}", "a\tü"));
    for (expected, value) in [
        (unfit, "a\r\nX-B: c"),
        (unfit, "a\n"),
        (unfit, "\0"),
        (unfit, "\x7F"),
        (unfit, "\x1B"),
        (lost, " a"),
        (lost, "a\t"),
    ] {
        let message = header("{a}", value).expect_err(value);
        assert_eq!(expected, message.split(" (row").next().expect("a message"));
    }
    assert_eq!("header_templates: X-A: has a character that can't be sent in a header", usage(&with_header("{a}\n")));
}

#[test]
fn a_second_pass_sends_conditional_headers_where_the_first_one_stored_validators() {
    let options = SourceOptions {
        if_none_match_column: Some("a".into()),
        if_modified_since_column: Some("b".into()),
        ..SourceOptions::default()
    };
    let headers = |etag: Cell<'_>, since: Cell<'_>| {
        let headers = extra(&options, &[etag, since])?.headers;
        let message = headers.iter().map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)));
        Ok(message.collect::<Vec<_>>().join(", "))
    };
    assert_eq!(Ok(String::new()), headers(Cell::Null, text("")));
    assert_eq!(Ok("if-none-match: W/\"x\"".to_owned()), headers(text("W/\"x\""), Cell::Null));
    let date = "if-modified-since: Thu, 14 May 2026 09:30:00 GMT";
    for since in [
        "Thu, 14 May 2026 09:30:00 GMT",
        "2026-05-14T09:30:00Z",
        "2026-05-14T11:30:00.999+02:00",
        "2026-05-14 09:30:00",
    ] {
        assert_eq!(Ok(date.to_owned()), headers(Cell::Null, text(since)), "{since}");
    }
    assert_eq!(
        Ok("if-modified-since: Thu, 14 May 2026 00:00:00 GMT".to_owned()),
        headers(Cell::Null, text("2026-05-14"))
    );
    for since in ["yesterday", "1747215000", "1969-12-31", "2026-13-01"] {
        let message: Result<String, String> = headers(Cell::Null, text(since));
        let expected = format!("the column \"b\" has no time: write it as 2026-05-14T09:30:00Z (row 0: `{since}`)");
        assert_eq!(Err(expected), message);
    }
    let message: Result<String, String> = headers(text("\"a\n\""), Cell::Null);
    assert!(message.expect_err("a line break").starts_with("the header \"if-none-match\" has a character"));
}

#[test]
fn parts_made_by_templates_replace_the_rows_own() {
    let templates = RequestTemplates::new(&with_header("{a}"), &mut Letters).expect("templates").expect("some");
    let mut row = Row::new(0, "http://h/");
    row.extra.get_or_insert_default().headers = vec![("x-a".into(), (*b"old").into()), ("x-b".into(), (*b"b").into())];
    templates.fill(&mut row, RowPosition::Row(0), &[text("new")]);
    let expected = vec![("x-b".into(), Box::from(*b"b")), ("X-A".into(), Box::from(*b"new"))];
    assert_eq!(expected, row.extra.expect("headers").headers);
}

#[test]
fn a_body_and_a_header_are_no_longer_than_their_bounds() {
    let long = "x".repeat(70_000);
    assert_eq!(Err("a header is longer than 65536 bytes (row 0)".to_owned()), header("{a}", &long));
    let fields: Vec<String> = (0..40).map(|index| format!("f{index}={{a}}")).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let long = "x".repeat(2_000_000);
    let too_long = Err("the body is longer than 67108864 bytes (row 0)".to_owned());
    for options in [with_form(&fields), with_multipart(&fields), with_json(&format!("{:?}", ["{a}x"; 40]))] {
        assert_eq!(too_long, text_body(&options, &[text(&long)]));
    }
}
