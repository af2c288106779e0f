//! A custom source and sink, as an application that embeds the engine provides them.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int16Type, Int64Type};
use headgate_core::error::JobError;
use headgate_core::options::{EngineOptions, RequestOptions, RunOptions};
use headgate_core::row::{Row, RowBatch};
use headgate_engine::testing::Passage;
use headgate_engine::{Engine, Run};
use headgate_table::columns::builder::OutcomeBatch;
use headgate_table::sink::Sink;
use headgate_table::source::Source;

use crate::harness::MAX_WAIT;

/// A source whose rows a test sends, one batch for each message. The end of the channel is the end of the input.
pub struct Channel {
    urls: Receiver<Vec<String>>,
    next: u64,
}

impl Channel {
    pub fn new() -> (Sender<Vec<String>>, Self) {
        let (sender, urls) = channel();
        (sender, Self { urls, next: 0 })
    }

    /// Creates a source with all these rows in one batch.
    pub fn of(urls: impl IntoIterator<Item = String>) -> Self {
        let (sender, source) = Self::new();
        sender.send(urls.into_iter().collect()).expect("the source is there");
        source
    }
}

impl Source for Channel {
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError> {
        let Ok(urls) = self.urls.recv() else { return Ok(None) };
        let rows: RowBatch = (self.next..).zip(urls).map(|(ordinal, url)| Row::new(ordinal, url)).collect();
        self.next += rows.len() as u64;
        Ok(Some(rows))
    }
}

/// A row as the sink received it: its ordinal, its status, its error with message and detail, and its body.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ended {
    pub row: i64,
    pub status: Option<i16>,
    pub error: Option<String>,
    pub attempts: i16,
    pub body: Vec<u8>,
    pub elapsed: Duration,
    pub message: String,
    pub detail: String,
}

/// Finished rows, for a test to inspect.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    rows: Arc<Mutex<Vec<Ended>>>,
}

impl Seen {
    /// Returns the rows in the order of the input.
    pub fn rows(&self) -> Vec<Ended> {
        let mut rows = self.rows.lock().unwrap().clone();
        rows.sort();
        rows
    }

    pub fn statuses(&self) -> Vec<Option<i16>> {
        self.rows().iter().map(|ended| ended.status).collect()
    }
}

/// A sink that records finished rows, or refuses them with an error.
pub struct Collector {
    seen: Seen,
    refuse: Option<JobError>,
}

impl Collector {
    pub fn new() -> (Seen, Self) {
        let seen = Seen::default();
        (seen.clone(), Self { seen, refuse: None })
    }

    pub fn refusing(error: JobError) -> Self {
        Self { seen: Seen::default(), refuse: Some(error) }
    }
}

impl Sink for Collector {
    fn write(&mut self, batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        if let Some(error) = &self.refuse {
            return Err(error.clone());
        }
        let column = |name| batch.records.column_by_name(name).expect("a column of every result");
        let (rows, statuses) =
            (column("row").as_primitive::<Int64Type>(), column("status").as_primitive::<Int16Type>());
        let (errors, bodies) = (column("error").as_string::<i32>(), column("body").as_binary::<i32>());
        let text = |name: &'static str, index| {
            column(name).as_string::<i32>().iter().nth(index).flatten().unwrap_or_default().to_owned()
        };
        let elapsed = column("elapsed_us").as_primitive::<Int64Type>();
        let attempts = column("attempts").as_primitive::<Int16Type>();
        let mut seen = self.seen.rows.lock().unwrap();
        seen.extend(rows.iter().enumerate().map(|(index, row)| Ended {
            row: row.expect("a row has a number"),
            status: statuses.iter().nth(index).flatten(),
            error: errors.iter().nth(index).flatten().map(str::to_owned),
            attempts: attempts.value(index),
            body: bodies.iter().nth(index).flatten().unwrap_or_default().to_vec(),
            elapsed: Duration::from_micros(elapsed.value(index) as u64),
            message: text("error_message", index),
            detail: text("error_detail", index),
        }));
        Ok(ControlFlow::Continue(()))
    }
}

/// A sink that accepts nothing until it is released.
pub struct StuckSink(Receiver<()>);

impl StuckSink {
    pub fn new() -> (Sender<()>, Self) {
        let (release, stuck) = channel();
        (release, Self(stuck))
    }
}

impl Sink for StuckSink {
    fn write(&mut self, _batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        let _ = self.0.recv();
        Ok(ControlFlow::Continue(()))
    }
}

pub fn engine(threads: usize) -> Engine {
    let options = EngineOptions { threads: Some(threads), ..EngineOptions::default() };
    Engine::start(&options).expect("an engine")
}

/// Returns the parts of a run from a source into a sink, with this concurrency.
pub fn passage(source: impl Source + 'static, sink: Collector, concurrency: usize) -> Passage {
    Passage {
        source: Box::new(source),
        sink: Box::new(sink),
        window: None,
        request: RequestOptions { timeout: MAX_WAIT, ..RequestOptions::default() },
        run: RunOptions { concurrency, shutdown_timeout: MAX_WAIT, ..RunOptions::default() }.without_retries(),
    }
}

/// Starts a run of these URLs, and returns it with its finished rows.
pub fn start(engine: &Engine, urls: impl IntoIterator<Item = String>, concurrency: usize) -> (Run, Seen) {
    let (seen, sink) = Collector::new();
    (Run::start(engine, passage(Channel::of(urls), sink, concurrency)).expect("a run"), seen)
}
