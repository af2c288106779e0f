//! Every fault of a server is one outcome that states what happened, and affects no other row.
//!
//! `tests/integration/test_faults.py` has the kinds of the same faults, seen from the command line.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use headgate_testserver::Server;
use serde_json::json;

use crate::harness::{ResultRow, Rig, server, url};
use crate::scripted::{Scripted, read_head};

/// The timeout for faults that only a timeout ends.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A loaded machine may notice the timeout late, but not by much.
const LATENESS: Duration = Duration::from_secs(2);
const MAX_BODY_BYTES: u64 = 1024 * 1024;

const HELLO: &str = "Hello, World!";
const HELLOS: &str = "Hello, World! Hello, World! Hello, World! Hello, World! Hello, World! Hello, World!";

#[derive(Debug, Clone, Copy)]
enum End {
    /// The row succeeds, with this body.
    Body(&'static str),
    /// The row fails; a part of the message.
    Error(&'static str, &'static str),
}
use End::{Body, Error};

/// Each fault, the status that is known at the end, and the outcome of the row.
const ENDS: &[(&str, Option<u16>, End)] = &[
    // connection
    ("refuse", None, Error("connection_closed", "the server closed the connection without a response")),
    ("reset-before-headers", None, Error("connection_closed", "reset")),
    ("close-mid-headers", None, Error("connection_closed", "in the middle of the head")),
    ("reset-after-headers", Some(200), Error("connection_closed", "reset")),
    ("reset-mid-body", Some(200), Error("connection_closed", "reset")),
    ("hang-before-headers", None, Error("timeout", "no response came in time")),
    ("hang-mid-headers", None, Error("timeout", "no response came in time")),
    ("hang-mid-body", Some(200), Error("timeout", "the body was not complete in time")),
    ("drip", Some(200), Error("timeout", "the body was not complete in time")),
    ("drip-headers", None, Error("timeout", "no response came in time")),
    ("endless-body", Some(200), Error("body_too_large", "larger than it may be")),
    ("endless-body-close-delimited", Some(200), Error("body_too_large", "larger than it may be")),
    ("close-after-response", Some(200), Body(HELLO)),
    ("close-idle", Some(200), Body(HELLO)),
    ("reset-idle", Some(200), Body(HELLO)),
    ("cut-mid-stream", Some(200), Body(HELLO)),
    ("extra-bytes", Some(200), Body(HELLO)),
    ("extra-response", Some(200), Body(HELLO)),
    // content
    ("truncated-gzip", Some(200), Error("decode", "content encoding")),
    ("corrupt-gzip", Some(200), Error("decode", "content encoding")),
    ("gzip-bad-checksum", Some(200), Error("decode", "content encoding")),
    ("gzip-trailing-garbage", Some(200), Body(HELLOS)),
    ("not-gzip", Some(200), Error("decode", "content encoding")),
    ("empty-gzip", Some(200), Body("")),
    ("gzip-twice", Some(200), Body(HELLOS)),
    ("raw-deflate", Some(200), Body(HELLOS)),
    ("unknown-encoding", Some(200), Body("Uryyb, Jbeyq!")),
    ("gzip-bomb", Some(200), Error("body_too_large", "larger than it may be")),
    ("brotli-bomb", Some(200), Error("body_too_large", "larger than it may be when it is decoded")),
    ("zstd-bomb", Some(200), Error("body_too_large", "larger than it may be when it is decoded")),
    ("brotli-window", Some(200), Error("body_too_large", "larger than it may be when it is decoded")),
    ("zstd-windows", Some(200), Error("body_too_large", "larger than it may be when it is decoded")),
    ("deflated-nothing", Some(200), Error("body_too_large", "larger than it may be when it is decoded")),
    // framing
    ("content-length-too-long", Some(200), Error("connection_closed", "in the middle of the body")),
    ("content-length-too-short", Some(200), Body("Hello")),
    ("conflicting-content-lengths", None, Error("protocol", "content-lengths that differ")),
    ("repeated-content-length", Some(200), Body(HELLO)),
    ("negative-content-length", None, Error("protocol", "content-length is not a number")),
    ("content-length-no-number", None, Error("protocol", "content-length is not a number")),
    ("content-length-overflow", None, Error("protocol", "content-length is not a number")),
    ("content-length-huge", Some(200), Error("body_too_large", "larger than it may be")),
    ("content-length-and-chunked", Some(200), Body(HELLO)),
    ("unknown-transfer-encoding", None, Error("protocol", "transfer-encoding")),
    ("bad-chunk-size", Some(200), Error("protocol", "size of a chunk is not a hexadecimal number")),
    ("negative-chunk-size", Some(200), Error("protocol", "size of a chunk is not a hexadecimal number")),
    ("chunk-size-overflow", Some(200), Error("protocol", "size of a chunk is too large")),
    ("chunk-too-long", Some(200), Error("protocol", "longer than its size says")),
    ("truncated-chunk", Some(200), Error("connection_closed", "in the middle of the body")),
    ("truncated-chunks", Some(200), Error("connection_closed", "in the middle of the body")),
    ("endless-chunk-extension", Some(200), Error("protocol", "chunk extensions are too long")),
    ("endless-trailers", Some(200), Error("protocol", "trailers are too long")),
    ("extensions-and-trailers", Some(200), Body(HELLO)),
    ("body-after-head", Some(200), Body("")),
    ("no-content-with-body", Some(204), Body("")),
    ("not-modified", Some(304), Body("")),
    ("not-modified-with-body", Some(304), Body("")),
    // redirects
    ("redirect-loop", Some(302), Error("redirect_loop", "leads back to a request")),
    ("redirect-without-location", Some(302), Body(HELLO)),
    ("redirect-to-nothing", Some(302), Body("")),
    ("redirect-broken", Some(302), Error("protocol", "leads to an invalid URL: invalid IPv6 address")),
    ("redirect-other-scheme", Some(302), Error("protocol", "neither http nor https")),
    ("redirect-two-locations", Some(302), Error("protocol", "has several locations")),
    ("redirect-coded-body", Some(200), Body(HELLO)),
    ("redirect-corrupt-body", Some(200), Body(HELLO)),
    ("redirect-hang-mid-body", Some(200), Body(HELLO)),
    ("redirect-drip", Some(200), Body(HELLO)),
    // head
    ("garbage", None, Error("protocol", "not HTTP/1")),
    ("http-09", None, Error("protocol", "not HTTP/1")),
    ("bad-status", None, Error("protocol", "status line is malformed")),
    ("long-status", None, Error("protocol", "malformed")),
    ("no-reason", Some(200), Body(HELLO)),
    ("bad-version", None, Error("protocol", "not HTTP/1")),
    ("unsolicited-upgrade", None, Error("protocol", "switched protocols")),
    ("many-headers", None, Error("protocol", "longer than 307200 bytes")),
    ("long-header", None, Error("protocol", "longer than 307200 bytes")),
    ("endless-headers", None, Error("protocol", "more than 5000 headers")),
    ("endless-header", None, Error("protocol", "longer than 307200 bytes")),
    ("many-interim", None, Error("protocol", "more than 100 interim responses")),
    ("endless-interim", None, Error("protocol", "more than 100 interim responses")),
    ("folded-header", Some(200), Body(HELLO)),
    ("bare-line-feeds", Some(200), Body(HELLO)),
    ("bare-carriage-return", None, Error("protocol", "a carriage return in the middle")),
    ("nul-in-header", Some(200), Body(HELLO)),
    ("latin-1-header", Some(200), Body(HELLO)),
    ("space-before-colon", None, Error("protocol", "may frame the body")),
    ("no-colon", Some(200), Body(HELLO)),
];

/// Returns the faults that fail every row; `waiting` selects those that last until the timeout.
pub fn failing(waiting: bool) -> impl Iterator<Item = &'static str> {
    let is_wanted = move |end: End| matches!(end, Error(..)) && waits(end) == waiting;
    ENDS.iter().filter(move |(_, _, end)| is_wanted(*end)).map(|(name, _, _)| *name)
}

