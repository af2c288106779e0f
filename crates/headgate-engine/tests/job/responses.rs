//! What is kept of invalid responses, and how long the client waits for a server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use headgate_core::message::OptionName;
use serde_json::json;

use crate::harness::{MAX_WAIT, ResultRow, Rig};
use crate::scripted::{Scripted, read_head, response};

const SHORT: Duration = Duration::from_millis(200);

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn coded(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Keeps the connection open until the client closes it.
fn until_gone(stream: &mut TcpStream) {
    let _ = stream.read(&mut [0; 1024]);
}

/// Starts a server that sends these bytes once and then nothing, and does not close.
fn stalling(reply: impl Into<Vec<u8>>) -> Scripted {
    let reply = reply.into();
    Scripted::start(move |mut stream, _| {
        if read_head(&mut stream).is_some() {
            stream.write_all(&reply).unwrap();
            until_gone(&mut stream);
        }
    })
}

fn kept(row: &ResultRow) -> (Option<&str>, Option<Vec<u8>>, Option<&str>) {
    (row.kind(), row.body(), row.body_encoding.as_deref())
}

#[test]
fn an_invalid_header_fails_no_response_and_is_counted() {
    let lines = "X-Folded: one\r\n two\r\nX[0]: a\r\nX-Control: \x07\r\nSet Cookie: b\r\nLast: c\r\n";
    let many = "X-Many: d\r\n".repeat(200);
    let server = Scripted::responding(format!("HTTP/1.2 200 OK\r\n{lines}{many}Content-Length: 5\r\n\r\nhello"));
    let rig = Rig::new(server.url("/[1-3]")).one_by_one();
    let (rows, summary) = rig.run();
    for row in &rows {
        assert_eq!((None, "hello"), (row.kind(), row.text()), "{}", row.message());
        let headers = row.headers().unwrap();
        assert_eq!([("X-Folded", b"one two".to_vec()), ("Last", b"c".to_vec())], headers[..2]);
        assert_eq!(203, headers.len());
    }
    assert_eq!((3, 9, 1), (rows.len(), summary.headers_skipped, server.connections()));
}

#[test]
fn a_head_that_is_refused_is_quoted() {
    let server = Scripted::responding("HTTP/1.1 503 Busy\r\nContent-Length : 5\r\n\r\nhello");
    let row = Rig::new(server.url("/")).row();
    assert_eq!((Some("protocol"), None), (row.kind(), row.status));
    assert_eq!("a header that may frame the body is malformed", row.message());
    assert_eq!("status 503, header `Content-Length : 5`", row.detail());
}

#[test]
fn a_response_to_head_without_a_length_closes_the_connection() {
    let server = Scripted::start(|mut stream, _| {
        while read_head(&mut stream).is_some() {
            // This server generates the body, and ignores the request.
            let sent = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").and_then(|()| stream.write_all(b"a body"));
            if sent.is_err() {
                return;
            }
        }
    });
    let rows = Rig::new(server.url("/[1-20]")).method("HEAD").one_by_one().rows();
    assert!(rows.iter().all(|row| row.kind().is_none() && row.status == Some(200)), "{rows:?}");
    assert_eq!((20, 20), (rows.len(), server.connections()));
}

#[test]
fn a_partial_body_is_kept_with_the_encodings_that_were_not_decoded() {
    let plain = b"hello, hello, hello".repeat(100);
    let encoded = gzip(&plain);
    let cut = &encoded[..encoded.len() / 2];
    let broken = [&encoded[..12], b"this is no gzip"].concat();
    for (kind, body, encoding, reply) in [
        (None, &plain[..], None, coded("200 OK", &encoded)),
        // A part of the body is kept unchanged.
        (None, cut, Some("gzip"), coded("206 Partial Content", cut)),
        (Some("decode"), cut, Some("gzip"), coded("200 OK", cut)),
        (Some("decode"), &broken[..], Some("gzip"), coded("200 OK", &broken)),
    ] {
        let row = Rig::new(Scripted::responding(reply).url("/")).row();
        assert_eq!((kind, Some(body.to_vec()), encoding), kept(&row), "{}", row.message());
    }
    let twice = b"HTTP/1.1 200 OK\r\nContent-Encoding: GZIP\r\ncontent-encoding: br, identity\r\n";
    for (kind, body, rest) in [
        (Some("connection_closed"), &b"hel"[..], &b"Content-Length: 5\r\n\r\nhel"[..]),
        (Some("connection_closed"), b"hel", b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\n"),
        (Some("protocol"), b"hel", b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\nno size\r\n"),
        (Some("decode"), b"hello", b"Content-Length: 5\r\n\r\nhello"),
    ] {
        let reply = [&twice[..], rest].concat();
        let server = Scripted::start(move |mut stream, _| {
            read_head(&mut stream);
            stream.write_all(&reply).unwrap();
        });
        let row = Rig::new(server.url("/")).row();
        assert_eq!((kind, Some(body.to_vec()), Some("gzip, br")), kept(&row), "{}", row.message());
        assert_eq!(body.len() as u64, row.received_bytes);
    }
    let row = Rig::new(stalling([&twice[..], b"Content-Length: 5\r\n\r\nhel"].concat()).url("/")).timeout(SHORT).row();
    assert_eq!((Some("timeout"), Some(b"hel".to_vec()), Some("gzip, br")), kept(&row), "{}", row.message());
}

#[test]
fn raw_bodies_are_kept_as_sent() {
    let encoded = gzip(b"hello");
    for (encoding, reply) in [
        (Some("gzip"), coded("200 OK", &encoded)),
        (None, [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", encoded.len()).as_bytes(), &encoded].concat()),
        (Some("gzip"), coded("200 OK", b"no gzip at all")),
    ] {
        let body = reply[reply.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4..].to_vec();
        let server = Scripted::responding(reply);
        let mut rig = Rig::new(server.url("/"));
        rig.options.request.response.decode = false;
        assert_eq!((None, Some(body), encoding), kept(&rig.row()));
    }
}

#[test]
fn a_body_that_may_be_truncated_is_cut_without_a_failure() {
    let plain = b"0123456789".repeat(100_000);
    let length = [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", plain.len()).as_bytes(), &plain].concat();
    let short = format!("HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n{}", "0123456789".repeat(200)).into_bytes();
    let chunked = [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2000\r\n"[..], &plain[..8192]].concat();
    for (connections, reply) in
        // A short rest is drained; a long one closes the connection.
        [(3, length), (1, short), (3, chunked), (1, coded("200 OK", &gzip(&plain)))]
    {
        let server = Scripted::responding(reply);
        let mut rig = Rig::new(server.url("/[1-3]")).one_by_one();
        rig.options.request.max_body_size = 1000;
        rig.options.request.truncate_body = true;
        for row in rig.rows() {
            assert_eq!((None, Some(plain[..1000].to_vec()), None), kept(&row), "{}", row.message());
            assert!(row.body_truncated);
        }
        assert_eq!(connections, server.connections());
    }
    // The rest need not arrive if its length is known to exceed the bound.
    let stalls = format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(1000));
    let whole = Scripted::responding(response(&"x".repeat(1000)));
    for (truncated, server) in [(false, whole), (true, stalling(stalls))] {
        let mut rig = Rig::new(server.url("/"));
        rig.options.request.max_body_size = 1000;
        rig.options.request.truncate_body = true;
        let row = rig.row();
        assert_eq!((None, 1000, truncated), (row.kind(), row.text().len(), row.body_truncated), "{}", row.message());
    }
}

#[test]
fn without_bodies_a_response_is_its_status_and_headers() {
    let endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n".to_vec();
    let huge = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nhello".to_vec();
    for (connections, reply) in
        [(1, response("hello").into_bytes()), (1, coded("404 Not Found", b"no gzip")), (3, endless), (3, huge)]
    {
        let server = Scripted::responding(reply);
        let mut rig = Rig::new(server.url("/[1-3]")).one_by_one();
        rig.options.request.response.no_body = true;
        for row in rig.rows() {
            assert_eq!((None, None, None), kept(&row), "{}", row.message());
            assert_eq!((true, 0, false), (row.status.is_some(), row.received_bytes, row.body_truncated));
        }
        assert_eq!(connections, server.connections());
    }
}

#[test]
fn an_unneeded_rest_that_does_not_arrive_is_no_failure() {
    let server = stalling("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
    let mut rig = Rig::new(server.url("/[1-2]")).one_by_one();
    rig.options.request.response.no_body = true;
    let rows = rig.rows();
    assert!(
        rows.iter().all(|row| row.kind().is_none() && row.elapsed_us < MAX_WAIT.as_micros() as u64 / 2),
        "{rows:?}"
    );
    assert_eq!(2, server.connections());
}

/// Runs a row that fails with these first-byte and idle timeouts, and returns it with the named option.
fn timed_out_row(
    server: &Scripted,
    first_byte: Option<Duration>,
    idle: Option<Duration>,
) -> (ResultRow, Option<OptionName>) {
    let mut rig = Rig::new(server.url("/"));
    rig.options.request.first_byte_timeout = first_byte;
    rig.options.request.idle_timeout = idle;
    let (row, example) = rig.failed_row();
    assert_eq!(Some("timeout"), row.kind(), "{}", row.message());
    assert!(row.elapsed_us >= SHORT.as_micros() as u64 && row.elapsed_us < MAX_WAIT.as_micros() as u64 / 2);
    assert!(row.remote_addr.is_some());
    (row, example.option)
}

#[test]
fn the_first_byte_and_idle_timeouts_bound_the_wait_for_a_silent_server() {
    let (first_byte, idle) = (Some(SHORT), Some(SHORT));
    let (silent, half_a_head) = (stalling(""), stalling("HTTP/1.1 200 OK\r\n"));
    let half_a_body = stalling("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
    for (option, message, server, first_byte, idle) in [
        (
            OptionName::FirstByteTimeout,
            "the first byte of the response did not come in time",
            &silent,
            first_byte,
            None,
        ),
        (OptionName::IdleTimeout, "the server sent nothing for too long", &silent, None, idle),
        (OptionName::IdleTimeout, "the server sent nothing for too long", &half_a_head, Some(MAX_WAIT), idle),
        (
            OptionName::IdleTimeout,
            "the body was not complete, and the server sent nothing for too long",
            &half_a_body,
            Some(MAX_WAIT),
            idle,
        ),
    ] {
        let (row, named) = timed_out_row(server, first_byte, idle);
        assert_eq!((message, Some(option)), (row.message(), named));
        let body = message.starts_with("the body").then(|| b"hel".to_vec());
        assert_eq!(body, row.body());
    }
}

#[test]
fn the_idle_timeout_bounds_the_wait_for_a_server_that_reads_nothing() {
    let (done, gone) = mpsc::channel::<()>();
    let gone = Mutex::new(gone);
    let server = Scripted::start(move |_stream, _| {
        let _ = gone.lock().unwrap().recv();
    });
    let mut rig = Rig::new(server.url("/")).method("POST");
    rig.options.request.body = Some(vec![b'x'; 32 * 1024 * 1024]);
    rig.options.request.idle_timeout = Some(SHORT);
    let (row, example) = rig.failed_row();
    drop(done);
    assert_eq!(
        (Some("timeout"), "the server accepted no bytes of the request for too long"),
        (row.kind(), row.message())
    );
    assert_eq!(Some(OptionName::IdleTimeout), example.option);
}

#[test]
fn the_timeout_or_the_total_timeout_ends_a_slow_response() {
    let server = || {
        Scripted::start(|mut stream, _| {
            read_head(&mut stream);
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".as_slice();
            let mut sent = stream.write_all(head);
            while sent.is_ok() {
                std::thread::sleep(SHORT / 20);
                sent = stream.write_all(b"x");
            }
        })
    };
    for (kind, option, message, total_timeout) in [
        ("timeout", OptionName::Timeout, "the body was not complete in time", None),
        (
            "total_timeout",
            OptionName::TotalTimeout,
            "the body was not complete when the total timeout passed",
            Some(SHORT * 3),
        ),
    ] {
        let server = server();
        let mut rig = Rig::new(server.url("/")).timeout(if total_timeout.is_some() { MAX_WAIT } else { SHORT * 3 });
        rig.options.request.first_byte_timeout = Some(MAX_WAIT);
        rig.options.request.idle_timeout = Some(MAX_WAIT);
        rig.options.run.retrying.total_timeout = total_timeout;
        let (row, example) = rig.failed_row();
        assert_eq!((Some(kind), message, Some(option)), (row.kind(), row.message(), example.option));
        assert!(row.body().is_some_and(|body| body.iter().all(|byte| *byte == b'x')), "what dripped is kept");
    }
}

#[test]
fn the_error_of_an_unsafe_request_names_its_reused_connection() {
    let server = || {
        Scripted::start(|mut stream, _| {
            read_head(&mut stream);
            stream.write_all(response("first").as_bytes()).unwrap();
            // It closes when the next request has arrived, which is an ordinary race.
            read_head(&mut stream);
        })
    };
    for (method, resent) in [("POST", 0), ("GET", 1)] {
        let server = server();
        let (rows, summary) = Rig::urls([server.url("/1"), server.url("/2")]).method(method).one_by_one().run();
        assert_eq!(resent, summary.resent);
        let address = server.address.to_string();
        assert!(rows.iter().all(|row| row.remote_addr.as_deref() == Some(&*address)), "{rows:?}");
        let message = "the server closed the connection without a response; the connection had been used before";
        assert_eq!(if resent == 0 { message } else { "" }, rows[1].message());
    }
}

#[test]
fn a_method_in_small_letters_is_sent_unchanged_with_one_note() {
    let server = Scripted::start(|mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            stream.write_all(response(&head).as_bytes()).unwrap();
        }
    });
    let methods = ["get", "GET", "brew", "get", "Post"];
    let objects: Vec<_> = methods.iter().map(|method| json!({"url": server.url("/"), "method": method})).collect();
    let (rows, summary) = Rig::objects(&objects).one_by_one().run();
    for (method, row) in methods.iter().zip(&rows) {
        assert!(row.text().starts_with(&format!("{method} / ")), "{}", row.text());
    }
    let notes: Vec<_> = summary.notes.iter().map(ToString::to_string).collect();
    let note = "3 rows were requested with a method in lower case, such as get: servers treat it as another method";
    assert_eq!(vec![note], notes);
}

#[test]
fn failed_bodies_wait_for_memory_as_succeeded_ones_do() {
    let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n{}", "x".repeat(100_000));
    let text = Arc::new(reply);
    let server = Scripted::start(move |mut stream, _| {
        read_head(&mut stream);
        let _ = stream.write_all(text.as_bytes());
    });
    let mut rig = Rig::new(server.url("/[1-20]")).concurrency(5, 2);
    rig.options.engine.max_memory = Some(300_000);
    let rows = rig.rows();
    assert_eq!(20, rows.iter().filter(|row| row.body().is_some_and(|body| body.len() == 100_000)).count());
}
