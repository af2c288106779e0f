//! Servers that send the bytes that a test specifies.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use socket2::{Domain, Socket, Type};

/// A port whose backlog is full: connecting to it lasts until the connect timeout.
pub struct Full {
    pub address: SocketAddr,
    _open: (Socket, [TcpStream; 2]),
}

impl Full {
    pub fn at(address: Ipv4Addr) -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        listener.bind(&SocketAddr::from((address, 0)).into()).expect("a free port");
        listener.listen(1).expect("a listener");
        let address = listener.local_addr().expect("a bound address").as_socket().expect("an IPv4 address");
        // Linux queues one connection more than the backlog, and ignores all further ones.
        let waiting = [(); 2].map(|()| TcpStream::connect(address).expect("room in the backlog"));
        Self { address, _open: (listener, waiting) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// A server that calls a function for each connection, on its own thread. It closes the connection when the call returns.
pub struct Scripted {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Scripted {
    /// Starts a server; `serve` gets each connection and its number, from 0.
    pub fn start(serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let connections = Arc::<AtomicUsize>::default();
        let (counted, serve) = (connections.clone(), Arc::new(serve));
        // The thread ends with the process: nothing wakes a thread from `accept`.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, serve) = (stream.expect("a connection"), serve.clone());
                let number = counted.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || serve(stream, number));
            }
        });
        Self { address, connections }
    }

    /// Starts a server that responds to each request with `reply`, and keeps its connections.
    pub fn responding(reply: impl Into<Vec<u8>>) -> Self {
        let reply = reply.into();
        Self::start(move |mut stream, _| while read_head(&mut stream).is_some() && stream.write_all(&reply).is_ok() {})
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Reads the head of a request. Returns `None` if the client has closed the connection.
pub fn read_head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    Some(String::from_utf8(head).expect("ASCII"))
}

/// Returns a complete response with this body.
pub fn response(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
