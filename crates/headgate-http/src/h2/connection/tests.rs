use std::future::poll_fn;
use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::dial::stream::Stream;
use crate::open::OpenConnections;

/// Opens a connection and returns it with the server's end.
async fn connect(open: &Rc<OpenConnections>) -> (Rc<Http2Connection>, Http2Driver, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let stream = Stream::Plain(TcpStream::connect(address).await.expect("the server listens"));
    let (peer, _) = listener.accept().await.expect("a connection");
    let plain =
        Connection { stream, remote_addr: "".into(), remote: Remote::UNKNOWN, is_http2: true, forwarding: None };
    let options = Http2Options { max_streams: 100, window_bytes: 65_535 };
    let (connection, driver) = Http2Connection::begin(plain, options, open.permit()).await.expect("it is open");
    (connection, driver, peer)
}

#[tokio::test]
async fn a_silent_server_is_sent_a_ping_and_its_connection_is_closed_without_a_reply() {
    let (connection, mut driver, mut peer) = connect(&Rc::<OpenConnections>::default()).await;
    connection.add_stream();
    // Bytes that arrived before the first tick count as a sign of life.
    for _ in 0..=SILENT_TICKS {
        connection.tick(50);
    }
    let mut sent = Vec::new();
    let has_ping = |sent: &[u8]| sent.windows(5).any(|frame| frame == [0, 0, 8, 6, 0]);
    while !has_ping(&sent) {
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
    assert_eq!((true, DriverEvent::Closed), (connection.is_closed(), poll_fn(|cx| driver.poll(cx)).await));
    let reason = connection.close_reason();
    let Some(CloseReason::Failed(failure)) = reason else { panic!("it failed: {reason:?}") };
    assert_eq!(ErrorKind::Timeout, failure.kind);
}

#[tokio::test]
async fn a_suspect_connection_takes_requests_once_bytes_have_arrived() {
    let (connection, mut driver, mut peer) = connect(&Rc::<OpenConnections>::default()).await;
    let mut reads = connection.reads();
    let (settings, known) = ([0, 0, 0, 4, 0, 0, 0, 0, 0], [0, 0, 0, 4, 1, 0, 0, 0, 0]);
    for sign_of_life in [settings, known] {
        connection.suspect(reads);
        assert_eq!(0, connection.stream_limit());
        peer.write_all(&sign_of_life).await.expect("it is open");
        assert_eq!(DriverEvent::LimitChanged, poll_fn(|cx| driver.poll(cx)).await);
        connection.suspect(reads);
        assert_eq!(100, connection.stream_limit(), "bytes have come since");
        reads = connection.reads();
    }
}

#[tokio::test]
async fn a_connection_without_requests_counts_as_idle_and_is_closed_after_a_while() {
    let open = Rc::<OpenConnections>::default();
    let (connection, mut driver, _peer) = connect(&open).await;
    connection.add_stream();
    assert_eq!((0, 1), (open.idle(), open.in_use()));
    connection.remove_stream();
    assert_eq!((1, 0), (open.idle(), open.in_use()));
    for _ in 0..50 {
        connection.tick(50);
    }
    assert!(!connection.is_closed());
    connection.tick(50);
    assert_eq!((true, 0, 0), (connection.is_closed(), open.idle(), open.in_use()));
    assert_eq!(DriverEvent::Closed, poll_fn(|cx| driver.poll(cx)).await);
}
