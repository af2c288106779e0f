//! HTTP/2, frame by frame, from the client's point of view.

use std::collections::BTreeSet;

use headgate_testserver::{Config, Server};

use crate::client::{Client, start, wait_until};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const KINDS: [&str; 10] = [
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
];

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Frame {
    /// Returns kind, stream, payload (not of headers, which are compressed), and whether the stream ends.
    fn shown(&self) -> String {
        let kind = KINDS.get(usize::from(self.kind)).map_or("UNKNOWN", |kind| kind);
        let payload = if self.kind == HEADERS { String::new() } else { self.payload.escape_ascii().to_string() };
        let ends = matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0;
        format!("{kind} {} {payload}{}", self.stream, if ends { "|" } else { "" })
    }
}

struct Http2Client(Client);

impl Http2Client {
    fn connect(server: &Server) -> Self {
        let mut client = Client::connect(server);
        client.send([PREFACE, &[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]].concat());
        let mut client = Self(client);
        // The last frame of the server's connection preface.
        while client.frame().kind != WINDOW_UPDATE {}
        client
    }

    fn request(&mut self, stream: u32, path: &str) {
        // GET and http of HPACK's static table, and a path that is added to no table.
        let block = [&[0x82, 0x86, 0x04, path.len() as u8], path.as_bytes(), &[0x01, 4], b"host"].concat();
        let head = [&[0, 0, block.len() as u8, HEADERS, 0x5], &stream.to_be_bytes()[..], &block].concat();
        self.0.send(head);
    }

    fn frame(&mut self) -> Frame {
        let head = self.0.exactly(9);
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Frame { kind: head[3], flags: head[4], stream, payload: self.0.exactly(length as usize) }
    }

    /// Returns the next frame that is neither an acknowledgement nor a window update.
    fn shown(&mut self) -> String {
        loop {
            let frame = self.frame();
            let is_acknowledgement = frame.kind == SETTINGS && frame.flags & ACK != 0;
            if !is_acknowledgement && frame.kind != WINDOW_UPDATE {
                return frame.shown();
            }
        }
    }
}

fn start_http2() -> Server {
    Server::start(Config { threads: Some(2), http2: true, ..Config::default() }).expect("a free port")
}

/// The action of the server after the frames of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It serves further requests.
    Continues,
    Closes,
    Hangs,
    /// It repeats the last frame without end.
    Repeats,
}
use Then::{Closes, Continues, Hangs, Repeats};

