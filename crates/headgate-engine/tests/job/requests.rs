//! Requests are sent as the options and rows specify them.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Mutex;

use headgate_core::defaults::DEFAULT_USER_AGENT;
use serde_json::json;

use crate::harness::{Rig, server, url};
use crate::scripted::{Scripted, read_head, response};

const LARGE_BYTES: usize = 5 * 1024 * 1024;

#[test]
fn a_plain_request_has_a_host_header_and_a_user_agent() {
    let server = server();
    let echo = Rig::new(url(server.address(), "/echo/path?query=1")).row().echo();
    assert_eq!(("GET", "/echo/path?query=1", Some("")), (&*echo.method, &*echo.path, echo.body.as_deref()));
    assert_eq!(vec![server.address().to_string()], echo.all("host"));
    assert_eq!(vec![DEFAULT_USER_AGENT], echo.all("user-agent"));
    assert_eq!(vec!["gzip, deflate, br, zstd"], echo.all("accept-encoding"));
    assert_eq!(Vec::<&str>::new(), echo.all("content-length"));
}

#[test]
fn an_empty_body_has_a_content_length_for_methods_that_may_have_a_body() {
    let server = server();
    for (length, method) in [
        (vec!["0"], "POST"),
        (vec!["0"], "PUT"),
        (vec!["0"], "PATCH"),
        (vec![], "DELETE"),
        (vec![], "OPTIONS"),
        (vec![], "BREW"),
    ] {
        let row = Rig::new(url(server.address(), "/echo")).method(method).row();
        assert_eq!((length, method), (row.echo().all("content-length"), &*row.echo().method));
        assert_eq!(method, row.method);
    }
}

#[test]
fn a_body_is_posted_with_a_default_method_and_media_type() {
    let server = server();
    let at = url(server.address(), "/echo");
    let rows = Rig::objects(&[
        json!({"url": at, "body": "a=1"}),
        json!({"url": at, "body": {"a": [1]}}),
        json!({"url": at, "body": " [1]", "headers": {"Content-Type": "text/plain"}}),
        json!({"url": at, "body": ""}),
        json!({"url": at, "body": null}),
        json!({"url": at, "body": "{}", "method": "PUT"}),
    ])
    .rows();
    let seen: Vec<_> = rows.iter().map(|row| (row.echo().method, row.echo().all("content-type").join(","))).collect();
    let expected = [
        ("POST", "application/x-www-form-urlencoded"),
        ("POST", "application/json"),
        ("POST", "text/plain"),
        ("POST", ""),
        ("GET", ""),
        ("PUT", ""),
    ];
    assert_eq!(expected.map(|(method, kind)| (method.to_owned(), kind.to_owned())).to_vec(), seen);
    assert_eq!(expected.map(|(method, _)| method).to_vec(), rows.iter().map(|row| &*row.method).collect::<Vec<_>>());
}

#[test]
fn the_method_of_the_job_applies_to_rows_with_a_body() {
    let server = server();
    let rig = Rig::objects(&[json!({"url": url(server.address(), "/echo"), "body": "a=1"})]);
    let row = rig.method("GET").row();
    assert_eq!(("GET", "GET", Some("a=1")), (&*row.method, &*row.echo().method, row.echo().body.as_deref()));
}

#[test]
fn the_body_of_the_job_has_the_same_default_media_type_as_that_of_a_row() {
    let server = server();
    for (expected, body, headers) in [
        (vec!["application/x-www-form-urlencoded"], "a=1", vec![]),
        (vec!["application/json"], "\n{}", vec![]),
        (vec!["text/plain"], "{}", vec![("content-Type".into(), "text/plain".into())]),
        (vec![], "", vec![]),
    ] {
        let mut rig = Rig::new(url(server.address(), "/echo"));
        (rig.options.request.body, rig.options.request.headers) = (Some(body.into()), headers);
        let echo = rig.row().echo();
        assert_eq!(("POST", expected), (&*echo.method, echo.all("content-type")));
    }
}

#[test]
fn a_user_in_a_url_is_sent_and_is_in_no_result() {
    let server = server();
    let at = |user: &str| format!("http://{user}{}/echo", server.address());
    let basic = "Basic bWU6c2VjcmV0";
    for row in [Rig::new(at("me:secret@")).row(), Rig::objects(&[json!({"url": at("me:secret@")})]).row()] {
        assert_eq!((at(""), vec![basic]), (row.url.clone(), row.echo().all("authorization")));
    }
    let mut failing = Rig::urls(["http://me:secret@127.0.0.1:0/".to_owned()]);
    failing.options.request.timeout = crate::harness::MAX_WAIT;
    let row = failing.row();
    assert!(!format!("{row:?}").contains("secret"), "{row:?}");
}

