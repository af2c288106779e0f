use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, start};

#[test]
fn the_index_lists_helpers_and_faults() {
    let server = start();
    let answer = Client::connect(&server).get("/");
    for path in ["/stats", "/echo", "/encoded/CODING/N", "/fault/refuse", "/fault/zstd-bomb"] {
        assert_eq!(1, answer.text().lines().filter(|line| line.starts_with(&format!("{path} "))).count(), "{path}");
    }
}

#[test]
fn echo_shows_the_request_as_it_was_received() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("PATCH /echo?a=b HTTP/1.1\r\nB: 1\r\na: 2\r\nB: 3\r\nContent-Length: 5\r\n\r\nHello");
    let expected = json!({
        "method": "PATCH",
        "path": "/echo?a=b",
        "headers": [["B", "1"], ["a", "2"], ["B", "3"], ["Content-Length", "5"]],
        "body": "Hello",
    });
    let answer = client.response();
    assert_eq!(Some("application/json"), answer.field("Content-Type"));
    assert_eq!(expected, serde_json::from_str::<Value>(answer.text()).expect("JSON"));
}

#[test]
fn echo_shows_a_chunked_body_without_its_chunks_and_a_binary_one_in_base64() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\0\x01\r\n1\r\n");
    client.send(b"\xff\r\n0\r\n\r\n");
    let echo: Value = serde_json::from_str(client.response().text()).expect("JSON");
    assert_eq!((&json!("AAH/"), &Value::Null), (&echo["body_base64"], &echo["body"]));
}

#[test]
fn a_status_is_answered_as_asked() {
    let server = start();
    let mut client = Client::connect(&server);
    for (code, line) in [(201, "201 Created"), (299, "299 Other"), (404, "404 Not Found"), (599, "599 Other")] {
        let answer = client.get(&format!("/status/{code}"));
        assert_eq!(Some(format!("HTTP/1.1 {line}").as_str()), answer.head.lines().next());
        assert_eq!(format!("{line}\n"), answer.text());
    }
    assert_eq!("HTTP/1.1 204 No Content\r\n\r\n", client.get("/status/204").head);
    assert_eq!("HTTP/1.1 304 Not Modified\r\n\r\n", client.get("/status/304").head);
}

#[test]
fn a_mistyped_helper_or_fault_is_not_found() {
    let server = start();
    let mut client = Client::connect(&server);
    for path in ["/status/abc", "/bytes/many", "/encoded/rot13/5", "/fault/no-such"] {
        assert!(client.get(path).head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{path}");
    }
}

#[test]
fn bytes_are_the_same_text_however_they_are_framed() {
    let server = start();
    let mut client = Client::connect(&server);
    let longest = client.get("/bytes/200000").body;
    assert!(longest.iter().all(u8::is_ascii_lowercase));
    for bytes in [0, 1, 65_536, 65_537, 200_000] {
        let expected = &longest[..bytes];
        assert!(expected == client.get(&format!("/bytes/{bytes}")).body, "{bytes}");

        client.send(format!("GET /chunked/{bytes} HTTP/1.1\r\n\r\n"));
        assert!(client.head().contains("\r\nTransfer-Encoding: chunked\r\n"));
        assert!(expected == chunked_body(&mut client), "{bytes} in chunks");

        let mut client = Client::connect(&server);
        client.send(format!("GET /close-delimited/{bytes} HTTP/1.1\r\n\r\n"));
        let head = client.head();
        assert!(head.contains("\r\nConnection: close\r\n") && !head.contains("Content-Length"), "{head}");
        assert!(expected == client.until_end(), "{bytes} to the end of the connection");
    }
}

fn chunked_body(client: &mut Client) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(client.exactly(1));
        }
        let size = str::from_utf8(&line).expect("a line").trim_end();
        let size = usize::from_str_radix(size, 16).expect("a size");
        body.extend(client.exactly(size));
        assert_eq!(&b"\r\n"[..], client.exactly(2));
        if size == 0 {
            return body;
        }
    }
}

#[test]
fn encoded_bodies_decode_to_the_bytes() {
    type Decode = fn(&[u8]) -> Vec<u8>;
    let codings: [(&str, &str, Decode); 5] = [
        ("gzip", "gzip", |body| read(flate2::read::GzDecoder::new(body))),
        ("gzip-members", "gzip", |body| read(flate2::read::MultiGzDecoder::new(body))),
        ("deflate", "deflate", |body| read(flate2::read::ZlibDecoder::new(body))),
        ("br", "br", |body| read(brotli::Decompressor::new(body, 4096))),
        ("zstd", "zstd", |body| read(zstd::Decoder::new(body).expect("a frame"))),
    ];
    let server = start();
    let mut client = Client::connect(&server);
    for (name, token, decode) in codings {
        for bytes in [0, 1, 100_000] {
            let expected = client.get(&format!("/bytes/{bytes}")).body;
            let answer = client.get(&format!("/encoded/{name}/{bytes}"));
            assert_eq!(Some(token), answer.field("Content-Encoding"));
            assert!(name == "gzip-members" && bytes == 0 || expected == decode(&answer.body), "{name} of {bytes}");
        }
    }
}

#[test]
fn gzip_members_are_several() {
    let server = start();
    let answer = Client::connect(&server).get("/encoded/gzip-members/99");
    assert_eq!(33, read(flate2::read::GzDecoder::new(&answer.body[..])).len());
}

fn read(mut decoder: impl Read) -> Vec<u8> {
    let mut plain = Vec::new();
    decoder.read_to_end(&mut plain).expect("well encoded");
    plain
}

#[test]
fn redirects_count_down_to_the_default_answer() {
    let server = start();
    let mut client = Client::connect(&server);
    let mut path = "/redirect/3".to_owned();
    for next in ["/redirect/2", "/redirect/1", "/redirect/0"] {
        let answer = client.get(&path);
        assert!(answer.head.starts_with("HTTP/1.1 302 Found\r\n"));
        assert_eq!(Some(next), answer.field("Location"));
        next.clone_into(&mut path);
    }
    assert_eq!("Hello, World!", client.get(&path).text());
}

#[test]
fn a_delay_by_path_is_kept() {
    let server = start();
    let mut client = Client::connect(&server);
    let asked = Instant::now();
    assert_eq!("Hello, World!", client.get("/delay/0.05").text());
    assert!(asked.elapsed() >= Duration::from_millis(50));
}