const FAULTS: &[(&str, &[&str], Then)] = &[
    ("h2-refused-stream", &[r"RST_STREAM 1 \x00\x00\x00\x07"], Continues),
    ("h2-http-1-1-required", &[r"RST_STREAM 1 \x00\x00\x00\r"], Continues),
    ("h2-reset-no-error", &["HEADERS 1 ", "DATA 1 Hello", r"RST_STREAM 1 \x00\x00\x00\x00"], Continues),
    ("h2-reset-protocol-error", &["HEADERS 1 ", "DATA 1 Hello", r"RST_STREAM 1 \x00\x00\x00\x01"], Continues),
    ("h2-reset-internal-error", &["HEADERS 1 ", "DATA 1 Hello", r"RST_STREAM 1 \x00\x00\x00\x02"], Continues),
    ("h2-reset-flow-control-error", &["HEADERS 1 ", "DATA 1 Hello", r"RST_STREAM 1 \x00\x00\x00\x03"], Continues),
    ("h2-reset-stream-closed", &["HEADERS 1 ", "DATA 1 Hello", r"RST_STREAM 1 \x00\x00\x00\x05"], Continues),
    ("h2-reset-refused-stream", &["HEADERS 1 ", "DATA 1 Hello", r"RST_STREAM 1 \x00\x00\x00\x07"], Continues),
    ("h2-reset-cancel", &["HEADERS 1 ", "DATA 1 Hello", r"RST_STREAM 1 \x00\x00\x00\x08"], Continues),
    ("h2-reset-enhance-your-calm", &["HEADERS 1 ", "DATA 1 Hello", r"RST_STREAM 1 \x00\x00\x00\x0b"], Continues),
    ("h2-content-length-too-long", &["HEADERS 1 ", "DATA 1 Hello, World!", "DATA 1 |"], Continues),
    ("h2-content-length-too-short", &["HEADERS 1 ", "DATA 1 Hello, World!", "DATA 1 |"], Continues),
    ("h2-trailers", &["HEADERS 1 ", "DATA 1 Hello, World!", "HEADERS 1 |"], Continues),
    ("h2-interim", &["HEADERS 1 ", "HEADERS 1 ", "DATA 1 Hello, World!", "DATA 1 |"], Continues),
    ("h2-goaway", &[r"GOAWAY 0 \x00\x00\x00\x00\x00\x00\x00\x00"], Closes),
    ("h2-goaway-lower", &[r"GOAWAY 0 \x00\x00\x00\x00\x00\x00\x00\x00"], Closes),
    ("h2-goaway-taken", &[r"GOAWAY 0 \x00\x00\x00\x01\x00\x00\x00\x00"], Closes),
    ("h2-goaway-calm", &[r"GOAWAY 0 \x00\x00\x00\x01\x00\x00\x00\x0b"], Closes),
    (
        "h2-goaway-mid-body",
        &["HEADERS 1 ", "DATA 1 Hello", r"GOAWAY 0 \x00\x00\x00\x01\x00\x00\x00\x00", "DATA 1 , World!|"],
        Closes,
    ),
    ("h2-goaway-hang", &[r"GOAWAY 0 \x00\x00\x00\x01\x00\x00\x00\x00"], Hangs),
    ("h2-silent", &[], Hangs),
    ("h2-silent-mid-body", &["HEADERS 1 ", "DATA 1 Hello"], Hangs),
    ("h2-close-mid-body", &["HEADERS 1 ", "DATA 1 Hello"], Closes),
    ("h2-no-more-streams", &[r"SETTINGS 0 \x00\x03\x00\x00\x00\x00", "HEADERS 1 ", "DATA 1 Hello, World!|"], Hangs),
    ("h2-rapid-reset", &[r"RST_STREAM 1 \x00\x00\x00\x08"], Repeats),
    ("h2-continuation-flood", &["HEADERS 1 ", r"CONTINUATION 1 \x00\x08x-header\x08one more"], Repeats),
    ("h2-empty-continuation-flood", &["HEADERS 1 ", "CONTINUATION 1 "], Repeats),
    ("h2-settings-flood", &["SETTINGS 0 "], Repeats),
    ("h2-ping-flood", &["PING 0 headgate"], Repeats),
    ("h2-empty-data-flood", &["HEADERS 1 ", "DATA 1 "], Repeats),
    ("h2-header-bomb", &["HEADERS 1 ", "DATA 1 Hello, World!|"], Closes),
    ("h2-bad-compression", &["HEADERS 1 "], Closes),
    ("h2-no-status", &["HEADERS 1 ", "DATA 1 Hello, World!|"], Closes),
    ("h2-upper-case", &["HEADERS 1 ", "DATA 1 Hello, World!|"], Closes),
    ("h2-connection-header", &["HEADERS 1 ", "DATA 1 Hello, World!|"], Closes),
    ("h2-data-first", &["DATA 1 Hello", "HEADERS 1 ", "DATA 1 Hello, World!|"], Closes),
    ("h2-idle-stream", &["HEADERS 1001 ", "DATA 1001 Hello, World!|"], Closes),
    (
        "h2-push",
        &[
            r"PUSH_PROMISE 1 \x00\x00\x00\x02\x82\x84\x86\x00\n:authority\tlocalhost",
            "HEADERS 1 ",
            "DATA 1 Hello, World!|",
        ],
        Closes,
    ),
    ("h2-window-overflow", &["HEADERS 1 ", "DATA 1 Hello, World!|"], Closes),
    ("h2-bad-settings", &[r"SETTINGS 0 \x00\x04\x80\x00\x00\x00", "HEADERS 1 ", "DATA 1 Hello, World!|"], Closes),
    ("h2-unknown-frame", &["UNKNOWN 1 ???", "HEADERS 1 ", "DATA 1 Hello, World!|"], Closes),
    ("h2-succeeded-and-reset", &["HEADERS 1 ", "DATA 1 Hello, World!|", r"RST_STREAM 1 \x00\x00\x00\x00"], Closes),
];

