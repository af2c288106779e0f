//! What goes wrong with one run of an engine, and what it does to the others: nothing.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use arrow_schema::{DataType, Field, Fields};
use headgate_engine::columns::builder::OutcomeBatch;
use headgate_engine::engine::Engine;
use headgate_engine::model::error::{JobError, JobErrorKind};
use headgate_engine::model::options::EngineOptions;
use headgate_engine::model::row::{Row, RowBatch, RowExtra};
use headgate_engine::run::{Passage, Run};
use headgate_engine::sink::Sink;
use headgate_engine::source::Source;

use crate::harness::{PATIENCE, eventually, server, url};
use crate::own_ends::{Channel, Collector, engine, passage, start};
use crate::scripted::Scripted;

/// Panics at the first batch.
struct PanickingSink;

impl Sink for PanickingSink {
    fn write(&mut self, _batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        panic!("on purpose");
    }
}

/// Takes nothing until it is let go.
struct StuckSink(Receiver<()>);

impl StuckSink {
    fn new() -> (Sender<()>, Self) {
        let (let_go, stuck) = channel();
        (let_go, Self(stuck))
    }
}

impl Sink for StuckSink {
    fn write(&mut self, _batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        let _ = self.0.recv();
        Ok(ControlFlow::Continue(()))
    }
}

/// One row whose kept column is no such column.
struct BrokenKept(Option<String>);

impl Source for BrokenKept {
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError> {
        let Some(url) = self.0.take() else { return Ok(None) };
        let extra = RowExtra { kept: Some(Box::new([1, 2, 3])), ..RowExtra::default() };
        Ok(Some(vec![Row { extra: Some(Box::new(extra)), ..Row::new(0, url) }]))
    }

    fn kept_fields(&self) -> Fields {
        Fields::from(vec![Field::new("id", DataType::Int64, true)])
    }
}

fn failure(run: &Run) -> String {
    run.summary().failure.expect("it failed").message.to_string()
}

#[test]
fn an_engine_without_threads_is_refused() {
    let options = EngineOptions { threads: Some(0), ..EngineOptions::default() };
    assert_eq!(JobErrorKind::Usage, Engine::start(&options).expect_err("nothing would work").kind);
}

#[test]
fn a_sink_that_panics_ends_its_run_though_the_source_is_quiet() {
    let (engine, server) = (engine(1), server());
    let (rows, source) = Channel::new();
    let (_, unused) = Collector::new();
    let passage = Passage { sink: Box::new(PanickingSink), ..passage(source, unused, 2) };
    let run = Run::start(&engine, passage).expect("a run");
    rows.send(vec![url(server.address(), "/")]).expect("the source is there");
    assert!(run.wait(PATIENCE));
    assert!(failure(&run).contains("the sink panicked"));
    let (other, seen) = start(&engine, vec![url(server.address(), "/")], 1);
    assert!(other.wait(PATIENCE));
    assert_eq!(vec![Some(200)], seen.statuses());
}

#[test]
fn a_batch_that_cannot_be_put_together_fails_its_run_and_is_no_quiet_end() {
    let (engine, server) = (engine(1), server());
    let (_, sink) = Collector::new();
    let source = BrokenKept(Some(url(server.address(), "/")));
    let passage = Passage { source: Box::new(source), ..passage(Channel::of([]), sink, 2) };
    let run = Run::start(&engine, passage).expect("a run");
    assert!(run.wait(PATIENCE));
    assert!(run.summary().failure.is_some());
}

#[test]
fn a_run_whose_sink_stands_still_leaves_the_others_memory_and_ends_when_it_is_aborted() {
    let server = server();
    let engine = Engine::start(&EngineOptions { threads: Some(1), max_memory_bytes: 1000, ..EngineOptions::default() });
    let engine = engine.expect("an engine");
    let (let_go, stuck) = StuckSink::new();
    let large = || vec![url(server.address(), "/bytes/5000"); 10];
    let (_, unused) = Collector::new();
    let source = Channel::of(large());
    let first = Run::start(&engine, Passage { sink: Box::new(stuck), ..passage(source, unused, 4) }).expect("a run");
    eventually("the first run has asked", || server.statistics().requests >= 4);

    let (second, seen) = start(&engine, large(), 4);
    assert!(second.wait(PATIENCE));
    assert_eq!(10, seen.rows().len());

    first.abort();
    let before = Instant::now();
    assert!(first.wait(Duration::from_secs(3600)), "an aborted run is waited for no longer than a second");
    assert!(before.elapsed() < PATIENCE);
    drop(let_go);
}

