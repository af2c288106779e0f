//! Servers that do exactly what a test writes down, byte by byte.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use socket2::{Domain, Socket, Type};

/// A port whose backlog is full: connecting to it ends only when its time has passed.
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
        // Linux queues one more than asked for, and answers no more after that.
        let waiting = [(); 2].map(|()| TcpStream::connect(address).expect("room in the backlog"));
        Self { address, _open: (listener, waiting) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// A server of which each connection is one call, on a thread of its own; it closes when the call returns.
pub struct Scripted {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Scripted {
    /// `serve` is given the connection and its number, from 0.
    pub fn start(serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let connections = Arc::<AtomicUsize>::default();
        let (counted, serve) = (connections.clone(), Arc::new(serve));
        // It ends with the process: nothing wakes a thread from `accept`.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, serve) = (stream.expect("a connection"), serve.clone());
                let number = counted.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || serve(stream, number));
            }
        });
        Self { address, connections }
    }

    /// Answers each request on each connection with `answer`, and keeps the connection.
    pub fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |mut stream, _| while read_head(&mut stream).is_some() && stream.write_all(&answer).is_ok() {})
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// The head of a request; `None` where the client has gone.
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

/// A whole response with this body.
pub fn response(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