/// Faults with a test of their own below.
const OTHERS: &[&str] =
    &["h2-goaway-graceful", "h2-window-update-flood", "h2-window-ignored", "h2-garbage", "h2-frame-too-large"];

#[test]
fn every_fault_of_http_2_is_in_one_table() {
    let list = Client::connect(&start()).get("/");
    let listed = list.text().lines().filter_map(|line| line.strip_prefix("/fault/h2-")?.split(' ').next());
    let tested: BTreeSet<&str> = FAULTS.iter().map(|(name, ..)| *name).chain(OTHERS.iter().copied()).collect();
    assert_eq!(
        tested,
        listed.map(|name| format!("h2-{name}")).collect::<Vec<_>>().iter().map(String::as_str).collect()
    );
}

#[test]
fn faults_of_http_2_send_these_frames() {
    const ENOUGH: usize = 3000;
    let server = start_http2();
    for (name, frames, then) in FAULTS {
        let mut client = Http2Client::connect(&server);
        client.request(1, &format!("/fault/{name}"));
        for expected in *frames {
            assert_eq!(*expected, client.shown(), "{name}");
        }
        match then {
            Continues => {
                client.request(3, "/hello");
                assert_eq!(
                    ["HEADERS 3 ", "DATA 3 Hello, World!|"].map(str::to_owned),
                    [client.shown(), client.shown()]
                );
            }
            Closes => assert_eq!("", client.0.until_end().escape_ascii().to_string(), "{name}"),
            Hangs => {
                client.request(3, "/hello");
                client.0.close_sending_half();
                assert_eq!("", client.0.until_end().escape_ascii().to_string(), "{name}");
            }
            Repeats => {
                for _ in 0..ENOUGH {
                    assert_eq!(frames.last().copied(), Some(&*client.shown()), "{name}");
                }
            }
        }
    }
}

#[test]
fn a_graceful_goaway_completes_the_open_streams() {
    let server = start_http2();
    let mut client = Http2Client::connect(&server);
    client.request(1, "/fault/h2-goaway-graceful");
    let frames: BTreeSet<String> = (0..5).map(|_| client.shown()).collect();
    for expected in [r"GOAWAY 0 \x7f\xff\xff\xff\x00\x00\x00\x00", "HEADERS 1 ", "DATA 1 Hello, World!", "DATA 1 |"] {
        assert!(frames.contains(expected), "{expected}: {frames:?}");
    }
}

