//! What a run costs on an engine that has had one before, beside a run on an engine that is started for it. Every run has
//! one row, whose request goes to a local server. Prints one line of JSON; `make bench-engine` starts it and explains it.
#![expect(clippy::print_stdout, reason = "a measurement prints its findings")]

use std::ops::ControlFlow;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use headgate_core::error::JobError;
use headgate_core::options::{EngineOptions, RequestOptions, RunOptions};
use headgate_core::row::{Row, RowBatch};
use headgate_engine::testing::Passage;
use headgate_engine::{Engine, Run};
use headgate_table::columns::builder::OutcomeBatch;
use headgate_table::sink::Sink;
use headgate_table::source::Source;
use headgate_testserver::{Config, Server};

const WARM_RUNS: usize = 200;
/// One on an engine of its own for each of so many on the warm one, so that both meet the same machine.
const WARM_FOR_EACH_COLD: usize = 10;
const MAX_WAIT: Duration = Duration::from_secs(30);

struct OneRow(Option<String>);

impl Source for OneRow {
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError> {
        Ok(self.0.take().map(|url| vec![Row::new(0, url)]))
    }
}

/// Says when outcomes came.
struct Clocked(Sender<Instant>);

impl Sink for Clocked {
    fn write(&mut self, _batch: OutcomeBatch) -> Result<ControlFlow<()>, JobError> {
        let _ = self.0.send(Instant::now());
        Ok(ControlFlow::Continue(()))
    }
}

/// Durations since the caller wanted the run.
struct Taken {
    /// `Run::start` has returned.
    started: Duration,
    /// The outcome of the row is with the sink.
    outcome: Duration,
    /// Nothing is left to do.
    ended: Duration,
}

/// Runs one row on an engine that has been started, and returns the durations since `wanted`.
fn run(engine: &Engine, url: &str, wanted: Instant) -> Result<Taken, JobError> {
    let (outcomes, came) = channel();
    let passage = Passage {
        source: Box::new(OneRow(Some(url.to_owned()))),
        sink: Box::new(Clocked(outcomes)),
        window: None,
        request: RequestOptions::default(),
        run: RunOptions::default(),
    };
    let run = Run::start(engine, passage)?;
    let started = wanted.elapsed();
    let ended = run.wait(MAX_WAIT).then(|| wanted.elapsed());
    let summary = run.summary();
    match (came.try_recv(), ended) {
        (Ok(outcome), Some(ended)) if summary.succeeded == 1 => {
            Ok(Taken { started, outcome: outcome.saturating_duration_since(wanted), ended })
        }
        _ => Err(JobError::internal(format!("a run of one row had no response: {summary:?}"))),
    }
}

/// Medians and 90th percentiles in microseconds.
fn figures(runs: &[Taken]) -> serde_json::Value {
    let quantiles = |what: fn(&Taken) -> Duration| {
        let mut micros: Vec<f64> = runs.iter().map(|taken| what(taken).as_secs_f64() * 1e6).collect();
        micros.sort_by(f64::total_cmp);
        let at = |share: f64| (micros[((micros.len() - 1) as f64 * share).round() as usize] * 10.0).round() / 10.0;
        serde_json::json!({ "median_us": at(0.5), "p90_us": at(0.9) })
    };
    serde_json::json!({
        "runs": runs.len(),
        "started": quantiles(|taken| taken.started),
        "outcome": quantiles(|taken| taken.outcome),
        "ended": quantiles(|taken| taken.ended),
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start(Config { threads: Some(1), ..Config::default() })?;
    let url = format!("http://{}/", server.address());
    let options = EngineOptions::default();
    let warm_engine = Engine::start(&options)?;
    run(&warm_engine, &url, Instant::now())?;
    let (mut warm, mut cold) = (Vec::new(), Vec::new());
    for number in 0..WARM_RUNS {
        warm.push(run(&warm_engine, &url, Instant::now())?);
        if number % WARM_FOR_EACH_COLD == 0 {
            let wanted = Instant::now();
            let engine = Engine::start(&options)?;
            cold.push(run(&engine, &url, wanted)?);
        }
    }
    println!("{}", serde_json::json!({ "warm": figures(&warm), "cold": figures(&cold) }));
    Ok(())
}
