//! DNS in a job: which resolver is used, and what a hostname without a reply delays.

use std::net::Ipv4Addr;
use std::time::Duration;

use headgate_core::options::Dns;
use headgate_engine::testing::BottleneckKind;
use headgate_testserver::{DnsConfig, DnsServer};

use crate::harness::{Rig, server};

fn dns_server() -> DnsServer {
    DnsServer::start(DnsConfig::default()).expect("a DNS server on a free port")
}

fn rig(names: &DnsServer, urls: impl IntoIterator<Item = String>) -> Rig {
    let mut rig = Rig::urls(urls);
    rig.options.engine.dns = Dns::Server(names.address());
    rig
}

#[test]
fn all_workers_together_query_the_configured_dns_server_once() {
    let (server, names) = (server(), dns_server());
    let port = server.address().port();
    let urls = (0..200).map(|row| format!("http://slow-100.example:{port}/{row}"));
    for row in rig(&names, urls).concurrency(64, 4).rows() {
        assert_eq!(
            (Some(200), Some(format!("127.0.0.1:{port}"))),
            (row.status, row.remote_addr),
            "{:?}",
            row.error_message
        );
    }
    // One query for each family; a packet that is late by a second is resent.
    assert!(names.questions_for("slow-100.example") <= 4);
}

#[test]
fn hostnames_without_a_reply_fail_with_resolve_and_the_bottleneck_is_dns() {
    let (server, names) = (server(), dns_server());
    let port = server.address().port();
    let is_dead = |row: u64| !row.is_multiple_of(3);
    let urls =
        (0..30).map(|row| format!("http://{}.{row}.example:{port}/", if is_dead(row) { "dead" } else { "name" }));
    let mut rig = rig(&names, urls).concurrency(32, 2);
    rig.options.request.connect_timeout = Duration::from_millis(500);
    let (rows, summary) = rig.run();
    assert_eq!(30, rows.len());
    for row in rows {
        if is_dead(row.row) {
            assert_eq!((Some("dns"), None, 1), (row.kind(), row.status, row.attempts));
            assert_eq!("the hostname was not resolved in time", row.message());
        } else {
            assert_eq!(Some(200), row.status, "{}", row.message());
        }
    }
    assert_eq!(BottleneckKind::Dns, summary.bottleneck.kind, "{}", summary.bottleneck.text);
}

#[test]
fn a_row_whose_timeout_passes_during_its_lookup_fails_with_resolve() {
    let names = dns_server();
    let row = rig(&names, ["http://dead.example/".to_owned()]).timeout(Duration::from_millis(300)).row();
    assert_eq!((Some("dns"), None), (row.kind(), row.status));
    assert_eq!("the hostname was not resolved in time", row.message());
}

#[test]
fn the_resolver_of_the_system_is_used_if_configured() {
    let server = server();
    let port = server.address().port();
    let mut rig = Rig::urls([format!("http://localhost:{port}/"), "http://no-such-host.invalid/".to_owned()]);
    rig.options.engine.dns = Dns::System;
    let rows = rig.rows();
    assert_eq!(
        (Some(200), Some(format!("{}:{port}", Ipv4Addr::LOCALHOST))),
        (rows[0].status, rows[0].remote_addr.clone())
    );
    assert_eq!(Some("dns"), rows[1].kind());
}
