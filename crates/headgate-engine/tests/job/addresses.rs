//! Connecting to a hostname, and the error kinds if that fails.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use headgate_core::message::OptionName;

use crate::harness::{Rig, server, server_at, url};
use crate::scripted::Scripted;

const SHORT: Duration = Duration::from_millis(300);

/// Starts a server that accepts connections and never sends anything.
fn silent() -> Scripted {
    let held: Mutex<Vec<TcpStream>> = Mutex::default();
    Scripted::start(move |stream, _| held.lock().unwrap().push(stream))
}

#[test]
fn ipv6_works_as_ipv4_does() {
    // A machine may have no IPv6, and then there is nothing to test.
    let Ok(server) = server_at(IpAddr::V6(Ipv6Addr::LOCALHOST)) else { return };
    let row = Rig::urls([url(server.address(), "/echo")]).row();
    assert_eq!(Some(server.address().to_string()), row.remote_addr);
    assert_eq!(vec![server.address().to_string()], row.echo().all("host"));
}

#[test]
fn a_hostname_is_looked_up_and_sent_in_the_host_header() {
    let server = server();
    let port = server.address().port();
    let row = Rig::urls([format!("http://LocalHost:{port}/echo")]).row();
    assert_eq!(vec![format!("localhost:{port}")], row.echo().all("host"), "{}", row.message());
    assert_eq!(Some(server.address().to_string()), row.remote_addr);
}

#[test]
fn a_hostname_without_an_address_fails_with_resolve() {
    for row in Rig::new("http://no-such-host.invalid/[1-200]").rows() {
        assert_eq!((Some("dns"), None, 1), (row.kind(), row.status, row.attempts));
        assert_eq!("the hostname does not exist", row.message());
    }
}

#[test]
fn a_port_without_a_listener_fails_with_connect() {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let row = Rig::new(url(address, "/")).row();
    assert_eq!((Some("connect"), None, 1), (row.kind(), row.status, row.attempts));
    assert_eq!(("connection refused", &*address.to_string()), (row.message(), row.detail()));
}

#[test]
fn a_silent_server_fails_after_the_timeout_and_its_error_names_no_option() {
    let server = silent();
    let (row, example) = Rig::new(server.url("/")).timeout(SHORT).failed_row();
    assert_eq!(Some("timeout"), row.kind());
    // The stored message names no option; the code that shows the example adds its name.
    assert_eq!(("no response came in time", Some(OptionName::Timeout)), (row.message(), example.option));
}

#[test]
fn a_connect_timeout_names_its_option() {
    let server = silent();
    let input = server.url("/").replace("http:", "https:");
    let mut rig = Rig::new(&*input);
    rig.options.request.connect_timeout = SHORT;
    let (row, example) = rig.failed_row();
    assert_eq!((Some("connect_timeout"), None), (row.kind(), row.status));
    assert_eq!(Some(OptionName::ConnectTimeout), example.option);

    let (row, example) = Rig::new(&*input).timeout(SHORT).failed_row();
    assert_eq!(Some("connect_timeout"), row.kind());
    assert_eq!(Some(OptionName::Timeout), example.option);
}
