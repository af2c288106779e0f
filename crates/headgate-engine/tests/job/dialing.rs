//! The addresses that are connected to, the local addresses, and the timeout of each step.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use headgate_core::message::OptionName;

use crate::harness::{Rig, server};
use crate::scripted::{Scripted, read_head, response};
use crate::tls::{Authority, echo, localhost, start};

#[test]
fn an_overridden_address_is_connected_to_and_the_host_header_is_unchanged() {
    let server = server();
    let port = server.address().port();
    for (host, entry) in [
        ("api.example", format!("api.example:{port}:127.0.0.1")),
        ("any.example", format!("*:{port}:127.0.0.1")),
        ("192.0.2.1", format!("192.0.2.1:{port}:127.0.0.1")),
        ("bücher.example", format!("xn--bcher-kva.example:{port}:127.0.0.1")),
        // The first address refuses.
        ("api.example", format!("api.example:{port}:127.0.0.2,127.0.0.1")),
    ] {
        let mut rig = Rig::urls([format!("http://{host}:{port}/echo")]);
        rig.options.request.resolve = vec![entry];
        let row = rig.row();
        assert_eq!(Some(server.address().to_string()), row.remote_addr, "{host}: {}", row.message());
        let host = if host.is_ascii() { host } else { "xn--bcher-kva.example" };
        assert_eq!(vec![format!("{host}:{port}")], row.echo().all("host"));
    }
}

#[test]
fn only_addresses_of_the_selected_family_are_connected_to() {
    let server = server();
    let port = server.address().port();
    for (error, message, url, is_ipv4) in [
        (None, "", format!("http://localhost:{port}/echo"), true),
        (Some("dns"), "the host has no IPv6 address", format!("http://127.0.0.1:{port}/"), false),
        (Some("dns"), "the host has no IPv4 address", format!("http://[::1]:{port}/"), true),
    ] {
        let mut rig = Rig::urls([url]);
        (rig.options.request.ipv4, rig.options.request.ipv6) = (is_ipv4, !is_ipv4);
        let row = rig.row();
        assert_eq!((error, message), (row.kind(), row.message()));
    }
}

/// Starts a server that closes after each response, and records the addresses of its clients.
fn closing() -> (Scripted, Arc<Mutex<Vec<IpAddr>>>) {
    let clients = Arc::<Mutex<Vec<IpAddr>>>::default();
    let seen = clients.clone();
    let server = Scripted::start(move |mut stream, _| {
        seen.lock().unwrap().push(stream.peer_addr().unwrap().ip());
        read_head(&mut stream);
        std::io::Write::write_all(&mut stream, b"HTTP/1.0 200 OK\r\n\r\n").unwrap();
    });
    (server, clients)
}

#[test]
fn connections_use_the_local_addresses_in_turn() {
    let (server, clients) = closing();
    let mut rig = Rig::new(server.url("/[1-4]")).one_by_one();
    let addresses: [IpAddr; 3] = ["127.0.0.2", "::1", "127.0.0.3"].map(|text| text.parse().unwrap());
    // Without IPv6, the local address can't belong to this machine.
    rig.options.request.local_addresses =
        addresses.into_iter().filter(|address| std::net::UdpSocket::bind((*address, 0)).is_ok()).collect();
    assert!(rig.rows().iter().all(|row| row.status == Some(200)));
    let (first, second) = (addresses[0], addresses[2]);
    assert_eq!(vec![first, second, first, second], *clients.lock().unwrap());
}

#[test]
fn a_host_without_an_address_of_the_local_families_is_not_connected_to() {
    let mut rig = Rig::new("http://[::1]:1/");
    rig.options.request.local_addresses = vec![Ipv4Addr::LOCALHOST.into()];
    let (row, example) = rig.failed_row();
    let why = "none of the local addresses is of the same family as those of the host";
    assert_eq!((Some("connect"), why), (row.kind(), row.message()));
    assert_eq!(Some(OptionName::LocalAddress), example.option);
}

#[test]
fn connections_use_the_given_interface() {
    let server = server();
    let mut rig = Rig::urls([format!("http://{}/echo", server.address())]);
    rig.options.request.interface = Some("lo".into());
    let row = rig.row();
    assert_eq!(Some(200), row.status, "{}", row.message());
}

