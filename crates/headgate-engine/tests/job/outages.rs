//! Hosts and networks that are down, and rows that always fail: a job ends when no useful request is left.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use headgate_core::limits::{NetworkDownAfter, Retrying};
use headgate_core::schedule::throttled::ThrottledBy;
use headgate_engine::testing::BottleneckKind;
use headgate_engine::{RetryOptions, Run};
use headgate_testserver::{Config, Server};

use crate::harness::{Rig, eventually, server, url};
use crate::scripted::{Full, Scripted, read_head, response};

fn quick() -> Retrying {
    Retrying { delay: Duration::from_millis(5), ..Retrying::default() }
}

/// Returns a port that refuses connections.
fn closed_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}

fn server_at(port: u16) -> Server {
    Server::start(Config { port, ..Config::default() }).expect("the port is free")
}

#[test]
fn incomplete_bodies_are_no_evidence_against_their_host() {
    let server = Scripted::start(|mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            let is_hopeless = head.contains("/bad");
            let text =
                if is_hopeless { "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".into() } else { response("") };
            if stream.write_all(text.as_bytes()).is_err() || is_hopeless {
                break;
            }
        }
    });
    let mut rig = Rig::new(server.url("/{good,bad}[1-300]"));
    rig.options.run.retrying = quick();
    let (rows, summary) = rig.run();
    assert_eq!((300, 300), (summary.succeeded, summary.failed));
    let bad = rows.iter().filter(|row| row.kind() == Some("connection_closed"));
    assert!(bad.clone().all(|row| row.attempts == 4), "each has all of its attempts");
    assert_eq!(300, bad.count());
    assert!(!summary.throttled_s.contains_key(&ThrottledBy::CircuitBreaker), "{:?}", summary.throttled_s);
}

#[test]
fn a_host_that_never_responded_is_down_after_its_time_while_other_hosts_continue() {
    let (server, dead) = (server(), closed_port());
    let urls =
        (0..200).flat_map(|row| [url(server.address(), &format!("/{row}")), format!("http://127.0.0.2:{dead}/{row}")]);
    let mut rig = Rig::urls(urls);
    rig.options.run.retrying = Retrying { host_down_after: Some(Duration::from_millis(500)), ..quick() };
    let (rows, summary) = rig.run();
    assert_eq!((200, 200, None), (summary.succeeded, summary.failed, summary.stopped_by));
    let down = rows.iter().filter(|row| row.kind() == Some("host_down")).count();
    assert!(down > 100, "{:?}", summary.errors);
}

#[test]
fn a_job_whose_only_host_never_responds_stops_and_resumes_once_the_host_is_up() {
    let port = closed_port();
    let mut rig = Rig::new(format!("http://127.0.0.1:{port}/[1-300]"));
    let after = NetworkDownAfter::After(Duration::from_millis(1500));
    rig.options.run.retrying = Retrying { network_down_after: after, ..quick() };
    let (rows, summary) = rig.run();
    let why = summary.stopped_by.expect("it stopped itself").to_string();
    assert!(why.starts_with("no host could be reached for 1.5 s (connect: connection refused (127.0.0.1:"), "{why}");
    assert_eq!(rows.len() as u64, summary.failed);
    assert!(summary.failed < 100, "{:?}", summary.errors);
    let _server = server_at(port);
    let left = 300 - summary.failed;
    let (rows, summary) = rig.run();
    assert_eq!((300, left, None), (rows.len(), summary.succeeded, summary.stopped_by));
}

#[test]
fn a_job_pauses_while_no_host_is_reachable_and_then_continues_by_itself() {
    let first = server();
    let port = first.address().port();
    let mut rig = Rig::new(url(first.address(), "/delay/0.01?[1-2000]"));
    rig.options.run.retrying = Retrying { retries: 20, host_down_after: Some(Duration::from_millis(1)), ..quick() };
    let run = rig.start();
    eventually("rows have succeeded", || run.snapshot().succeeded > 100);
    drop(first);
    eventually("the network is down", || run.snapshot().bottleneck.kind == BottleneckKind::Network);
    let text = run.snapshot().bottleneck.text.to_string();
    assert!(text.starts_with("bottleneck: network. No host could be reached for "), "{text}");
    let _server = server_at(port);
    let (rows, summary) = rig.finish(&run);
    assert_eq!((2000, 2000, 0), (rows.len(), summary.succeeded, summary.failed), "{:?}", summary.errors);
}

