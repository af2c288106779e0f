use std::path::Path;
use std::sync::Arc;

use headgate_core::options::{BodyEncoding, RequestOptions, ResponseOptions};
use headgate_core::row::{BodyPiece, OwnOptions, RowBody, RowExtra};

use super::*;
use crate::upload::UploadSource;

fn prepare(options: &RequestOptions, row: &Row) -> Result<PreparedRequest, Failure> {
    Preparer::new(LiveDefaults::new(Defaults::new(options).expect("good options")), SiteMaker::for_tests()).prepare(row)
}

fn row_with(extra: RowExtra) -> Row {
    Row { extra: Some(Box::new(extra)), ..Row::new(0, "http://example.com:81/a?b") }
}

fn lines(prepared: &PreparedRequest) -> Vec<String> {
    let mut wire = Vec::new();
    prepared.write_head(&mut wire);
    let text = String::from_utf8(wire).expect("ASCII");
    let head = text.strip_suffix("\r\n\r\n").expect("an empty line at the end");
    head.split("\r\n").map(str::to_owned).collect()
}

#[test]
fn a_plain_row_is_requested_with_the_defaults() {
    let expected = [
        "GET /a?b HTTP/1.1",
        "host: example.com:81",
        concat!("user-agent: headgate/", env!("CARGO_PKG_VERSION")),
        "accept: */*",
        "accept-encoding: gzip, deflate, br, zstd",
    ];
    let request = prepare(&RequestOptions::default(), &Row::new(0, "http://example.com:81/a?b"));
    assert_eq!(expected.to_vec(), lines(&request.expect("valid")));
}

#[test]
fn a_row_overrides_the_job_and_the_job_overrides_the_defaults() {
    let options = RequestOptions {
        headers: vec![("Accept".into(), "text/html".into()), ("X-Job".into(), "1".into())],
        user_agent: "mine".into(),
        ..RequestOptions::default()
    };
    let row = row_with(RowExtra {
        method: Some("PUT".into()),
        headers: vec![
            ("x-job".into(), (*b"2").into()),
            ("Host".into(), (*b"other.example").into()),
            ("X-Job".into(), (*b"3").into()),
            ("Content-Length".into(), (*b"999").into()),
        ],
        ..RowExtra::default()
    });
    let expected = [
        "PUT /a?b HTTP/1.1",
        "Host: other.example",
        "user-agent: mine",
        "accept-encoding: gzip, deflate, br, zstd",
        "Accept: text/html",
        "x-job: 2",
        "X-Job: 3",
        "content-length: 0",
    ];
    assert_eq!(expected.to_vec(), lines(&prepare(&options, &row).expect("valid")));
}

#[test]
fn a_row_without_credentials_sends_only_its_own() {
    let options = RequestOptions {
        headers: vec![("X-Job".into(), "1".into()), ("X-Api-Key".into(), "of the run".into())],
        bearer: Some("of the run".into()),
        credentials_for: vec!["http://example.com:81".into()],
        ..RequestOptions::default()
    };
    let own = |without_credentials| Some(Box::new(OwnOptions { without_credentials, ..OwnOptions::default() }));
    let sent = |extra: RowExtra| -> Vec<String> {
        let row = Row { ordinal: 7, ..row_with(extra) };
        let mut preparer =
            Preparer::new(LiveDefaults::new(Defaults::new(&options).expect("good options")), SiteMaker::for_tests());
        let mut wire = Vec::new();
        // The second time, the site is known.
        for _ in 0..2 {
            preparer.write(&row, &mut wire).expect("valid");
        }
        let lines = String::from_utf8(wire).expect("ASCII");
        lines.lines().filter(|line| line.contains("of the") || line.contains("X-Job")).map(str::to_owned).collect()
    };
    let (job, key) = ("X-Job: 1".to_owned(), "X-Api-Key: of the run".to_owned());
    let expected = vec![job.clone(), key.clone(), "authorization: Bearer of the run".into()];
    assert_eq!(expected, sent(RowExtra { own: own(false), ..RowExtra::default() }));
    assert_eq!(vec![job.clone()], sent(RowExtra { own: own(true), ..RowExtra::default() }));
    let headers = vec![("X-Api-Key".into(), (*b"of the row").into())];
    let expected = vec![job, "X-Api-Key: of the row".to_owned()];
    assert_eq!(expected, sent(RowExtra { own: own(true), headers, ..RowExtra::default() }));
}

#[test]
fn a_row_that_cannot_be_sent_is_an_invalid_request_with_the_reason() {
    let header =
        |name: &str, value: &[u8]| RowExtra { headers: vec![(name.into(), value.into())], ..RowExtra::default() };
    let method = |name: &str| RowExtra { method: Some(name.into()), ..RowExtra::default() };
    for (message, extra) in [
        ("this is not an HTTP method (`GE T`)", method("GE T")),
        ("this is not an HTTP method (``)", method("")),
        ("CONNECT requests a tunnel, which has no result", method("CONNECT")),
        ("a header has a character that can't be sent, such as a line break (`x`)", header("x", b"a\r\nInjected: yes")),
        ("a header has a name that can't be sent (`a b\\r\\n`)", header("a b\r\n", b"x")),
        ("line 3 is broken", RowExtra { defect: Some("line 3 is broken".into()), ..RowExtra::default() }),
    ] {
        let failure = prepare(&RequestOptions::default(), &row_with(extra)).expect_err(message);
        assert_eq!(format!("invalid_request: {message}"), failure.to_string());
    }
}