/// Binds listeners to one port of several local addresses.
fn on_one_port<const N: usize>(addresses: [Ipv4Addr; N]) -> [TcpListener; N] {
    loop {
        let port = TcpListener::bind((addresses[0], 0)).unwrap().local_addr().unwrap().port();
        let bound = addresses.map(|address| TcpListener::bind((address, port)));
        if bound.iter().all(Result::is_ok) {
            return bound.map(Result::unwrap);
        }
    }
}

#[test]
fn an_address_that_hangs_in_the_tls_handshake_is_raced_by_the_next_and_then_avoided() {
    let authority = Authority::new();
    let host = start(authority.certify("host.example", 4000), echo);
    let [silent, good] = on_one_port([Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)]);
    let port = good.local_addr().unwrap().port();
    let accepted = Arc::<Mutex<Vec<TcpStream>>>::default();
    let held = accepted.clone();
    thread::spawn(move || silent.incoming().for_each(|stream| held.lock().unwrap().push(stream.unwrap())));
    pass_on(good, host.address);
    let rig = Rig::new(format!("https://host.example:{port}/[1-3]")).one_by_one();
    let mut rig = authority.trusted_by(rig);
    rig.options.request.resolve = vec![format!("host.example:{port}:127.0.0.2,127.0.0.3")];
    let rows = rig.rows();
    let addresses: BTreeSet<_> = rows.iter().map(|row| row.remote_addr.clone()).collect();
    assert_eq!(BTreeSet::from([Some(format!("127.0.0.3:{port}"))]), addresses, "{rows:?}");
    assert_eq!(1, accepted.lock().unwrap().len());
}

/// Makes every connection go to `target`.
fn pass_on(listener: TcpListener, target: SocketAddr) {
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let host = TcpStream::connect(target).unwrap();
            for (mut from, mut to) in [
                (stream.try_clone().unwrap(), host.try_clone().unwrap()),
                (host.try_clone().unwrap(), stream.try_clone().unwrap()),
            ] {
                thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        }
    });
}

#[test]
fn a_connect_timeout_names_the_step_in_which_it_passed() {
    let held: Mutex<Vec<TcpStream>> = Mutex::default();
    let silent = Scripted::start(move |stream, _| held.lock().unwrap().push(stream));
    let mut rig = Rig::new(localhost(&silent, "/"));
    rig.options.request.ipv4 = true;
    rig.options.request.connect_timeout = Duration::from_secs(1);
    let row = rig.row();
    assert_eq!((Some("connect_timeout"), "the TLS handshake did not end in time"), (row.kind(), row.message()));
    assert_eq!(silent.address.to_string(), row.detail());
}

#[test]
fn an_invalid_internationalized_hostname_is_not_looked_up() {
    let urls =
        ["http://a\u{ff0f}b.example/", "http://xn--0.example/", "http://a\u{ad}\u{200d}.example:x/", "http://%zz/"];
    for row in Rig::urls(urls).rows() {
        assert_eq!((Some("invalid_request"), 0), (row.kind(), row.attempts), "{}: {}", row.url, row.message());
    }
    // Scripts may be mixed: only a person who reads the hostname could be deceived, and none is shown here.
    let server = Scripted::responding(response("good"));
    let port = server.address.port();
    let mut rig = Rig::urls([format!("http://p\u{430}ypal.example:{port}/")]);
    rig.options.request.resolve = vec![format!("xn--pypal-4ve.example:{port}:127.0.0.1")];
    assert_eq!("good", rig.row().text());
}

#[test]
fn a_host_without_a_usable_address_is_not_retried() {
    for (kind, ipv4, local_addresses) in
        [("dns", true, vec![]), ("connect", false, vec!["127.0.0.2".parse().expect("an address")])]
    {
        let mut rig = Rig::new("http://[::1]:1/");
        rig.options.request.ipv4 = ipv4;
        rig.options.request.local_addresses = local_addresses;
        rig.options.run.retrying.retries = 2;
        rig.options.run.retrying.delay = Duration::from_millis(1);
        let row = rig.row();
        assert_eq!((Some(kind), 1), (row.kind(), row.attempts), "{}", row.message());
    }
}
