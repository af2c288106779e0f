//! The number of requests in flight and of connections never exceeds its limit.

use headgate_testserver::Server;

use crate::harness::{MAX_WAIT, Rig, eventually, server, slow_server, url};

/// Concurrency and threads, including fewer lanes than threads, and lanes that can't be divided evenly.
const SETTINGS: [(usize, usize); 7] = [(1, 1), (1, 4), (2, 4), (3, 2), (16, 1), (17, 3), (64, 2)];

fn max_in_progress(server: &Server) -> usize {
    server.statistics().max_requests_in_progress as usize
}

#[test]
fn at_most_the_concurrency_is_in_flight() {
    for (concurrency, threads) in SETTINGS {
        let server = slow_server(0.0..=0.01);
        let rows = 6 * concurrency + 5;
        let input = url(server.address(), &format!("/[1-{rows}]"));
        assert_eq!(rows, Rig::new(input).concurrency(concurrency, threads).rows().len());
        assert_eq!(rows as u64, server.statistics().requests);
        assert!(max_in_progress(&server) <= concurrency, "{concurrency} on {threads} threads");
    }
}

#[test]
fn the_whole_concurrency_is_used_if_the_server_is_slow() {
    for (concurrency, threads) in SETTINGS {
        let server = server();
        let input = url(server.address(), "/fault/hang-before-headers?[1-1000]");
        let rig = Rig::new(input).concurrency(concurrency, threads);
        let job = rig.start();
        eventually("all lanes are in flight", || max_in_progress(&server) == concurrency);
        assert_eq!(concurrency as u64, job.snapshot().in_flight);
        job.abort();
        rig.finish(&job);
        assert_eq!((concurrency, concurrency as u64), (max_in_progress(&server), server.statistics().requests));
    }
}

#[test]
fn connections_are_reused() {
    let server = server();
    let rows = Rig::new(url(server.address(), "/[1-500]")).concurrency(5, 2).rows();
    assert_eq!(500, rows.len());
    assert!(server.statistics().connections_accepted <= 5, "{:?}", server.statistics());
}

#[test]
fn ten_rows_open_at_most_ten_connections_whatever_the_concurrency() {
    let server = server();
    assert_eq!(10, Rig::new(url(server.address(), "/[1-10]")).concurrency(1000, 2).rows().len());
    assert!(server.statistics().connections_accepted <= 10, "{:?}", server.statistics());
}

#[test]
fn open_connections_of_all_hosts_are_at_most_the_concurrency_and_the_allowed_idle_ones() {
    const IDLE: u64 = 2;
    for (concurrency, threads) in [(3, 1), (4, 2)] {
        let servers: Vec<Server> = (0..6).map(|_| server()).collect();
        let turns = servers.iter().map(|server| url(server.address(), "/row")).cycle();
        let mut urls: Vec<String> = turns.take(60).collect();
        urls.extend((0..concurrency).map(|_| url(servers[0].address(), "/fault/hang-before-headers")));
        let mut rig = Rig::urls(urls).concurrency(concurrency, threads);
        rig.options.engine.max_idle_connections = Some(IDLE as usize);
        let job = rig.start();
        let sum = |count: fn(&Server) -> u64| servers.iter().map(count).sum::<u64>();

        eventually("the last rows hang", || {
            sum(|server| server.statistics().requests_in_progress) == concurrency as u64
        });
        // The servers may detect closed connections late; too many open ones would stay open.
        eventually("no other connection is open", || {
            sum(|server| server.statistics().connections_open) <= concurrency as u64 + IDLE
        });
        assert!(sum(|server| server.statistics().connections_accepted) >= 6);
        job.abort();
        rig.finish(&job);
    }
}

#[test]
fn an_idle_connection_is_kept_while_another_host_is_requested() {
    let (first, second) = (server(), server());
    let turns = [&first, &second].into_iter().map(|server| url(server.address(), "/row")).cycle();
    assert_eq!(40, Rig::urls(turns.take(40)).concurrency(2, 1).rows().len());
    let accepted = |server: &Server| server.statistics().connections_accepted;
    assert!(accepted(&first) + accepted(&second) < 40, "{} and {}", accepted(&first), accepted(&second));
}

#[test]
fn the_last_row_ends_the_job_without_waiting_for_idle_connections() {
    let server = server();
    let rig = Rig::new(url(server.address(), "/[1-3]"));
    let job = rig.start();
    assert!(job.wait(MAX_WAIT));
    eventually("all connections are closed", || server.statistics().connections_open == 0);
}
