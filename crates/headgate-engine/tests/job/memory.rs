//! Bodies share one memory budget. A small budget slows a job down and never stops it.

use headgate_core::options::Format;
use headgate_engine::Run;

use crate::harness::{MAX_WAIT, ResultRow, Rig, ordinals, server, url};
use crate::scripted::{Scripted, response};

const BUDGET_BYTES: u64 = 256 * 1024;
const BODY_BYTES: usize = 100 * 1000;

fn rows_within(budget_bytes: u64, path: &str) -> Vec<ResultRow> {
    let server = server();
    let mut rig = Rig::new(url(server.address(), path)).concurrency(20, 2);
    rig.options.engine.max_memory = Some(budget_bytes);
    rig.rows()
}

fn check(rows: &[ResultRow], count: u64, body_bytes: usize) {
    assert_eq!((0..count).collect::<Vec<_>>(), ordinals(rows));
    for row in rows {
        assert_eq!((None, Some(body_bytes)), (row.kind(), row.body().map(|body| body.len())), "{}", row.message());
    }
}

#[test]
fn many_bodies_pass_through_a_budget_that_holds_only_two() {
    check(&rows_within(BUDGET_BYTES, &format!("/bytes/{BODY_BYTES}?[1-40]")), 40, BODY_BYTES);
}

#[test]
fn many_bodies_that_grow_while_decoded_pass_through_a_small_budget() {
    check(&rows_within(BUDGET_BYTES, &format!("/encoded/gzip/{BODY_BYTES}?[1-40]")), 40, BODY_BYTES);
    check(&rows_within(BUDGET_BYTES, &format!("/encoded/zstd/{BODY_BYTES}?[1-20]")), 20, BODY_BYTES);
}

#[test]
fn bodies_larger_than_the_whole_budget_pass_one_at_a_time() {
    check(&rows_within(BUDGET_BYTES, "/bytes/1000000?[1-8]"), 8, 1_000_000);
    check(&rows_within(1, "/chunked/50000?[1-5]"), 5, 50_000);
}

#[test]
fn selected_values_that_are_longer_than_their_bodies_pass_through_a_small_budget() {
    // This many values of `$..x` have the same total length.
    const DEPTH: usize = 50;
    let body = format!("{}\"{}\"{}", "{\"x\":".repeat(DEPTH), "v".repeat(10_000), "}".repeat(DEPTH));
    let server = Scripted::responding(response(&body));
    for (omit, budget_bytes) in [(true, 1), (false, 1), (false, BUDGET_BYTES), (true, 64 << 20)] {
        let mut rig = Rig::new(server.url("/[1-30]")).concurrency(10, 2);
        rig.options.engine.max_memory = Some(budget_bytes);
        rig.options.sink.format = Format::Ndjson;
        rig.options.selection.extract = vec!["all:json=$..x".into(), "length=header:content-length".into()];
        rig.options.selection.drop = omit.then(|| "body".to_owned()).into_iter().collect();
        let job = rig.start();
        assert!(job.wait(MAX_WAIT), "{omit} {budget_bytes}");
        let mut rows = 0;
        for entry in std::fs::read_dir(rig.path("out")).expect("the output") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "ndjson") {
                for line in std::fs::read_to_string(path).expect("a part").lines() {
                    let row: serde_json::Value = serde_json::from_str(line).expect("a line");
                    assert_eq!(DEPTH, row["all"].as_str().map_or(0, |all| all.matches("vv\"").count()));
                    rows += 1;
                }
            }
        }
        assert_eq!(30, rows);
    }
}

#[test]
fn the_memory_of_failed_bodies_is_released() {
    let server = server();
    // A host that closes all connections is paused for a while, so this one sometimes responds.
    let bad = (0..60).map(|row| if row % 10 == 9 { "/bytes/1" } else { "/fault/content-length-too-long" });
    let bad = bad.map(|path| url(server.address(), path));
    let bombs = (0..20).map(|_| url(server.address(), "/fault/zstd-bomb"));
    let good = (0..10).map(|_| url(server.address(), &format!("/bytes/{BODY_BYTES}")));
    let mut rig = Rig::urls(bad.chain(bombs).chain(good)).concurrency(10, 2);
    rig.options.engine.max_memory = Some(BUDGET_BYTES);
    rig.options.request.max_body_size = 200_000;
    let rows = rig.rows();
    assert_eq!((0..90).collect::<Vec<_>>(), ordinals(&rows));
    assert!(rows[80..].iter().all(|row| row.kind().is_none()));
}

#[test]
fn a_job_that_waits_for_memory_can_be_aborted() {
    let server = server();
    // A body that never ends holds the budget, and the other bodies wait for it.
    let holds = url(server.address(), "/fault/hang-mid-body");
    let waits = url(server.address(), &format!("/bytes/{BODY_BYTES}"));
    let mut rig = Rig::urls([&holds, &waits, &waits, &waits]).concurrency(4, 1);
    rig.options.engine.max_memory = Some(1);
    let job: Run = rig.start();
    crate::harness::eventually("all are requested", || server.statistics().requests == 4);
    job.abort();
    let (rows, summary) = rig.finish(&job);
    assert_eq!(rows.len() as u64, summary.rows);
}
