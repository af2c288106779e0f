//! HTTP/2: which requests are resent, which error kinds apply, and what a hostile server can do.

use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::PrivatePkcs8KeyDer;

use crate::harness::{ResultRow, Rig};
use crate::http2_frames::*;
use crate::scripted::{Scripted, read_head, response};
use crate::tls::{Authority, TlsStream, echo, localhost};

/// Starts a server that speaks HTTP/2 without TLS; `serve` gets a connection and its number.
pub fn start(max_streams: u32, serve: impl Fn(&mut Peer, usize) -> Option<()> + Send + Sync + 'static) -> Scripted {
    Scripted::start(move |stream, number| {
        if let Some(mut peer) = Peer::greet(stream, max_streams) {
            serve(&mut peer, number);
            // Closing a connection with unread bytes would reset it.
            let _ = peer.stream.shutdown(Shutdown::Write);
            while peer.read().is_some() {}
        }
    })
}

/// Starts a server that offers these versions of HTTP over TLS; `serve` gets the negotiated one.
fn start_tls(
    authority: &Authority,
    offered: &[&[u8]],
    serve: impl Fn(TlsStream, Option<Vec<u8>>) + Send + Sync + 'static,
) -> Scripted {
    let (certificate, key) = authority.certify("localhost", 4000);
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    let config = Arc::new(config);
    Scripted::start(move |stream, _| {
        let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
        while stream.conn.is_handshaking() {
            if stream.conn.complete_io(&mut stream.sock).is_err() {
                return;
            }
        }
        let agreed = stream.conn.alpn_protocol().map(<[u8]>::to_vec);
        serve(stream, agreed);
    })
}

pub fn versions(rows: &[ResultRow]) -> Vec<(Option<u16>, Option<&str>, u16)> {
    rows.iter().map(|row| (row.status, row.http_version.as_deref(), row.attempts)).collect()
}

#[test]
fn requests_that_start_together_share_one_connection_to_an_http2_host() {
    let authority = Authority::new();
    let server = start_tls(&authority, &[b"h2", b"http/1.1"], |stream, agreed| {
        assert_eq!(Some(&b"h2"[..]), agreed.as_deref());
        if let Some(mut peer) = Peer::greet(stream, 100) {
            peer.serve(b"hello");
        }
    });
    let rig = authority.trusted_by(Rig::new(localhost(&server, "/[1-200]"))).concurrency(50, 1);
    assert_eq!(vec![(Some(200), Some("HTTP/2"), 1); 200], versions(&rig.rows()));
    assert_eq!(1, server.connections());
}

#[test]
fn a_host_that_selects_http1_or_must_use_it_gets_http1() {
    let authority = Authority::new();
    for (offered, http1_1) in [(&[&b"http/1.1"[..]][..], false), (&[], false), (&[b"h2", b"http/1.1"], true)] {
        let server = start_tls(&authority, offered, |mut stream, agreed| {
            assert_ne!(Some(&b"h2"[..]), agreed.as_deref());
            echo(&mut stream);
        });
        let mut rig = authority.trusted_by(Rig::new(localhost(&server, "/[1-40]"))).concurrency(8, 1);
        rig.options.request.http1_1 = http1_1;
        assert_eq!(vec![(Some(200), Some("HTTP/1.1"), 1); 40], versions(&rig.rows()));
    }
}

#[test]
fn a_request_that_the_host_requires_over_http1_is_resent_over_http1() {
    let authority = Authority::new();
    let server = start_tls(&authority, &[b"h2", b"http/1.1"], |mut stream, agreed| {
        if agreed.as_deref() != Some(b"h2") {
            while read_head(&mut stream).is_some() && stream.write_all(response("").as_bytes()).is_ok() {}
            return;
        }
        let Some(mut peer) = Peer::greet(stream, 100) else { return };
        while let Some(stream) = peer.request() {
            peer.reset(stream, HTTP_1_1_REQUIRED);
        }
    });
    for http2_prior_knowledge in [false, true] {
        let mut rig = authority.trusted_by(Rig::new(localhost(&server, "/[1-20]"))).concurrency(4, 1).method("POST");
        rig.options.request.http2_prior_knowledge = http2_prior_knowledge;
        assert_eq!(vec![(Some(200), Some("HTTP/1.1"), 1); 20], versions(&rig.rows()));
    }
}

