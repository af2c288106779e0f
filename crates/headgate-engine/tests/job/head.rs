//! `HEAD,GET`: a GET follows a HEAD that a server refuses.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headgate_core::limits::{HostConcurrency, PerHost};

use crate::harness::Rig;
use crate::http2_frames::{END_HEADERS, END_STREAM, HEADERS};
use crate::scripted::{Scripted, read_head, response};

/// Methods and paths of the requests that a server received.
type Log = Arc<Mutex<Vec<String>>>;

fn empty(status: u16) -> String {
    format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n")
}

/// Starts a server that responds to a request such as `GET /a` as `respond` returns.
fn server(respond: impl Fn(&str) -> String + Send + Sync + 'static) -> (Scripted, Log) {
    let log = Log::default();
    let seen = log.clone();
    let server = Scripted::start(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let request = head.split(" HTTP/1.1").next().unwrap().to_owned();
            let reply = respond(&request);
            seen.lock().unwrap().push(request);
            if stream.write_all(reply.as_bytes()).is_err() {
                break;
            }
        }
    });
    (server, log)
}

fn refusing(status: u16) -> impl Fn(&str) -> String {
    move |request| if request.starts_with("HEAD") { empty(status) } else { response("body") }
}

fn rig(url: &str) -> Rig {
    Rig::new(url).method("HEAD,GET").one_by_one()
}

#[test]
fn a_get_follows_a_head_that_is_refused_with_405_or_501() {
    for status in [405, 501] {
        let (server, log) = server(refusing(status));
        let row = rig(&server.url("/a")).row();
        assert_eq!((Some(200), "GET", "body", 2), (row.status, &row.method[..], row.text(), row.attempts));
        assert_eq!((None, 1), (row.final_url.as_deref(), server.connections()));
        assert_eq!(["HEAD /a", "GET /a"], log.lock().unwrap()[..]);
    }
    for status in [200, 403, 404, 500] {
        let (server, log) = server(refusing(status));
        let row = rig(&server.url("/a")).rows().remove(0);
        assert_eq!((Some(status), "HEAD", "", 1), (row.status, &row.method[..], row.text(), row.attempts));
        assert_eq!(["HEAD /a"], log.lock().unwrap()[..]);
    }
}

#[test]
fn a_get_that_is_refused_as_well_is_the_response() {
    let (server, log) = server(|_| empty(405));
    let row = rig(&server.url("/a")).row();
    assert_eq!((Some(405), "GET", 2), (row.status, &row.method[..], row.attempts));
    assert_eq!(["HEAD /a", "GET /a"], log.lock().unwrap()[..]);
}

#[test]
fn a_head_alone_is_never_replaced_and_the_method_of_a_row_counts() {
    let (server, log) = server(refusing(405));
    assert_eq!(Some(405), Rig::new(server.url("/a")).method("HEAD").row().status);
    let rows = [
        serde_json::json!({"url": server.url("/b"), "method": "HEAD"}),
        serde_json::json!({"url": server.url("/c"), "method": "HEAD,GET"}),
    ];
    let rows = Rig::objects(&rows).method("HEAD,GET").one_by_one().rows();
    assert_eq!([Some(405), Some(200)], [rows[0].status, rows[1].status]);
    assert_eq!(["HEAD /a", "HEAD /b", "HEAD /c", "GET /c"], log.lock().unwrap()[..]);
}

#[test]
fn a_host_that_goes_on_refusing_head_gets_no_more_of_them() {
    for (heads, status) in [(8, 405), (1, 501)] {
        let (server, log) = server(refusing(status));
        let rows = rig(&server.url("/[1-20]")).rows();
        assert!(rows.iter().all(|row| (row.status, &row.method[..]) == (Some(200), "GET")), "{rows:?}");
        let attempts: Vec<_> = rows.iter().map(|row| row.attempts).collect();
        assert_eq!([vec![2; heads], vec![1; 20 - heads]].concat(), attempts);
        assert_eq!(20 + heads, log.lock().unwrap().len());
    }
    // A host that accepts HEAD for other URLs refuses it only for some.
    let (server, log) =
        server(|request| if request.len() > "HEAD /1".len() { refusing(405)(request) } else { response("") });
    let rows = rig(&server.url("/[1-30]")).rows();
    let gets = rows.iter().filter(|row| row.method == "GET").count();
    assert_eq!((21, 30 + 8), (gets, log.lock().unwrap().len()));
    let paths: Vec<_> = (0..30).flat_map(|_| ["/10", "/1"]).map(|path| server.url(path)).collect();
    let rows = Rig::urls(paths).method("HEAD,GET").one_by_one().rows();
    assert!(rows.iter().all(|row| row.attempts == if row.url.ends_with("/10") { 2 } else { 1 }), "{rows:?}");
}

