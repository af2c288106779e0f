//! A client that sends given bytes, and returns the bytes that it receives.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use headgate_testserver::{Config, Server};

/// Far longer than any test takes; only a failing test waits for it.
const MAX_WAIT: Duration = Duration::from_secs(120);

pub fn start() -> Server {
    Server::start(Config { threads: Some(2), ..Config::default() }).expect("a free port")
}

/// Waits until a condition holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + MAX_WAIT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::yield_now();
    }
}

pub struct Client {
    stream: TcpStream,
}

pub struct Response {
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("text")
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Client {
    pub fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).expect("the server listens");
        stream.set_read_timeout(Some(MAX_WAIT)).expect("a valid timeout");
        stream.set_write_timeout(Some(MAX_WAIT)).expect("a valid timeout");
        stream.set_nodelay(true).expect("a socket");
        Self { stream }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server reads");
    }

    pub fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        self.response()
    }

    /// Reads one response that has a content-length.
    pub fn response(&mut self) -> Response {
        let head = self.head();
        let length = Response { head: head.clone(), body: Vec::new() }
            .field("Content-Length")
            .map_or(0, |length| length.parse().expect("a length"));
        Response { head, body: self.exactly(length) }
    }

    pub fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.exactly(1));
        }
        String::from_utf8(head).expect("an ASCII head")
    }

    pub fn exactly(&mut self, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        self.stream.read_exact(&mut read).expect("so many bytes");
        read
    }

    /// Reads up to the end of the connection, and returns the bytes and how it ended.
    pub fn rest(&mut self) -> (Vec<u8>, io::Result<()>) {
        let mut rest = Vec::new();
        let end = self.stream.read_to_end(&mut rest).map(|_| ());
        (rest, end)
    }

    /// Reads up to an orderly end of the connection.
    pub fn until_end(&mut self) -> Vec<u8> {
        let (rest, end) = self.rest();
        end.expect("an orderly end");
        rest
    }

    pub fn close_sending_half(&self) {
        self.stream.shutdown(Shutdown::Write).expect("an open connection");
    }
}
