//! An engine and several runs: what they share, and how one affects another.

use std::time::Duration;

use headgate_core::error::JobError;
use headgate_core::limits::HostConcurrency;
use headgate_core::row::RowBatch;
use headgate_engine::machine::raise_open_files;
use headgate_engine::testing::Passage;
use headgate_engine::{Engine, Run};
use headgate_table::source::Source;
use headgate_testserver::Server;

use crate::harness::{MAX_WAIT, eventually, server, url};
use crate::own_ends::{Channel, Collector, Seen, engine, passage, start};

fn urls(server: &Server, path: &str, count: usize) -> Vec<String> {
    vec![url(server.address(), path); count]
}

/// Starts a run of one row that does not end.
fn hanging(engine: &Engine, server: &Server) -> (Run, Seen) {
    start(engine, urls(server, "/fault/hang-before-headers", 1), 1)
}

#[test]
fn concurrent_runs_have_their_own_rows_and_figures() {
    let (engine, server) = (engine(2), server());
    let runs = [("/1", 500, 7), ("/2", 300, 20), ("/status/404", 400, 1)]
        .map(|(path, count, concurrency)| (count, start(&engine, urls(&server, path, count), concurrency)));
    for (count, (run, seen)) in runs {
        assert!(run.wait(MAX_WAIT));
        let summary = run.summary();
        assert_eq!((count as u64, None), (summary.rows, summary.failure.map(|failure| failure.message)));
        let rows: Vec<i64> = seen.rows().iter().map(|ended| ended.row).collect();
        assert_eq!((0..count as i64).collect::<Vec<_>>(), rows);
    }
    assert_eq!(1200, server.statistics().requests);
}

#[test]
fn a_run_has_as_many_rows_in_flight_as_its_concurrency_on_any_number_of_workers() {
    let concurrencies = [1, 2, 3, 4, 5, 16, 33, 50];
    for threads in 1..=3 {
        let (engine, server) = (engine(threads), server());
        let mut requests = 0;
        for (index, concurrency) in concurrencies.into_iter().cycle().take(5 * concurrencies.len()).enumerate() {
            // As many rows as there are slots, and more.
            let rows = concurrency + index / concurrencies.len() % 2;
            let (run, _) = start(&engine, urls(&server, "/fault/hang-before-headers", rows), concurrency);
            requests += concurrency as u64;
            eventually("no slot is free", || server.statistics().requests == requests);
            run.abort();
            assert!(run.wait(MAX_WAIT));
        }
    }
}

#[test]
fn a_run_reuses_the_connections_of_an_earlier_run() {
    let (engine, server) = (engine(1), server());
    for _ in 0..5 {
        let (run, seen) = start(&engine, urls(&server, "/", 40), 4);
        assert!(run.wait(MAX_WAIT));
        assert_eq!(vec![Some(200); 40], seen.statuses());
    }
    assert_eq!((200, 4), (server.statistics().requests, server.statistics().connections_accepted));
}

#[test]
fn a_request_that_waits_for_a_connection_opens_one_when_the_limit_of_its_host_is_raised() {
    let (engine, server) = (engine(2), server());
    let limited = |path: &str| {
        let (seen, sink) = Collector::new();
        let mut passage = passage(Channel::of(urls(&server, path, 1)), sink, 1);
        passage.run.limits.concurrency_per_host.each = Some(HostConcurrency::Fixed(1));
        (Run::start(&engine, passage).expect("a run"), seen)
    };
    let (hanging, _) = limited("/fault/hang-before-headers");
    eventually("it has the only connection", || server.statistics().connections_accepted == 1);
    let (waiting, seen) = limited("/");
    eventually("it waits for one", || waiting.snapshot().in_flight == 1);
    waiting.set([("concurrency_per_host".to_owned(), "2".to_owned())].into()).expect("it can be set");
    assert!(waiting.wait(MAX_WAIT));
    assert_eq!(vec![Some(200)], seen.statuses());
    hanging.abort();
    assert!(hanging.wait(MAX_WAIT));
}

#[test]
fn a_failing_sink_ends_only_its_own_run() {
    let (engine, server) = (engine(2), server());
    let (other, seen) = hanging(&engine, &server);
    let sink = Collector::refusing(JobError::output("the disk is full"));
    let run = Run::start(&engine, passage(Channel::of(urls(&server, "/", 5000)), sink, 8)).expect("a run");
    assert!(run.wait(MAX_WAIT));
    assert_eq!("the disk is full", run.summary().failure.expect("it failed").message.to_string());

    assert!(!other.wait(Duration::ZERO));
    let (run, seen_after) = start(&engine, urls(&server, "/", 50), 8);
    assert!(run.wait(MAX_WAIT));
    assert_eq!(vec![Some(200); 50], seen_after.statuses());
    other.abort();
    assert!(other.wait(MAX_WAIT));
    assert_eq!((1, None), (other.summary().abandoned, other.summary().failure.map(|failure| failure.message)));
    assert_eq!(0, seen.rows().len());
}

/// A source that panics at its end.
struct Panics(Channel);

impl Source for Panics {
    fn next_batch(&mut self) -> Result<Option<RowBatch>, JobError> {
        let rows = self.0.next_batch()?;
        assert!(rows.is_some(), "on purpose");
        Ok(rows)
    }
}

