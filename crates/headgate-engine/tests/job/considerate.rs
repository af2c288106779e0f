//! Hosts that are slow, limited or paused: limits hold, pauses are obeyed, failed requests are
//! retried, and other hosts continue meanwhile.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use headgate_core::limits::{HostBy, HostConcurrency, MaxFailures, PerHost, Retrying};
use headgate_engine::Summary;
use headgate_engine::testing::BottleneckKind;

use crate::harness::{ResultRow, Rig};
use crate::scripted::{Scripted, read_head, response};

/// The requests that a server received, with their times.
type Log = Arc<Mutex<Vec<(Instant, String)>>>;

const UNAVAILABLE: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

/// Starts a server that responds to each path as `respond` returns, which gets the number of earlier requests for it.
fn server(respond: impl Fn(&str, usize) -> String + Send + Sync + 'static) -> (Scripted, Log) {
    let log = Log::default();
    let seen = log.clone();
    let server = Scripted::start(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let before = {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                let before = seen.iter().filter(|(_, other)| *other == path).count();
                seen.push((Instant::now(), path.clone()));
                before
            };
            if stream.write_all(respond(&path, before).as_bytes()).is_err() {
                break;
            }
        }
    });
    (server, log)
}

fn seen(log: &Log) -> Vec<(Instant, String)> {
    log.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn paths(log: &Log) -> Vec<String> {
    seen(log).into_iter().map(|(_, path)| path).collect()
}

fn quick() -> Retrying {
    Retrying { delay: Duration::from_millis(5), ..Retrying::default() }
}

fn run(rig: &Rig) -> (Vec<ResultRow>, Summary) {
    let (rows, summary) = rig.run();
    assert!(summary.failure.is_none(), "{:?}", summary.failure);
    (rows, summary)
}

#[test]
fn a_failed_row_is_retried_and_its_result_is_that_of_the_last_attempt() {
    let (server, _) = server(|path, before| match (path, before) {
        ("/1", 0..=1) | ("/2", _) => UNAVAILABLE.into(),
        _ => response(&before.to_string()),
    });
    let mut rig = Rig::new(server.url("/[0-3]"));
    rig.options.run.retrying = quick();
    let (rows, summary) = run(&rig);
    let ends: Vec<_> = rows.iter().map(|row| (row.status, row.attempts)).collect();
    assert_eq!(vec![(Some(200), 1), (Some(200), 3), (Some(503), 4), (Some(200), 1)], ends);
    assert_eq!(BTreeMap::from([("status:503".into(), 5)]), summary.retries);
    assert_eq!((3, 1), (summary.succeeded, summary.failed));
}

#[test]
fn a_row_that_waits_for_its_retry_occupies_no_lane() {
    let (server, log) =
        server(|path, before| if (path, before) == ("/0", 0) { UNAVAILABLE.into() } else { response("") });
    let mut rig = Rig::new(server.url("/[0-20]")).one_by_one();
    rig.options.run.retrying = Retrying { delay: Duration::from_secs(2), ..Retrying::default() };
    run(&rig);
    let paths = paths(&log);
    assert_eq!((22, "/0", "/1"), (paths.len(), &*paths[0], &*paths[1]));
}

#[test]
fn a_request_that_may_have_been_processed_is_resent_only_with_an_idempotency_key_or_on_demand() {
    let (server, log) =
        server(
            |_, before| if before == 0 { "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".into() } else { response("") },
        );
    let post = |path: &str| {
        let mut rig = Rig::new(server.url(path)).method("POST");
        rig.options.run.retrying = quick();
        rig
    };
    let (rows, summary) = run(&post("/plain"));
    assert_eq!((Some(500), 1, 1), (rows[0].status, rows[0].attempts, summary.not_retried));
    let mut with_key = post("/key");
    with_key.options.request.headers.push(("idempotency-key".into(), "k".into()));
    let mut minted = post("/minted");
    minted.options.run.retrying.idempotency_key = true;
    let mut harmless = post("/unsafe");
    harmless.options.run.retrying.non_idempotent = true;
    for rig in [with_key, minted, harmless] {
        let (rows, summary) = run(&rig);
        assert_eq!((Some(200), 2, 0), (rows[0].status, rows[0].attempts, summary.not_retried));
    }
    assert_eq!(1, paths(&log).iter().filter(|path| *path == "/plain").count());
}

#[test]
fn a_host_gets_no_request_before_its_retry_after_and_the_bottleneck_names_the_pause() {
    const PAUSE: Duration = Duration::from_secs(2);
    let (busy, log) = server(|path, before| match (path, before) {
        ("/3", 0) => "HTTP/1.1 429 Slow down\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n".into(),
        _ => response(""),
    });
    let (other, other_log) = server(|_, _| response(""));
    let urls = (0..60).flat_map(|number| [busy.url(&format!("/{number}")), other.url(&format!("/{number}"))]);
    let mut rig = Rig::urls(urls).concurrency(2, 1);
    rig.options.run.retrying = quick();
    // The two servers differ in their ports.
    rig.options.run.limits.host_by = HostBy::Origin;
    let (rows, summary) = run(&rig);
    assert!(rows.iter().all(|row| row.status == Some(200)));
    let log = seen(&log);
    let paused_at = log.iter().find(|(_, path)| path == "/3").expect("it was requested").0;
    let first_after =
        log.iter().map(|(at, _)| *at).find(|at| *at > paused_at + Duration::from_millis(500)).expect("a later request");
    assert!(first_after >= paused_at + PAUSE, "{:?}", first_after - paused_at);
    // At most one request was in flight, and the other host had all of its rows meanwhile.
    assert!(log.iter().filter(|(at, _)| *at > paused_at && *at < paused_at + PAUSE).count() <= 1);
    assert!(seen(&other_log).iter().all(|(at, _)| *at < paused_at + PAUSE));
    assert_eq!(BottleneckKind::Pause, summary.bottleneck.kind, "{}", summary.bottleneck.text);
    assert_eq!(1, summary.pauses.values().sum::<u64>());
}

#[test]
fn a_host_has_at_most_its_limit_in_flight() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, peak) = (now.clone(), most.clone());
    let (server, _) = server(move |_, _| {
        peak.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::yield_now();
        counted.fetch_sub(1, Ordering::SeqCst);
        response("")
    });
    let mut rig = Rig::new(server.url("/[0-299]")).concurrency(32, 2);
    rig.options.run.limits.concurrency_per_host = PerHost { each: Some(HostConcurrency::Fixed(3)), named: Vec::new() };
    let (rows, _) = run(&rig);
    assert_eq!((300, true), (rows.len(), most.load(Ordering::SeqCst) <= 3));
}

