use std::time::{Duration, Instant};

use headgate_testserver::{Config, Server};

use crate::client::{Client, start, wait_until};

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";
const LAST_ANSWER: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\nConnection: close\r\n\r\nHello, World!";

#[test]
fn a_connection_is_kept_and_ends_when_the_client_says_so() {
    let server = start();
    let mut client = Client::connect(&server);
    for path in ["/1", "/hello", "/a/b?c=d"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(ANSWER.as_bytes(), client.exactly(ANSWER.len()), "{path}");
    }
    client.send("GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(LAST_ANSWER.as_bytes(), client.until_end());
    assert_eq!(1, server.statistics().connections_accepted);
}

#[test]
fn http_10_ends_the_connection_unless_asked_to_keep_it() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(Some("keep-alive"), client.response().field("Connection"));
    client.send("GET /1 HTTP/1.0\r\n\r\n");
    assert_eq!(LAST_ANSWER.as_bytes(), client.until_end());
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("GET /status/201 HTTP/1.1\r\n\r\nGET /1 HTTP/1.1\r\n\r\nGET /bytes/3 HTTP/1.1\r\n\r\nGET /1 HT");
    assert!(client.response().head.starts_with("HTTP/1.1 201 Created\r\n"));
    assert_eq!("Hello, World!", client.response().text());
    assert_eq!(3, client.response().body.len());
    client.send("TP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(LAST_ANSWER.as_bytes(), client.until_end());
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let server = start();
    let mut client = Client::connect(&server);
    for byte in b"GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n" {
        client.send([*byte]);
    }
    assert_eq!(LAST_ANSWER.as_bytes(), client.until_end());
}

#[test]
fn the_answer_to_head_has_a_length_and_no_body() {
    let server = start();
    let mut client = Client::connect(&server);
    for path in ["/1", "/bytes/13", "/chunked/13", "/status/404"] {
        client.send(format!("HEAD {path} HTTP/1.1\r\n\r\n"));
        let head = client.head();
        assert!(path == "/chunked/13" || head.contains("Content-Length: 13\r\n") || path == "/status/404", "{head}");
    }
    client.send("GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(LAST_ANSWER.as_bytes(), client.until_end());
}

#[test]
fn bodies_of_requests_are_read_and_forgotten() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("POST /1 HTTP/1.1\r\nContent-Length: 5\r\n\r\nGET /");
    client.send("POST /1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nGET /\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n");
    client.send("PUT /1 HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n");
    client.send(vec![b'x'; 3_000_000]);
    client.send("GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!([ANSWER, ANSWER, ANSWER, LAST_ANSWER].concat().as_bytes(), client.until_end());
}

#[test]
fn a_client_that_waits_for_100_continue_gets_it() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("POST /1 HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!("HTTP/1.1 100 Continue\r\n\r\n", client.head());
    client.send("Hello");
    assert_eq!("Hello, World!", client.response().text());
}

#[test]
fn status_and_body_are_as_configured_and_the_seed_decides_the_body() {
    let answers = [1, 1, 2].map(|seed| {
        let config = Config { status: 503, body_bytes: Some(100_000), seed, ..Config::default() };
        Client::connect(&Server::start(config).expect("a free port")).get("/1")
    });
    assert!(answers[0].head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
    assert_eq!(100_000, answers[0].body.len());
    assert!(answers[0].body == answers[1].body);
    assert!(answers[0].body != answers[2].body);
}

#[test]
fn a_status_without_a_body_has_none() {
    let server = Server::start(Config { status: 204, ..Config::default() }).expect("a free port");
    let mut client = Client::connect(&server);
    client.send("GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(&b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"[..], client.until_end());
}

#[test]
fn a_delayed_answer_comes_no_earlier_than_its_delay() {
    let config = Config { delay_s: 0.05..=0.1, ..Config::default() };
    let server = Server::start(config).expect("a free port");
    let mut client = Client::connect(&server);
    for _ in 0..5 {
        let asked = Instant::now();
        assert_eq!("Hello, World!", client.get("/1").text());
        assert!(asked.elapsed() >= Duration::from_millis(50), "{:?}", asked.elapsed());
    }
}

#[test]
fn a_delay_ends_when_the_client_goes_away() {
    let server = Server::start(Config { delay_s: 3600.0..=3600.0, ..Config::default() }).expect("a free port");
    let mut client = Client::connect(&server);
    client.send("GET /1 HTTP/1.1\r\n\r\n");
    wait_until("the request is in progress", || server.statistics().requests_in_progress == 1);
    drop(client);
    wait_until("the request has ended", || server.statistics().requests_in_progress == 0);
}

#[test]
fn what_is_no_sound_request_is_refused_and_the_connection_closed() {
    let long_field = format!("GET /1 HTTP/1.1\r\nX: {}", "x".repeat(64 * 1024));
    let many_fields = format!("GET /1 HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(257));
    let cases = [
        ("no HTTP at all\r\n\r\n", "400 Bad Request", "the head of the request is not HTTP/1.1\n"),
        (&long_field, "431 Request Header Fields Too Large", "the head of the request is longer than 64 KiB\n"),
        (&many_fields, "431 Request Header Fields Too Large", "the request has more than 256 header fields\n"),
        (
            "POST /1 HTTP/1.1\r\nContent-Length: 67108865\r\nExpect: 100-continue\r\n\r\n",
            "413 Payload Too Large",
            "the body of the request is longer than 64 MiB\n",
        ),
        (
            "POST /1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n",
            "413 Payload Too Large",
            "the body of the request is longer than 64 MiB\n",
        ),
        (
            "POST /1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxyz\r\n",
            "400 Bad Request",
            "the body of the request is not chunked as it should be\n",
        ),
    ];
    let server = start();
    for (request, status, body) in cases {
        let mut client = Client::connect(&server);
        client.send(request);
        let answer = String::from_utf8(client.until_end()).expect("text");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
    }
}