#[test]
fn a_request_has_the_same_bytes_written_at_once_and_in_parts() {
    for (method, body, url) in [
        ("GET", "", "http://a/b?c"),
        ("POST", "", "http://a/b?c"),
        ("POST", "hello", "http://a/b?c"),
        ("GET", "hello", "http://me@a/b/../c d"),
    ] {
        let options =
            RequestOptions { method: Some(method.into()), body: Some(body.into()), ..RequestOptions::default() };
        let mut preparer =
            Preparer::new(LiveDefaults::new(Defaults::new(&options).expect("good options")), SiteMaker::for_tests());
        for extra in [None, Some(RowExtra { method: Some("HEAD".into()), ..RowExtra::default() })] {
            let row = Row { extra: extra.map(Box::new), ..Row::new(0, url) };
            let request = preparer.prepare(&row).expect("valid");
            let (mut expected, mut wire) = (Vec::new(), b"rest of another".to_vec());
            request.write_head(&mut expected);
            expected.extend_from_slice(&request.contents.body.bytes);
            let (site, rest, _) = preparer.write(&row, &mut wire).expect("valid");
            assert_eq!(String::from_utf8(expected), String::from_utf8(wire), "{url}");
            assert!(rest == BodyRest::Bytes(Bytes::new()) && Rc::ptr_eq(&request.site.route, &site.route));
        }
    }
    let body = Bytes::from(vec![b'x'; JOINED_BODY_BYTES + 1]);
    let long = RowExtra { body: Some(body.clone().into()), ..RowExtra::default() };
    let mut preparer = Preparer::new(
        LiveDefaults::new(Defaults::new(&RequestOptions::default()).expect("good options")),
        SiteMaker::for_tests(),
    );
    let mut wire = Vec::new();
    assert_eq!(BodyRest::Bytes(body), preparer.write(&row_with(long), &mut wire).expect("valid").1);
    assert!(wire.ends_with(b"\r\ncontent-length: 32769\r\n\r\n"));
}

#[test]
fn each_row_without_a_key_of_its_own_gets_one_that_stays_the_same() {
    let salt = KeySalt::of_text("a job");
    let keys_in = |wire: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(wire);
        let lines = text
            .split("\r\n")
            .filter_map(|line| line.split_once(": "))
            .filter(|(name, _)| name.eq_ignore_ascii_case("idempotency-key"))
            .map(|(_, value)| value);
        lines.map(str::to_owned).collect()
    };
    let defaults = || Defaults::new(&RequestOptions::default()).expect("good options");
    let mut preparer = Preparer::new(LiveDefaults::new(defaults().with_keys(salt)), SiteMaker::for_tests());
    let own = RowExtra { headers: vec![("Idempotency-KEY".into(), (*b"mine").into())], ..RowExtra::default() };
    let mut wire = Vec::new();
    let mut keys = |row: &Row| {
        // Once in parts, and once with a cached site.
        let mut all = Vec::new();
        for _ in 0..2 {
            preparer.write(row, &mut wire).expect("valid");
            assert!(wire.ends_with(b"\r\n\r\n") && preparer.has_idempotency_key(row));
            all.push(keys_in(&wire));
        }
        assert_eq!(all[0], all[1]);
        all.remove(0)
    };
    let first = keys(&Row::new(0, "http://a/"));
    assert_eq!(1, first.len());
    assert_ne!(first, keys(&Row::new(1, "http://a/")));
    assert_eq!(first, keys(&row_with(RowExtra { method: Some("POST".into()), ..RowExtra::default() })));
    assert_eq!(vec!["mine".to_owned()], keys(&row_with(own.clone())));

    let mut without = Preparer::new(LiveDefaults::new(defaults()), SiteMaker::for_tests());
    without.write(&Row::new(0, "http://a/"), &mut wire).expect("valid");
    assert!(keys_in(&wire).is_empty() && !without.has_idempotency_key(&Row::new(0, "http://a/")));
    assert!(without.has_idempotency_key(&row_with(own)));
}

#[test]
fn bad_defaults_name_their_option() {
    let bad_method = RequestOptions { method: Some("GET IT".into()), ..RequestOptions::default() };
    let bad_header = RequestOptions { headers: vec![("a".into(), "b\nc".into())], ..RequestOptions::default() };
    let messages = [bad_method, bad_header].map(|options| Defaults::new(&options).expect_err("bad").to_string());
    assert_eq!(
        [
            "method: this is not an HTTP method (`GET IT`)",
            "headers: a header has a character that can't be sent, such as a line break (`a`)",
        ],
        messages.each_ref().map(String::as_str)
    );
}

