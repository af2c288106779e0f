//! Failures of one run of an engine do not affect its other runs.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use arrow_schema::{DataType, Field, Fields};
use headgate_core::error::{JobError, JobErrorKind};
use headgate_core::options::EngineOptions;
use headgate_core::row::{Row, RowBatch, RowExtra};
use headgate_engine::testing::Passage;
use headgate_engine::{Engine, Run};
use headgate_table::columns::builder::OutcomeBatch;
use headgate_table::sink::Sink;
use headgate_table::source::Source;

use crate::harness::{MAX_WAIT, eventually, server, url};
use crate::own_ends::{Channel, Collector, StuckSink, engine, passage, start};

/// A source that panics at the first batch.
struct PanickingSink;

impl Sink for PanickingSink {
    fn write(&mut self, _batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        panic!("on purpose");
    }
}

/// A source with one row whose kept column does not match the schema.
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
fn a_panicking_sink_ends_its_run_though_the_source_yields_no_rows() {
    let (engine, server) = (engine(1), server());
    let (rows, source) = Channel::new();
    let (_, unused) = Collector::new();
    let passage = Passage { sink: Box::new(PanickingSink), ..passage(source, unused, 2) };
    let run = Run::start(&engine, passage).expect("a run");
    rows.send(vec![url(server.address(), "/")]).expect("the source is there");
    assert!(run.wait(MAX_WAIT));
    assert!(failure(&run).contains("the sink panicked"));
    let (other, seen) = start(&engine, vec![url(server.address(), "/")], 1);
    assert!(other.wait(MAX_WAIT));
    assert_eq!(vec![Some(200)], seen.statuses());
}

#[test]
fn a_batch_that_cannot_be_built_fails_its_run() {
    let (engine, server) = (engine(1), server());
    let (_, sink) = Collector::new();
    let source = BrokenKept(Some(url(server.address(), "/")));
    let passage = Passage { source: Box::new(source), ..passage(Channel::of([]), sink, 2) };
    let run = Run::start(&engine, passage).expect("a run");
    assert!(run.wait(MAX_WAIT));
    assert!(run.summary().failure.is_some());
}

#[test]
fn a_run_with_a_blocked_sink_leaves_memory_to_other_runs_and_can_be_aborted() {
    let server = server();
    let engine = Engine::start(&EngineOptions { threads: Some(1), max_memory: Some(1000), ..EngineOptions::default() });
    let engine = engine.expect("an engine");
    let (release, stuck) = StuckSink::new();
    let large = || vec![url(server.address(), "/bytes/5000"); 10];
    let (_, unused) = Collector::new();
    let source = Channel::of(large());
    let first = Run::start(&engine, Passage { sink: Box::new(stuck), ..passage(source, unused, 4) }).expect("a run");
    eventually("the first run has sent its requests", || server.statistics().requests >= 4);

    let (second, seen) = start(&engine, large(), 4);
    assert!(second.wait(MAX_WAIT));
    assert_eq!(10, seen.rows().len());

    first.abort();
    let before = Instant::now();
    assert!(first.wait(Duration::from_secs(3600)), "an aborted run is waited for no longer than a second");
    assert!(before.elapsed() < MAX_WAIT);
    drop(release);
}

#[test]
fn a_row_that_is_cancelled_while_the_input_ends_has_an_outcome() {
    let (engine, server) = (engine(2), server());
    for _ in 0..300 {
        let (run, seen) = start(&engine, (0..3).map(|_| url(server.address(), "/")), 1);
        run.cancel(2);
        run.cancel(1);
        assert!(run.wait(MAX_WAIT));
        let rows: Vec<i64> = seen.rows().iter().map(|ended| ended.row).collect();
        assert_eq!(vec![0, 1, 2], rows);
    }
}

#[test]
fn the_figures_of_an_ended_run_do_not_change() {
    let (engine, server) = (engine(1), server());
    let (run, _) = start(&engine, vec![url(server.address(), "/"); 50], 4);
    assert!(run.wait(MAX_WAIT));
    eventually("its share has ended, too", || run.snapshot().in_flight == 0);
    let figures = |run: &Run| {
        let summary = run.summary();
        (summary.cpu_s, summary.peak_rss_bytes, summary.elapsed_s, summary.bottleneck.text.to_string())
    };
    let before = figures(&run);
    let (other, _) = start(&engine, vec![url(server.address(), "/"); 3000], 4);
    assert!(other.wait(MAX_WAIT));
    assert_eq!(before, figures(&run));
}
