//! The statuses that are failures: `--fail-on`.

use std::fs;

use headgate_core::fail_on::FailOn;

use crate::harness::{ResultRow, Rig, server, url};

const STATUSES: [u16; 9] = [200, 301, 404, 408, 425, 429, 500, 503, 599];

/// Returns the statuses of the failed rows, each requested once.
fn failed(fail_on: Option<&str>) -> Vec<u16> {
    let server = server();
    let mut rig = Rig::urls(STATUSES.map(|status| url(server.address(), &format!("/status/{status}"))));
    if let Some(fail_on) = fail_on {
        rig.options.request.fail_on = fail_on.parse().expect("statuses");
    }
    let (rows, summary) = rig.run();
    assert_eq!(STATUSES.to_vec(), rows.iter().filter_map(|row| row.status).collect::<Vec<_>>());
    // The helper that reads the results checks that each row is in a file of its kind.
    let failed: Vec<&ResultRow> =
        rows.iter().filter(|row| row.is_failed(rig.options.request.fail_on.statuses())).collect();
    assert_eq!(failed.len() as u64, summary.failed);
    assert_eq!((rows.len() - failed.len()) as u64, summary.succeeded);
    let counted = |status| summary.errors.get(&format!("status:{status}")) == Some(&1);
    failed.iter().filter_map(|row| row.status).inspect(|status| assert!(counted(*status), "{status}")).collect()
}

#[test]
fn temporary_error_statuses_are_failures_by_default() {
    assert_eq!(vec![408, 425, 429, 500, 503, 599], failed(None));
}

#[test]
fn any_status_can_be_a_failure_or_a_success() {
    assert_eq!(vec![200, 404, 408, 425, 429], failed(Some("200,4xx")));
    assert_eq!(Vec::<u16>::new(), failed(Some("none")));
}

#[test]
fn a_row_that_fails_by_its_status_keeps_its_whole_response() {
    let server = server();
    let (rows, _) = Rig::new(url(server.address(), "/status/503")).run();
    let row = &rows[0];
    assert_eq!((Some(503), None, None), (row.status, row.kind(), row.error_message.as_deref()));
    assert_eq!("503 Service Unavailable\n", row.text());
    assert!(row.headers().is_some_and(|headers| !headers.is_empty()));
}

#[test]
fn an_incomplete_response_has_its_own_error_kind_whatever_its_status() {
    let server = server();
    let mut rig = Rig::new(url(server.address(), "/fault/reset-mid-body"));
    rig.options.request.fail_on = "2xx".parse::<FailOn>().expect("statuses");
    let (rows, summary) = rig.run();
    assert_eq!((Some(200), Some("connection_closed")), (rows[0].status, rows[0].kind()));
    assert_eq!(vec!["connection_closed"], summary.errors.keys().collect::<Vec<_>>());
}

#[test]
fn failed_and_succeeded_rows_are_in_separate_files() {
    let server = server();
    let rig = Rig::urls(["/status/200", "/status/503"].map(|path| url(server.address(), path)));
    rig.run();
    let lines = |kind: &str| {
        let text = fs::read_to_string(rig.path(&format!("out/{kind}-00000001.ndjson"))).expect("a part");
        text.lines().map(|line| line.contains("/status/503")).collect::<Vec<_>>()
    };
    assert_eq!((vec![false], vec![true]), (lines("part"), lines("failed")));
}
