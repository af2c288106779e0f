//! The number of concurrent lookups, and the state that they leave.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headgate_http::dial::dns::cache::MAX_HOSTNAMES;
use headgate_http::dial::dns::sockets::MAX_SOCKETS;
use tokio::task::JoinSet;

use crate::harness::{eventually, loopback, resolve, resolve_by, resolver, resolver_with_retries, server};

#[tokio::test]
async fn concurrent_lookups_of_a_hostname_send_one_query() {
    let server = server();
    let resolver = Arc::new(resolver(&server));
    let mut all = JoinSet::new();
    for _ in 0..500 {
        let resolver = resolver.clone();
        all.spawn(async move { resolve(&resolver, "slow-100.example").await });
    }
    assert!(all.join_all().await.into_iter().all(|found| found == Ok(loopback())));
    assert_eq!(2, server.questions_for("slow-100.example"), "a question for each family");
}

#[tokio::test]
async fn a_cancelled_lookup_leaves_no_state() {
    let server = server();
    let resolver = resolver(&server);
    for _ in 0..20 {
        let in_time = Instant::now() + Duration::from_millis(1);
        let failure = resolve_by(&resolver, "dead.example", in_time).await.unwrap_err();
        assert_eq!("the hostname was not resolved in time", failure);
    }
    eventually("no lookup is pending", async || resolver.hostname_counts() == (0, 0)).await;
}

#[tokio::test]
async fn a_cancelled_caller_does_not_cancel_the_lookup_of_other_callers() {
    let server = server();
    let resolver = resolver(&server);
    let (timed_out, found) = tokio::join!(
        resolve_by(&resolver, "slow-200.example", Instant::now()),
        resolve(&resolver, "slow-200.example"),
    );
    assert_eq!((true, Ok(loopback())), (timed_out.is_err(), found));
    assert_eq!(2, server.questions_for("slow-200.example"));
}

#[tokio::test]
async fn more_hostnames_than_the_cache_holds_are_found_over_few_sockets() {
    let server = server();
    let resolver = Arc::new(resolver_with_retries(&server));
    let names = MAX_HOSTNAMES.get() + 1000;
    let before = sockets();
    let mut most = 0;
    let mut all = JoinSet::new();
    for index in 0..names {
        let shared = resolver.clone();
        all.spawn(async move { resolve(&shared, &format!("name{index}.example")).await });
        if all.len() == 256 {
            assert_eq!(Ok(loopback()), all.join_next().await.unwrap().unwrap());
        }
        if index % 256 == 0 {
            most = most.max(sockets().saturating_sub(before));
        }
        assert!(resolver.hostname_counts().0 <= MAX_HOSTNAMES.get());
    }
    assert!(all.join_all().await.into_iter().all(|found| found == Ok(loopback())));
    assert_eq!((MAX_HOSTNAMES.get(), 0), resolver.hostname_counts());
    // Other tests of this process also have sockets, and each has few.
    assert!(most <= MAX_SOCKETS * 8, "{most} sockets");
}

/// Returns the number of open sockets of this process.
fn sockets() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").map(Iterator::flatten).into_iter().flatten();
    files
        .filter(|file| std::fs::read_link(file.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket")))
        .count()
}
