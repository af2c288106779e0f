//! The figures of a job agree with its results.

use std::collections::BTreeMap;
use std::time::Duration;

use headgate_engine::testing::BottleneckKind;

use crate::endings::Fifo;
use crate::harness::{ResultRow, Rig, eventually, server, slow_server, url};

#[test]
fn the_summary_counts_what_is_in_the_result() {
    let server = server();
    let paths = [
        "/status/200",
        "/status/404",
        "/status/503",
        "/bytes/1000",
        "/encoded/gzip/5000",
        "/fault/refuse",
        "/fault/reset-mid-body",
        "/fault/garbage",
        "/delay/0.1",
        "/status/404",
    ];
    let urls = paths.iter().map(|path| url(server.address(), path)).cycle().take(200);
    let rig = Rig::urls(urls.chain(["no url".into()]));
    let (rows, summary) = rig.run();

    assert_eq!((201, 201), (rows.len() as u64, summary.rows));
    let (mut statuses, mut errors) = (BTreeMap::<u16, u64>::new(), BTreeMap::<String, u64>::new());
    for row in &rows {
        if row.is_failed(rig.options.request.fail_on.statuses()) {
            *errors.entry(reason(row)).or_default() += 1;
        } else {
            *statuses.entry(row.status.expect("succeeded")).or_default() += 1;
        }
    }
    assert_eq!(BTreeMap::from([(200, 80), (404, 40)]), statuses);
    let expected = [("connection_closed", 40), ("invalid_request", 1), ("protocol", 20), ("status:503", 20)];
    assert_eq!(BTreeMap::from(expected.map(|(reason, count)| (reason.to_owned(), count))), errors);
    assert_eq!((&statuses, &errors), (&summary.statuses, &summary.errors));
    assert_eq!((120, 81), (summary.succeeded, summary.failed));
    assert_eq!(rows.iter().map(|row| row.received_bytes).sum::<u64>(), summary.received_bytes);
    for (why, example) in &summary.error_examples {
        let row = &rows[example.row as usize];
        let message = row.error_message.as_deref().unwrap_or("the server responded with 503 Service Unavailable");
        assert_eq!((&reason(row), &*row.url, message), (why, &*example.url, &*example.message));
    }
    assert_eq!(errors.len(), summary.error_examples.len());

    let longest = rows.iter().map(|row| row.elapsed_us).max().expect("rows");
    let latency = summary.latency_us;
    assert!(latency.p50 <= latency.p90 && latency.p90 <= latency.p99 && latency.p99 <= latency.max);
    assert!(latency.max >= longest && latency.max <= longest + longest / 500, "{} of {longest}", latency.max);
    assert!(rows.iter().all(|row| row.ttfb_us.unwrap_or_default() <= row.elapsed_us));
    assert_eq!(rig.path("out").display().to_string(), summary.output);
    assert!(!summary.interrupted);
}

/// Returns the key under which a failed row is counted.
fn reason(row: &ResultRow) -> String {
    let status = || format!("status:{}", row.status.expect("an error or a status"));
    row.error.clone().unwrap_or_else(status)
}

#[test]
fn a_snapshot_reports_the_progress_of_a_job() {
    let server = server();
    let urls = (0..6).map(|row| url(server.address(), if row < 4 { "/row" } else { "/fault/hang-before-headers" }));
    let rig = Rig::urls(urls).concurrency(4, 1);
    let job = rig.start();
    eventually("the last rows hang", || server.statistics().requests_in_progress == 2);
    // A lane counts as in flight until it has found that there is no other row.
    eventually("the other rows are done", || (4, 2) == (job.snapshot().rows, job.snapshot().in_flight));
    let now = job.snapshot();
    assert_eq!((4, 4, 0), (now.rows, now.succeeded, now.failed));
    assert_eq!((2, 4, false), (now.in_flight, now.concurrency, now.stopping));
    assert_eq!(4 * "Hello, World!".len() as u64, now.received_bytes);
    job.abort();
    let (rows, summary) = rig.finish(&job);
    assert_eq!((4, 4, 0), (rows.len(), summary.rows, job.snapshot().in_flight));
}

#[test]
fn a_pattern_has_a_known_number_of_rows() {
    let server = server();
    let rig = Rig::new(url(server.address(), "/[1-250]"));
    let job = rig.start();
    rig.finish(&job);
    let end = job.snapshot();
    assert_eq!((Some(250), Some(1.0), 250), (end.rows_known, end.fraction, end.rows));
}

#[test]
fn the_share_of_a_file_that_is_done_is_that_of_its_rows_not_of_what_was_read_ahead() {
    let server = server();
    let long = "x".repeat(1000);
    let path = |row| if row == 2000 { "/fault/hang-before-headers" } else { "/row" };
    let rig = Rig::urls((0..8000).map(|row| url(server.address(), &format!("{}?{long}", path(row))))).concurrency(1, 1);
    let job = rig.start();
    eventually("the next row hangs", || job.snapshot().rows == 2000);
    let now = job.snapshot();
    let fraction = now.fraction.expect("an estimate");
    assert!(now.rows_known.is_none() && (0.2..0.3).contains(&fraction), "{fraction} of {:?}", now.rows_known);
    job.abort();
    rig.finish(&job);
}

#[test]
fn the_bottleneck_with_a_slow_server_is_the_concurrency() {
    let server = slow_server(0.05..=0.05);
    let (_, summary) = Rig::new(url(server.address(), "/[1-40]")).concurrency(4, 1).run();
    assert_eq!(BottleneckKind::Concurrency, summary.bottleneck.kind, "{}", summary.bottleneck.text);
    assert!(
        summary.bottleneck.text.to_string().starts_with("bottleneck: concurrency. 4 requests in flight"),
        "{}",
        summary.bottleneck.text
    );
}

#[test]
fn the_bottleneck_with_a_slow_input_is_the_input() {
    let server = server();
    let fifo = Fifo::new();
    let job = fifo.rig.start();
    fifo.write(&format!("{}\n", url(server.address(), "/row")));
    eventually("the row is done", || job.snapshot().rows == 1);
    // Compared with the wait for the next row, the time to start has no weight.
    let started_s = job.snapshot().elapsed_s;
    eventually("the input is slow", || job.snapshot().elapsed_s > 10.0 * started_s);
    assert_eq!(BottleneckKind::Input, job.snapshot().bottleneck.kind);
    assert!(!job.wait(Duration::ZERO));
    let rig = fifo.close();
    let (_, summary) = rig.finish(&job);
    assert_eq!(BottleneckKind::Input, summary.bottleneck.kind, "{}", summary.bottleneck.text);
}

#[test]
fn a_job_without_rows_reports_no_requests() {
    let (rows, summary) = Rig::file("empty.txt", "").run();
    assert_eq!((0, 0, BottleneckKind::Nothing), (rows.len(), summary.rows, summary.bottleneck.kind));
}