#[test]
fn a_row_that_is_cancelled_while_the_input_ends_has_its_outcome_too() {
    let (engine, server) = (engine(2), server());
    for _ in 0..300 {
        let (run, seen) = start(&engine, (0..3).map(|_| url(server.address(), "/")), 1);
        run.cancel(2);
        run.cancel(1);
        assert!(run.wait(PATIENCE));
        let rows: Vec<i64> = seen.rows().iter().map(|ended| ended.row).collect();
        assert_eq!(vec![0, 1, 2], rows);
    }
}

#[test]
fn what_an_ended_run_says_of_itself_stays() {
    let (engine, server) = (engine(1), server());
    let (run, _) = start(&engine, vec![url(server.address(), "/"); 50], 4);
    assert!(run.wait(PATIENCE));
    eventually("its share has ended, too", || run.snapshot().in_flight == 0);
    let told = |run: &Run| {
        let summary = run.summary();
        (summary.cpu_s, summary.peak_rss_bytes, summary.elapsed_s, summary.bound_by.text.to_string())
    };
    let before = told(&run);
    let (other, _) = start(&engine, vec![url(server.address(), "/"); 3000], 4);
    assert!(other.wait(PATIENCE));
    assert_eq!(before, told(&run));
}

#[test]
fn what_a_server_says_in_its_heads_is_set_aside_too_and_all_of_it_is_given_back() {
    const BUDGET_BYTES: u64 = 2 << 20;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{}\r\n",
        format!("X-Long: {}\r\n", "x".repeat(5000)).repeat(10)
    );
    let server = Scripted::answering(head);
    let options = EngineOptions { threads: Some(1), max_memory_bytes: BUDGET_BYTES, ..EngineOptions::default() };
    let engine = Engine::start(&options).expect("an engine");
    let budget = engine.memory();
    let (let_go, stuck) = StuckSink::new();
    let (_, unused) = Collector::new();
    let source = Channel::of(vec![server.url("/"); 200]);
    let run = Run::start(&engine, Passage { sink: Box::new(stuck), ..passage(source, unused, 100) }).expect("a run");
    eventually("heads have filled the budget", || budget.used() > BUDGET_BYTES / 2);
    drop(let_go);
    assert!(run.wait(PATIENCE));
    assert_eq!((200, None), (run.summary().rows, run.summary().failure.map(|failure| failure.message)));
    eventually("all is given back", || budget.used() == 0);
}

#[test]
fn a_row_that_waits_for_memory_for_longer_than_its_time_limit_is_answered_all_the_same() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    let server = server();
    let options = EngineOptions { threads: Some(1), max_memory_bytes: 1000, ..EngineOptions::default() };
    let engine = Engine::start(&options).expect("an engine");
    for path in ["/bytes/20000", "/encoded/gzip/20000", "/chunked/20000"] {
        let before = server.statistics().requests;
        let (let_go, stuck) = StuckSink::new();
        let (_, unused) = Collector::new();
        let source = Channel::of(vec![url(server.address(), path); 10]);
        let mut passage = Passage { sink: Box::new(stuck), ..passage(source, unused, 10) };
        passage.request.timeout = TIMEOUT;
        let run = Run::start(&engine, passage).expect("a run");
        eventually("all are asked", || server.statistics().requests == before + 10);
        // Nothing tells that a time has passed but the time.
        std::thread::sleep(2 * TIMEOUT);
        drop(let_go);
        assert!(run.wait(PATIENCE));
        assert_eq!(10, run.summary().answered, "{path}: {:?}", run.summary().errors);
    }
}
