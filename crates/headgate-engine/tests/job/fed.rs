//! Rows that a caller submits one by one, and the completion queue of their outcomes.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use headgate_core::error::ErrorKind;
use headgate_core::options::{RedirectPolicy, RequestOptions, ResponseOptions, RunOptions};
use headgate_core::row::{OwnOptions, Row, RowExtra};
use headgate_engine::{Arrived, CompletionQueue, Run, WakeCaller};
use headgate_testserver::Server;

use crate::harness::{MAX_WAIT, eventually, server, url};
use crate::own_ends::engine;

#[derive(Default)]
struct WakeUps {
    count: Mutex<usize>,
    changed: Condvar,
}

struct CountingWaker(Arc<WakeUps>);

impl WakeCaller for CountingWaker {
    fn wake(&self) {
        *self.0.count.lock().unwrap() += 1;
        self.0.changed.notify_all();
    }
}

/// A run, and a waiting caller.
pub struct Fed {
    pub run: Run,
    completions: Arc<CompletionQueue>,
    wake_ups: Arc<WakeUps>,
}

impl Fed {
    fn new(concurrency: usize) -> Self {
        Self::with_request(concurrency, RequestOptions::default())
    }

    pub fn with_request(concurrency: usize, request: RequestOptions) -> Self {
        let wake_ups = Arc::<WakeUps>::default();
        let run = Run::fed(&engine(2), request, RunOptions { concurrency, ..RunOptions::default() }).unwrap();
        Self { run, completions: CompletionQueue::new(Arc::new(CountingWaker(wake_ups.clone()))), wake_ups }
    }

    /// Submits rows, numbered by their positions.
    pub fn feed(&self, rows: impl IntoIterator<Item = (String, OwnOptions)>) -> Option<u64> {
        let rows = rows.into_iter().zip(0..).map(|((url, own), number)| {
            let extra = RowExtra { own: Some(Box::new(own)), ..RowExtra::default() };
            let reply_to = self.completions.reply_to(number, None, false);
            Row { extra: Some(Box::new(extra)), reply_to, ..Row::new(0, url) }
        });
        self.run.feed(rows.collect())
    }

    fn submit(&self, server: &Server, path: &str, count: usize) -> Option<u64> {
        self.feed(vec![(url(server.address(), path), OwnOptions::default()); count])
    }

    /// Waits for this many outcomes.
    pub fn wait(&self, count: usize) -> Vec<Arrived> {
        let (mut arrived, end) = (Vec::new(), Instant::now() + MAX_WAIT);
        while arrived.len() < count {
            let before = arrived.len();
            self.completions.take(usize::MAX, &mut arrived);
            if arrived.len() == before {
                let mut wake_ups = self.wake_ups.count.lock().unwrap();
                while *wake_ups == 0 {
                    let left = end.saturating_duration_since(Instant::now());
                    assert!(!left.is_zero(), "{before} of {count} have arrived");
                    wake_ups = self.wake_ups.changed.wait_timeout(wake_ups, left).unwrap().0;
                }
                *wake_ups = 0;
            }
        }
        arrived
    }

    fn in_flight(&self) -> u64 {
        self.run.snapshot().in_flight
    }
}

fn numbers(arrived: &[Arrived]) -> Vec<u64> {
    let mut numbers: Vec<u64> = arrived.iter().map(|arrived| arrived.number).collect();
    numbers.sort_unstable();
    numbers
}

pub fn status(arrived: &Arrived) -> Option<u16> {
    Some(arrived.outcome.as_ref()?.response.as_ref()?.status)
}

fn kind(arrived: &Arrived) -> Option<ErrorKind> {
    Some(arrived.outcome.as_ref()?.failure.as_ref()?.kind)
}

#[test]
fn every_submitted_row_has_one_outcome() {
    let (fed, server) = (Fed::new(16), server());
    assert_eq!(Some(0), fed.submit(&server, "/1", 3000));
    let arrived = fed.wait(3000);
    assert_eq!((0..3000).collect::<Vec<_>>(), numbers(&arrived));
    assert!(arrived.iter().all(|arrived| status(arrived) == Some(200) && !arrived.failed));
    assert_eq!(Some(3000), fed.submit(&server, "/status/404", 1));
    assert_eq!(Some(404), status(&fed.wait(1)[0]));

    fed.run.end_feeding();
    assert!(fed.run.wait(MAX_WAIT));
    assert_eq!(3001, fed.run.summary().rows);
    let mut more = Vec::new();
    fed.completions.take(usize::MAX, &mut more);
    assert_eq!(0, more.len());
}