fn with_body(body: &str, headers: &[(&str, &str)]) -> Row {
    let headers = headers.iter().map(|(name, value)| ((*name).into(), value.as_bytes().into())).collect();
    row_with(RowExtra { body: Some(bytes::Bytes::from(body.to_owned()).into()), headers, ..RowExtra::default() })
}

#[test]
fn compressed_bodies_are_sent_with_their_content_encoding() {
    let options = RequestOptions { compress_body: Some(BodyEncoding::Gzip), ..RequestOptions::default() };
    let request = prepare(&options, &with_body("{}", &[])).expect("valid");
    assert!(request.contents.body.bytes.starts_with(b"\x1f\x8b"));
    let lines_of = lines(&request);
    assert!(lines_of.contains(&"content-encoding: gzip".to_owned()), "{lines_of:?}");
    assert!(lines_of.contains(&"content-type: application/json".to_owned()), "{lines_of:?}");
    assert!(lines_of.contains(&format!("content-length: {}", request.contents.body.bytes.len())), "{lines_of:?}");

    // Neither an encoded body nor an empty one is compressed.
    for row in [with_body("{}", &[("Content-Encoding", "br")]), with_body("", &[]), Row::new(0, "http://a/")] {
        let request = prepare(&options, &row).expect("valid");
        assert!(request.contents.body.encoding.is_none() && !request.contents.body.bytes.starts_with(b"\x1f\x8b"));
    }
    // The same holds for the body of the run, also when the request is written in parts.
    let options = RequestOptions { body: Some(b"a=b".to_vec()), ..options };
    let mut preparer = Preparer::new(LiveDefaults::new(Defaults::new(&options).expect("good")), SiteMaker::for_tests());
    for _ in 0..2 {
        let mut wire = Vec::new();
        preparer.write(&Row::new(0, "http://a/"), &mut wire).expect("valid");
        assert!(wire.windows(27).any(|part| part == b"content-encoding: gzip\r\ncon"), "{}", wire.escape_ascii());
    }
}

#[test]
fn a_range_is_requested_of_the_uncompressed_body() {
    let options = RequestOptions {
        response: ResponseOptions { range: Some("0-499,-5".into()), ..ResponseOptions::default() },
        ..RequestOptions::default()
    };
    let lines = lines(&prepare(&options, &Row::new(0, "http://a/")).expect("valid"));
    assert!(lines.contains(&"range: bytes=0-499,-5".to_owned()), "{lines:?}");
    assert!(lines.contains(&"accept-encoding: identity".to_owned()), "{lines:?}");
}

#[test]
fn the_head_of_a_request_with_files_ends_when_their_length_is_known() {
    let pieces: Arc<[BodyPiece]> = [BodyPiece::Bytes("a".into()), BodyPiece::File(Path::new("b").into())].into();
    let body = Some(RowBody::Pieces(pieces.clone()));
    let row = row_with(RowExtra { body, body_type: Some("image/png".into()), ..RowExtra::default() });
    let defaults = Defaults::new(&RequestOptions::default()).expect("good options");
    let mut wire = Vec::new();
    let (_, rest, _) =
        Preparer::new(LiveDefaults::new(defaults), SiteMaker::for_tests()).write(&row, &mut wire).expect("valid");
    assert_eq!(BodyRest::Upload(UploadSource::Files(pieces)), rest);
    end_head(Some(1001), &mut wire);
    let head = String::from_utf8(wire).expect("ASCII");
    assert!(head.starts_with("POST /a?b HTTP/1.1\r\n"), "{head}");
    assert!(head.ends_with("\r\ncontent-type: image/png\r\ncontent-length: 1001\r\n\r\n"), "{head}");
}

#[test]
fn an_invalid_media_type_and_compressed_files_are_refused() {
    let row = |piece, body_type: &str| {
        let body = Some(RowBody::Pieces([piece].into()));
        row_with(RowExtra { body, body_type: Some(body_type.into()), ..RowExtra::default() })
    };
    let refused = |options: &RequestOptions, row: &Row| prepare(options, row).expect_err("refused").reason.to_string();
    let broken = row(BodyPiece::Bytes("a".into()), "text/plain\r\nx: y");
    let message = "the body's media type can't be sent in a header (`text/plain\\r\\nx: y`)";
    assert_eq!(message, refused(&RequestOptions::default(), &broken));
    let compressing = RequestOptions { compress_body: Some(BodyEncoding::Gzip), ..RequestOptions::default() };
    let file = row(BodyPiece::File(Path::new("b").into()), "text/plain");
    assert_eq!("a body with files can't be compressed", refused(&compressing, &file));
    let text = prepare(&compressing, &row(BodyPiece::Bytes("a".into()), "text/plain")).expect("valid");
    let sent = lines(&text);
    assert!(sent.contains(&"content-encoding: gzip".into()) && sent.contains(&"content-type: text/plain".into()));
}
