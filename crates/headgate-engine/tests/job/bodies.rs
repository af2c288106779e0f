//! A body arrives unchanged, however it is delimited and encoded, and never exceeds its bound.

use crate::harness::{Rig, server, url};
use crate::scripted::Scripted;

const BYTES: usize = 300_000;

#[test]
fn a_body_is_the_same_however_it_is_delimited() {
    let server = server();
    let paths = ["bytes", "chunked", "close-delimited"];
    let urls = paths.map(|path| url(server.address(), &format!("/{path}/{BYTES}")));
    let rows = Rig::urls(urls).rows();
    assert_eq!(BYTES, rows[0].text().len());
    for row in &rows {
        assert_eq!((Some(200), BYTES as u64), (row.status, row.received_bytes), "{}", row.url);
        assert!(rows[0].text() == row.text(), "{}", row.url);
    }
}

#[test]
fn a_body_of_no_bytes_is_empty_and_not_null() {
    let server = server();
    let urls = ["/bytes/0", "/chunked/0", "/close-delimited/0", "/status/204", "/status/304", "/encoded/gzip/0"];
    for row in Rig::urls(urls.map(|path| url(server.address(), path))).rows() {
        assert_eq!((None, Some(Vec::new())), (row.kind(), row.body()), "{}", row.url);
    }
}

#[test]
fn the_response_to_head_has_headers_and_no_body() {
    let server = server();
    let paths = ["/bytes/1000", "/chunked/1000", "/encoded/gzip/1000", "/hello"];
    let rows = Rig::urls(paths.map(|path| url(server.address(), path))).method("HEAD").one_by_one().rows();
    for row in &rows {
        assert_eq!((Some(200), Some(Vec::new()), 0), (row.status, row.body(), row.received_bytes), "{}", row.url);
        assert_eq!("HEAD", row.method);
    }
    assert!(rows[0].headers().unwrap().contains(&("Content-Length", b"1000".to_vec())));
    assert_eq!(1, server.statistics().connections_accepted);
}

#[test]
fn content_encodings_are_decoded_and_received_bytes_are_counted() {
    let server = server();
    let plain = Rig::new(url(server.address(), &format!("/bytes/{BYTES}"))).row();
    for encoding in ["gzip", "gzip-members", "deflate", "br", "zstd"] {
        let row = Rig::new(url(server.address(), &format!("/encoded/{encoding}/{BYTES}"))).row();
        assert!(plain.text() == row.text(), "{encoding}: {}", row.message());
        let headers = row.headers().unwrap();
        let (_, length) = headers.iter().find(|(name, _)| *name == "Content-Length").unwrap();
        assert_eq!(row.received_bytes.to_string().as_bytes(), length, "{encoding}");
        assert!(row.received_bytes < BYTES as u64, "{encoding}");
    }
}

#[test]
fn a_body_may_be_as_large_as_allowed_and_no_larger() {
    let server = server();
    for path in ["bytes", "chunked", "close-delimited", "encoded/gzip", "encoded/br", "encoded/zstd", "encoded/deflate"]
    {
        for (kind, bytes) in [(None, 5000), (Some("body_too_large"), 5001)] {
            let mut rig = Rig::new(url(server.address(), &format!("/{path}/{bytes}")));
            rig.options.request.max_body_size = 5000;
            let row = rig.row();
            assert_eq!((kind, Some(200)), (row.kind(), row.status), "{path}: {}", row.message());
            // The received bytes are kept: decoded, as far as the bound allows.
            let kept = row.body().unwrap_or_default();
            let encoding = path.strip_prefix("encoded/").filter(|_| kind.is_some() && !kept.is_empty());
            assert_eq!((encoding, false), (row.body_encoding.as_deref(), row.body_truncated), "{path}");
            match kind {
                None => assert_eq!(5000, kept.len(), "{path}"),
                // If the headers announce too long a body, none of it need have arrived.
                Some(_) => assert!(kept.len() <= 5000, "{path}: {}", kept.len()),
            }
        }
    }
}

#[test]
fn binary_bytes_arrive_unchanged() {
    let bytes: Vec<u8> = (0..=255).collect();
    let reply = [b"HTTP/1.1 200 OK\r\nContent-Length: 256\r\n\r\n".as_slice(), &bytes].concat();
    assert_eq!(Some(bytes), Rig::new(Scripted::responding(reply).url("/")).row().body());
}

#[test]
fn headers_keep_their_order_repetitions_and_case() {
    let fields = "B: 1\r\na: 2\r\nSet-Cookie: x=1\r\nset-cookie: y=2\r\nX-Empty:\r\nX-Padded: \t in  between \t\r\n";
    let mut reply = format!("HTTP/1.1 418 Short and stout\r\n{fields}").into_bytes();
    reply.extend_from_slice(b"X-Bytes: caf\xe9\r\nContent-Length: 3\r\n\r\ntea");
    let row = Rig::new(Scripted::responding(reply).url("/")).row();
    let expected: Vec<(&str, &[u8])> = vec![
        ("B", b"1"),
        ("a", b"2"),
        ("Set-Cookie", b"x=1"),
        ("set-cookie", b"y=2"),
        ("X-Empty", b""),
        ("X-Padded", b"in  between"),
        ("X-Bytes", b"caf\xe9"),
        ("Content-Length", b"3"),
    ];
    let headers = row.headers().unwrap();
    assert_eq!(expected, headers.iter().map(|(name, value)| (*name, value.as_slice())).collect::<Vec<_>>());
    assert_eq!((Some(418), "tea", Some("HTTP/1.1")), (row.status, row.text(), row.http_version.as_deref()));
}

#[test]
fn interim_responses_are_skipped() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let reply = format!("{interim}HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");
    let server = Scripted::responding(reply);
    let rows = Rig::new(server.url("/[1-3]")).one_by_one().rows();
    assert!(rows.iter().all(|row| (row.status, row.text()) == (Some(201), "ok")));
    assert_eq!(1, server.connections());
}

#[test]
fn a_connection_is_not_reused_after_a_bodiless_response_announces_a_body() {
    // Its body may still arrive, and would be read as the response to the next request.
    for field in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        let server = Scripted::responding(format!("HTTP/1.1 204 No Content\r\n{field}\r\n\r\n"));
        let rows = Rig::new(server.url("/[1-3]")).one_by_one().rows();
        assert!(rows.iter().all(|row| row.status == Some(204)));
        assert_eq!(3, server.connections(), "{field}");
    }
}
