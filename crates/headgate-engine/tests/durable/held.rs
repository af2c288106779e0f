//! A server that responds when the test tells it to.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

/// A server that accepts connections, as the system does for it, and sends no response until it is released.
pub struct Held(TcpListener);

impl Held {
    pub fn new() -> Self {
        Self(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
    }

    pub fn url(&self) -> String {
        format!("http://{}/held", self.0.local_addr().unwrap())
    }

    /// Responds to waiting and to later connections.
    pub fn release(&self) {
        let listener = self.0.try_clone().unwrap();
        // The thread ends with the process: nothing wakes a thread from `accept`.
        thread::spawn(move || listener.incoming().for_each(|stream| greet(stream.unwrap())));
    }
}

/// Reads a request and responds, unless the client has closed the connection meanwhile.
fn greet(mut stream: TcpStream) {
    let mut head = [0; 4096];
    if stream.read(&mut head).is_ok_and(|bytes| bytes > 0) {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\nHello, World!");
    }
}