fn waits(end: End) -> bool {
    matches!(end, Error("timeout", _))
}

pub fn fault(server: &Server, name: &str) -> serde_json::Value {
    let method = if name == "body-after-head" { "HEAD" } else { "GET" };
    json!({"url": url(server.address(), &format!("/fault/{name}")), "method": method})
}

/// Returns a row whose response shows whether it was meant for this row.
fn good(server: &Server, after: &str) -> serde_json::Value {
    json!({"url": url(server.address(), &format!("/echo/after/{after}"))})
}

fn check_fault(row: &ResultRow, name: &str, status: Option<u16>, end: End) {
    assert!(row.url.ends_with(&format!("/fault/{name}")), "{name}: {}", row.url);
    match end {
        Body(body) => {
            assert_eq!((None, Some(body.as_bytes())), (row.kind(), row.body().as_deref()), "{name}: {}", row.message());
        }
        Error(kind, says) => {
            assert_eq!(Some(kind), row.kind(), "{name}: {}", row.message());
            let kept = row.body().map_or(0, |body| body.len() as u64);
            assert_eq!(row.received_bytes, kept, "{name}: what came is kept as it came");
            let coded = row.headers().is_some_and(|all| all.iter().any(|(name, _)| *name == "Content-Encoding"));
            assert_eq!(coded && kept > 0, row.body_encoding.is_some(), "{name}");
            assert!(row.message().contains(says), "{name}: {}", row.message());
            assert!(!row.message().contains("--"), "what is stored names no flag: {name}: {}", row.message());
        }
    }
    assert_eq!((status, 1), (row.status, row.attempts), "{name}: {}", row.message());
    assert_eq!(
        vec![status.is_some(); 3],
        [row.headers().is_some(), row.http_version.is_some(), row.ttfb_us.is_some()],
        "{name}: the known parts of a response are reported, even if its body failed"
    );
    assert!(row.remote_addr.is_some(), "{name}: there was a connection");
}

