//! A worker whose event loop is blocked: by a long computation, or because the process was stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use headgate_core::options::{RequestOptions, RunOptions};
use headgate_core::row::Row;
use headgate_engine::{Arrived, CompletionQueue, Run, WakeCaller};

use crate::fed::status;
use crate::harness::{MAX_WAIT, eventually, server, url};
use crate::own_ends::engine;

const TIMEOUT: Duration = Duration::from_secs(3);
/// A delay longer than the timeout of a request and than the time the worker is blocked, and shorter than both together.
const SLOW: &str = "/delay/7";

/// A waker that blocks its thread for longer than the timeout of a request, the first time.
#[derive(Default)]
struct BlockingWaker(AtomicBool);

impl WakeCaller for BlockingWaker {
    fn wake(&self) {
        if !self.0.swap(true, Ordering::SeqCst) {
            thread::sleep(2 * TIMEOUT);
        }
    }
}

#[test]
fn time_in_which_a_worker_was_busy_counts_for_no_timeout() {
    let server = server();
    let request = RequestOptions { timeout: TIMEOUT, ..RequestOptions::default() };
    let run = RunOptions { concurrency: 50, ..RunOptions::default() }.without_retries();
    let run = Run::fed(&engine(1), request, run).expect("a run");
    let completions = CompletionQueue::new(Arc::<BlockingWaker>::default());
    let row = |number: u64, path: &str| Row {
        reply_to: completions.reply_to(number, None, false),
        ..Row::new(0, url(server.address(), path))
    };
    run.feed((1..50).map(|number| row(number, SLOW)).collect()).expect("the run continues");
    eventually("all slow ones are in flight", || server.statistics().requests_in_progress == 49);
    // The worker is blocked when its response comes.
    run.feed(vec![row(0, "/1")]).expect("the run continues");
    let (mut arrived, end) = (Vec::<Arrived>::new(), Instant::now() + MAX_WAIT);
    let mut unresponsive_s = 0_f64;
    while arrived.len() < 50 && Instant::now() < end {
        completions.take(usize::MAX, &mut arrived);
        unresponsive_s = unresponsive_s.max(run.snapshot().unresponsive_s);
        thread::yield_now();
    }
    assert_eq!(vec![Some(200); 50], arrived.iter().map(status).collect::<Vec<_>>());
    let stalled_s = run.snapshot().stalled_s;
    assert!((5.0..MAX_WAIT.as_secs_f64()).contains(&stalled_s), "{stalled_s} s");
    assert!(unresponsive_s > 3.0, "a snapshot says so meanwhile: {unresponsive_s} s");
}
