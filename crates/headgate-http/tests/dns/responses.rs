//! Replies of DNS servers, and how long they are valid.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use headgate_http::dial::dns::DnsClient;
use headgate_http::dial::dns::files::Files;
use headgate_http::dial::dns::hosts::Hosts;
use headgate_http::dial::resolve::Resolver;

use crate::harness::{config, eventually, loopback, resolve, resolver, server};

#[tokio::test]
async fn addresses_are_found_through_an_alias_and_in_replies_too_long_for_a_packet() {
    let server = server();
    let resolver = resolver(&server);
    assert_eq!(Ok(loopback()), resolve(&resolver, "www.example").await);
    assert_eq!(Ok(loopback()), resolve(&resolver, "alias.example").await);
    assert_eq!(Ok(vec![IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])]), resolve(&resolver, "six.example").await);
    let many: Vec<IpAddr> = (1..=8).map(|last| IpAddr::from([127, 0, 0, last])).collect();
    assert_eq!(Ok(many), resolve(&resolver, "long.example").await);
}

#[tokio::test]
async fn a_hostname_without_an_address_and_a_failing_dns_server_have_different_errors() {
    let server = server();
    let resolver = resolver(&server);
    let address = server.address();
    for (expected, name) in [
        ("the hostname does not exist".to_owned(), "none.example"),
        ("the hostname has no address".to_owned(), "empty.example"),
        (format!("the DNS server failed (SERVFAIL) ({address})"), "servfail.example"),
        (format!("the DNS server refused the query (REFUSED) ({address})"), "refused.example"),
        (format!("the DNS server's response is malformed ({address})"), "garbage.example"),
        ("not a hostname that can be looked up".to_owned(), "a..example"),
    ] {
        assert_eq!(Err(expected), resolve(&resolver, name).await);
    }
}

#[tokio::test]
async fn a_reply_is_queried_again_after_its_lifetime_and_not_before() {
    let server = server();
    let resolver = resolver(&server);
    for name in ["ttl-1.example", "ttl-0.example"] {
        let asked_at = Instant::now();
        eventually("the hostname is looked up again", async || {
            assert_eq!(Ok(loopback()), resolve(&resolver, name).await);
            server.questions_for(name) == 4
        })
        .await;
        assert!(asked_at.elapsed() >= Duration::from_secs(1), "{name}: {:?}", asked_at.elapsed());
    }
}

#[tokio::test]
async fn a_negative_reply_is_cached() {
    let server = server();
    let resolver = resolver(&server);
    for name in ["none-30.example", "none.example", "empty-30.example", "empty.example", "servfail.example"] {
        for _ in 0..100 {
            assert!(resolve(&resolver, name).await.is_err());
        }
        assert!(server.questions_for(name) <= 2, "{name}: {}", server.questions_for(name));
    }
}

#[tokio::test]
async fn hostnames_of_the_hosts_file_and_of_this_machine_cause_no_query() {
    let server = server();
    let mut config = config([server.address()]);
    config.hosts = Hosts::read(&b"192.0.2.7 Box.example\n"[..]);
    let resolver = Resolver::with_config(config);
    assert_eq!(Ok(vec![IpAddr::from([192, 0, 2, 7])]), resolve(&resolver, "box.example").await);
    for name in ["localhost", "www.localhost", "localhost."] {
        assert_eq!(loopback()[0], resolve(&resolver, name).await.unwrap()[0]);
    }
    assert_eq!(Err("the hostname does not exist".into()), resolve(&resolver, "www.invalid").await);
    assert_eq!(0, server.questions());
}

#[test]
fn a_running_engine_obeys_a_line_that_is_added_to_the_hosts_file() {
    let directory = tempfile::tempdir().unwrap();
    let [resolv_conf, hosts] = ["resolv.conf", "hosts"].map(|name| directory.path().join(name));
    let begin = Instant::now();
    let client = DnsClient::with_files(Files { resolv_conf, hosts: hosts.clone(), server: None }, begin).unwrap();
    assert_eq!(None, client.local_result("box.example", begin));
    std::fs::write(hosts, "192.0.2.7 box.example\n").unwrap();
    let later = begin + Duration::from_secs(5);
    assert_eq!(Some(Ok([IpAddr::from([192, 0, 2, 7])].into())), client.local_result("box.example", later));
}

#[tokio::test]
async fn a_hostname_is_tried_in_the_search_domains() {
    let server = server();
    let mut config = config([server.address()]);
    config.search = vec!["a.example".into(), "b.example".into()];
    let resolver = Resolver::with_config(config);
    assert_eq!(Ok(loopback()), resolve(&resolver, "www").await);
    assert_eq!((2, 0), (server.questions_for("www.a.example"), server.questions_for("www")));
    assert_eq!(Err("the hostname does not exist".into()), resolve(&resolver, "none").await);
    for name in ["none.a.example", "none.b.example", "none"] {
        assert!(server.questions_for(name) > 0, "{name}");
    }
    assert_eq!(Ok(loopback()), resolve(&resolver, "www.test.").await);
    assert_eq!(0, server.questions_for("www.test.a.example"));
}
