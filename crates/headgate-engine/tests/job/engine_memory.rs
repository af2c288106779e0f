//! The memory budget of an engine: what a run reserves, and which waits count for no timeout of its rows.

use std::io::Write;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use headgate_core::options::EngineOptions;
use headgate_engine::testing::Passage;
use headgate_engine::{Engine, Run};

use crate::harness::{MAX_WAIT, eventually, server, url};
use crate::own_ends::{Channel, Collector, StuckSink, passage};
use crate::scripted::{Scripted, read_head};

fn engine(max_memory: u64) -> Engine {
    let options = EngineOptions { threads: Some(1), max_memory: Some(max_memory), ..EngineOptions::default() };
    Engine::start(&options).expect("an engine")
}

/// Starts a run whose sink takes no outcomes until the sender is dropped.
fn start_stuck(engine: &Engine, source: Channel, concurrency: usize, timeout: Duration) -> (Run, Sender<()>) {
    let (release, stuck) = StuckSink::new();
    let (_, unused) = Collector::new();
    let mut passage = Passage { sink: Box::new(stuck), ..passage(source, unused, concurrency) };
    passage.request.timeout = timeout;
    (Run::start(engine, passage).expect("a run"), release)
}

#[test]
fn memory_of_headers_is_reserved_and_released_whatever_happens_to_the_body() {
    const BUDGET_BYTES: u64 = 2 << 20;
    const HEAD_BYTES: u64 = 50_000;
    let long = format!("X-Long: {}\r\n", "x".repeat(5000)).repeat(10);
    // "hello" in gzip
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\x48\xcd\xc9\xc9\x07\0\x86\xa6\x10\x36\x05\0\0\0";
    for (says, body) in [
        ("Content-Length: 0", &b""[..]),
        ("Content-Length: 99999999999", b""),
        ("Content-Encoding: gzip\r\nContent-Length: 25", gzip),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{says}\r\n{long}\r\n");
        let server = Scripted::responding([head.as_bytes(), body].concat());
        let engine = engine(BUDGET_BYTES);
        let budget = engine.memory();
        let source = Channel::of(vec![server.url("/"); 200]);
        let (run, release) = start_stuck(&engine, source, 200, MAX_WAIT);
        eventually("heads have filled the budget", || budget.used() > BUDGET_BYTES / 2);
        // Finished rows hold their headers: three batches of a megabyte that wait for the sink, and those in the lanes.
        assert!(run.snapshot().rows * HEAD_BYTES < 2 * BUDGET_BYTES, "{says}: {}", run.snapshot().rows);
        drop(release);
        assert!(run.wait(MAX_WAIT));
        assert_eq!((200, None), (run.summary().rows, run.summary().failure.map(|failure| failure.message)), "{says}");
        eventually("all memory is released", || budget.used() == 0);
    }
}

#[test]
fn bodies_that_arrive_together_after_their_headers_are_reserved_before_they_are_read() {
    const LANES: usize = 100;
    static REST: [u8; 110_000] = [b'x'; 110_000];
    let all = Barrier::new(LANES);
    let server = Scripted::start(move |mut stream, _| {
        read_head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 110001\r\n\r\nx").unwrap();
        all.wait();
        let _ = stream.write_all(&REST);
    });
    let engine = engine(1 << 20);
    let (_, sink) = Collector::new();
    // In a debug build, every read checks that its bytes were reserved.
    let run = Run::start(&engine, passage(Channel::of(vec![server.url("/"); LANES]), sink, LANES)).expect("a run");
    assert!(run.wait(MAX_WAIT));
    assert_eq!((LANES as u64, None), (run.summary().succeeded, run.summary().failure.map(|failure| failure.message)));
}

#[test]
fn a_row_that_waits_for_memory_for_longer_than_its_timeout_succeeds() {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let server = server();
    for path in ["/bytes/20000", "/encoded/gzip/20000", "/chunked/20000"] {
        let before = server.statistics().requests;
        let engine = engine(1000);
        let (run, release) = start_stuck(&engine, Channel::of(vec![url(server.address(), path); 10]), 10, TIMEOUT);
        eventually("all are requested", || server.statistics().requests == before + 10);
        // Only a row without a response shows that the time has passed.
        let (_, sink) = Collector::new();
        let mut never = passage(Channel::of([url(server.address(), "/fault/hang-before-headers")]), sink, 1);
        never.request.timeout = TIMEOUT;
        assert!(Run::start(&engine, never).expect("a run").wait(MAX_WAIT));
        drop(release);
        assert!(run.wait(MAX_WAIT));
        assert_eq!(10, run.summary().succeeded, "{path}: {:?}", run.summary().errors);
    }
}