#[test]
fn a_row_overrides_the_options_of_the_job() {
    let server = server();
    let at = url(server.address(), "/echo");
    let mut rig = Rig::objects(&[
        json!({"url": at}),
        json!({"url": at, "method": "PUT", "headers": {"X-Job": "mine", "X-Two": ["1", "2"]}, "body": "row"}),
    ])
    .method("POST");
    rig.options.request.headers = vec![("X-Job".into(), "job".into())];
    rig.options.request.body = Some(b"job".to_vec());
    let rows = rig.rows();
    let [first, second] = [rows[0].echo(), rows[1].echo()];
    assert_eq!(("POST", Some("job"), vec!["job"]), (&*first.method, first.body.as_deref(), first.all("x-job")));
    assert_eq!(("PUT", Some("row"), vec!["mine"]), (&*second.method, second.body.as_deref(), second.all("x-job")));
    assert_eq!((vec!["3"], vec!["1", "2"]), (second.all("content-length"), second.all("x-two")));
}

#[test]
fn credentials_in_a_url_are_sent_as_authorization_and_for_no_other_row() {
    let server = server();
    let with = format!("http://Aladdin:open%20sesame@{}/echo", server.address());
    let without = url(server.address(), "/echo");
    let rows = Rig::urls([&without, &with, &without]).one_by_one().rows();
    let sent: Vec<_> = rows.iter().map(|row| row.echo().all("authorization").join("|")).collect();
    assert_eq!(vec![String::new(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned(), String::new()], sent);
    assert_eq!(vec![server.address().to_string()], rows[1].echo().all("host"));
}

#[test]
fn a_large_body_arrives_complete() {
    let server = server();
    let body: String = (b'a'..=b'z').cycle().take(LARGE_BYTES).map(char::from).collect();
    let mut rig = Rig::new(url(server.address(), "/echo?[1-2]")).method("POST").one_by_one();
    rig.options.request.body = Some(body.clone().into_bytes());
    for row in rig.rows() {
        assert!(Some(&body) == row.echo().body.as_ref());
    }
    assert_eq!(1, server.statistics().connections_accepted);
}

#[test]
fn a_response_before_the_body_was_read_is_the_response() {
    let held: Mutex<Vec<TcpStream>> = Mutex::default();
    let server = Scripted::start(move |mut stream, _| {
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!").unwrap();
        // The connection is neither read from nor closed.
        held.lock().unwrap().push(stream);
    });
    let mut rig = Rig::new(server.url("/[1-3]")).method("POST").one_by_one();
    rig.options.request.body = Some(vec![0; 4 * LARGE_BYTES]);
    for row in rig.rows() {
        assert_eq!((Some(413), None, "no!"), (row.status, row.kind(), row.text()));
    }
    assert_eq!(3, server.connections(), "the rest of the body is missing: no other request uses the connection");
}

#[test]
fn a_server_that_closes_while_it_reads_the_body_fails_with_closed_without_a_retry() {
    let server = Scripted::start(|mut stream, number| {
        if number == 0 {
            read_head(&mut stream);
            stream.write_all(response("first").as_bytes()).unwrap();
        }
        read_head(&mut stream);
    });
    let mut rig = Rig::new(server.url("/[1-2]")).method("POST").one_by_one();
    rig.options.request.body = Some(vec![0; LARGE_BYTES]);
    let rows = rig.rows();
    assert!(rows.iter().any(|row| row.kind() == Some("connection_closed")), "{rows:?}");
    assert!(rows.iter().all(|row| matches!(row.kind(), None | Some("connection_closed"))), "{rows:?}");
    assert!(server.connections() <= 2);
}

#[test]
fn a_request_that_is_written_in_parts_arrives_unchanged() {
    let server = Scripted::start(|stream, _| {
        let mut stream = std::io::BufReader::with_capacity(1 << 20, stream);
        while let Some(head) = read_head(&mut stream) {
            let body = head.len().to_string();
            stream.get_mut().write_all(response(&body).as_bytes()).unwrap();
        }
    });
    // The request is larger than the buffer of a socket.
    let long = "long ".repeat(1_800_000);
    let object = |headers: serde_json::Value| json!({"url": server.url("/"), "headers": headers});
    let rows =
        Rig::objects(&[object(json!({})), object(json!({"X-Long": long})), object(json!({}))]).one_by_one().rows();
    let lengths: Vec<usize> = rows.iter().map(|row| row.text().parse().expect("a length")).collect();
    assert_eq!(vec![lengths[0], lengths[0] + "x-long: \r\n".len() + long.len(), lengths[0]], lengths);
    assert_eq!(1, server.connections());
}