pub fn rig(server: &Scripted, rows: usize) -> Rig {
    let mut rig = Rig::new(server.url(&format!("/[1-{rows}]")));
    rig.options.request.http2_prior_knowledge = true;
    rig
}

pub fn endings(rows: &[ResultRow]) -> Vec<(Option<u16>, Option<&str>)> {
    rows.iter().map(|row| (row.status, row.kind())).collect()
}

#[test]
fn rows_share_one_connection_and_report_its_http_version() {
    let server = start(100, |peer, _| peer.serve(b"hello"));
    let rows = rig(&server, 200).concurrency(8, 1).rows();
    for row in &rows {
        let expected = (Some(200), None, Some("HTTP/2"), "hello", 1);
        assert_eq!(expected, (row.status, row.kind(), row.http_version.as_deref(), row.text(), row.attempts));
        assert_eq!(Some(server.address.to_string().as_str()), row.remote_addr.as_deref());
    }
    assert_eq!((200, 1), (rows.len(), server.connections()));
}

#[test]
fn the_stream_limit_of_the_server_holds_and_another_connection_takes_the_rest() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen = most.clone();
    let server = start(3, move |peer, _| {
        // The server responds only once three requests are there, and checks that no further one arrives.
        loop {
            let streams: Vec<u32> = (0..3).map_while(|_| peer.request()).collect();
            seen.fetch_max(streams.len(), Ordering::SeqCst);
            streams.iter().try_for_each(|stream| peer.respond(*stream, b""))?;
            if streams.len() < 3 {
                return None;
            }
        }
    });
    let rows = rig(&server, 60).concurrency(6, 1).rows();
    assert_eq!(vec![(Some(200), None); 60], endings(&rows));
    assert_eq!((3, 2), (most.load(Ordering::SeqCst), server.connections()));
}

#[test]
fn a_stream_limit_that_the_server_lowers_holds_from_then_on() {
    let server = start(4, |peer, number| {
        if number > 0 {
            return peer.serve(b"");
        }
        let first: Vec<u32> = (0..4).map_while(|_| peer.request()).collect();
        peer.allow(1)?;
        // The client has acknowledged the settings.
        while peer.read_to(SETTINGS)?.flags & ACK == 0 {}
        first.iter().try_for_each(|stream| peer.respond(*stream, b""))?;
        loop {
            let stream = peer.request()?;
            // A second request would arrive before the response to this one.
            peer.send(PING, 0, 0, &[7; 8])?;
            let next = loop {
                let frame = peer.read()?;
                if frame.kind == HEADERS || frame.kind == PING && frame.payload == [7; 8] {
                    break frame;
                }
            };
            if next.kind == HEADERS {
                return peer.reset(stream, CANCEL);
            }
            peer.respond(stream, b"")?;
        }
    });
    let rows = rig(&server, 40).concurrency(4, 1).rows();
    assert_eq!(vec![(Some(200), None); 40], endings(&rows));
}

#[test]
fn requests_that_goaway_leaves_unprocessed_are_resent_without_a_counted_attempt() {
    let server = start(100, |peer, number| {
        if number > 0 {
            return peer.serve(b"second");
        }
        let streams: Vec<u32> = (0..8).map_while(|_| peer.request()).collect();
        // The server responds to the first two of them, and to no others.
        peer.go_away(streams[1], NO_ERROR)?;
        peer.respond(streams[0], b"first")?;
        peer.respond(streams[1], b"first")?;
        while peer.read().is_some() {}
        None
    });
    let rows = rig(&server, 8).method("POST").concurrency(8, 1).rows();
    assert_eq!(vec![(Some(200), None); 8], endings(&rows));
    assert_eq!(2, rows.iter().filter(|row| row.text() == "first").count());
    assert!(rows.iter().all(|row| row.attempts == 1));
    assert_eq!(2, server.connections());
}

