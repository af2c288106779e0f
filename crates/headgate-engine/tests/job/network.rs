//! The addresses that the network policy allows, whatever URLs a list has.
//!
//! Tests are named after known vulnerabilities: a CVE, or a class of them.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use headgate_core::error::JobErrorKind;
use headgate_core::files::storage::Disk;
use headgate_core::message::OptionName;
use headgate_core::network_options::{NetworkPolicy, parse_net};
use headgate_core::options::Dns;
use headgate_engine::{RetryOptions, Run};
use headgate_testserver::{DnsConfig, DnsServer};

use crate::harness::{MAX_WAIT, ResultRow, Rig, eventually};
use crate::http2;
use crate::own_ends::engine;
use crate::proxies::{forwarding, socks};
use crate::scripted::{Scripted, read_head, response};

pub const BLOCKED: Option<&str> = Some("blocked_by_network_policy");

impl Rig {
    pub fn public(mut self) -> Self {
        self.options.request.network.network = NetworkPolicy::Public;
        self
    }

    pub fn allowing(mut self, net: &str) -> Self {
        self.options.request.network.allow_net.push(parse_net(net).unwrap());
        self
    }

    pub fn denying(mut self, net: &str) -> Self {
        self.options.request.network.deny_net.push(parse_net(net).unwrap());
        self
    }

    fn retrying(mut self) -> Self {
        self.options.run.retrying.retries = 2;
        self.options.run.retrying.delay = Duration::from_millis(1);
        self
    }
}