#[test]
fn a_job_and_a_retry_with_only_a_silent_host_left_have_an_outcome_for_every_row() {
    for is_retry in [false, true] {
        let (server, dead) = (server(), Full::at(Ipv4Addr::new(127, 0, 0, 2)));
        let good = (0..100).map(|row| url(server.address(), &format!("/{row}")));
        let mut rig = Rig::urls(good.chain((0..100).map(|row| dead.url(&format!("/{row}")))));
        rig.options.request.connect_timeout = Duration::from_millis(50);
        let quickly = Retrying {
            host_down_after: Some(Duration::from_millis(300)),
            network_down_after: NetworkDownAfter::After(Duration::from_secs(5)),
            ..quick()
        };
        rig.options.run.retrying = if is_retry { quickly.clone() } else { quick() };
        let run = rig.start();
        if !is_retry {
            eventually("the other rows have succeeded", || run.snapshot().succeeded == 100);
            run.stop();
        }
        assert_eq!(100, rig.finish(&run).1.succeeded);
        rig.options.run.retrying = quickly;
        let run = if is_retry {
            let options = RetryOptions { output: rig.path("out"), job: rig.options.clone(), ..RetryOptions::default() };
            Run::retry(options).expect("a job with failed rows")
        } else {
            rig.start()
        };
        let (rows, summary) = rig.finish(&run);
        assert_eq!((200, None), (rows.len(), summary.stopped_by.map(|why| why.to_string())), "{is_retry}");
        assert!(rows[100..].iter().any(|row| row.kind() == Some("host_down")), "{:?}", summary.errors);
    }
}

#[test]
fn a_last_host_that_accepts_connections_and_never_responds_is_down_after_its_time() {
    let server = server();
    let silent = Scripted::start(|mut stream, _| drop(io::copy(&mut stream, &mut io::sink())));
    let silent_port = silent.address.port();
    let good = (0..10).map(|row| url(server.address(), &format!("/{row}")));
    let mut rig = Rig::urls(good.chain((0..100).map(|row| format!("http://localhost:{silent_port}/{row}"))));
    rig = rig.timeout(Duration::from_millis(50));
    rig.options.run.retrying = Retrying { host_down_after: Some(Duration::from_millis(300)), ..quick() };
    let (rows, summary) = rig.run();
    assert_eq!((110, None), (rows.len(), summary.stopped_by.map(|why| why.to_string())));
    assert!(rows.iter().any(|row| row.kind() == Some("host_down")), "{:?}", summary.errors);
}

#[test]
fn unreachable_hosts_that_responded_in_an_earlier_run_delay_no_request_to_a_working_host() {
    let (first, later) = (server(), closed_port());
    let dead: Vec<_> = (1..=25).map(|number| Full::at(Ipv4Addr::new(127, 0, 1, number))).collect();
    let urls = [url(first.address(), "/")].into_iter().chain(dead.iter().map(|dead| dead.url("/")));
    let mut rig = Rig::urls(urls.chain([format!("http://127.0.0.3:{later}/")])).one_by_one();
    rig.options.request.connect_timeout = Duration::from_millis(30);
    rig.options.run.retrying =
        Retrying { retries: 1, network_down_after: NetworkDownAfter::After(Duration::from_secs(20)), ..quick() };
    let run = rig.start();
    eventually("it has responded", || run.snapshot().succeeded == 1);
    run.stop();
    rig.finish(&run);
    drop(first);
    let _server = Server::start(Config { host: Ipv4Addr::new(127, 0, 0, 3).into(), port: later, ..Config::default() });
    let (rows, summary) = rig.run();
    assert_eq!((27, 1, None), (rows.len(), summary.succeeded, summary.stopped_by.map(|why| why.to_string())));
}
