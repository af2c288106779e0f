use std::io;
use std::net::{Ipv6Addr, TcpListener, TcpStream};

use headgate_testserver::{Config, Server};

use crate::client::{Client, start, wait_until};

#[test]
fn stopping_ends_every_connection_and_frees_the_port() {
    let mut server = start();
    let mut client = Client::connect(&server);
    client.send("GET /fault/hang-before-headers HTTP/1.1\r\n\r\n");
    wait_until("the request hangs", || server.statistics().requests_in_progress == 1);

    server.stop();
    assert_eq!(0, client.rest().0.len());
    assert_eq!(io::ErrorKind::ConnectionRefused, refusal(&server));
    let statistics = server.statistics();
    assert_eq!((0, 0), (statistics.connections_open, statistics.requests_in_progress));

    let port = server.address().port();
    let again = Server::start(Config { port, ..Config::default() }).expect("the port is free again");
    assert_eq!("Hello, World!", Client::connect(&again).get("/1").text());
}

fn refusal(server: &Server) -> io::ErrorKind {
    TcpStream::connect(server.address()).expect_err("the port is closed").kind()
}

#[test]
fn a_dropped_server_stops_listening() {
    let server = start();
    let address = server.address();
    drop(server);
    assert_eq!(io::ErrorKind::ConnectionRefused, TcpStream::connect(address).expect_err("the port is closed").kind());
}

#[test]
fn a_port_in_use_is_an_error_with_its_address() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let server = start();
    for address in [other.local_addr().expect("bound"), server.address()] {
        let config = Config { port: address.port(), ..Config::default() };
        let error = Server::start(config).expect_err("the port is in use");
        assert_eq!(io::ErrorKind::AddrInUse, error.kind());
        let message = error.to_string();
        assert!(message.starts_with(&format!("can't listen on {address}: ")), "{message}");
        assert!(message.ends_with("; choose another port, or 0 for a free one"), "{message}");
    }
}

#[test]
fn an_invalid_configuration_is_an_error() {
    let error = Server::start(Config { status: 99, ..Config::default() }).expect_err("no such status");
    assert_eq!(io::ErrorKind::InvalidInput, error.kind());
    assert_eq!("status 99: must be within 200..599", error.to_string());
}

#[test]
fn servers_of_one_process_are_independent() {
    let (one, other) = (start(), start());
    assert_ne!(one.address(), other.address());
    Client::connect(&one).get("/1");
    assert_eq!((1, 0), (one.statistics().requests, other.statistics().requests));
}

#[test]
fn a_server_can_listen_on_ipv6() {
    let config = Config { host: Ipv6Addr::LOCALHOST.into(), threads: Some(2), ..Config::default() };
    let server = Server::start(config).expect("a free port");
    assert_eq!("Hello, World!", Client::connect(&server).get("/1").text());
}