#[test]
fn a_refused_stream_is_resent_whatever_its_method_but_not_forever() {
    let refused = Arc::new(AtomicU32::new(0));
    let count = refused.clone();
    let server = start(100, move |peer, _| {
        loop {
            let stream = peer.request()?;
            if count.fetch_add(1, Ordering::SeqCst) < 3 {
                peer.reset(stream, REFUSED_STREAM)?;
            } else {
                peer.respond(stream, b"")?;
            }
        }
    });
    let row = rig(&server, 1).method("POST").row();
    assert_eq!((Some(200), None, 1), (row.status, row.kind(), row.attempts));

    let sent = Arc::new(AtomicU32::new(0));
    let count = sent.clone();
    let server = start(100, move |peer, _| {
        loop {
            let stream = peer.request()?;
            count.fetch_add(1, Ordering::SeqCst);
            peer.reset(stream, REFUSED_STREAM)?;
        }
    });
    let row = rig(&server, 1).row();
    assert_eq!((None, Some("connection_closed"), 1), (row.status, row.kind(), row.attempts));
    assert_eq!("the server ended the HTTP/2 stream without a response (REFUSED_STREAM)", row.message());
    assert_eq!(6, sent.load(Ordering::SeqCst));
}

#[test]
fn a_reset_after_the_complete_response_does_no_harm() {
    let server = start(100, |peer, _| {
        loop {
            let stream = peer.request()?;
            // The server resets the stream before it has read the whole request.
            peer.respond(stream, b"enough")?;
            peer.reset(stream, NO_ERROR)?;
        }
    });
    let mut rig = rig(&server, 3).method("POST").one_by_one();
    // The body is larger than the server's flow-control window.
    rig.options.request.body = Some(vec![b'x'; 200_000]);
    let rows = rig.rows();
    assert_eq!(vec![(Some(200), None); 3], endings(&rows));
    assert!(rows.iter().all(|row| row.text() == "enough"));
    assert_eq!(1, server.connections());
}

#[test]
fn a_connection_that_closes_before_the_preface_fails_with_closed() {
    let server = Scripted::start(|stream, _| drop(stream));
    let rows = rig(&server, 3).timeout(Duration::from_secs(40)).rows();
    assert_eq!(vec![Some("connection_closed"); 3], rows.iter().map(ResultRow::kind).collect::<Vec<_>>());
}

#[test]
fn a_body_that_is_reset_before_its_end_is_incomplete_whatever_the_code() {
    let server = start(100, |peer, _| {
        let stream = peer.request()?;
        peer.send(HEADERS, END_HEADERS, stream, STATUS_200)?;
        peer.send(DATA, 0, stream, b"half of")?;
        peer.reset(stream, NO_ERROR)?;
        while peer.read().is_some() {}
        Some(())
    });
    let row = rig(&server, 1).row();
    assert_eq!((Some("connection_closed"), "half of"), (row.kind(), row.text()), "{}", row.message());
}

#[test]
fn empty_data_frames_and_small_window_updates_close_no_connection() {
    let server = start(100, |peer, _| {
        loop {
            let (mut stream, mut left) = (0, 0);
            loop {
                let frame = peer.read()?;
                match frame.kind {
                    HEADERS => stream = frame.stream,
                    DATA => left += frame.payload.len(),
                    _ => continue,
                }
                while left >= 64 {
                    left -= 64;
                    for stream in [0, stream] {
                        peer.send(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 64])?;
                    }
                }
                if frame.flags & END_STREAM != 0 {
                    break;
                }
            }
            peer.send(HEADERS, END_HEADERS, stream, STATUS_200)?;
            for _ in 0..50 {
                peer.send(DATA, 0, stream, b"")?;
                peer.send(DATA, 0, stream, b"x")?;
            }
            peer.send(DATA, END_STREAM, stream, b"")?;
        }
    });
    let mut rig = rig(&server, 10).method("PUT").one_by_one();
    rig.options.request.body = Some(vec![b'x'; 400_000]);
    let rows = rig.rows();
    assert_eq!(vec![(Some(200), None); 10], endings(&rows), "{}", rows[9].message());
    assert!(rows.iter().all(|row| row.text() == "x".repeat(50)));
    assert_eq!(1, server.connections());
}

