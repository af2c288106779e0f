//! Streamed bodies of throttled hosts: when they affect the concurrency and the rate of their host.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use headgate_core::error::ErrorKind;
use headgate_core::limits::{CostLimit, CostOf, HostConcurrency, Limits, PerHost, Retrying};
use headgate_core::options::{RequestOptions, RunOptions, SelectionOptions};
use headgate_engine::Run;
use headgate_table::columns::result::ResultColumns;
use headgate_table::columns::select::Selection;

use super::{Stream, kind, run, run_of};
use crate::own_ends::engine;
use crate::scripted::{Scripted, read_head, response};

/// Returns options with one request in flight for each host.
fn one_for_each_host() -> RunOptions {
    let concurrency_per_host = PerHost { each: Some(HostConcurrency::Fixed(1)), named: Vec::new() };
    let limits = Limits { concurrency_per_host, ..Limits::default() };
    let retrying = Retrying { retries: 1, delay: Duration::from_millis(1), ..Retrying::default() };
    RunOptions { concurrency: 4, limits, retrying, ..RunOptions::default() }
}

#[test]
fn a_refusal_by_a_proxy_releases_the_concurrency_of_its_host() {
    let proxy = Scripted::start(|mut stream, number| {
        if read_head(&mut stream).is_some() {
            let reply = match number {
                0 => "HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno".to_owned(),
                _ => response("good"),
            };
            let _ = stream.write_all(reply.as_bytes());
        }
    });
    let request = RequestOptions { proxies: vec![proxy.url("").into()], ..RequestOptions::default() };
    let run = run_of(request, one_for_each_host());
    let refused = Stream::submit(&run, "http://host.invalid/".into());
    assert_eq!(Some(ErrorKind::Proxy), kind(refused.head().failure));
    assert_eq!(b"good".to_vec(), Stream::submit(&run, "http://host.invalid/".into()).whole());
}

/// Sends headers, and a body that continues until the client closes the connection.
fn begins(mut stream: TcpStream, status: &str) {
    let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 100\r\n\r\nbegin");
    read_head(&mut stream);
}

#[test]
fn after_a_pause_the_headers_of_a_response_let_other_rows_start_during_its_body() {
    let scripted = Scripted::start(|mut stream, number| {
        let _ = read_head(&mut stream);
        match number {
            0 => drop(stream.write_all(b"HTTP/1.1 429 No\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")),
            1 => begins(stream, "200 OK"),
            _ => drop(stream.write_all(response("another").as_bytes())),
        }
    });
    let run = run();
    let stream = Stream::submit(&run, scripted.url("/"));
    assert_eq!(200, stream.status());
    assert_eq!(b"another".to_vec(), Stream::submit(&run, scripted.url("/")).whole());
    stream.body.close();
}

#[test]
fn a_final_response_counts_for_the_concurrency_of_its_host_until_its_body_ends() {
    let scripted = Scripted::start(|mut stream, number| {
        let _ = read_head(&mut stream);
        match number {
            0 => drop(stream.write_all(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")),
            1 => begins(stream, "503 No"),
            _ => drop(stream.write_all(response("another").as_bytes())),
        }
    });
    let run = run_of(RequestOptions::default(), one_for_each_host());
    let stream = Stream::submit(&run, scripted.url("/"));
    assert_eq!(503, stream.status());
    let other = Stream::submit(&run, scripted.url("/"));
    // A later request to another host succeeds.
    let elsewhere = Scripted::responding(response("elsewhere"));
    let name = format!("http://localhost:{}/", elsewhere.address.port());
    assert_eq!(b"elsewhere".to_vec(), Stream::submit(&run, name).whole());
    assert_eq!(2, scripted.connections());
    stream.body.close();
    assert_eq!(b"another".to_vec(), other.whole());
}

#[test]
fn the_cost_in_response_headers_corrects_the_estimate() {
    let reply = SelectionOptions {
        extract: vec!["spent:int64=header:x-spent".into()],
        cost_from_response: Some("spent".into()),
        ..SelectionOptions::default()
    };
    let selection = Selection::new(&reply).unwrap().map(Arc::new);
    let columns = ResultColumns { selection, ..ResultColumns::default() };
    // Each request is estimated at the cost of a day, and costs nothing.
    let body = Some(vec![b'x'; 86_400]);
    let request = RequestOptions { method: Some("POST".into()), body, ..RequestOptions::default() };
    let cost = CostLimit { rate: "1/s".parse().ok(), of: CostOf::BodyBytes };
    let limits = Limits { cost: Some(cost), ..Limits::default() };
    let run =
        Run::fed_for(&engine(1), columns, request, RunOptions { concurrency: 1, limits, ..RunOptions::default() });
    let run = run.unwrap();
    let scripted = Scripted::start(|mut stream, _| {
        while read_head(&mut stream).is_some() {
            stream.read_exact(&mut vec![0; 86_400]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nX-Spent: 0\r\nContent-Length: 4\r\n\r\nfree").unwrap();
        }
    });
    for _ in 0..2 {
        assert_eq!(b"free".to_vec(), Stream::submit(&run, scripted.url("/")).whole());
    }
}
