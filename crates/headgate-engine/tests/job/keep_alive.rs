//! A server may close a connection at the moment when a request is sent on it. Requests that may be resent are, and
//! no others (RFC 9110 section 9.2.2, RFC 9112 section 9.3.1).

use std::io::Write;

use crate::harness::{ResultRow, Rig, server, url};
use crate::scripted::{Scripted, read_head, response};

const ROWS: u64 = 20;

fn kinds(rows: &[ResultRow]) -> Vec<Option<&str>> {
    rows.iter().map(ResultRow::kind).collect()
}

fn one_by_one(path: &str, method: &str) -> (Vec<ResultRow>, headgate_testserver::Statistics) {
    let server = server();
    let input = url(server.address(), &format!("{path}?[1-{ROWS}]"));
    let rows = Rig::new(input).method(method).one_by_one().rows();
    assert_eq!(ROWS, rows.len() as u64);
    (rows, server.statistics())
}

#[test]
fn an_idempotent_request_on_a_closed_connection_is_resent_without_a_counted_attempt() {
    for fault in ["/fault/close-idle", "/fault/reset-idle"] {
        for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
            let (rows, seen) = one_by_one(fault, method);
            assert_eq!(vec![None; rows.len()], kinds(&rows), "{method} {fault}");
            assert!(rows.iter().all(|row| row.attempts == 1 && row.text() == "Hello, World!"));
            assert_eq!((ROWS, ROWS), (seen.requests, seen.connections_accepted), "{method} {fault}");
        }
    }
}

#[test]
fn a_request_that_is_not_idempotent_is_never_resent() {
    for fault in ["/fault/close-idle", "/fault/reset-idle"] {
        for method in ["POST", "PATCH"] {
            let (rows, seen) = one_by_one(fault, method);
            // The second request is sent on the connection of the first, which the server then closes. From then on, the
            // host is
            // known to close early, and each request has its own connection.
            let mut expected = vec![None; rows.len()];
            expected[1] = Some("connection_closed");
            assert_eq!(expected, kinds(&rows), "{method} {fault}");
            assert!(rows.iter().all(|row| row.attempts == 1));
            assert_eq!((ROWS - 1, ROWS - 1), (seen.requests, seen.connections_accepted), "{method} {fault}");
        }
    }
}

#[test]
fn a_server_that_closes_after_each_response_without_announcing_it_loses_no_request() {
    let (rows, seen) = one_by_one("/fault/close-after-response", "GET");
    assert_eq!(vec![None; rows.len()], kinds(&rows));
    assert_eq!((ROWS, ROWS), (seen.requests, seen.connections_accepted));

    let (rows, seen) = one_by_one("/fault/close-after-response", "POST");
    let succeeded = kinds(&rows).iter().filter(|kind| kind.is_none()).count();
    assert!(rows.iter().all(|row| matches!(row.kind(), None | Some("connection_closed"))), "{:?}", kinds(&rows));
    assert_eq!(succeeded as u64, seen.requests, "rows with a response were requested once, and all others never");
}

#[test]
fn a_closed_new_connection_fails_the_attempt_at_once() {
    let server = server();
    let row = Rig::new(url(server.address(), "/fault/refuse")).row();
    assert_eq!((Some("connection_closed"), 1), (row.kind(), row.attempts));
    assert_eq!(1, server.statistics().requests);
}

#[test]
fn a_request_is_resent_at_most_once() {
    let server = Scripted::start(|mut stream, number| {
        if number == 0 {
            read_head(&mut stream);
            stream.write_all(response("first").as_bytes()).unwrap();
        }
        read_head(&mut stream);
    });
    let rows = Rig::urls([server.url("/1"), server.url("/2")]).one_by_one().rows();
    assert_eq!(vec![None, Some("connection_closed")], kinds(&rows));
    assert_eq!(2, server.connections());
}

#[test]
fn a_request_whose_response_has_begun_is_not_resent() {
    let server = Scripted::start(|mut stream, _| {
        read_head(&mut stream);
        stream.write_all(response("first").as_bytes()).unwrap();
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 O").unwrap();
    });
    let rows = Rig::urls([server.url("/1"), server.url("/2")]).one_by_one().rows();
    assert_eq!(vec![None, Some("connection_closed")], kinds(&rows));
    assert_eq!("the server closed the connection in the middle of the head", rows[1].message());
    assert_eq!(1, server.connections());
}

#[test]
fn a_connection_is_kept_for_the_timeout_that_the_server_announces() {
    for (connections, head) in [
        (1, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"),
        (1, "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\n"),
        (3, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"),
        (3, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n"),
    ] {
        let server = Scripted::responding(format!("{head}ok"));
        let rows = Rig::new(server.url("/[1-3]")).one_by_one().rows();
        assert!(rows.iter().all(|row| row.text() == "ok"), "{head}");
        assert_eq!(connections, server.connections(), "{head}");
    }
}

#[test]
fn an_unsafe_request_waits_once_for_proof_that_its_host_keeps_connections() {
    let server = server();
    let (rows, summary) = Rig::new(url(server.address(), &format!("/?[1-{ROWS}]"))).method("POST").one_by_one().run();
    assert_eq!(vec![None; rows.len()], kinds(&rows));
    assert_eq!((ROWS, 0), (rows.len() as u64, summary.resent));
    assert_eq!(1, server.statistics().connections_accepted);
}

#[test]
fn a_server_that_closes_early_loses_no_unsafe_request() {
    // It closes a millisecond after each response, before a connection can prove that it is kept.
    let server = Scripted::start(|mut stream, _| {
        if read_head(&mut stream).is_some() {
            stream.write_all(response("hello").as_bytes()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    let rows = Rig::new(server.url(&format!("/?[1-{ROWS}]"))).method("POST").one_by_one().rows();
    assert_eq!(vec![None; rows.len()], kinds(&rows));
    assert_eq!(ROWS, server.connections() as u64);
}
