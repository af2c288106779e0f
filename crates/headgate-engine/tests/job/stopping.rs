//! A stopped job starts no rows, and loses no outcome.

use std::time::{Duration, Instant};

use crate::harness::{MAX_WAIT, Rig, eventually, server, slow_server, url};

/// The delay that a loaded machine may add to a grace period.
const LATENESS: Duration = Duration::from_secs(3);
const ENDLESS: &str = "?[1-1000000000]";

#[test]
fn a_stop_starts_no_rows_and_finishes_those_in_flight() {
    let server = slow_server(0.2..=0.2);
    let rig = Rig::new(url(server.address(), &format!("/row{ENDLESS}"))).concurrency(8, 2);
    let job = rig.start();
    eventually("all are in flight", || server.statistics().requests_in_progress == 8);
    let requests = server.statistics().requests;
    job.stop();
    assert!(job.snapshot().stopping);
    let (rows, summary) = rig.finish(&job);
    // The stop may coincide with the first responses; a lane that saw it later has sent one more request.
    assert!(server.statistics().requests <= requests + 8);
    assert_eq!(server.statistics().requests, rows.len() as u64, "each request that was made is a row of the result");
    assert_eq!((rows.len() as u64, rows.len() as u64), (summary.rows, summary.succeeded));
    assert!(summary.interrupted);
    assert!(summary.failure.is_none());
}

#[test]
fn requests_in_flight_after_the_grace_period_are_cancelled() {
    let grace = Duration::from_millis(300);
    let server = server();
    let good = url(server.address(), "/good");
    let hang = url(server.address(), "/fault/hang-before-headers");
    let mut rig = Rig::urls([&good, &good, &hang, &hang, &hang, &hang]).concurrency(4, 2);
    rig.options.run.shutdown_timeout = grace;
    let job = rig.start();
    eventually("all hang", || server.statistics().requests_in_progress == 4);
    let stopped = Instant::now();
    job.stop();
    let (rows, summary) = rig.finish(&job);
    assert!((grace..grace + LATENESS).contains(&stopped.elapsed()), "{:?}", stopped.elapsed());
    assert_eq!(2, rows.len());
    assert_eq!((2, 2), (summary.rows, summary.succeeded));
    assert!(summary.interrupted);
}

#[test]
fn an_abort_ends_the_grace_period_of_a_stop() {
    let server = server();
    let rig = Rig::new(url(server.address(), &format!("/fault/hang-before-headers{ENDLESS}"))).concurrency(4, 2);
    let job = rig.start();
    eventually("all hang", || server.statistics().requests_in_progress == 4);
    job.stop();
    assert!(!job.wait(Duration::from_millis(50)), "they have their grace");
    let aborted = Instant::now();
    job.abort();
    let (rows, summary) = rig.finish(&job);
    assert!(aborted.elapsed() < LATENESS, "{:?}", aborted.elapsed());
    assert_eq!((0, 0), (rows.len(), summary.rows));
}

#[test]
fn counted_rows_are_in_the_result_whenever_a_job_is_stopped() {
    // The bodies are so large that the sink is slow, and workers wait for it when the job ends.
    for pause_ms in [0, 1, 5, 20, 50, 110, 150] {
        let server = server();
        let rig = Rig::new(url(server.address(), &format!("/bytes/30000{ENDLESS}"))).concurrency(64, 3);
        let job = rig.start();
        assert!(!job.wait(Duration::from_millis(pause_ms)));
        job.abort();
        assert!(job.wait(MAX_WAIT));
        // On a busy machine, writing the rows may take longer than the wait for an aborted job.
        eventually("what was counted is in the result", || job.summary().rows == rig.results().len() as u64);
        assert!(job.summary().rows <= server.statistics().requests, "after {pause_ms} ms");
    }
}

#[test]
fn a_stop_does_not_wait_for_a_blocked_input() {
    let server = server();
    let fifo = crate::endings::Fifo::new();
    let job = fifo.rig.start();
    fifo.write(&format!("{0}\n{0}\n{0}\n", url(server.address(), "/row")));
    eventually("the rows that arrived were requested", || job.snapshot().rows == 3);
    job.stop();
    let (rows, summary) = fifo.rig.finish(&job);
    assert_eq!((3, 3), (rows.len(), summary.rows));
    assert!(summary.failure.is_none());
}

#[test]
fn a_job_whose_handle_is_dropped_finishes() {
    let server = slow_server(0.05..=0.05);
    let rig = Rig::new(url(server.address(), "/[1-32]"));
    drop(rig.start());
    eventually("all rows are written", || rig.results().len() == 32);
}

#[test]
fn a_finished_job_can_be_stopped_and_inspected() {
    let server = server();
    let rig = Rig::new(url(server.address(), "/[1-3]"));
    let job = rig.start();
    assert!(job.wait(MAX_WAIT));
    job.stop();
    job.abort();
    assert!(job.wait(Duration::ZERO));
    assert_eq!(3, job.summary().rows);
}