#[test]
fn a_protocol_violation_of_the_server_fails_with_a_message_that_names_it() {
    type Serve = fn(&mut Peer, u32) -> Option<()>;
    let cases: [(&str, Option<u16>, &str, Serve); 7] = [
        ("connection_closed", None, "the server closed the connection without a response", |_, _| None),
        (
            "connection_closed",
            None,
            "the server ended the HTTP/2 stream without a response (CANCEL)",
            |peer, stream| {
                peer.reset(stream, CANCEL)?;
                peer.read_to(GO_AWAY).map(drop)
            },
        ),
        (
            "connection_closed",
            Some(200),
            "the server closed the connection in the middle of the body",
            |peer, stream| {
                peer.send(HEADERS, END_HEADERS, stream, STATUS_200)?;
                peer.send(DATA, 0, stream, b"half")
            },
        ),
        ("protocol", None, "the server violates HTTP/2 (PROTOCOL_ERROR)", |peer, stream| {
            // DATA before HEADERS.
            peer.send(DATA, END_STREAM, stream, b"body")?;
            peer.read_to(GO_AWAY).map(drop)
        }),
        ("protocol", Some(200), "the server violates HTTP/2 (PROTOCOL_ERROR)", |peer, stream| {
            // Its content-length is 5 (a literal of a name in the static table).
            peer.send(HEADERS, END_HEADERS, stream, b"\x88\x0f\x0d\x015")?;
            peer.send(DATA, END_STREAM, stream, b"four")?;
            peer.read_to(GO_AWAY).map(drop)
        }),
        ("protocol", None, "the server violates HTTP/2 (FRAME_SIZE_ERROR)", |peer, _| {
            peer.send(DATA, 0, 0, &vec![0; 100_000])?;
            peer.read_to(GO_AWAY).map(drop)
        }),
        ("timeout", Some(200), "the body was not complete in time", |peer, stream| {
            peer.send(HEADERS, END_HEADERS, stream, STATUS_200)?;
            peer.send(DATA, 0, stream, b"half")?;
            peer.read_to(RST_STREAM)?;
            peer.read_to(GO_AWAY).map(drop)
        }),
    ];
    for (kind, status, message, serve) in cases {
        let server = start(100, move |peer, _| {
            let stream = peer.request()?;
            serve(peer, stream)
        });
        let mut rig = rig(&server, 1).method("POST");
        if kind == "timeout" {
            rig = rig.timeout(Duration::from_millis(300));
        }
        let row = rig.row();
        assert_eq!((Some(kind), status, message), (row.kind(), row.status, row.message()));
    }
}

#[test]
fn a_flood_of_empty_frames_fails_with_protocol() {
    let floods: [(&str, u8, u8, &[u8], bool); 6] = [
        ("SETTINGS", SETTINGS, 0, &[], false),
        ("PING", PING, 0, &[1; 8], false),
        ("WINDOW_UPDATE", WINDOW_UPDATE, 0, &[0, 0, 0, 1], false),
        // `:status: 100`, as a literal.
        ("interim responses", HEADERS, END_HEADERS, b"\x08\x03100", true),
        ("empty DATA", DATA, 0, &[], true),
        ("unknown frames", 0xfa, 0, &[0; 100], false),
    ];
    for (what, kind, flags, payload, of_stream) in floods {
        let server = start(100, move |peer, _| {
            let stream = peer.request()?;
            if kind == DATA {
                peer.send(HEADERS, END_HEADERS, stream, STATUS_200)?;
            }
            let mut reader = peer.stream.try_clone().ok()?;
            // The client stops reading from a server that does not read.
            std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
            loop {
                peer.send(kind, flags, if of_stream { stream } else { 0 }, payload)?;
            }
        });
        let row = rig(&server, 1).row();
        assert_eq!(Some("protocol"), row.kind(), "{what}: {}", row.message());
    }
}

