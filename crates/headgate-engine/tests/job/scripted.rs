//! Servers that do exactly what a test writes down, byte by byte.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

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