#[test]
fn a_panicking_source_fails_only_its_own_run() {
    let (engine, server) = (engine(1), server());
    let (other_rows, source) = Channel::new();
    let (seen, sink) = Collector::new();
    let other = Run::start(&engine, passage(source, sink, 2)).expect("a run");

    let (_, unused) = Collector::new();
    let broken =
        Passage { source: Box::new(Panics(Channel::of(urls(&server, "/", 3)))), ..passage(Channel::of([]), unused, 2) };
    let run = Run::start(&engine, broken).expect("a run");
    assert!(run.wait(MAX_WAIT));
    assert!(run.summary().failure.expect("it failed").message.to_string().contains("the source panicked"));

    other_rows.send(urls(&server, "/", 10)).expect("the source is there");
    drop(other_rows);
    assert!(other.wait(MAX_WAIT));
    assert_eq!((None, 10), (other.summary().failure.map(|failure| failure.message), seen.rows().len()));
}

#[test]
fn a_stop_leaves_unstarted_rows_undone_and_other_runs_running() {
    let (engine, server) = (engine(2), server());
    let (hangs, _) = hanging(&engine, &server);
    let (rows, source) = Channel::new();
    let (seen, sink) = Collector::new();
    let run = Run::start(&engine, passage(source, sink, 2)).expect("a run");
    rows.send(urls(&server, "/", 3)).expect("the source is there");
    eventually("its rows have ended", || seen.rows().len() == 3);
    let hang = urls(&server, "/fault/hang-before-headers", 100);
    rows.send(hang).expect("the source is there");
    eventually("two are in flight", || run.snapshot().in_flight == 2);
    run.stop();
    run.abort();
    assert!(run.wait(MAX_WAIT));
    let summary = run.summary();
    assert_eq!((3, 2, true), (summary.rows, summary.abandoned, summary.interrupted));

    let (again, seen) = start(&engine, urls(&server, "/", 20), 4);
    assert!(again.wait(MAX_WAIT));
    assert_eq!(20, seen.rows().len());
    assert_eq!(1, hangs.snapshot().in_flight);
    hangs.abort();
    assert!(hangs.wait(MAX_WAIT));
}

#[test]
fn a_row_can_be_cancelled_in_any_state_and_fails_alone() {
    let (engine, server) = (engine(1), server());
    let (rows, source) = Channel::new();
    let (seen, sink) = Collector::new();
    let run = Run::start(&engine, passage(source, sink, 1)).expect("a run");
    let hang = || urls(&server, "/fault/hang-before-headers", 1);
    rows.send(hang()).expect("the source is there");
    eventually("the first is in flight", || server.statistics().requests == 1);
    rows.send([hang(), urls(&server, "/", 3)].concat()).expect("the source is there");
    run.cancel(99);
    run.cancel(0);
    eventually("the next one is in flight, and those after it wait", || server.statistics().requests == 2);
    run.cancel(3);
    run.cancel(1);
    drop(rows);
    assert!(run.wait(MAX_WAIT));

    let cancelled = Some("cancelled".to_owned());
    let ended: Vec<_> = seen.rows().into_iter().map(|row| (row.row, row.status, row.error, row.attempts)).collect();
    let expected = vec![
        (0, None, cancelled.clone(), 1),
        (1, None, cancelled.clone(), 1),
        (2, Some(200), None, 1),
        (3, None, cancelled, 0),
        (4, Some(200), None, 1),
    ];
    assert_eq!(expected, ended);
    assert_eq!((2, 3), (run.summary().succeeded, run.summary().failed));
}

#[test]
fn headers_of_one_run_are_never_sent_for_another() {
    let (engine, server) = (engine(1), server());
    let started: Vec<_> = (0..4)
        .map(|number| {
            let (seen, sink) = Collector::new();
            let mut passage = passage(Channel::of(urls(&server, "/echo", 100)), sink, 3);
            passage.request.headers = vec![("authorization".into(), format!("Bearer run {number}").into())];
            passage.request.credentials_for = vec!["*".into()];
            (number, Run::start(&engine, passage).expect("a run"), seen)
        })
        .collect();
    for (number, run, seen) in started {
        assert!(run.wait(MAX_WAIT));
        for row in seen.rows() {
            let echo = String::from_utf8(row.body).expect("text");
            assert!(echo.contains(&format!("Bearer run {number}")), "{number}: {echo}");
        }
    }
}

#[test]
fn runs_of_a_dropped_engine_finish() {
    let server = server();
    let (rows, source) = Channel::new();
    let (seen, sink) = Collector::new();
    let engine = engine(2);
    let run = Run::start(&engine, passage(source, sink, 2)).expect("a run");
    drop(engine);
    rows.send(urls(&server, "/", 10)).expect("the source is there");
    eventually("they have ended", || seen.rows().len() == 10);
    drop(run);
    rows.send(urls(&server, "/", 10)).expect("the source is there");
    drop(rows);
    eventually("all have ended", || seen.rows().len() == 20);
}

#[test]
fn a_concurrency_above_the_open_files_limit_is_refused_until_another_run_ends() {
    let (engine, server) = (engine(1), server());
    let files = raise_open_files().expect("the limit of open files").limit as usize;
    let (hangs, _) = hanging(&engine, &server);
    // Each of the two fits alone, and both together do not.
    let (first, most) = (files / 2, files * 6 / 10);
    let (first, _) = start(&engine, urls(&server, "/fault/hang-before-headers", 1), first);
    let (_, sink) = Collector::new();
    let refused = Run::start(&engine, passage(Channel::of([]), sink, most));
    let message = refused.expect_err("no capacity is free").message;
    assert!(message.to_string().contains("files open"), "{message}");
    first.abort();
    assert!(first.wait(MAX_WAIT));
    eventually("capacity is free", || {
        let (_, sink) = Collector::new();
        Run::start(&engine, passage(Channel::of([]), sink, most)).is_ok_and(|run| run.wait(MAX_WAIT))
    });
    hangs.abort();
    assert!(hangs.wait(MAX_WAIT));
}
