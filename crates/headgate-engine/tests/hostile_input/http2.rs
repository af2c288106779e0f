//! HTTP/2 response headers that are much longer than the bytes that were sent for them.

use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use headgate_core::options::EngineOptions;
use headgate_engine::testing::Passage;
use headgate_engine::{Engine, Run};

use crate::Measure;
use crate::harness::{MAX_WAIT, eventually};
use crate::http2_frames::{END_HEADERS, END_STREAM, HEADERS, Peer, STATUS_200};
use crate::own_ends::{Channel, Collector, StuckSink, passage};
use crate::scripted::Scripted;

const BUDGET_BYTES: u64 = 2 << 20;
const LANES: usize = 300;

/// Returns a header that the server stores in the HPACK table, and then repeats with one byte as often as the client accepts it.
fn bomb(value_bytes: usize, times: usize) -> Vec<u8> {
    let varint = value_bytes - 127;
    let mut block = STATUS_200.to_vec();
    block.extend([0x40, 1, b'a', 0x7f, 0x80 | (varint & 0x7f) as u8, (varint >> 7) as u8]);
    block.extend(vec![b'x'; value_bytes]);
    block.extend(vec![0xbe; times]);
    block
}

/// Returns the peak while the headers of all lanes wait for a blocked sink.
fn peak(block: Vec<u8>) -> usize {
    let measure = Measure::begin();
    let succeeded = Arc::<AtomicUsize>::default();
    let counted = succeeded.clone();
    let server = Scripted::start(move |stream, _| {
        let Some(mut peer) = Peer::greet(stream, 100) else { return };
        while let Some(stream) = peer.request() {
            if peer.send(HEADERS, END_HEADERS | END_STREAM, stream, &block).is_none() {
                break;
            }
            counted.fetch_add(1, Ordering::SeqCst);
        }
        let _ = peer.stream.shutdown(Shutdown::Write);
        while peer.read().is_some() {}
    });
    let options = EngineOptions { threads: Some(1), max_memory: Some(BUDGET_BYTES), ..EngineOptions::default() };
    let engine = Engine::start(&options).expect("an engine");
    let budget = engine.memory();
    let (let_go, stuck) = StuckSink::new();
    let (_, unused) = Collector::new();
    let source = Channel::of(vec![server.url("/"); LANES]);
    let mut passage = Passage { sink: Box::new(stuck), ..passage(source, unused, LANES) };
    passage.request.http2_prior_knowledge = true;
    let run = Run::start(&engine, passage).expect("a run");
    eventually("all have succeeded", || succeeded.load(Ordering::SeqCst) == LANES);
    eventually("headers have filled the budget", || budget.used() > BUDGET_BYTES / 2 || run.snapshot().rows == 300);
    let peak = measure.peak();
    drop(let_go);
    assert!(run.wait(MAX_WAIT));
    assert_eq!(LANES as u64, run.summary().rows);
    eventually("all memory is released", || budget.used() == 0);
    peak
}

/// CVE-2016-6581 ("HPACK bomb"): 4,000 bytes, and 70 more, become 280,000.
#[test]
fn hpack_bomb_cve_2016_6581_headers_are_reserved_before_they_are_copied() {
    let peak = peak(bomb(3900, 70));
    assert!(peak < LANES * 100_000, "{} KB for each response", peak / LANES / 1000);
}
