//! Hosts behind proxies: what a proxy and a host receive, and the error kinds of their failures.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use headgate_core::message::OptionName;

use crate::harness::{ResultRow, Rig};
use crate::scripted::{Scripted, read_head, response};
use crate::tls::{Authority, echo, start};

/// `me:secret`, encoded for Basic authentication.
const CREDENTIALS: &str = "Basic bWU6c2VjcmV0";

pub type Heads = Arc<Mutex<Vec<String>>>;

impl Rig {
    pub fn through(mut self, proxies: &[String]) -> Self {
        self.options.request.proxies = proxies.iter().cloned().map(Into::into).collect();
        self
    }
}

/// Starts a proxy that responds to each request with the request itself, and makes all tunnels to `target`.
pub fn forwarding(target: SocketAddr) -> (Scripted, Heads) {
    let heads = Heads::default();
    let seen = heads.clone();
    let proxy = Scripted::start(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            seen.lock().unwrap().push(head.clone());
            if head.starts_with("CONNECT ") {
                // Some proxies end their lines like this.
                stream.write_all(b"HTTP/1.1 200 Connection established\nVia: 1.1 test\n\n").unwrap();
                return relay(&stream, target);
            }
            stream.write_all(response(&head).as_bytes()).unwrap();
        }
    });
    (proxy, heads)
}

/// Forwards bytes in both directions, until one end closes.
fn relay(stream: &TcpStream, target: SocketAddr) {
    let host = TcpStream::connect(target).unwrap();
    let copy = |mut from: TcpStream, mut to: TcpStream| {
        move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        }
    };
    let up = thread::spawn(copy(stream.try_clone().unwrap(), host.try_clone().unwrap()));
    copy(host, stream.try_clone().unwrap())();
    up.join().unwrap();
}

fn url(scheme: &str, proxy: &Scripted) -> String {
    format!("{scheme}://{}", proxy.address)
}

fn nowhere() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

#[test]
fn a_proxy_gets_the_absolute_url_over_a_kept_connection_and_resolves_the_hostname() {
    let (proxy, _) = forwarding(nowhere());
    let rig = Rig::new("http://host.invalid:81/a?b=[1-5]").one_by_one();
    let rows = rig.through(&[format!("http://me:secret@{}", proxy.address)]).rows();
    for row in &rows {
        let expected = format!("GET http://host.invalid:81/a?b={} HTTP/1.1\r\n", row.row + 1);
        assert!(row.text().starts_with(&expected), "{row:?}");
        assert!(row.text().contains("host: host.invalid:81\r\n"), "{}", row.text());
        assert!(row.text().contains(&format!("\r\nproxy-authorization: {CREDENTIALS}\r\n")), "{}", row.text());
        assert_eq!(Some(proxy.address.to_string()), row.remote_addr);
    }
    assert_eq!((5, 1), (rows.len(), proxy.connections()));
}

#[test]
fn a_body_too_long_for_one_write_follows_its_headers() {
    let heads = Heads::default();
    let seen = heads.clone();
    let proxy = Scripted::start(move |mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            seen.lock().unwrap().push(head);
            let mut body = vec![0; 200_000];
            stream.read_exact(&mut body).unwrap();
            assert!(body.iter().all(|byte| *byte == b'x'));
            stream.write_all(response("good").as_bytes()).unwrap();
        }
    });
    let mut rig = Rig::new("http://host.invalid/[1-2]").one_by_one().through(&[url("http", &proxy)]);
    rig.options.request.body = Some(vec![b'x'; 200_000]);
    assert!(rig.rows().iter().all(|row| row.text() == "good"));
    let heads = heads.lock().unwrap();
    assert!(
        heads[1].starts_with("POST http://host.invalid/2 HTTP/1.1\r\n") && heads[1].contains("200000"),
        "{heads:?}"
    );
}

#[test]
fn an_https_host_is_reached_through_a_tunnel_and_gets_no_headers_for_the_proxy() {
    let authority = Authority::new();
    let host = start(authority.certify("host.invalid", 4000), echo);
    let (proxy, heads) = forwarding(host.address);
    let rig = authority.trusted_by(Rig::new("https://host.invalid/[1-3]")).one_by_one();
    let rows = rig.through(&[format!("http://me:secret@{}", proxy.address)]).rows();
    for row in &rows {
        assert!(row.text().starts_with(&format!("GET /{} HTTP/1.1\r\n", row.row + 1)), "{row:?}");
        assert!(!row.text().to_lowercase().contains("proxy"), "{}", row.text());
    }
    let expected = format!(
        "CONNECT host.invalid:443 HTTP/1.1\r\nhost: host.invalid:443\r\nproxy-authorization: {CREDENTIALS}\r\n\r\n"
    );
    assert_eq!((3, 1, vec![expected]), (rows.len(), proxy.connections(), heads.lock().unwrap().clone()));
}