#[test]
fn a_timeout_holds_for_a_request_that_waited_for_its_turn() {
    let server = crate::harness::server();
    let path = |row| if row % 10 == 0 { "/fault/hang-before-headers" } else { "/row" };
    let urls = (0..3000).map(|row| crate::harness::url(server.address(), path(row)));
    let mut rig = Rig::urls(urls).concurrency(100, 2).timeout(Duration::from_millis(100));
    rig.options.run.limits.rate = Some("2000/s".parse().expect("a rate"));
    let (rows, _) = run(&rig);
    assert_eq!(300, rows.iter().filter(|row| row.kind() == Some("timeout")).count());
}

#[test]
fn a_rate_is_never_exceeded_and_is_named_as_the_bottleneck() {
    let (server, log) = server(|_, _| response(""));
    let mut rig = Rig::new(server.url("/[0-49]")).concurrency(32, 2);
    rig.options.run.limits.rate = Some("50/s".parse().expect("a rate"));
    let before = Instant::now();
    let (_, summary) = run(&rig);
    // The first request may start at once.
    let last = seen(&log).last().expect("it was requested").0;
    assert!(last - before >= Duration::from_millis(49 * 20), "{:?}", last - before);
    assert_eq!(BottleneckKind::Rate, summary.bottleneck.kind, "{}", summary.bottleneck.text);
    assert!(summary.bottleneck.text.to_string().contains("The limit of 50/s"), "{}", summary.bottleneck.text);
}

#[test]
fn a_job_that_cannot_succeed_stops_itself_and_resumes_once_the_cause_is_removed() {
    let is_mended = Arc::new(AtomicUsize::new(0));
    let mended = is_mended.clone();
    let (server, _) = server(move |_, _| match mended.load(Ordering::SeqCst) {
        0 => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".into(),
        _ => response(""),
    });
    let mut rig = Rig::new(server.url("/[1-3000]"));
    rig.options.run.max_failures = MaxFailures::default();
    rig.options.request.fail_on = "4xx,5xx".parse().expect("statuses");
    let (_, summary) = run(&rig);
    let why = summary.stopped_by.expect("it stopped itself").to_string();
    assert!(
        why.starts_with(
            "the first 1,000 rows all failed alike: 1,000 of them with status:401, the first of these: row "
        ),
        "{why}"
    );
    assert!((1000..1100).contains(&summary.rows), "{}", summary.rows);
    assert_eq!(BottleneckKind::Failures, summary.bottleneck.kind, "{}", summary.bottleneck.text);
    is_mended.store(1, Ordering::SeqCst);
    let before = summary.rows;
    let (rows, summary) = run(&rig);
    assert_eq!((3000 - before, None, 3000), (summary.succeeded, summary.stopped_by, rows.len() as u64));
}

#[test]
fn a_job_that_stops_itself_ends_although_rows_wait_for_their_retry() {
    let (server, _) = server(|_, _| "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".into());
    let mut rig = Rig::new(server.url("/[1-3000]")).concurrency(64, 2);
    rig.options.run.max_failures = MaxFailures::Count(3);
    rig.options.run.retrying = Retrying { retries: 1, ..quick() };
    let (_, summary) = run(&rig);
    assert!(summary.stopped_by.is_some());
}
#[test]
fn a_job_whose_concurrency_was_set_below_its_threads_ends() {
    let (server, _) = server(|_, _| response(""));
    let rig = Rig::new(server.url("/[1-1000]")).concurrency(8, 2);
    let job = rig.start();
    job.set([("concurrency".to_owned(), "1".to_owned())].into()).expect("it can be set");
    let (rows, _) = rig.finish(&job);
    assert_eq!(1000, rows.len());
}
