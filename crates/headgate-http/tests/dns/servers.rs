//! DNS servers that do not reply, and hostnames without a reply.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use headgate_http::dial::dns::config::ResolverConfig;
use headgate_http::dial::resolve::Resolver;
use tokio::task::JoinSet;

use crate::harness::{Dead, config, loopback, resolve, resolver_with_retries, server, server_that};

#[tokio::test]
async fn a_dead_dns_server_is_skipped_after_its_first_timeout() {
    let (dead, server) = (Dead::start(), server());
    let resolver = Resolver::with_config(config([dead.address(), server.address()]));
    assert_eq!(Ok(loopback()), resolve(&resolver, "first.example").await);
    assert_eq!(2, dead.query_count(), "a question for each family");
    for index in 0..100 {
        assert_eq!(Ok(loopback()), resolve(&resolver, &format!("name{index}.example")).await);
    }
    // A machine that stalls for a second makes the first DNS server look dead, too.
    assert!(dead.query_count() < 20);
}

#[tokio::test]
async fn the_next_dns_server_is_queried_at_once_after_a_refusal_or_failure() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (failing, refusing, garbage, server) =
        (server_that("servfail"), server_that("refused"), server_that("garbage"), server());
    for first in [closed, failing.address(), refusing.address(), garbage.address()] {
        let mut config = config([first, server.address()]);
        // It would take this long to wait for the first DNS server.
        config.timeout = Duration::from_secs(3600);
        assert_eq!(Ok(loopback()), resolve(&Resolver::with_config(config), "www.example").await);
    }
    let failure = resolve(&Resolver::with_config(config([closed])), "www.example").await.unwrap_err();
    assert_eq!(format!("the DNS server can't be queried: connection refused ({closed})"), failure);
}

#[tokio::test]
async fn a_dns_server_that_failed_for_a_hostname_is_not_queried_for_it_again() {
    let failing = server_that("servfail");
    let resolver = Resolver::with_config(ResolverConfig { attempts: 5, ..config([failing.address()]) });
    assert!(resolve(&resolver, "www.example").await.is_err());
    assert_eq!(2, failing.questions_for("www.example"), "a question for each family");
}

#[tokio::test]
async fn a_lost_packet_is_resent() {
    let dead = Dead::start();
    let mut config = config([dead.address()]);
    (config.timeout, config.attempts) = (Duration::from_millis(50), 3);
    let failure = resolve(&Resolver::with_config(config), "www.example").await.unwrap_err();
    assert_eq!(format!("no response from the DNS server ({})", dead.address()), failure);
    assert_eq!(6, dead.query_count(), "three attempts for each family");
}

#[tokio::test]
async fn hostnames_without_a_reply_do_not_delay_other_lookups() {
    let server = server();
    let resolver = Arc::new(resolver_with_retries(&server));
    let mut all = JoinSet::new();
    for index in 0..3000 {
        let resolver = resolver.clone();
        let name = if index % 10 == 0 { format!("dead.{index}.example") } else { format!("name{index}.example") };
        all.spawn(async move { (index, resolve(&resolver, &name).await) });
    }
    for (index, found) in all.join_all().await {
        assert_eq!(index % 10 != 0, found.is_ok(), "{index}: {found:?}");
    }
}
