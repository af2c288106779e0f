use std::future::poll_fn;
use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::http::dial::stream::Stream;
use crate::http::open::Open;

/// A connection that stands, with its other end.
async fn connected(open: &Rc<Open>) -> (Rc<Connection>, Driver, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let stream = Stream::Plain(TcpStream::connect(address).await.expect("somebody listens"));
    let (peer, _) = listener.accept().await.expect("a connection");
    let dialled = Dialled { stream, remote_addr: "".into(), remote: Remote::UNKNOWN, is_http2: true, forwarding: None };
    let terms = Terms { max_streams: 100, window_bytes: 65_535 };
    let (connection, driver) = Connection::begin(dialled, terms, open.permit()).await.expect("it stands");
    (connection, driver, peer)
}

#[tokio::test]
async fn a_server_that_is_silent_is_asked_and_given_up_if_it_stays_so() {
    let (connection, mut driver, mut peer) = connected(&Rc::<Open>::default()).await;
    connection.take();
    // What came before counts as a sign of life.
    for _ in 0..=SILENT_TICKS {
        connection.tick(50);
    }
    let mut sent = Vec::new();
    let is_asked = |sent: &[u8]| sent.windows(5).any(|frame| frame == [0, 0, 8, 6, 0]);
    while !is_asked(&sent) {
        tokio::select! {
            event = poll_fn(|cx| driver.poll(cx)) => panic!("{event:?}, though nothing came"),
            read = peer.read_buf(&mut sent) => assert!(read.is_ok_and(|length| length > 0)),
        }
    }
    for _ in 1..PING_TICKS {
        connection.tick(50);
        assert!(!connection.is_closed());
    }
    connection.tick(50);
    assert_eq!((true, Event::Ended), (connection.is_closed(), poll_fn(|cx| driver.poll(cx)).await));
    let Some(End::Failed(failure)) = connection.end() else { panic!("it failed: {:?}", connection.end()) };
    assert_eq!(ErrorKind::Timeout, failure.kind);
}

#[tokio::test]
async fn a_connection_that_is_doubted_takes_requests_again_when_it_has_answered() {
    let (connection, mut driver, mut peer) = connected(&Rc::<Open>::default()).await;
    let mut heard = connection.heard();
    let (settings, known) = ([0, 0, 0, 4, 0, 0, 0, 0, 0], [0, 0, 0, 4, 1, 0, 0, 0, 0]);
    for sign_of_life in [settings, known] {
        connection.doubt(heard);
        assert_eq!(0, connection.allowed());
        peer.write_all(&sign_of_life).await.expect("it is open");
        assert_eq!(Event::Room, poll_fn(|cx| driver.poll(cx)).await);
        connection.doubt(heard);
        assert_eq!(100, connection.allowed(), "something has come since");
        heard = connection.heard();
    }
}

#[tokio::test]
async fn a_connection_that_nobody_uses_counts_as_idle_and_is_closed_in_the_end() {
    let open = Rc::<Open>::default();
    let (connection, mut driver, _peer) = connected(&open).await;
    connection.take();
    assert_eq!((0, 1), (open.idle(), open.in_use()));
    connection.give_back();
    assert_eq!((1, 0), (open.idle(), open.in_use()));
    for _ in 0..50 {
        connection.tick(50);
    }
    assert!(!connection.is_closed());
    connection.tick(50);
    assert_eq!((true, 0, 0), (connection.is_closed(), open.idle(), open.in_use()));
    assert_eq!(Event::Ended, poll_fn(|cx| driver.poll(cx)).await);
}