#[test]
fn a_failure_of_the_host_behind_a_tunnel_is_not_attributed_to_the_proxy() {
    let host = start(Authority::new().certify("host.invalid", 4000), echo);
    let (proxy, _) = forwarding(host.address);
    let row = Rig::new("https://host.invalid/").through(&[url("http", &proxy)]).row();
    assert_eq!(Some("tls"), row.kind());
    let untrusted = "the server's certificate is not trusted: it is self-signed, or from an unknown authority";
    let detail = format!("http://{} as host.invalid", proxy.address);
    assert_eq!((untrusted, &*detail), (row.message(), row.detail()));
}

/// Runs a row of a host behind a proxy that always responds with these bytes and closes.
fn succeeded(target: &str, credentials: &str, reply: impl Into<Vec<u8>>) -> ResultRow {
    let reply = reply.into();
    let proxy = Scripted::start(move |mut stream, _| {
        read_head(&mut stream);
        let _ = stream.write_all(&reply);
        // Further bytes are read, so that a reset does not discard the response.
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let row = Rig::new(target).through(&[format!("http://{credentials}{}", proxy.address)]).row();
    assert!(row.detail().starts_with(&format!("http://{}", proxy.address)), "{row:?}");
    assert!(!format!("{row:?}").contains("secret"), "{row:?}");
    row
}

#[test]
fn a_refusal_by_a_proxy_has_a_clear_message() {
    for (message, credentials, reply) in [
        ("the proxy requires credentials (407)", "", "HTTP/1.1 407 No\r\n\r\n"),
        ("the proxy does not accept these credentials (407)", "me:secret@", "HTTP/1.1 407 No\r\n\r\n"),
        ("the proxy does not accept these credentials (401)", "me:secret@", "HTTP/1.1 401 No\r\n\r\n"),
        ("the proxy does not allow connections to this host (403)", "", "HTTP/1.1 403 No\r\n\r\n<p>Why not"),
        (
            "the proxy opens no tunnels (CONNECT), which are needed to reach this host (405)",
            "",
            "HTTP/1.1 405 No\r\nAllow: GET\r\n\r\n",
        ),
        ("the proxy requests fewer connections (429)", "", "HTTP/1.1 429 No\r\n\r\n"),
        ("the proxy could not connect to the host (502)", "", "HTTP/1.0 502 No\r\n\r\n"),
        ("the proxy could not connect to the host (504)", "", "HTTP/1.1 504 No\r\n\r\n"),
        ("the proxy refused to connect to the host (400)", "", "HTTP/1.1 400 No\r\n\r\n"),
        ("the proxy closed the connection without a response", "", ""),
        ("the proxy's response is not HTTP, or is too long", "", "SSH-2.0-OpenSSH_9.2\r\n"),
        ("the proxy's response is not HTTP, or is too long", "", "HTTP/1.1 200 OK\r\n"),
        ("the proxy's response is not HTTP, or is too long", "", &"x".repeat(1_000_000)),
    ] {
        let row = succeeded("https://host.invalid/", credentials, reply);
        assert_eq!((Some("proxy"), None, message), (row.kind(), row.status, row.message()));
    }
}

#[test]
fn a_proxy_that_requires_credentials_is_distinguished_from_a_host_without_a_tunnel() {
    let refusal = "HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno";
    let row = succeeded("http://host.invalid/", "", refusal);
    let expected = (Some("proxy"), Some(407), "the proxy requires credentials (407)");
    assert_eq!(expected, (row.kind(), row.status, row.message()));
    assert_eq!(Some(b"no".to_vec()), row.body());
    // Without a proxy, 407 is a status like any other.
    let host = Scripted::responding(refusal);
    let row = Rig::new(host.url("/")).row();
    assert_eq!((None, Some(407)), (row.kind(), row.status));
}

#[test]
fn an_unreachable_proxy_is_no_failure_of_the_host() {
    let untrusted = start(Authority::new().certify("localhost", 4000), echo);
    let closed_port = nowhere();
    for (message, proxy) in [
        ("the proxy can't be reached: connection refused", format!("http://{closed_port}")),
        ("the proxy can't be reached: connection refused", format!("socks5h://{closed_port}")),
        ("the proxy can't be reached: the hostname does not exist", "http://proxy.invalid:1".into()),
        (
            "the proxy can't be reached: the server's certificate is not trusted: it is self-signed, or from an unknown \
             authority",
            format!("https://localhost:{}", untrusted.address.port()),
        ),
    ] {
        for target in ["http://127.0.0.1:1/", "https://127.0.0.1:1/"] {
            let row = Rig::new(target).through(std::slice::from_ref(&proxy)).row();
            assert_eq!((Some("proxy"), message), (row.kind(), row.message()), "{proxy}");
            assert!(row.detail().starts_with(&proxy), "{}", row.detail());
        }
    }
}

#[test]
fn a_silent_proxy_fails_after_the_connect_timeout_and_is_named() {
    let held: Mutex<Vec<TcpStream>> = Mutex::default();
    let silent = Scripted::start(move |stream, _| held.lock().unwrap().push(stream));
    // A proxy that accepted the connection may itself be waiting for the host.
    for (kind, message, scheme) in [
        ("connect_timeout", "the proxy did not respond in time", "http"),
        ("connect_timeout", "the proxy did not respond in time", "socks5h"),
        ("proxy", "the proxy can't be reached: the TLS handshake did not end in time", "https"),
    ] {
        let mut rig = Rig::new("https://host.invalid/").through(&[url(scheme, &silent)]);
        rig.options.request.connect_timeout = Duration::from_secs(1);
        let (row, example) = rig.failed_row();
        assert_eq!((Some(kind), message), (row.kind(), row.message()));
        assert!(row.detail().starts_with(&url(scheme, &silent)), "{}", row.detail());
        assert_eq!(Some(OptionName::ConnectTimeout), example.option);
    }
}

#[test]
fn a_host_that_hangs_in_its_handshake_behind_a_tunnel_is_named() {
    let held: Mutex<Vec<TcpStream>> = Mutex::default();
    let host = Scripted::start(move |stream, _| held.lock().unwrap().push(stream));
    let (proxy, _) = forwarding(host.address);
    let mut rig = Rig::new("https://host.invalid/").through(&[url("http", &proxy)]);
    rig.options.request.connect_timeout = Duration::from_secs(2);
    let row = rig.row();
    assert_eq!(("connect_timeout", "the TLS handshake did not end in time"), (row.kind().unwrap(), row.message()));
    assert_eq!(format!("http://{} as host.invalid", proxy.address), row.detail());
}

#[test]
fn several_proxies_are_used_in_turn_and_a_failing_one_does_not_affect_the_others() {
    let closing = || {
        Scripted::start(|mut stream, _| {
            read_head(&mut stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap();
        })
    };
    let proxies = [closing(), closing()];
    let urls = [url("http", &proxies[0]), format!("http://{}", nowhere()), url("http", &proxies[1])];
    let rows = Rig::new("http://host.invalid/[1-9]").one_by_one().through(&urls).rows();
    assert_eq!(3, rows.iter().filter(|row| row.kind() == Some("proxy")).count());
    assert_eq!([3, 3], proxies.each_ref().map(Scripted::connections));

    let two = [format!("http://{}", nowhere()), url("http", &proxies[0])];
    let mut retrying = Rig::new("http://host.invalid/").through(&two);
    retrying.options.run.retrying.retries = 1;
    retrying.options.run.retrying.delay = Duration::from_millis(1);
    let row = retrying.row();
    assert_eq!((Some(200), 2), (row.status, row.attempts));
}

#[test]
fn a_proxy_that_refuses_the_only_credentials_gets_no_retry() {
    let proxy = Scripted::responding("HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n");
    for (attempts, proxies) in [(1, vec![url("http", &proxy)]), (3, vec![url("http", &proxy); 2])] {
        for target in ["http://host.invalid/", "https://host.invalid/"] {
            let mut rig = Rig::new(target).through(&proxies);
            rig.options.run.retrying.retries = 2;
            rig.options.run.retrying.delay = Duration::from_millis(1);
            let row = rig.row();
            assert_eq!((Some("proxy"), attempts), (row.kind(), row.attempts), "{target} {proxies:?}");
        }
    }
}

/// The messages that a SOCKS server received: the offered methods, the credentials, and the target.
pub type Received = Arc<Mutex<Vec<Vec<u8>>>>;

/// Starts a SOCKS server that replies with this code, and makes all tunnels to `target`.
pub fn socks(method: u8, log_in: u8, code: u8, target: SocketAddr) -> (Scripted, Received) {
    let received = Received::default();
    let heard = received.clone();
    let proxy = Scripted::start(move |mut stream, _| {
        // The client may close the connection at any point.
        let _ = (|| -> std::io::Result<()> {
            let hear = |bytes: Vec<u8>| heard.lock().unwrap().push(bytes);
            let mut start = [0; 2];
            stream.read_exact(&mut start)?;
            let mut methods = vec![0; start[1].into()];
            stream.read_exact(&mut methods)?;
            hear(methods);
            stream.write_all(&[5, method])?;
            if method == 2 {
                stream.read_exact(&mut start)?;
                let mut user = vec![0; start[1].into()];
                stream.read_exact(&mut user)?;
                let mut length = [0];
                stream.read_exact(&mut length)?;
                let mut password = vec![0; length[0].into()];
                stream.read_exact(&mut password)?;
                hear([user, password].join(&b':'));
                stream.write_all(&[1, log_in])?;
            }
            let mut request = [0; 5];
            stream.read_exact(&mut request)?;
            let rest = if request[3] == 3 { usize::from(request[4]) + 2 } else { 5 };
            let mut address = vec![0; rest];
            stream.read_exact(&mut address)?;
            hear([&request[3..], &*address].concat());
            stream.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0])?;
            if code == 0 {
                relay(&stream, target);
            }
            Ok(())
        })();
    });
    (proxy, received)
}

#[test]
fn a_host_behind_socks_gets_the_same_request_as_without_a_proxy() {
    let authority = Authority::new();
    let host = start(authority.certify("host.invalid", 4000), echo);
    let plain = Scripted::start(|mut stream, _| {
        while let Some(head) = read_head(&mut stream) {
            stream.write_all(response(&head).as_bytes()).unwrap();
        }
    });
    for (target, scheme, port) in [(host.address, "https", 443_u16), (plain.address, "http", 80)] {
        for (method, credentials) in [(0, ""), (2, "me:secret@")] {
            let (proxy, received) = socks(method, 0, 0, target);
            let rig = authority.trusted_by(Rig::new(format!("{scheme}://host.invalid/[1-3]"))).one_by_one();
            let rows = rig.through(&[format!("socks5h://{credentials}{}", proxy.address)]).rows();
            for row in &rows {
                assert!(row.text().starts_with(&format!("GET /{} HTTP/1.1\r\nhost: host.invalid\r\n", row.row + 1)));
                assert!(!row.text().contains("secret") && !row.text().contains("bWU6"), "{}", row.text());
            }
            let mut expected = if method == 2 { vec![vec![0, 2], b"me:secret".to_vec()] } else { vec![vec![0]] };
            expected.push([&[3, 12][..], b"host.invalid", &port.to_be_bytes()].concat());
            assert_eq!((3, 1, expected), (rows.len(), proxy.connections(), received.lock().unwrap().clone()));
        }
    }
}

#[test]
fn a_socks_proxy_gets_the_address_of_a_locally_resolved_hostname() {
    let plain = Scripted::responding(response("good"));
    let (proxy, received) = socks(0, 0, 0, plain.address);
    let port = 81_u16.to_be_bytes();
    let four = [&[1, 127, 0, 0, 9][..], &port].concat();
    for (expected, scheme, target) in [
        (&four, "socks5h", "http://127.0.0.9:81/"),
        (&four, "socks5", "http://127.0.0.9:81/"),
        (&four, "socks5", "http://host.example:81/"),
        (&[&[3, 12][..], b"host.example", &port].concat(), "socks5h", "http://host.example:81/"),
    ] {
        let mut rig = Rig::new(target).through(&[url(scheme, &proxy)]);
        rig.options.request.resolve = vec!["host.example:81:127.0.0.9".into()];
        assert_eq!("good", rig.row().text());
        assert_eq!(Some(expected), received.lock().unwrap().last(), "{scheme} {target}");
    }
}

#[test]
fn a_refusal_by_a_socks_proxy_has_a_clear_message() {
    for (message, method, log_in, code) in [
        ("the proxy accepts none of headgate's authentication methods", 255, 0, 0),
        ("the proxy does not accept these credentials", 2, 1, 0),
        ("the proxy could not connect to the host", 0, 0, 1),
        ("the proxy does not allow connections to this host", 0, 0, 2),
        ("the proxy can't reach the host's network", 0, 0, 3),
        ("the proxy can't reach the host", 0, 0, 4),
        ("the host refused the proxy's connection", 0, 0, 5),
        ("the TTL of the proxy's connection to the host expired", 0, 0, 6),
        ("the proxy makes no connections", 0, 0, 7),
        ("the proxy can't connect to an address of this kind", 0, 0, 8),
        ("the proxy's response is not SOCKS5", 0, 0, 99),
        ("the proxy's response is not SOCKS5", 9, 0, 0),
    ] {
        let (proxy, _) = socks(method, log_in, code, nowhere());
        let row = Rig::new("http://host.invalid/").through(&[format!("socks5h://me:secret@{}", proxy.address)]).row();
        assert_eq!((Some("proxy"), message), (row.kind(), row.message()));
        assert_eq!(url("socks5h", &proxy), row.detail());
    }
    let (http, _) = forwarding(nowhere());
    http_is_no_socks(&http);
}

fn http_is_no_socks(http: &Scripted) {
    // A request to SOCKS never ends as the head of an HTTP request does.
    let mut rig = Rig::new("http://host.invalid/").through(&[url("socks5h", http)]);
    rig.options.request.connect_timeout = Duration::from_secs(1);
    assert_eq!("the proxy did not respond in time", rig.row().message());
}

#[test]
fn the_hostname_of_a_proxy_is_resolved_and_may_be_overridden() {
    let (proxy, _) = forwarding(nowhere());
    let port = proxy.address.port();
    let mut rig = Rig::new("http://host.invalid/").through(&[format!("http://proxy.example:{port}")]);
    rig.options.request.resolve = vec![format!("proxy.example:{port}:127.0.0.1"), "host.invalid:80:192.0.2.1".into()];
    let row = rig.row();
    assert!(row.text().starts_with("GET http://host.invalid/ HTTP/1.1\r\n"), "{row:?}");
}

/// Starts a server that responds to requests itself, closes, and records all that it receives.
fn listening() -> (Scripted, Heads) {
    let heads = Heads::default();
    let seen = heads.clone();
    let proxy = Scripted::start(move |mut stream, _| {
        let head = read_head(&mut stream).unwrap_or_default();
        let reply = if head.starts_with("CONNECT") { "HTTP/1.1 503 No\r\n\r\n" } else { "HTTP/1.0 200 OK\r\n\r\n" };
        seen.lock().unwrap().push(head);
        let _ = stream.write_all(reply.as_bytes());
    });
    (proxy, heads)
}

#[test]
fn each_proxy_gets_only_its_own_credentials_and_hosts_get_none() {
    let (direct, at_host) = listening();
    let (one, at_one) = listening();
    let (other, at_other) = listening();
    let (open, at_open) = listening();
    for scheme in ["http", "https"] {
        let rig = Rig::new(format!("{scheme}://host.invalid/[1-30]")).concurrency(6, 2);
        let rig = rig.through(&[
            format!("http://one:first@{}", one.address),
            format!("http://other:second@{}", other.address),
            format!("http://{}", open.address),
        ]);
        assert_eq!(30, rig.rows().len());
    }
    assert_eq!(Some(200), Rig::new(direct.url("/")).row().status);
    for (own, heads) in
        [(Some("b25lOmZpcnN0"), at_one), (Some("b3RoZXI6c2Vjb25k"), at_other), (None, at_open), (None, at_host)]
    {
        let heads = heads.lock().unwrap();
        assert!(!heads.is_empty());
        for head in &*heads {
            let received: Vec<_> =
                head.lines().filter_map(|line| line.strip_prefix("proxy-authorization: Basic ")).collect();
            assert_eq!(Vec::from_iter(own), received, "{head}");
            assert_eq!(received.len(), head.matches("Basic").count(), "{head}");
        }
    }
}

#[test]
fn rows_continue_over_other_proxies_if_one_is_unreachable() {
    let good = Scripted::responding(response("through"));
    let mut rig = Rig::new("http://host.invalid/").through(&["http://[::1]:1".to_owned(), url("http", &good)]);
    rig.options.request.ipv4 = true;
    rig.options.run.retrying.retries = 1;
    rig.options.run.retrying.delay = Duration::from_millis(1);
    let row = rig.row();
    assert_eq!((Some(200), 2), (row.status, row.attempts), "{}", row.message());
}