fn check_good(row: &ResultRow, after: &str) {
    assert_eq!((None, Some(200)), (row.kind(), row.status), "after {after}: {}", row.message());
    assert_eq!(format!("/echo/after/{after}"), row.echo().path);
}

#[test]
fn the_table_lists_every_fault_of_the_test_server() {
    let server = server();
    let list = Rig::new(url(server.address(), "/")).row();
    let listed = list.text().lines().filter_map(|line| line.strip_prefix("/fault/")?.split(' ').next());
    let listed: BTreeSet<&str> = listed.filter(|name| *name != "NAME" && !name.starts_with("h2-")).collect();
    assert_eq!(listed, ENDS.iter().map(|(name, _, _)| *name).collect());
}

#[test]
fn a_fault_is_one_outcome_and_the_next_row_gets_its_own_response() {
    let server = server();
    let faults: Vec<_> = ENDS.iter().filter(|(_, _, end)| !waits(*end)).collect();
    let pairs = faults.iter().flat_map(|(name, _, _)| [fault(&server, name), good(&server, name)]);
    let mut rig = Rig::objects(&pairs.collect::<Vec<_>>()).one_by_one();
    rig.options.request.max_body_size = MAX_BODY_BYTES;
    let rows = rig.rows();
    assert_eq!(2 * faults.len(), rows.len());
    for (pair, (name, status, end)) in rows.chunks(2).zip(faults) {
        check_fault(&pair[0], name, *status, *end);
        check_good(&pair[1], name);
    }
}

#[test]
fn an_endless_response_takes_the_timeout_and_no_longer() {
    let server = server();
    let faults: Vec<_> = ENDS.iter().filter(|(_, _, end)| waits(*end)).collect();
    let waiting = faults.iter().map(|(name, _, _)| fault(&server, name));
    let after = faults.iter().map(|(name, _, _)| good(&server, name));
    // There are as many lanes as faults: each lane continues with a good row after its fault.
    let rig = Rig::objects(&waiting.chain(after).collect::<Vec<_>>()).concurrency(faults.len(), 1).timeout(TIMEOUT);
    let rows = rig.rows();
    assert_eq!(2 * faults.len(), rows.len());
    for (index, (name, status, end)) in faults.iter().enumerate() {
        check_fault(&rows[index], name, *status, *end);
        check_good(&rows[faults.len() + index], name);
        let elapsed = Duration::from_micros(rows[index].elapsed_us);
        assert!((TIMEOUT..TIMEOUT + LATENESS).contains(&elapsed), "{name}: {elapsed:?}");
    }
}

#[test]
fn a_server_that_sends_without_pause_cannot_exceed_the_timeout() {
    // The bound is six bytes for each byte of the body, so the maximum body size is far away.
    let chunk = "1\r\nx\r\n".repeat(10_000);
    let server = Scripted::start(move |mut stream, _| {
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        while stream.write_all(chunk.as_bytes()).is_ok() {}
    });
    // There are so many connections that some are always readable.
    let mut rig = Rig::new(server.url("/[1-4]")).concurrency(4, 1).timeout(TIMEOUT);
    rig.options.request.max_body_size = 1 << 30;
    for row in rig.rows() {
        assert_eq!((Some("timeout"), Some(200)), (row.kind(), row.status), "{}", row.message());
        let elapsed = Duration::from_micros(row.elapsed_us);
        assert!((TIMEOUT..TIMEOUT + LATENESS).contains(&elapsed), "{elapsed:?}");
    }
}
