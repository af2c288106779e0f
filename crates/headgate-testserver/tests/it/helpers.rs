use std::io::Read;
use std::time::{Duration, Instant};

use headgate_testserver::{Config, Server};
use serde_json::{Value, json};

use crate::client::{Client, start};

#[test]
fn the_index_lists_helpers_and_faults() {
    let server = start();
    let response = Client::connect(&server).get("/");
    for path in ["/stats", "/echo", "/encoded/ENCODING/N", "/fault/refuse", "/fault/zstd-bomb"] {
        assert_eq!(1, response.text().lines().filter(|line| line.starts_with(&format!("{path} "))).count(), "{path}");
    }
}

#[test]
fn echo_returns_the_request_as_it_was_received() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("PATCH /echo?a=b HTTP/1.1\r\nB: 1\r\na: 2\r\nB: 3\r\nContent-Length: 5\r\n\r\nHello");
    let expected = json!({
        "method": "PATCH",
        "path": "/echo?a=b",
        "headers": [["B", "1"], ["a", "2"], ["B", "3"], ["Content-Length", "5"]],
        "body": "Hello",
    });
    let response = client.response();
    assert_eq!(Some("application/json"), response.field("Content-Type"));
    assert_eq!(expected, serde_json::from_str::<Value>(response.text()).expect("JSON"));
}

#[test]
fn echo_returns_a_chunked_body_without_its_chunks_and_a_binary_one_in_base64() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\0\x01\r\n1\r\n");
    client.send(b"\xff\r\n0\r\n\r\n");
    let echo: Value = serde_json::from_str(client.response().text()).expect("JSON");
    assert_eq!((&json!("AAH/"), &Value::Null), (&echo["body_base64"], &echo["body"]));
}