#[test]
fn a_body_that_continues_after_its_stream_was_reset_closes_the_connection() {
    let server = start(100, |peer, _| {
        let stream = peer.request()?;
        peer.send(HEADERS, END_HEADERS, stream, STATUS_200)?;
        let mut reader = peer.stream.try_clone().ok()?;
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        loop {
            peer.send(DATA, 0, stream, &[b'x'; 16_384])?;
        }
    });
    let mut rig = rig(&server, 6).timeout(Duration::from_secs(20));
    rig.options.request.max_body_size = 10;
    for (row, message) in rig.rows().iter().map(|row| (row, row.message())) {
        // The row was on the connection when it closed, or used the next one.
        let flooded = "the server floods the HTTP/2 connection with useless frames";
        assert!(row.kind() == Some("body_too_large") || message == flooded, "{:?}: {message}", row.kind());
    }
}

#[test]
fn headers_that_are_too_long_or_never_end_are_refused() {
    let server = start(100, |peer, number| {
        let stream = peer.request()?;
        // A literal header `a` with a value of 16,000 bytes.
        let mut field = vec![0x00, 0x01, b'a', 0x7f, 0x81, 0x7c];
        field.extend([b'x'; 16_000]);
        peer.send(HEADERS, 0, stream, STATUS_200)?;
        for _ in 0..if number == 0 { 25 } else { usize::MAX } {
            peer.send(CONTINUATION, 0, stream, &field)?;
        }
        peer.send(CONTINUATION, END_HEADERS, stream, &[])?;
        while peer.read().is_some() {}
        None
    });
    for _ in 0..2 {
        let row = rig(&server, 1).row();
        assert_eq!((Some("protocol"), None), (row.kind(), row.status), "{}", row.message());
    }
}

#[test]
fn a_body_of_many_flow_control_windows_arrives_complete() {
    let server = start(100, |peer, _| {
        let stream = peer.request()?;
        peer.send(HEADERS, END_HEADERS, stream, STATUS_200)?;
        let mut window = i64::from(peer.window);
        for piece in 0..400_u32 {
            while window < 10_000 {
                let update = peer.read_to(WINDOW_UPDATE)?;
                if update.stream == stream {
                    window += i64::from(u32::from_be_bytes(update.payload.try_into().unwrap()));
                }
            }
            peer.send(DATA, u8::from(piece == 399), stream, &[b'a' + (piece % 26) as u8; 10_000])?;
            window -= 10_000;
        }
        peer.read_to(GO_AWAY).map(drop)
    });
    let row = rig(&server, 1).row();
    assert_eq!((Some(200), None, 4_000_000), (row.status, row.kind(), row.received_bytes));
    let letter = |piece: u32| char::from(b'a' + (piece % 26) as u8).to_string();
    let expected: String = (0..400_u32).map(|piece| letter(piece).repeat(10_000)).collect();
    assert_eq!(expected, row.text());
}

#[test]
fn the_first_bytes_of_a_body_that_is_too_large_are_kept() {
    let server = start(100, |peer, _| peer.serve(b"0123456789"));
    for (max_bytes, ending) in [(10, None), (9, Some("body_too_large")), (4, Some("body_too_large"))] {
        let mut rig = rig(&server, 1);
        rig.options.request.max_body_size = max_bytes;
        let row = rig.row();
        let kept = &"0123456789"[..max_bytes as usize];
        assert_eq!((Some(200), ending, kept), (row.status, row.kind(), row.text()), "{}", row.message());
        assert!(!row.body_truncated);
    }
}