#[test]
fn a_waiting_caller_is_notified_when_the_run_ends_without_an_outcome() {
    let (fed, server) = (Fed::new(1), server());
    fed.submit(&server, "/fault/hang-before-headers", 5);
    eventually("it is in flight", || fed.in_flight() == 1);
    fed.run.end_feeding();
    fed.run.abort();
    let arrived = fed.wait(5);
    assert_eq!((0..5).collect::<Vec<_>>(), numbers(&arrived));
    assert!(arrived.iter().all(|arrived| arrived.failed && status(arrived).is_none()));

    assert!(fed.run.wait(MAX_WAIT));
    assert_eq!(None, fed.submit(&server, "/1", 1), "the run has ended");
    assert_eq!(1, fed.wait(1).len());
}

#[test]
fn a_row_can_be_cancelled_while_it_waits_or_is_in_flight() {
    let (fed, server) = (Fed::new(1), server());
    let first = fed.submit(&server, "/fault/hang-before-headers", 2).unwrap();
    eventually("it is in flight", || fed.in_flight() == 1);
    fed.run.cancel(first + 1);
    fed.run.cancel(first);
    let arrived = fed.wait(2);
    assert_eq!(vec![0, 1], numbers(&arrived));
    assert!(arrived.iter().all(|arrived| kind(arrived) == Some(ErrorKind::Cancelled)));

    fed.submit(&server, "/1", 1);
    assert_eq!(Some(200), status(&fed.wait(1)[0]));
}

#[test]
fn rows_of_a_closed_completion_queue_are_cancelled_and_other_rows_continue() {
    let (fed, server) = (Fed::new(4), server());
    fed.submit(&server, "/fault/hang-before-headers", 100);
    eventually("they are in flight", || server.statistics().requests == 4);
    fed.completions.close();
    fed.run.cancel_unwanted();
    eventually("they are cancelled", || fed.run.snapshot().rows == 100);
    assert_eq!(4, server.statistics().requests);

    let next = Fed { completions: CompletionQueue::new(Arc::new(CountingWaker(fed.wake_ups.clone()))), ..fed };
    next.submit(&server, "/1", 10);
    assert_eq!(10, next.wait(10).len());
}

#[test]
fn a_row_may_have_its_own_timeout() {
    let (fed, server) = (Fed::new(2), server());
    let own = |timeout| OwnOptions { timeout, ..OwnOptions::default() };
    let hangs = url(server.address(), "/fault/hang-before-headers");
    let late = url(server.address(), "/delay/0.2");
    fed.feed([(hangs, own(Some(Duration::from_millis(50)))), (late, own(None))]);
    let mut arrived = fed.wait(2);
    arrived.sort_by_key(|arrived| arrived.number);
    assert_eq!((Some(ErrorKind::Timeout), Some(200)), (kind(&arrived[0]), status(&arrived[1])));
}

#[test]
fn a_row_may_have_its_own_redirect_policy_and_an_unfollowed_redirect_keeps_its_body() {
    let server = server();
    let own = |redirects| OwnOptions { redirects, ..OwnOptions::default() };
    for redirects in [RedirectPolicy::None, RedirectPolicy::Follow] {
        let response = ResponseOptions { redirects, max_redirects: 2, ..ResponseOptions::default() };
        let request = RequestOptions { response, ..RequestOptions::default() };
        let fed = Fed::with_request(2, request);
        let twice = url(server.address(), "/redirect/2");
        fed.feed([
            (twice.clone(), own(Some(RedirectPolicy::None))),
            (twice, own(Some(RedirectPolicy::Follow))),
            (url(server.address(), "/redirect/3"), own(Some(RedirectPolicy::SameOrigin))),
        ]);
        let mut arrived = fed.wait(3);
        arrived.sort_by_key(|arrived| arrived.number);
        assert_eq!((Some(302), None), (status(&arrived[0]), kind(&arrived[0])), "the run follows {redirects:?}");
        assert!(arrived[0].outcome.as_ref().unwrap().response.as_ref().unwrap().body.is_some());
        let followed = arrived[1].outcome.as_ref().unwrap();
        assert_eq!(
            (Some(200), url(server.address(), "/redirect/0")),
            (status(&arrived[1]), followed.row.target().into())
        );
        assert_eq!(Some(ErrorKind::TooManyRedirects), kind(&arrived[2]));
    }
}