#[test]
fn hash_returns_the_length_and_the_sha_256_of_the_body() {
    let server = start();
    let mut client = Client::connect(&server);
    // The examples of FIPS 180-2.
    for (body, hash) in [
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ] {
        client.send(format!("PUT /hash HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        let result: Value = serde_json::from_str(client.response().text()).expect("JSON");
        assert_eq!(json!({"bytes": body.len(), "sha256": hash}), result);
    }
}

#[test]
fn the_status_of_the_path_is_sent() {
    let server = start();
    let mut client = Client::connect(&server);
    for (code, line) in [(201, "201 Created"), (299, "299 Other"), (404, "404 Not Found"), (599, "599 Other")] {
        let response = client.get(&format!("/status/{code}"));
        assert_eq!(Some(format!("HTTP/1.1 {line}").as_str()), response.head.lines().next());
        assert_eq!(format!("{line}\n"), response.text());
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
fn bytes_are_the_same_text_with_any_framing() {
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
    let encodings: [(&str, &str, Decode); 5] = [
        ("gzip", "gzip", |body| read(flate2::read::GzDecoder::new(body))),
        ("gzip-members", "gzip", |body| read(flate2::read::MultiGzDecoder::new(body))),
        ("deflate", "deflate", |body| read(flate2::read::ZlibDecoder::new(body))),
        ("br", "br", |body| read(brotli::Decompressor::new(body, 4096))),
        ("zstd", "zstd", |body| read(zstd::Decoder::new(body).expect("a frame"))),
    ];
    let server = start();
    let mut client = Client::connect(&server);
    for (name, token, decode) in encodings {
        for bytes in [0, 1, 100_000] {
            let expected = client.get(&format!("/bytes/{bytes}")).body;
            let response = client.get(&format!("/encoded/{name}/{bytes}"));
            assert_eq!(Some(token), response.field("Content-Encoding"));
            assert!(name == "gzip-members" && bytes == 0 || expected == decode(&response.body), "{name} of {bytes}");
        }
    }
}

#[test]
fn gzip_members_are_several() {
    let server = start();
    let response = Client::connect(&server).get("/encoded/gzip-members/99");
    assert_eq!(33, read(flate2::read::GzDecoder::new(&response.body[..])).len());
}

fn read(mut decoder: impl Read) -> Vec<u8> {
    let mut plain = Vec::new();
    decoder.read_to_end(&mut plain).expect("well encoded");
    plain
}

#[test]
fn redirects_count_down_to_the_default_response() {
    let server = start();
    let mut client = Client::connect(&server);
    let mut path = "/redirect/3".to_owned();
    for next in ["/redirect/2", "/redirect/1", "/redirect/0"] {
        let response = client.get(&path);
        assert!(response.head.starts_with("HTTP/1.1 302 Found\r\n"));
        assert_eq!(Some(next), response.field("Location"));
        next.clone_into(&mut path);
    }
    assert_eq!("Hello, World!", client.get(&path).text());
}

#[test]
fn redirects_have_the_next_url_in_each_form() {
    let server = start();
    let mut client = Client::connect(&server);
    let absolute = "http://localhost/absolute-redirect/1";
    for (path, expected) in [("/relative-redirect/2", "1"), ("/absolute-redirect/2", absolute)] {
        let response = client.get(path);
        assert_eq!((true, Some(expected)), (response.head.starts_with("HTTP/1.1 302 "), response.field("Location")));
    }
    let response = client.get("/redirect-to?url=http%3A%2F%2Fother%3A1%2Fa%3Fb%3Dc&status_code=308");
    assert!(response.head.starts_with("HTTP/1.1 308 Permanent Redirect\r\n"), "{}", response.head);
    assert_eq!(Some("http://other:1/a?b=c"), response.field("Location"));
    for query in ["", "?url=/x&status_code=200", "?url=/x&status_code=x", "?url=%0D%0AX:+1"] {
        assert!(client.get(&format!("/redirect-to{query}")).head.starts_with("HTTP/1.1 400 "), "{query}");
    }
}

#[test]
fn the_response_has_the_headers_of_the_query() {
    let server = start();
    let response =
        Client::connect(&server).get("/response-headers?X-One=1&Set-Cookie=a%3Db%3B+Path%3D%2F&bad%0D%0A=1&X-One=2");
    assert_eq!("Hello, World!", response.text());
    assert!(
        response.head.ends_with("\r\nX-One: 1\r\nSet-Cookie: a=b; Path=/\r\nX-One: 2\r\n\r\n"),
        "{}",
        response.head
    );
}

#[test]
fn cookies_are_returned_set_and_deleted() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("GET /cookies HTTP/1.1\r\nCookie: a=1; b=x=y\r\ncookie: c=3\r\n\r\n");
    let cookies: Value = serde_json::from_str(client.response().text()).expect("JSON");
    assert_eq!(json!({"cookies": {"a": "1", "b": "x=y", "c": "3"}}), cookies);
    let set = client.get("/cookies/set?a=1&b=2");
    assert_eq!(Some("/cookies"), set.field("Location"));
    assert!(set.head.contains("Set-Cookie: a=1; Path=/; HttpOnly\r\nSet-Cookie: b=2; Path=/; HttpOnly\r\n"));
    assert!(client.get("/cookies/delete?a").head.contains("Set-Cookie: a=; Path=/; Expires="));
}

#[test]
fn a_request_with_user_and_password_is_accepted() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send("GET /basic-auth/user/pass%20word HTTP/1.1\r\nAuthorization: Basic dXNlcjpwYXNzIHdvcmQ=\r\n\r\n");
    assert_eq!(r#"{"authenticated":true,"user":"user"}"#, client.response().text());
    let refused = client.get("/basic-auth/user/pass");
    assert!(refused.head.starts_with("HTTP/1.1 401 ") && refused.field("WWW-Authenticate").is_some());
}

#[test]
fn a_range_has_the_same_bytes_as_the_whole_text() {
    let server = start();
    let mut client = Client::connect(&server);
    let whole = client.get("/range/200000");
    assert!(whole.head.starts_with("HTTP/1.1 200 ") && whole.body == client.get("/bytes/200000").body);
    for (requested, range) in [("0-0", 0..1), ("70000-140000", 70_000..140_001), ("-5", 199_995..200_000)] {
        client.send(format!("GET /range/200000 HTTP/1.1\r\nRange: bytes={requested}\r\n\r\n"));
        let part = client.response();
        assert!(part.head.starts_with("HTTP/1.1 206 Partial Content\r\n"), "{}", part.head);
        assert_eq!(
            Some(format!("bytes {}-{}/200000", range.start, range.end - 1).as_str()),
            part.field("Content-Range")
        );
        assert!(whole.body[range] == part.body, "{requested}");
    }
    client.send("GET /range/10 HTTP/1.1\r\nRange: bytes=10-\r\n\r\n");
    let none = client.response();
    assert!(none.head.starts_with("HTTP/1.1 416 ") && none.field("Content-Range") == Some("bytes */10"));
}

#[test]
fn an_encoded_echo_decodes_to_the_request() {
    let server = start();
    let mut client = Client::connect(&server);
    let zlib = read(flate2::read::ZlibDecoder::new(&client.get("/deflate?x").body[..]));
    let echo: Value = serde_json::from_slice(&zlib).expect("JSON");
    assert_eq!(json!("/deflate?x"), echo["path"]);
    assert_eq!(zlib.len() - 1, read(flate2::read::GzDecoder::new(&client.get("/gzip?xx").body[..])).len() + 1);
}

#[test]
fn a_drip_takes_its_duration_and_is_complete() {
    let server = start();
    let mut client = Client::connect(&server);
    let started = Instant::now();
    let response = client.get("/drip?numbytes=10&duration=0.05&code=404");
    assert!(response.head.starts_with("HTTP/1.1 404 ") && response.body == client.get("/bytes/10").body);
    // Nine pauses of ten, since there is none before the first byte.
    assert!(started.elapsed() >= Duration::from_millis(45));
    assert!(client.get("/drip?numbytes=0").head.starts_with("HTTP/1.1 400 "));
}

#[test]
fn robots_txt_has_the_configured_response() {
    let text = Client::connect(&start()).get("/robots.txt");
    assert_eq!("User-agent: *\nDisallow: /deny\n", text.text());
    for (path, line) in [("/base64/SGVsbG8=", "HTTP/1.1 200 OK"), ("/status/503", "HTTP/1.1 503 Service Unavailable")] {
        let config = Config { robots: Some(path.to_owned()), ..Config::default() };
        let server = Server::start(config).expect("a free port");
        let response = Client::connect(&server).get("/robots.txt");
        assert_eq!(Some(line), response.head.lines().next());
        assert_eq!(path == "/status/503", response.text() != "Hello");
    }
    let error =
        Server::start(Config { robots: Some("/status/x".to_owned()), ..Config::default() }).expect_err("no path");
    assert!(error.to_string().starts_with("robots /status/x: must be another path"), "{error}");
}

#[test]
fn the_delay_of_the_path_is_applied() {
    let server = start();
    let mut client = Client::connect(&server);
    let started = Instant::now();
    assert_eq!("Hello, World!", client.get("/delay/0.05").text());
    assert!(started.elapsed() >= Duration::from_millis(50));
}

#[test]
fn a_price_depends_only_on_the_id_and_can_be_revalidated() {
    let server = start();
    let mut client = Client::connect(&server);
    let first = client.get("/price/17");
    let price: Value = serde_json::from_str(first.text()).expect("JSON");
    assert_eq!(json!({ "id": "17", "price": "123.28", "currency": "EUR" }), price);
    let tag = first.field("ETag").expect("a tag").to_owned();
    client.send(format!("GET /price/17 HTTP/1.1\r\nIf-None-Match: {tag}\r\n\r\n"));
    assert!(client.response().head.starts_with("HTTP/1.1 304 "));
    for path in ["/price/", "/price/null"] {
        assert!(client.get(path).head.starts_with("HTTP/1.1 400 "), "{path}");
    }
}

#[test]
fn the_pages_of_a_name_lead_to_its_last_page() {
    let server = start();
    let mut client = Client::connect(&server);
    let (mut next, mut ids) = ("/pages/chairs".to_owned(), Vec::new());
    let mut seen = 0;
    loop {
        let page: Value = serde_json::from_str(client.get(&next).text()).expect("JSON");
        seen += 1;
        assert_eq!(seen, page["page"]);
        ids.extend(page["items"].as_array().expect("a list").iter().map(|item| item["id"].clone()));
        let Some(path) = page["next"].as_str() else { break };
        next = path.to_owned();
    }
    assert_eq!((1..=2 * seen).map(|item| json!(format!("chairs-{item}"))).collect::<Vec<_>>(), ids);
    assert!(client.get(&format!("/pages/chairs?page={}", seen + 1)).head.starts_with("HTTP/1.1 400 "));
}
