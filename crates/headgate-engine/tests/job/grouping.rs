//! Failures can be grouped by their messages: the details that vary are in a separate column.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use headgate_core::message::OptionName;
use serde_json::json;

use crate::faults::{self, fault};
use crate::harness::{MAX_WAIT, ResultRow, Rig, server};
use crate::scripted::{Full, Scripted};
use crate::tls::{Authority, echo, localhost, start};

const SHORT: Duration = Duration::from_millis(300);

/// Returns the messages of rows without their details, and the number of rows with each.
fn groups(rows: &[ResultRow]) -> BTreeMap<(&str, &str), usize> {
    let mut groups = BTreeMap::new();
    for row in rows {
        assert!(row.url.is_empty() || !row.message().contains(&row.url), "{}", row.message());
        *groups.entry((row.kind().expect("it failed"), row.message())).or_default() += 1;
    }
    groups
}

fn only<'a>(kind: &'a str, message: &'a str, count: usize) -> BTreeMap<(&'a str, &'a str), usize> {
    BTreeMap::from([((kind, message), count)])
}

/// Returns the message of each fault of a server, in a job with this maximum body size.
fn messages(waiting: bool, timeout: Duration, max_body_size: u64) -> BTreeMap<&'static str, (String, String)> {
    let server = server();
    let names: Vec<_> = faults::failing(waiting).collect();
    let rows = names.iter().map(|name| fault(&server, name));
    let mut rig = Rig::objects(&rows.collect::<Vec<_>>()).concurrency(names.len(), 1).timeout(timeout);
    rig.options.request.max_body_size = max_body_size;
    let rows = rig.rows();
    let results = rows.iter().map(|row| {
        let port = server.address().port().to_string();
        assert!(!row.message().contains(&port), "{}", row.message());
        (row.kind().unwrap_or_else(|| panic!("{}", row.url)).to_owned(), row.message().to_owned())
    });
    names.into_iter().zip(results).collect()
}

#[test]
fn a_fault_has_the_same_message_for_different_servers_and_limits() {
    assert_eq!(messages(false, MAX_WAIT, 1024 * 1024), messages(false, MAX_WAIT * 2, 1024 * 1000));
    assert_eq!(messages(true, SHORT * 3, 1024 * 1024), messages(true, SHORT * 4, 1024 * 1000));
}

#[test]
fn expired_certificates_of_many_servers_are_one_group() {
    let authority = Authority::new();
    let servers = [2018, 2019, 2020].map(|year| start(authority.certify("localhost", year), echo));
    let rows = authority.trusted_by(Rig::urls(servers.iter().map(|server| localhost(server, "/")))).rows();
    assert_eq!(only("tls", "the server's certificate has expired", 3), groups(&rows));
    for (row, year) in rows.iter().zip([2018, 2019, 2020]) {
        let expected = format!(": it was valid until {year}-01-01T00:00:00Z");
        assert!(row.detail().ends_with(&expected), "{}", row.detail());
    }
}

#[test]
fn hostnames_that_certificates_do_not_cover_are_one_group() {
    let authority = Authority::new();
    let servers = ["a.example", "b.example"].map(|name| start(authority.certify(name, 4000), echo));
    let rows = authority.trusted_by(Rig::urls(servers.iter().map(|server| localhost(server, "/")))).rows();
    assert_eq!(only("tls", "the server's certificate is for another name", 2), groups(&rows));
}

#[test]
fn ports_without_a_listener_are_one_group_with_the_address_in_the_detail() {
    let closed = [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)].map(|host| {
        let address = TcpListener::bind((host, 0)).unwrap().local_addr().unwrap();
        address.to_string()
    });
    let rows = Rig::urls(closed.iter().map(|address| format!("http://{address}/"))).rows();
    assert_eq!(only("connect", "connection refused", 2), groups(&rows));
    assert_eq!(closed.each_ref().map(String::as_str).to_vec(), rows.iter().map(ResultRow::detail).collect::<Vec<_>>());
}

#[test]
fn hostnames_that_do_not_exist_are_one_group() {
    let rows = Rig::urls(["a", "b"].map(|name| format!("http://{name}.invalid/"))).rows();
    assert_eq!(only("dns", "the hostname does not exist", 2), groups(&rows));
}

#[test]
fn rows_with_the_same_mistake_are_one_group_whatever_their_position() {
    for (message, mistakes) in [
        ("the URL is empty", [json!({"url": ""}), json!({"url": ""})]),
        ("only URLs of http and https are supported", [json!({"url": "ftp://a/"}), json!({"url": "gopher://b/"})]),
        (
            "this is not an HTTP method",
            [json!({"url": "http://a/", "method": "G ET"}), json!({"url": "http://b/", "method": "P\nOST"})],
        ),
        (
            "a header has a name that can't be sent",
            [json!({"url": "http://a/", "headers": {"a b": "c"}}), json!({"url": "http://b/", "headers": {"ä": "c"}})],
        ),
    ] {
        let rows = Rig::objects(&mistakes).rows();
        assert_eq!(only("invalid_request", message, 2), groups(&rows));
        assert!(rows.iter().all(|row| !row.detail().is_empty()) && rows[0].detail() != rows[1].detail());
    }
}

#[test]
fn connect_timeouts_and_response_timeouts_are_separate_groups() {
    let full = Full::at(Ipv4Addr::LOCALHOST);
    let silent = Scripted::start(|mut stream, _| {
        let _ = io::copy(&mut stream, &mut io::sink());
    });
    for (kind, message, detail, url) in [
        ("connect_timeout", "no TCP connection in time", full.address.to_string(), full.url("/")),
        (
            "connect_timeout",
            "the TLS handshake did not end in time",
            silent.address.to_string(),
            silent.url("/").replace("http:", "https:"),
        ),
        ("timeout", "no response came in time", String::new(), silent.url("/")),
    ] {
        let mut rig = Rig::urls([url]).timeout(SHORT * 3);
        rig.options.request.connect_timeout = SHORT;
        let (row, example) = rig.failed_row();
        assert_eq!((Some(kind), message, &*detail), (row.kind(), row.message(), row.detail()));
        let option = if kind == "timeout" { OptionName::Timeout } else { OptionName::ConnectTimeout };
        assert_eq!(Some(option), example.option);
        assert_eq!((message, row.error_detail.as_deref()), (&*example.message, example.detail.as_deref()));
    }
}