/// A listener on another local address, which must not get a connection.
struct Forbidden {
    address: SocketAddr,
    clients: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Forbidden {
    fn on(address: Ipv4Addr, port: u16) -> Self {
        let listener = TcpListener::bind((address, port)).unwrap();
        let address = listener.local_addr().unwrap();
        let clients = Arc::<Mutex<Vec<SocketAddr>>>::default();
        let seen = clients.clone();
        thread::spawn(move || {
            listener.incoming().for_each(|stream| seen.lock().unwrap().push(stream.unwrap().peer_addr().unwrap()));
        });
        Self { address, clients }
    }

    fn had_requests(&self) -> bool {
        // Connections are accepted in their order: an earlier one is accepted before this one.
        let last = TcpStream::connect(self.address).unwrap();
        let is_last = || self.clients.lock().unwrap().last() == Some(&last.local_addr().unwrap());
        eventually("the connection is seen", is_last);
        self.clients.lock().unwrap().len() > 1
    }
}

fn outcome(row: &ResultRow) -> (Option<&str>, u16, &str, &str) {
    (row.kind(), row.attempts, row.message(), row.detail())
}

const UNLESS_NAMED: &str = "the address is refused unless it is named: link-local, 169.254.0.0/16";

#[test]
fn imds_rows_of_a_list_get_no_response_of_a_cloud_metadata_service() {
    // Each is 169.254.169.254 to a URL parser (CVE-2021-28918, CVE-2021-29922, CVE-2023-42282, CVE-2024-29415).
    for host in
        ["169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "0xa9.254.0124776"]
    {
        let row = Rig::urls([format!("http://{host}/latest/meta-data/")]).retrying().row();
        assert_eq!((BLOCKED, 1, UNLESS_NAMED, "169.254.169.254"), outcome(&row), "{host}");
    }
    for (detail, host) in [
        ("::ffff:169.254.169.254, which embeds 169.254.169.254", "[::ffff:169.254.169.254]"),
        ("::ffff:169.254.169.254, which embeds 169.254.169.254", "[::ffff:a9fe:a9fe]"),
        ("64:ff9b::a9fe:a9fe, which embeds 169.254.169.254", "[64:ff9b::a9fe:a9fe]"),
        ("2002:a9fe:a9fe::1, which embeds 169.254.169.254", "[2002:a9fe:a9fe::1]"),
    ] {
        let row = Rig::urls([format!("http://{host}/")]).row();
        assert_eq!((BLOCKED, 1, UNLESS_NAMED, detail), outcome(&row), "{host}");
    }
    for host in ["[fd00:ec2::254]", "100.100.100.200", "192.0.0.192", "[fd20:ce::254]", "168.63.129.16", "[fe80::1]"] {
        let (row, example) = Rig::urls([format!("http://{host}/")]).failed_row();
        assert_eq!((BLOCKED, Some(OptionName::AllowNet)), (row.kind(), example.option), "{host}");
    }
}

#[test]
fn a_public_network_has_no_address_of_this_machine_in_any_spelling_cve_2023_42282() {
    let server = Scripted::responding(response("internal"));
    let port = server.address.port();
    for host in
        ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "017700000001", "127.1", "[::ffff:127.0.0.1]", "0.0.0.0"]
    {
        let url = format!("http://{host}:{port}/");
        let row = Rig::urls([&url]).public().retrying().row();
        assert_eq!((BLOCKED, 1), (row.kind(), row.attempts), "{host}: {}", row.message());
        // A URL on the command line is no exception.
        assert_eq!(BLOCKED, Rig::new(&url).public().row().kind(), "{host}");
    }
    assert_eq!(0, server.connections());
    let row = Rig::urls([server.url("/")]).public().row();
    assert_eq!((BLOCKED, 1, "the address is not public: loopback, 127.0.0.0/8", "127.0.0.1"), outcome(&row));
}

#[test]
fn exceptions_are_networks_and_denied_networks_take_precedence() {
    let server = Scripted::responding(response("good"));
    let port = server.address.port();
    let rig = |host: &str| Rig::urls([format!("http://{host}:{port}/")]);
    for (expected, rig) in [
        (None, rig("127.0.0.1").public().allowing("127.0.0.0/8")),
        // An address that embeds another has the range of that one.
        (None, rig("[::ffff:127.0.0.1]").public().allowing("127.0.0.1")),
        (BLOCKED, rig("127.0.0.1").public().allowing("127.0.0.2/31")),
        (BLOCKED, rig("127.0.0.1").public().allowing("127.0.0.1").denying("127.0.0.0/8")),
        (BLOCKED, rig("127.0.0.1").denying("127.0.0.1")),
        (BLOCKED, rig("[::ffff:127.0.0.1]").denying("127.0.0.1")),
    ] {
        let row = rig.row();
        assert_eq!(expected, row.kind(), "{} {}", row.message(), row.detail());
    }
    let (row, example) = rig("127.0.0.1").denying("127.0.0.0/30").failed_row();
    assert_eq!((BLOCKED, 1, "the address is in a denied network, 127.0.0.0/30", "127.0.0.1"), outcome(&row));
    assert_eq!(Some(OptionName::DenyNet), example.option);
}

#[test]
fn only_allowed_ports_are_connected_to_and_no_hostname_is_looked_up_for_other_ports() {
    let server = Scripted::responding(response("good"));
    let names = DnsServer::start(DnsConfig::default()).unwrap();
    let mut rig = Rig::urls(["http://name.example:22/".to_owned(), server.url("/")]);
    rig.options.engine.dns = Dns::Server(names.address());
    rig.options.request.network.allow_port = vec![server.address.port()];
    let rows = rig.rows();
    assert_eq!((BLOCKED, 1, "the port is not among those that are allowed", "22"), outcome(&rows[0]));
    assert_eq!((Some(200), 0), (rows[1].status, names.questions()));
}

#[test]
fn happy_eyeballs_connects_to_no_refused_address_beside_an_allowed_one() {
    let server = Scripted::responding(response("good"));
    let port = server.address.port();
    let forbidden = Forbidden::on(Ipv4Addr::new(127, 0, 0, 2), port);
    for addresses in ["127.0.0.2,127.0.0.1", "127.0.0.1,127.0.0.2", "[::1],127.0.0.2,127.0.0.1"] {
        let mut rig = Rig::urls([format!("http://host.example:{port}/")]).denying("127.0.0.2").denying("::1");
        rig.options.request.resolve = vec![format!("host.example:{port}:{addresses}")];
        let row = rig.row();
        assert_eq!((Some(200), Some(server.address.to_string())), (row.status, row.remote_addr), "{addresses}");
    }
    let mut rig = Rig::urls([format!("http://host.example:{port}/")]).denying("127.0.0.2").denying("::1");
    rig.options.request.resolve = vec![format!("host.example:{port}:127.0.0.2,[::1]")];
    assert_eq!(BLOCKED, rig.row().kind());
    assert!(!forbidden.had_requests());
}

#[test]
fn dns_rebinding_each_lookup_of_a_hostname_is_checked_cwe_367() {
    for rebound in [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(169, 254, 169, 254)] {
        let names = Arc::new(DnsServer::start(DnsConfig::default()).unwrap());
        names.respond_with("rebind.example", vec![Ipv4Addr::LOCALHOST.into()]);
        let at_server = names.clone();
        // It closes each connection, so the next request needs another one.
        let server = Scripted::start(move |mut stream, _| {
            if read_head(&mut stream).is_some() {
                at_server.respond_with("rebind.example", vec![IpAddr::from(rebound)]);
                let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
            }
        });
        let port = server.address.port();
        let forbidden = Forbidden::on(Ipv4Addr::new(127, 0, 0, 2), port);
        let urls = (0..12).map(|row| format!("http://rebind.example:{port}/{row}"));
        let mut rig = Rig::urls(urls).one_by_one().denying("127.0.0.2");
        // The first reply is valid for a second.
        rig.options.run.limits.rate = Some("6/s".parse().unwrap());
        rig.options.engine.dns = Dns::Server(names.address());
        let rows = rig.rows();
        assert_eq!((Some(200), BLOCKED), (rows[0].status, rows[11].kind()), "{}", rows[11].message());
        assert!(!forbidden.had_requests());
    }
}

#[test]
fn a_redirect_leads_to_no_refused_address_cve_2023_28155() {
    let forbidden = Forbidden::on(Ipv4Addr::new(127, 0, 0, 2), 0);
    let location = format!("http://{}/secret", forbidden.address);
    let redirect = format!("HTTP/1.1 302 x\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
    let server = Scripted::responding(redirect);
    for rig in
        [Rig::urls([server.url("/")]).public().allowing("127.0.0.1"), Rig::urls([server.url("/")]).denying("127.0.0.2")]
    {
        let row = rig.retrying().row();
        assert_eq!((BLOCKED, 1, Some(location.as_str())), (row.kind(), row.attempts, row.final_url.as_deref()));
        assert_eq!(None, row.body(), "a redirect is not the response");
    }
    assert!(!forbidden.had_requests());
}

#[test]
fn robots_txt_is_requested_only_from_addresses_that_the_policy_allows() {
    let forbidden = Forbidden::on(Ipv4Addr::new(127, 0, 0, 2), 0);
    let location = format!("http://{}/robots.txt", forbidden.address);
    let server = Scripted::responding(format!("HTTP/1.1 302 x\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"));
    let mut rig = Rig::urls([format!("http://{}/", forbidden.address), server.url("/")]).denying("127.0.0.2");
    rig.options.request.response.obey_robots = true;
    let rows = rig.rows();
    assert_eq!([BLOCKED, Some("blocked_by_robots")], [rows[0].kind(), rows[1].kind()]);
    assert!(rows[1].detail().starts_with("blocked_by_network_policy: "), "{}", rows[1].detail());
    assert!(!forbidden.had_requests());
}

#[test]
fn a_connection_is_not_shared_between_network_policies() {
    let plain = Scripted::responding(response("good"));
    let http2 = http2::start(100, |peer, _| peer.serve(b"good"));
    for (server, is_http2) in [(&plain, false), (&http2, true)] {
        let engine = engine(1);
        let run = |rig: Rig| {
            let mut rig = rig.one_by_one();
            rig.options.request.http2_prior_knowledge = is_http2;
            let job = Run::job_on(&engine, &rig.options, &Disk).unwrap();
            rig.finish(&job).0.remove(0)
        };
        let rig = || Rig::urls([server.url("/")]);
        assert_eq!(Some(200), run(rig()).status);
        assert_eq!(BLOCKED, run(rig().denying("127.0.0.1")).kind());
        assert_eq!(BLOCKED, run(rig().public()).kind());
        assert_eq!(Some(200), run(rig()).status);
        assert_eq!(1, server.connections(), "the first one serves again");
    }
}

#[test]
fn a_socks_target_that_is_resolved_locally_is_checked_and_the_proxy_is_not() {
    let server = Scripted::responding(response("good"));
    let (proxy, received) = socks(0, 0, 0, server.address);
    let through = |rig: Rig, scheme: &str| {
        let mut rig = rig.public().through(&[format!("{scheme}://{}", proxy.address)]);
        rig.options.request.proxy_any_address = true;
        rig.options.request.resolve = vec!["inside.example:81:10.0.0.1".into(), "outside.example:81:8.8.8.8".into()];
        rig.row()
    };
    for (expected, scheme, host) in [
        (BLOCKED, "socks5", "inside.example"),
        (None, "socks5", "outside.example"),
        // Only the proxy knows the address.
        (None, "socks5h", "inside.example"),
        (BLOCKED, "socks5h", "10.0.0.1"),
        (BLOCKED, "socks5", "[::ffff:10.0.0.1]"),
        (None, "socks5h", "8.8.8.8"),
    ] {
        let before = received.lock().unwrap().len();
        let row = through(Rig::urls([format!("http://{host}:81/")]), scheme);
        assert_eq!(expected, row.kind(), "{scheme} {host}: {}", row.message());
        assert_eq!(expected.is_some(), received.lock().unwrap().len() == before, "the proxy got no request");
    }
}

#[test]
fn a_public_network_policy_requires_a_trusted_proxy() {
    let nowhere = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let (proxy, heads) = forwarding(nowhere);
    let mut rig = Rig::urls(["http://127.0.0.1:81/", "http://host.invalid/"]).one_by_one();
    rig = rig.public().through(&[format!("http://{}", proxy.address)]);
    let refused = Run::job(&rig.options).expect_err("it can't be kept");
    let expected = "network can't be public behind a proxy, which alone knows the addresses that it connects to: \
                    leave proxy out, or leave the addresses to the proxy with proxy_any_address=true";
    assert_eq!((JobErrorKind::Usage, expected), (refused.kind, &*refused.message.to_string()));
    rig.options.request.proxy_any_address = true;
    let rows = rig.rows();
    assert_eq!([BLOCKED, None], [rows[0].kind(), rows[1].kind()]);
    assert_eq!(1, heads.lock().unwrap().len());
}

#[test]
fn refused_addresses_stay_refused_when_a_job_is_resumed_or_retried() {
    let server = Scripted::responding(response("internal"));
    let rig = Rig::urls([server.url("/")]).public();
    assert_eq!(BLOCKED, rig.row().kind());

    let mut other = rig.options.clone();
    other.request.network.network = NetworkPolicy::Any;
    let message = Run::job(&other).expect_err("another job").message.to_string();
    assert!(message.contains("network was public, now it is any"), "{message}");

    let retry = |allow: &[&str]| {
        let mut options = RetryOptions { output: rig.path("out"), job: other.clone(), ..RetryOptions::default() };
        options.job.request.network.allow_net = allow.iter().map(|net| parse_net(net).unwrap()).collect();
        let retry = Run::retry(options).unwrap();
        rig.finish(&retry).0.remove(0)
    };
    let row = retry(&[]);
    assert_eq!((BLOCKED, 0), (row.kind(), server.connections()));
    assert_eq!(Some(200), retry(&["127.0.0.0/8"]).status, "a retry can allow more");
    assert!(rig.start().wait(MAX_WAIT), "and the job is the same as before");
}