#[test]
fn the_wait_of_a_row_for_memory_counts_for_no_timeout_of_it_or_of_the_next_row() {
    const BUDGET_BYTES: u64 = 1 << 20;
    const HELD: Duration = Duration::from_secs(2);
    const SLOW: Duration = Duration::from_millis(300);
    let dropped = AtomicUsize::new(0);
    let server = Scripted::start(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            if head.contains("/hang") {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx").unwrap();
                // The connection stays open until the run ends.
                let _ = read_head(&mut stream);
                return;
            }
            if head.contains("/drop") && dropped.fetch_add(1, Ordering::SeqCst) == 0 {
                return;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx").unwrap();
            if head.contains("/slow") {
                std::thread::sleep(SLOW);
            }
            stream.write_all(b"x").unwrap();
        }
    });
    let engine = engine(BUDGET_BYTES);
    let (seen, sink) = Collector::new();
    let (rows, source) = Channel::new();
    let run = Run::start(&engine, passage(source, sink, 2)).expect("a run");
    let ended = |count: usize| eventually("they have ended", || seen.rows().len() == count);
    rows.send(vec![server.url("/a"), server.url("/a")]).expect("the source is there");
    ended(2);
    // The whole budget is reserved, and one row overdraws it: the next row has to wait once its connection is readable.
    let mut all = engine.memory().reservation();
    eventually("all of it is to be had", || all.try_grow_within(BUDGET_BYTES));
    rows.send(vec![server.url("/hang")]).expect("the source is there");
    eventually("one has the overdraft", || run.snapshot().in_flight == 1);
    rows.send(vec![server.url("/drop")]).expect("the source is there");
    let since = Instant::now();
    eventually("both are in flight", || run.snapshot().in_flight == 2);
    std::thread::sleep(HELD);
    drop(all);
    ended(3);
    assert!(since.elapsed() >= HELD);
    rows.send(vec![server.url("/slow")]).expect("the source is there");
    ended(4);
    let elapsed = |row: i64| seen.rows().iter().find(|ended| ended.row == row).expect("it has ended").elapsed;
    assert!(elapsed(3) < HELD, "{:?}", elapsed(3));
    assert!(elapsed(4) >= SLOW, "{:?}", elapsed(4));
    run.abort();
    assert!(run.wait(MAX_WAIT));
}

/// URLs of redirects, kept redirects and cookies: 64 KiB each, reserved while the row is in flight.
#[test]
fn memory_of_a_redirect_chain_is_reserved_and_released() {
    const ROWS: usize = 50;
    const URL_BYTES: usize = 60_000;
    const COOKIES: usize = 10;
    let cookies = (0..COOKIES).map(|each| format!("Set-Cookie: c{each}={}\r\n", "x".repeat(4000)));
    let cookies = cookies.collect::<Vec<_>>().concat();
    let location = "x".repeat(URL_BYTES);
    let server = Scripted::start(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            if head.len() > URL_BYTES {
                // The row has followed its redirects, and gets no response until the run ends.
                let _ = read_head(&mut stream);
                return;
            }
            let reply = format!("HTTP/1.1 302 x\r\nLocation: /{location}\r\n{cookies}Content-Length: 0\r\n\r\n");
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    });
    let engine = engine(64 << 20);
    let budget = engine.memory();
    let (_, sink) = Collector::new();
    let mut passage = passage(Channel::of(vec![server.url("/"); ROWS]), sink, ROWS);
    passage.request.response.max_redirects = 3;
    passage.request.response.keep_redirects = true;
    passage.request.response.redirect_cookies = true;
    passage.run.shutdown_timeout = Duration::ZERO;
    let run = Run::start(&engine, passage).expect("a run");
    let expected = ROWS * (2 * URL_BYTES + COOKIES * 4000);
    eventually("all of them are in flight", || budget.used() >= expected as u64);
    run.abort();
    assert!(run.wait(MAX_WAIT));
    eventually("all memory is released", || budget.used() == 0);
}
