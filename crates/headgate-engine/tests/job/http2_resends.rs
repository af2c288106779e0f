//! HTTP/2: which requests are resent, and on which connection.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use headgate_engine::testing::BottleneckKind;

use crate::harness::Rig;
use crate::http2::{endings, rig, start, versions};
use crate::http2_frames::*;
use crate::scripted::{Scripted, read_head, response};

#[test]
fn a_server_that_closes_each_connection_after_a_few_requests_loses_none() {
    for (each, rows, method) in [(3, 600, "GET"), (3, 600, "POST"), (1, 200, "POST")] {
        let server = start(128, move |peer, _| peer.serve_some(each, b""));
        let rows_found = rig(&server, rows).concurrency(20, 1).method(method).rows();
        assert_eq!(vec![(Some(200), Some("HTTP/2"), 1); rows], versions(&rows_found));
        assert!(server.connections() >= rows / each);
    }
}

#[test]
fn a_refused_stream_is_resent_as_long_as_the_server_responds_to_other_requests() {
    let count = AtomicU32::new(0);
    let server = start(100, move |peer, _| {
        loop {
            let stream = peer.request()?;
            if count.fetch_add(1, Ordering::SeqCst) % 5 == 4 {
                peer.respond(stream, b"")?;
            } else {
                peer.reset(stream, REFUSED_STREAM)?;
            }
        }
    });
    let rows = rig(&server, 200).concurrency(4, 1).method("POST").rows();
    assert_eq!(vec![(Some(200), Some("HTTP/2"), 1); 200], versions(&rows));
}

#[test]
fn a_stream_that_is_always_refused_fails_though_other_requests_succeed() {
    let server = start(100, |peer, _| {
        loop {
            // The refused request has a body.
            let head = peer.read_to(HEADERS)?;
            if head.flags & END_STREAM == 0 {
                peer.reset(head.stream, REFUSED_STREAM)?;
            } else {
                // One write sends both frames at once.
                peer.send(HEADERS, END_HEADERS | END_STREAM, head.stream, STATUS_200)?;
            }
        }
    });
    let good = serde_json::json!({"url": server.url("/good")});
    let mut objects = vec![serde_json::json!({"url": server.url("/refused"), "method": "POST", "body": "x"})];
    objects.resize(3001, good);
    let mut rig = Rig::objects(&objects).concurrency(2, 1).timeout(Duration::from_secs(2));
    rig.options.request.http2_prior_knowledge = true;
    let rows = rig.rows();
    assert!(matches!(rows[0].kind(), Some("connection_closed" | "timeout")), "{}", rows[0].message());
    assert_eq!(vec![(Some(200), None); 3000], endings(&rows[1..]));
}

#[test]
fn a_silent_connection_gets_no_more_attempts() {
    let server = start(100, |peer, number| {
        if number > 0 {
            return peer.serve(b"");
        }
        let stream = peer.request()?;
        peer.respond(stream, b"")?;
        while peer.read().is_some() {}
        None
    });
    let mut rig = rig(&server, 3).one_by_one().timeout(Duration::from_secs(1));
    rig.options.run.retrying.retries = 1;
    let rows = rig.rows();
    assert_eq!(vec![1, 2, 1], rows.iter().map(|row| row.attempts).collect::<Vec<_>>());
    assert_eq!(vec![(Some(200), None); 3], endings(&rows));
    assert_eq!(2, server.connections());
}

#[test]
fn a_body_in_small_frames_arrives_complete_with_any_number_of_streams() {
    const PIECES: usize = 20_000;
    let mut pieces = Vec::new();
    for _ in 0..PIECES {
        pieces.extend([0, 0, 32, DATA, 0, 0, 0, 0, 1]);
        pieces.extend([b'x'; 32]);
    }
    let server = start(1, move |peer, _| {
        let stream = peer.request()?;
        peer.send(HEADERS, END_HEADERS, stream, STATUS_200)?;
        peer.stream.write_all(&pieces).ok()?;
        peer.send(DATA, END_STREAM, stream, b"")?;
        while peer.read().is_some() {}
        None
    });
    for _ in 0..10 {
        let mut rig = rig(&server, 1).one_by_one();
        rig.options.request.http2_streams = 1;
        let row = rig.row();
        assert_eq!(
            (Some(200), None, 32 * PIECES as u64),
            (row.status, row.kind(), row.received_bytes),
            "{}",
            row.message()
        );
    }
}

#[test]
fn a_host_that_requires_http1_gets_it_despite_prior_knowledge_of_http2() {
    let connections = Arc::new(AtomicUsize::new(0));
    let over_http1 = connections.clone();
    let server = Scripted::start(move |mut stream, _| {
        let mut begin = [0; 3];
        if stream.peek(&mut begin).is_ok_and(|_| begin == *b"PRI") {
            let Some(mut peer) = Peer::greet(stream, 100) else { return };
            while let Some(stream) = peer.request() {
                peer.reset(stream, HTTP_1_1_REQUIRED);
            }
            return;
        }
        over_http1.fetch_add(1, Ordering::SeqCst);
        while read_head(&mut stream).is_some() && stream.write_all(response("").as_bytes()).is_ok() {}
    });
    for threads in [1, 2] {
        connections.store(0, Ordering::SeqCst);
        let before = server.connections();
        let rows = rig(&server, 400).concurrency(4, threads).method("POST").rows();
        assert_eq!(vec![(Some(200), Some("HTTP/1.1"), 1); 400], versions(&rows));
        assert!(connections.load(Ordering::SeqCst) <= 4);
        assert!(server.connections() - before <= 4 + threads);
    }
}

#[test]
fn the_bottleneck_of_a_job_that_waits_for_streams_is_the_stream_limit() {
    let server = Scripted::start(|stream, _| {
        // The server never states how many streams it accepts, so the client uses one at a time.
        let Some(mut peer) = Peer::listen(stream) else { return };
        while let Some(stream) = peer.request() {
            thread::sleep(Duration::from_millis(5));
            peer.respond(stream, b"");
        }
    });
    let (rows, summary) = rig(&server, 60).concurrency(20, 1).run();
    assert_eq!(vec![(Some(200), None); 60], endings(&rows));
    assert_eq!(BottleneckKind::Streams, summary.bottleneck.kind, "{}", summary.bottleneck.text);
}
