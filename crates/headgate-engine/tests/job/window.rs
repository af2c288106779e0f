//! A worker behind a full window: it names the row that everybody waits for.

use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use arrow_schema::Fields;
use headgate_engine::columns::builder::OutcomeBatch;
use headgate_engine::http::client::ClientOptions;
use headgate_engine::http::dial::connect::Connector;
use headgate_engine::http::dial::resolve::Resolver;
use headgate_engine::http::dial::tls;
use headgate_engine::http::h1::exchange::ResponseLimits;
use headgate_engine::http::request::Defaults;
use headgate_engine::model::clock::Clock;
use headgate_engine::model::memory::MemoryBudget;
use headgate_engine::model::options::RequestOptions;
use headgate_engine::model::row::Row;
use headgate_engine::model::source_size::SourceSize;
use headgate_engine::queue::rows::row_queue;
use headgate_engine::queue::window::Window;
use headgate_engine::stats::monitor::{Monitor, Setting};
use headgate_engine::stats::worker::{SlowRow, WorkerStats};
use headgate_engine::worker::{self, Phase, Shared};
use tokio::sync::watch;

use crate::harness::{PATIENCE, eventually, server, url};

const LANES: usize = 4;
/// Nobody takes them before the end, and each may be a batch of its own.
const ROWS: usize = 10;

/// A worker with a source before it and nobody who writes.
struct Bench {
    window: Arc<Window>,
    stats: Arc<Mutex<WorkerStats>>,
    phase: watch::Sender<Phase>,
    outcomes: async_channel::Receiver<OutcomeBatch>,
    source: JoinHandle<bool>,
    worker: JoinHandle<()>,
}

impl Bench {
    fn start(window: u64, urls: impl IntoIterator<Item = String>) -> Self {
        let window = Arc::new(Window::new(window, 0));
        let (sender, rows) = row_queue();
        let (outcome_sender, outcomes) = async_channel::bounded(ROWS);
        let (phase, phase_receiver) = watch::channel(Phase::Running);
        let request = RequestOptions::default();
        let tls = tls::client_config(&request).expect("no certificates were named");
        let shared = Arc::new(Shared {
            clock: Clock::start(),
            client: Arc::new(ClientOptions {
                connector: Connector { resolver: Resolver::default(), tls },
                limits: ResponseLimits {
                    max_body_bytes: request.max_body_bytes,
                    memory: MemoryBudget::new(request.body_memory_bytes),
                },
                timeout: PATIENCE,
                connect_timeout: PATIENCE,
            }),
            defaults: Defaults::new(&request).expect("defaults"),
            fail_on: request.fail_on,
            kept: Fields::empty(),
            rows,
            window: window.clone(),
            outcomes: outcome_sender,
            phase: phase_receiver,
            failure: Arc::default(),
        });
        let batch: Vec<Row> = (0_u64..).zip(urls).map(|(ordinal, url)| Row::new(ordinal, url)).collect();
        let before = window.clone();
        let source = thread::spawn(move || before.pass(batch, |piece| sender.send(piece)));
        let stats = Arc::new(Mutex::new(WorkerStats::new(Instant::now())));
        let own = stats.clone();
        let worker = thread::spawn(move || worker::run(&shared, LANES, own));
        Self { window, stats, phase, outcomes, source, worker }
    }

    fn slow_row(&self) -> Option<SlowRow> {
        self.stats.lock().unwrap().slow_row.clone()
    }

    fn rows(&self) -> u64 {
        self.stats.lock().unwrap().figures.rows()
    }

    fn monitor(&self) -> Monitor {
        let setting =
            Setting { concurrency: LANES, cores: 1, input_is_pipe: false, output_is_pipe: false, rows_before: 0 };
        let source = Arc::new(Mutex::new(SourceSize::default()));
        Monitor::new(Instant::now(), setting, vec![self.stats.clone()], source, self.window.clone())
    }
}

#[test]
fn the_row_that_the_window_is_full_behind_is_named_with_its_host() {
    let server = server();
    let hangs = url(server.address(), "/fault/hang-before-headers");
    let answers = (1..ROWS).map(|row| url(server.address(), &format!("/{row}")));
    let bench = Bench::start(3, std::iter::once(hangs).chain(answers));
    let mut monitor = bench.monitor();
    let host = server.address().to_string();

    let slow_row = SlowRow { ordinal: 0, host: host.as_str().into() };
    eventually("the row that hangs is named", || bench.slow_row() == Some(slow_row.clone()));
    eventually("the other rows of the window are done", || bench.rows() == 2);
    eventually("the server has been asked for all three", || server.statistics().requests == 3);
    assert_eq!(Some(0), bench.window.full_at());
    let mut bound_by = || monitor.snapshot(Instant::now(), false).bound_by;
    let text = format!(
        "bound by row 0 ({host}): until it ends, no more than the window of 3 rows is read; \
         raise --window or lower --timeout-s"
    );
    // A worker on a busy machine seems to be busy itself, for a while.
    eventually("the window holds the job back", || bound_by().text == text);

    // As if row 0 had been written: now it is row 1 that is not yet.
    bench.window.advance(1);
    eventually("no row in flight is named", || bench.slow_row().is_none());
    eventually("the source waits again", || bench.window.full_at() == Some(1));
    let text = "bound by row 1: until it is done, no more than the window of 3 rows is read; raise --window";
    eventually("the row that is not in flight is named", || bound_by().text == text);

    bench.window.advance(10);
    eventually("all other rows are done", || bench.rows() == 9);
    assert!(bench.source.join().unwrap());
    bench.phase.send(Phase::Draining { until: Instant::now() }).unwrap();
    bench.worker.join().unwrap();
    let written: usize =
        std::iter::from_fn(|| bench.outcomes.try_recv().ok()).map(|batch| batch.records.num_rows()).sum();
    assert_eq!(9, written);
}

#[test]
fn a_source_that_waits_for_the_window_learns_that_nobody_takes_results() {
    let server = server();
    let bench = Bench::start(1, (0..2).map(|row| url(server.address(), &format!("/{row}"))));
    drop(bench.outcomes);
    assert!(!bench.source.join().unwrap());
    bench.worker.join().unwrap();
    assert_eq!(1, server.statistics().requests);
}
