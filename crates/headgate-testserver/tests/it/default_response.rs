use std::time::{Duration, Instant};

use headgate_testserver::{Config, Server};

use crate::client::{Client, start, wait_until};

const RESPONSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";
const LAST_RESPONSE: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\nConnection: close\r\n\r\nHello, World!";

#[test]
fn a_connection_stays_open_until_the_client_requests_to_close_it() {
    let server = start();
    let mut client = Client::connect(&server);
    for path in ["/1", "/hello", "/a/b?c=d"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(RESPONSE.as_bytes(), client.exactly(RESPONSE.len()), "{path}");
    }
    client.send("GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(LAST_RESPONSE.as_bytes(), client.until_end());
    assert_eq!(1, server.statistics().connections_accepted);
}

#[test]
fn http_10_ends_the_connection_without_keep_alive() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(Some("keep-alive"), client.response().field("Connection"));
    client.send("GET /1 HTTP/1.0\r\n\r\n");
    assert_eq!(LAST_RESPONSE.as_bytes(), client.until_end());
}

#[test]
fn pipelined_requests_get_responses_in_their_order() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("GET /status/201 HTTP/1.1\r\n\r\nGET /1 HTTP/1.1\r\n\r\nGET /bytes/3 HTTP/1.1\r\n\r\nGET /1 HT");
    assert!(client.response().head.starts_with("HTTP/1.1 201 Created\r\n"));
    assert_eq!("Hello, World!", client.response().text());
    assert_eq!(3, client.response().body.len());
    client.send("TP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(LAST_RESPONSE.as_bytes(), client.until_end());
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let server = start();
    let mut client = Client::connect(&server);
    for byte in b"GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n" {
        client.send([*byte]);
    }
    assert_eq!(LAST_RESPONSE.as_bytes(), client.until_end());
}

#[test]
fn the_response_to_head_has_a_length_and_no_body() {
    let server = start();
    let mut client = Client::connect(&server);
    for path in ["/1", "/bytes/13", "/chunked/13", "/status/404"] {
        client.send(format!("HEAD {path} HTTP/1.1\r\n\r\n"));
        let head = client.head();
        assert!(path == "/chunked/13" || head.contains("Content-Length: 13\r\n") || path == "/status/404", "{head}");
    }
    client.send("GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(LAST_RESPONSE.as_bytes(), client.until_end());
}

#[test]
fn bodies_of_requests_are_read_and_discarded() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("POST /1 HTTP/1.1\r\nContent-Length: 5\r\n\r\nGET /");
    client.send("POST /1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nGET /\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n");
    client.send("PUT /1 HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n");
    client.send(vec![b'x'; 3_000_000]);
    client.send("GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!([RESPONSE, RESPONSE, RESPONSE, LAST_RESPONSE].concat().as_bytes(), client.until_end());
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
fn status_and_body_are_as_configured_and_the_seed_determines_the_body() {
    let responses = [1, 1, 2].map(|seed| {
        let config = Config { status: 503, body_bytes: Some(100_000), seed, ..Config::default() };
        Client::connect(&Server::start(config).expect("a free port")).get("/1")
    });
    assert!(responses[0].head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
    assert_eq!(100_000, responses[0].body.len());
    assert!(responses[0].body == responses[1].body);
    assert!(responses[0].body != responses[2].body);
}

#[test]
fn a_status_without_a_body_has_none() {
    let server = Server::start(Config { status: 204, ..Config::default() }).expect("a free port");
    let mut client = Client::connect(&server);
    client.send("GET /1 HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(&b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"[..], client.until_end());
}

#[test]
fn a_delayed_response_arrives_no_earlier_than_its_delay() {
    let config = Config { delay_s: 0.05..=0.1, ..Config::default() };
    let server = Server::start(config).expect("a free port");
    let mut client = Client::connect(&server);
    for _ in 0..5 {
        let started = Instant::now();
        assert_eq!("Hello, World!", client.get("/1").text());
        assert!(started.elapsed() >= Duration::from_millis(50), "{:?}", started.elapsed());
    }
}

#[test]
fn a_delay_ends_when_the_client_disconnects() {
    let server = Server::start(Config { delay_s: 3600.0..=3600.0, ..Config::default() }).expect("a free port");
    let mut client = Client::connect(&server);
    client.send("GET /1 HTTP/1.1\r\n\r\n");
    wait_until("the request is in progress", || server.statistics().requests_in_progress == 1);
    drop(client);
    wait_until("the request has ended", || server.statistics().requests_in_progress == 0);
}

#[test]
fn an_invalid_request_is_refused_and_the_connection_closed() {
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
        let response = String::from_utf8(client.until_end()).expect("text");
        assert!(response.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{response}");
        assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
        assert!(response.ends_with(&format!("\r\n\r\n{body}")), "{response}");
    }
}