#[test]
fn a_get_waits_for_the_limits_of_its_host_and_counts_for_its_rate() {
    let (server, log) = server(refusing(405));
    let mut rig = rig(&server.url("/[1-3]")).concurrency(4, 2);
    rig.options.run.limits.concurrency_per_host = PerHost { each: Some(HostConcurrency::Fixed(1)), named: Vec::new() };
    rig.options.run.limits.rate = Some("50/s".parse().expect("a rate"));
    let started = std::time::Instant::now();
    let rows = rig.rows();
    assert!(rows.iter().all(|row| (row.status, row.attempts) == (Some(200), 2)), "{rows:?}");
    assert!(started.elapsed() >= Duration::from_millis(100), "{:?}", started.elapsed());
    assert_eq!(6, log.lock().unwrap().len());
}

#[test]
fn a_get_continues_where_a_redirect_has_led() {
    let (server, log) = server(|request| match request {
        "HEAD /a" => "HTTP/1.1 302 x\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n".into(),
        request => refusing(405)(request),
    });
    let mut rig = rig(&server.url("/a"));
    rig.options.request.response.keep_redirects = true;
    let row = rig.row();
    assert_eq!((Some(200), "GET", "body", 2), (row.status, &row.method[..], row.text(), row.attempts));
    assert_eq!((Some(server.url("/b")), 1), (row.final_url.clone(), row.redirects.as_ref().unwrap().len()));
    assert_eq!(["HEAD /a", "HEAD /b", "GET /b"], log.lock().unwrap()[..]);
}

#[test]
fn a_get_that_fails_is_retried_as_often_as_any_other_request() {
    let (server, log) = server(|request| if request.starts_with("HEAD") { empty(405) } else { empty(503) });
    let mut rig = rig(&server.url("/a"));
    rig.options.run.retrying.retries = 2;
    rig.options.run.retrying.delay = Duration::from_millis(1);
    let (rows, _) = rig.run();
    assert_eq!((Some(503), "GET", 4), (rows[0].status, &rows[0].method[..], rows[0].attempts));
    assert_eq!(["HEAD /a", "GET /a", "GET /a", "GET /a"], log.lock().unwrap()[..]);
}

#[test]
fn a_refused_head_is_not_retried_even_if_its_status_would_be() {
    let (server, log) = server(refusing(405));
    let mut rig = rig(&server.url("/a"));
    rig.options.run.retrying.retries = 2;
    rig.options.run.retrying.delay = Duration::from_millis(1);
    rig.options.run.retrying.on = "405".parse().expect("a status");
    let row = rig.row();
    assert_eq!((Some(200), "GET"), (row.status, &row.method[..]));
    assert_eq!(["HEAD /a", "GET /a"], log.lock().unwrap()[..]);
}

#[test]
fn the_body_of_a_get_is_not_read_with_no_body() {
    let (server, _) = server(refusing(405));
    let mut rig = rig(&server.url("/a"));
    rig.options.request.response.no_body = true;
    let row = rig.row();
    assert_eq!((Some(200), "GET", None), (row.status, &row.method[..], row.body()));
}

#[test]
fn a_get_follows_a_head_over_http2() {
    // `:status: 405`, with a name from the static table (RFC 7541 section 6.2.2).
    const STATUS_405: &[u8] = b"\x08\x03405";
    let server = crate::http2::start(10, |peer, _| {
        let head = peer.request()?;
        peer.send(HEADERS, END_HEADERS | END_STREAM, head, STATUS_405)?;
        let get = peer.request()?;
        peer.respond(get, b"body")?;
        peer.request().map(|_| ())
    });
    let mut rig = crate::http2::rig(&server, 1);
    rig.options.request.method = Some("HEAD,GET".into());
    let row = rig.row();
    assert_eq!((Some(200), "GET", "body", 2), (row.status, &row.method[..], row.text(), row.attempts));
    assert_eq!((Some("HTTP/2"), 1), (row.http_version.as_deref(), server.connections()));
}
