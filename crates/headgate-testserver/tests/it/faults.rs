//! Each fault, byte by byte. A listed fault that is in no table fails `every_fault_is_in_one_table`.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};

use crate::client::{Client, Response, start, wait_until};

/// Faults that send these bytes, after which the connection serves the next request.
const KEPT: &[(&str, &[u8])] = &[
    ("extra-bytes", b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!these bytes belong to nothing"),
    (
        "extra-response",
        b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nunasked!",
    ),
    ("content-length-too-short", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHello, World!"),
    ("repeated-content-length", b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Length: 13\r\n\r\nHello, World!"),
    (
        "content-length-and-chunked",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nd\r\nHello, World!\r\n0\r\n\r\n",
    ),
    (
        "extensions-and-trailers",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum\r\n\r\n\
          5;name=value\r\nHello\r\n8;quoted=\"a;b\"\r\n, World!\r\n0\r\nX-Checksum: 13\r\n\r\n",
    ),
    ("body-after-head", b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("no-content-with-body", b"HTTP/1.1 204 No Content\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("not-modified", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 13\r\n\r\n"),
    ("not-modified-with-body", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("no-reason", b"HTTP/1.1 200 \r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("latin-1-header", b"HTTP/1.1 200 OK\r\nX-Value: caf\xe9\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("not-gzip", b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("empty-gzip", b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n"),
    ("unknown-encoding", b"HTTP/1.1 200 OK\r\nContent-Encoding: rot13\r\nContent-Length: 13\r\n\r\nUryyb, Jbeyq!"),
    ("redirect-loop", b"HTTP/1.1 302 Found\r\nLocation: /fault/redirect-loop\r\nContent-Length: 0\r\n\r\n"),
    ("redirect-without-location", b"HTTP/1.1 302 Found\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("redirect-to-nothing", b"HTTP/1.1 302 Found\r\nLocation:\r\nContent-Length: 0\r\n\r\n"),
    ("redirect-broken", b"HTTP/1.1 302 Found\r\nLocation: http://[::1/\r\nContent-Length: 0\r\n\r\n"),
    ("redirect-other-scheme", b"HTTP/1.1 302 Found\r\nLocation: ftp://localhost/hello\r\nContent-Length: 0\r\n\r\n"),
    (
        "redirect-two-locations",
        b"HTTP/1.1 302 Found\r\nLocation: /hello\r\nLocation: /world\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "redirect-corrupt-body",
        b"HTTP/1.1 302 Found\r\nLocation: /hello\r\nContent-Encoding: gzip\r\nContent-Length: 13\r\n\r\nHello, World!",
    ),
];

/// Faults that send these bytes and close the connection.
const CLOSED: &[(&str, &[u8])] = &[
    ("refuse", b""),
    ("close-mid-headers", b"HTTP/1.1 200 OK\r\nContent-Type: te"),
    ("close-after-response", b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("cut-mid-stream", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nHello, World!"),
    ("content-length-too-long", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nHello, World!"),
    ("conflicting-content-lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("negative-content-length", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nHello, World!"),
    ("content-length-no-number", b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nHello, World!"),
    ("content-length-overflow", b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551617\r\n\r\nHello, World!"),
    ("content-length-huge", b"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nHello, World!"),
    ("unknown-transfer-encoding", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: rot13\r\n\r\nUryyb, Jbeyq!"),
    ("bad-chunk-size", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nHello, World!\r\n0\r\n\r\n"),
    ("negative-chunk-size", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nHello, World!\r\n0\r\n\r\n"),
    (
        "chunk-size-overflow",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000d\r\nHello, World!\r\n0\r\n\r\n",
    ),
    ("chunk-too-long", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello, World!\r\n0\r\n\r\n"),
    ("truncated-chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\nHello"),
    ("truncated-chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\nHello, World!\r\n"),
    ("garbage", b"\x16\x03\x01\x02\x00\xff\xfe\x00 this is no HTTP \x80\x81\r\n\r\n"),
    ("http-09", b"Hello, World!"),
    ("bad-status", b"HTTP/1.1 abc OK\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("long-status", b"HTTP/1.1 20000 OK\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("bad-version", b"HTTP/9.9 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!"),
    (
        "unsolicited-upgrade",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\nother bytes",
    ),
    ("folded-header", b"HTTP/1.1 200 OK\r\nX-Folded: first\r\n second\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("bare-line-feeds", b"HTTP/1.1 200 OK\nContent-Length: 13\n\nHello, World!"),
    ("bare-carriage-return", b"HTTP/1.1 200 OK\r\nX-Value: a\rb\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("nul-in-header", b"HTTP/1.1 200 OK\r\nX-Value: a\0b\r\nContent-Length: 13\r\n\r\nHello, World!"),
    ("space-before-colon", b"HTTP/1.1 200 OK\r\nContent-Length : 13\r\n\r\nHello, World!"),
    ("no-colon", b"HTTP/1.1 200 OK\r\nthis is no header\r\nContent-Length: 13\r\n\r\nHello, World!"),
];

/// Faults that send these bytes and reset the connection.
const RESET: &[(&str, &[u8])] = &[
    ("reset-before-headers", b""),
    ("reset-after-headers", b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n"),
    ("reset-mid-body", b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello"),
];

/// Faults that send these bytes, and then nothing until the client closes.
const HANGING: &[(&str, &[u8])] = &[
    ("hang-before-headers", b""),
    ("hang-mid-headers", b"HTTP/1.1 200 OK\r\nContent-Type: te"),
    ("hang-mid-body", b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello"),
    ("redirect-hang-mid-body", b"HTTP/1.1 302 Found\r\nLocation: /hello\r\nContent-Length: 13\r\n\r\nHello"),
];

/// Faults that send the first bytes once and the second without end.
const ENDLESS: &[(&str, &[u8], &[u8])] = &[
    (
        "endless-body",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1f\r\nthis body will never come to an\r\n",
    ),
    (
        "endless-body-close-delimited",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        b"this body will never come to an ",
    ),
    ("endless-chunk-extension", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd;extension=", b"x"),
    (
        "endless-trailers",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nd\r\nHello, World!\r\n0\r\n",
        b"X-Trailer: one more\r\n",
    ),
    ("endless-headers", b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n", b"X-Header: one more\r\n"),
    ("endless-header", b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nX-Long: ", b"x"),
    ("endless-interim", b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
];

/// Faults with a test of their own below.
const OTHERS: &[&str] = &[
    "drip",
    "drip-headers",
    "close-idle",
    "reset-idle",
    "many-headers",
    "long-header",
    "many-interim",
    "truncated-gzip",
    "corrupt-gzip",
    "gzip-bad-checksum",
    "gzip-trailing-garbage",
    "gzip-twice",
    "raw-deflate",
    "gzip-bomb",
    "brotli-bomb",
    "zstd-bomb",
    "brotli-window",
    "zstd-windows",
    "deflated-nothing",
    "redirect-coded-body",
    "redirect-drip",
];

const SOUND: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, World!";

fn request(client: &mut Client, name: &str) {
    client.send(format!("GET /fault/{name} HTTP/1.1\r\n\r\n"));
}

fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn listed_faults(list: &Response) -> Vec<String> {
    let names = list.text().lines().filter_map(|line| line.strip_prefix("/fault/")?.split(' ').next());
    names.filter(|name| *name != "NAME").map(str::to_owned).collect()
}

/// Returns the faults of HTTP/1.1; `http2.rs` tests those of HTTP/2.
fn of_http_1(listed: &[String]) -> impl Iterator<Item = &str> {
    listed.iter().map(String::as_str).filter(|name| !name.starts_with("h2-"))
}

#[test]
fn every_fault_is_in_one_table() {
    let server = start();
    let listed = listed_faults(&Client::connect(&server).get("/"));
    let tables = [KEPT, CLOSED, RESET, HANGING].concat().into_iter().map(|(name, _)| name);
    let mut tested: Vec<&str> =
        tables.chain(ENDLESS.iter().map(|(name, ..)| *name)).chain(OTHERS.iter().copied()).collect();
    tested.sort_unstable();
    let mut expected: Vec<&str> = of_http_1(&listed).collect();
    expected.sort_unstable();
    assert_eq!(expected, tested);
}

#[test]
fn every_listed_fault_is_served_and_ends_when_its_client_disconnects() {
    let server = start();
    let listed = listed_faults(&Client::connect(&server).get("/"));
    let expected: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    let clients: Vec<Client> = listed
        .iter()
        .map(|name| {
            let mut client = Client::connect(&server);
            request(&mut client, name);
            client
        })
        .collect();
    wait_until("every fault is requested", || server.statistics().faults.len() == expected.len());
    let counted = server.statistics().faults;
    assert_eq!(expected, counted.keys().copied().collect());
    assert!(counted.values().all(|count| *count == 1), "{counted:?}");

    drop(clients);
    wait_until("no connection is left", || server.statistics().connections_open == 0);
    wait_until("no request is left", || server.statistics().requests_in_progress == 0);
    assert_eq!("Hello, World!", Client::connect(&server).get("/1").text());
}

#[test]
fn faults_that_keep_the_connection_serve_the_next_request() {
    let server = start();
    for (name, expected) in KEPT {
        let mut client = Client::connect(&server);
        request(&mut client, name);
        client.send("GET /status/204 HTTP/1.1\r\nConnection: close\r\n\r\n");
        let expected = [expected, &b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"[..]].concat();
        assert_eq!(shown(&expected), shown(&client.until_end()), "{name}");
    }
}

#[test]
fn faults_that_close_send_these_bytes_and_close() {
    let server = start();
    for (name, expected) in CLOSED {
        let mut client = Client::connect(&server);
        request(&mut client, name);
        assert_eq!(shown(expected), shown(&client.until_end()), "{name}");
    }
}

#[test]
fn faults_that_reset_send_these_bytes_and_reset() {
    let server = start();
    for (name, expected) in RESET {
        let mut client = Client::connect(&server);
        request(&mut client, name);
        let (bytes, end) = client.rest();
        assert_eq!(shown(expected), shown(&bytes), "{name}");
        assert_eq!(ErrorKind::ConnectionReset, end.expect_err(name).kind(), "{name}");
    }
}

#[test]
fn faults_that_hang_send_these_bytes_and_nothing_until_the_client_closes() {
    let server = start();
    for (name, expected) in HANGING {
        let mut client = Client::connect(&server);
        request(&mut client, name);
        assert_eq!(shown(expected), shown(&client.exactly(expected.len())), "{name}");
        client.send("GET /1 HTTP/1.1\r\n\r\n");
        client.close_sending_half();
        assert_eq!("", shown(&client.until_end()), "{name}");
    }
}

#[test]
fn endless_faults_repeat_the_same_bytes() {
    const ENOUGH_BYTES: usize = 200_000;
    let server = start();
    for (name, once, again) in ENDLESS {
        let mut client = Client::connect(&server);
        request(&mut client, name);
        let expected: Vec<u8> = once.iter().chain(again.iter().cycle()).copied().take(ENOUGH_BYTES).collect();
        assert!(expected == client.exactly(ENOUGH_BYTES), "{name}");
    }
}

#[test]
fn dripping_bytes_arrive_one_by_one_and_end_when_the_client_closes() {
    let server = start();
    let redirect = b"HTTP/1.1 302 Found\r\nLocation: /hello\r\nContent-Length: 13\r\n\r\nH";
    let sound_head = SOUND.len() - "ello, World!".len();
    for (name, start) in [("drip", &SOUND[..sound_head]), ("drip-headers", b"H"), ("redirect-drip", redirect)] {
        let mut client = Client::connect(&server);
        request(&mut client, name);
        assert_eq!(shown(start), shown(&client.exactly(start.len())), "{name}");
        client.close_sending_half();
        // One more byte may have been sent, but not those of twelve seconds.
        assert!(client.until_end().len() <= 1, "{name}");
    }
}

#[test]
fn an_idle_connection_is_closed_or_reset_as_the_next_request_arrives() {
    let server = start();
    for (name, expected) in [("close-idle", None), ("reset-idle", Some(ErrorKind::ConnectionReset))] {
        let mut client = Client::connect(&server);
        request(&mut client, name);
        assert_eq!(shown(SOUND), shown(&client.exactly(SOUND.len())), "{name}");
        client.send("G");
        let (bytes, end) = client.rest();
        assert_eq!("", shown(&bytes), "{name}");
        assert_eq!(expected, end.err().map(|error| error.kind()), "{name}");
    }
}

#[test]
fn headers_of_a_mebibyte_are_followed_by_a_correct_response() {
    let server = start();
    let mut client = Client::connect(&server);

    request(&mut client, "many-headers");
    let head = mebibyte_head(&mut client);
    assert!(head.lines().filter(|line| line.starts_with("X-Filler-")).count() > 10_000);

    request(&mut client, "long-header");
    let head = mebibyte_head(&mut client);
    assert_eq!(Some("x".repeat(1024 * 1024).as_str()), head.lines().find_map(|line| line.strip_prefix("X-Long: ")));

    request(&mut client, "many-interim");
    for _ in 0..1000 {
        assert_eq!("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n", client.head());
    }
    assert_eq!("Hello, World!", client.response().text());
}

fn mebibyte_head(client: &mut Client) -> String {
    let response = client.response();
    assert_eq!("Hello, World!", response.text());
    assert!((1_048_576..1_049_000).contains(&response.head.len()), "{}", response.head.len());
    response.head
}

#[test]
fn faults_of_content_have_correct_framing_and_a_content_encoding() {
    let server = start();
    let mut client = Client::connect(&server);
    let gzip = |client: &mut Client, name: &str| {
        let response = client.get(&format!("/fault/{name}"));
        assert_eq!(Some("gzip"), response.field("Content-Encoding"), "{name}");
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&response.body[..]).read_to_end(&mut plain).map(|_| plain).map_err(|e| e.kind())
    };
    let sample = b"Hello, World! ".repeat(6)[..83].to_vec();
    assert_eq!(Err(ErrorKind::UnexpectedEof), gzip(&mut client, "truncated-gzip"));
    assert_eq!(Err(ErrorKind::InvalidInput), gzip(&mut client, "corrupt-gzip"));
    assert_eq!(Err(ErrorKind::InvalidInput), gzip(&mut client, "gzip-bad-checksum"));
    assert_eq!(Ok(sample.clone()), gzip(&mut client, "gzip-trailing-garbage"));

    let twice = client.get("/fault/gzip-twice");
    assert_eq!(Some("gzip, gzip"), twice.field("Content-Encoding"));
    let mut plain = Vec::new();
    let outer = flate2::read::GzDecoder::new(&twice.body[..]);
    flate2::read::GzDecoder::new(outer).read_to_end(&mut plain).expect("gzip of gzip");
    assert_eq!(sample, plain);

    let raw = client.get("/fault/raw-deflate");
    assert_eq!(Some("deflate"), raw.field("Content-Encoding"));
    plain.clear();
    flate2::read::DeflateDecoder::new(&raw.body[..]).read_to_end(&mut plain).expect("deflate");
    assert_eq!(sample, plain);
}

#[test]
fn a_redirect_can_have_a_large_correct_body() {
    let server = start();
    let response = Client::connect(&server).get("/fault/redirect-coded-body");
    assert_eq!(Some("/hello"), response.field("Location"));
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&response.body[..]).read_to_end(&mut plain).expect("gzip");
    assert_eq!(4 * 1024 * 1024, plain.len());
}

#[test]
fn a_fault_of_http_2_is_refused_over_http_1() {
    let server = start();
    let mut client = Client::connect(&server);
    let listed = listed_faults(&client.get("/"));
    for name in listed.iter().filter(|name| name.starts_with("h2-")) {
        assert!(client.get(&format!("/fault/{name}")).head.starts_with("HTTP/1.1 501 Not Implemented\r\n"), "{name}");
    }
}

#[test]
fn nested_encodings_and_large_windows_have_a_content_encoding() {
    let server = start();
    let mut client = Client::connect(&server);
    for (name, tokens, max_bytes) in [
        ("brotli-window", "br", 60),
        ("zstd-windows", "zstd, zstd, zstd, zstd, zstd", 2000),
        ("deflated-nothing", "gzip, deflate, deflate", 2500),
    ] {
        let response = client.get(&format!("/fault/{name}"));
        assert_eq!(Some(tokens), response.field("Content-Encoding"));
        assert!((1..=max_bytes).contains(&response.body.len()), "{name}: {} bytes", response.body.len());
    }
}

#[test]
fn bombs_are_small_and_start_with_mebibytes_of_zeros() {
    type Decode = for<'a> fn(&'a [u8]) -> Box<dyn Read + 'a>;
    let bombs: [(&str, &str, usize, Decode); 3] = [
        ("gzip-bomb", "gzip", 1_200_000, |body| Box::new(flate2::read::GzDecoder::new(body))),
        ("brotli-bomb", "br", 32_000, |body| Box::new(brotli::Decompressor::new(body, 4096))),
        ("zstd-bomb", "zstd", 33_000, |body| Box::new(zstd::Decoder::new(body).expect("a frame"))),
    ];
    let server = start();
    let mut client = Client::connect(&server);
    for (name, token, max_bytes, decode) in bombs {
        let response = client.get(&format!("/fault/{name}"));
        assert_eq!(Some(token), response.field("Content-Encoding"));
        assert!(response.body.len() <= max_bytes, "{name}: {} bytes", response.body.len());
        let mut plain = vec![1; 3 * 1024 * 1024];
        decode(&response.body).read_exact(&mut plain).expect(name);
        assert!(plain.iter().all(|byte| *byte == 0), "{name}");
    }
}