#[test]
fn floods_and_invalid_frames_are_sent_as_fast_as_they_are_read() {
    let server = start_http2();
    let window_update = [0, 0, 4, WINDOW_UPDATE, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let garbage = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!";
    let head = [0, 0, 20, HEADERS, 4, 0, 0, 0, 1, 0x88, 0, 14];
    let head = [&head[..], b"content-length", &[2], b"13"].concat();
    let too_large =
        [&head[..], &[0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1], &b"this frame is far too large "[..]].concat();
    let short_head = [0, 0, 1, HEADERS, 4, 0, 0, 0, 1, 0x88];
    let beyond = [0, 0x40, 0, DATA, 0, 0, 0, 0, 1];
    let found: [(&str, &[u8], usize); 4] = [
        ("h2-window-update-flood", &window_update.repeat(1000), 100_000),
        ("h2-garbage", garbage, 0),
        ("h2-frame-too-large", &too_large, 100_000),
        ("h2-window-ignored", &[&short_head[..], &beyond[..], &[b'x'; 0x4000], &beyond[..]].concat(), 2_000_000),
    ];
    for (name, expected, more) in found {
        let mut client = Http2Client::connect(&server);
        client.request(1, &format!("/fault/{name}"));
        let read = client.0.exactly(expected.len());
        assert!(expected == read, "{name}: {}", read.escape_ascii());
        client.0.exactly(more);
    }
}

#[test]
fn faults_of_http_1_are_converted_to_http_2_where_possible() {
    let cases: &[(&str, &[&str])] = &[
        ("not-gzip", &["HEADERS 1 ", "DATA 1 Hello, World!", "DATA 1 |"]),
        ("content-length-too-short", &["HEADERS 1 ", "DATA 1 Hello, World!", "DATA 1 |"]),
        ("reset-mid-body", &["HEADERS 1 ", "DATA 1 Hello"]),
        ("hang-mid-body", &["HEADERS 1 ", "DATA 1 Hello"]),
        ("hang-before-headers", &[]),
        ("drip", &["HEADERS 1 ", "DATA 1 H"]),
        ("redirect-loop", &["HEADERS 1 |"]),
        ("endless-body-close-delimited", &["HEADERS 1 ", "DATA 1 this body will never come to an "]),
        ("bad-chunk-size", &["HEADERS 1 ", r"DATA 1 this fault is one of HTTP/1.1\n|"]),
        ("close-mid-headers", &["HEADERS 1 ", r"DATA 1 this fault is one of HTTP/1.1\n|"]),
        ("garbage", &["HEADERS 1 ", r"DATA 1 this fault is one of HTTP/1.1\n|"]),
    ];
    let server = start_http2();
    for (name, frames) in cases {
        let mut client = Http2Client::connect(&server);
        client.request(1, &format!("/fault/{name}"));
        for expected in *frames {
            assert_eq!(*expected, client.shown(), "{name}");
        }
    }
    wait_until("no connection is left", || server.statistics().connections_open == 0);
    wait_until("no request is left", || server.statistics().requests_in_progress == 0);
}

#[test]
fn streams_use_the_same_routes_and_counters() {
    let server = start_http2();
    let mut client = Http2Client::connect(&server);
    client.request(1, "/delay/86400");
    client.request(3, "/bytes/3");
    assert_eq!("HEADERS 3 ", client.shown());
    assert_eq!(3, client.frame().payload.len());
    client.request(5, "/status/204");
    assert_eq!("HEADERS 5 |", client.shown());
    client.request(7, "/stats");
    assert_eq!("HEADERS 7 ", client.shown());
    let statistics: serde_json::Value = serde_json::from_slice(&client.frame().payload).expect("JSON");
    assert_eq!((3, 1), (statistics["requests"].as_u64().unwrap_or_default(), server.statistics().requests_in_progress));
    drop(client);
    wait_until("the one that waits has ended", || server.statistics().requests_in_progress == 0);
}

#[test]
fn a_capacity_applies_to_both_versions() {
    let config = Config { threads: Some(2), http2: true, capacity: Some(1), refuse: true, ..Config::default() };
    let server = Server::start(config).expect("a free port");
    let mut client = Http2Client::connect(&server);
    client.request(1, "/fault/hang-before-headers");
    wait_until("it is in progress", || server.statistics().requests_in_progress == 1);
    assert!(Client::connect(&server).get("/1").head.starts_with("HTTP/1.1 503 "));
    client.request(3, "/1");
    assert_eq!("HEADERS 3 ", client.shown());
    assert_eq!(2, server.statistics().responses[&503]);
}

#[test]
fn one_port_serves_both_versions_and_http_2_only_if_configured() {
    let server = start_http2();
    let mut client = Http2Client::connect(&server);
    client.request(1, "/hello");
    assert_eq!(["HEADERS 1 ", "DATA 1 Hello, World!|"].map(str::to_owned), [client.shown(), client.shown()]);
    assert_eq!("Hello, World!", Client::connect(&server).get("/hello").text());
    let server = start();
    let mut refused = Client::connect(&server);
    refused.send(PREFACE);
    assert!(refused.until_end().starts_with(b"HTTP/1.1 400 Bad Request\r\n"));
}
