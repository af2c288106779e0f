//! The window, with workers that have rows in flight: which row it waits for, and which thread wakes the source.

use std::sync::Arc;

use headgate_core::error::JobError;
use headgate_engine::Run;
use headgate_engine::testing::{Passage, Window};

use crate::harness::{MAX_WAIT, eventually, server, url};
use crate::own_ends::{Channel, Collector, engine, passage};

const LANES: usize = 4;

#[test]
fn the_row_that_blocks_the_full_window_is_named_with_its_host() {
    let server = server();
    let hangs = url(server.address(), "/fault/hang-before-headers");
    let replies = (1..10).map(|row| url(server.address(), &format!("/{row}")));
    let (seen, sink) = Collector::new();
    let source = Channel::of(std::iter::once(hangs).chain(replies));
    // The test advances the window, and the sink does not.
    let window = Arc::new(Window::new(3, 0));
    let passage = Passage { window: Some(window.clone()), ..passage(source, sink, LANES) };
    let run = Run::start(&engine(1), passage).expect("a run");
    let host = server.address().to_string();

    eventually("the other rows of the window are done", || seen.rows().len() == 2);
    eventually("all three were requested", || server.statistics().requests == 3);
    assert_eq!(Some(0), window.full_at());
    let bottleneck = || run.snapshot().bottleneck.text;
    let text = format!(
        "bottleneck: row 0 ({host}). Until it finishes, at most 3 rows are read ahead; \
         raise read_ahead or lower timeout"
    );
    // On a busy machine, the worker may look busy for a while.
    eventually("the full window throttles the job, and the row that hangs is named", || {
        bottleneck().to_string() == text
    });

    // Row 0 counts as written from here, so row 1 is the first unwritten one.
    window.advance(1);
    eventually("the source waits again", || window.full_at() == Some(1));
    let text = "bottleneck: row 1. Until it is written, at most 3 rows are read ahead; raise read_ahead";
    eventually("the row that is not in flight is named", || bottleneck().to_string() == text);

    window.advance(10);
    eventually("all other rows are done", || seen.rows().len() == 9);
    run.abort();
    assert!(run.wait(MAX_WAIT));
    assert_eq!((9, 1), (run.summary().rows, run.summary().abandoned));
}

#[test]
fn a_source_that_waits_for_the_window_ends_when_the_sink_has_ended() {
    let server = server();
    let source = Channel::of((0..2).map(|row| url(server.address(), &format!("/{row}"))));
    let window = Arc::new(Window::new(1, 0));
    let sink = Collector::refusing(JobError::output("the disk is full"));
    let run = Run::start(&engine(1), Passage { window: Some(window.clone()), ..passage(source, sink, LANES) });
    let run = run.expect("a run");
    assert!(run.wait(MAX_WAIT));
    eventually("the source has ended", || window.full_at().is_none());
    assert_eq!("the disk is full", run.summary().failure.expect("it failed").message.to_string());
    assert_eq!(1, server.statistics().requests);
}
