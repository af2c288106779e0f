//! The floor: an epoll loop that repeats the same request and counts the responses.
//!
//! It makes one send and one receive for each response, and one wait for all that have arrived. That is the cost of the
//! kernel, and any further cost of a client is its own work. The length of a response is read from the first one; all
//! others must have that length and status 200. Nothing else is checked, and nothing is kept.
//!
//! usage: floor ADDRESS:PORT REQUESTS CONNECTIONS

use std::io::{self, Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Instant;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

const STATUS_LINE: &[u8] = b"HTTP/1.1 200 ";
const END_OF_HEAD: &[u8] = b"\r\n\r\n";
/// Larger than any response, so that one receive reads a complete one.
const BUFFER_BYTES: usize = 64 * 1024;
/// The bound of events that one wait returns.
const EVENTS: usize = 512;

/// A connection with a request in flight.
struct Connection {
    stream: TcpStream,
    received: usize,
}

/// The length that all responses have.
struct Response {
    bytes: usize,
    body_bytes: usize,
}

impl Response {
    /// Parses the first bytes of a response, which must have the complete head.
    fn of(received: &[u8]) -> io::Result<Self> {
        let head_bytes = received
            .windows(END_OF_HEAD.len())
            .position(|four| four == END_OF_HEAD)
            .ok_or_else(|| Error::new(ErrorKind::InvalidData, "a response whose headers arrive in pieces"))?;
        let head = String::from_utf8_lossy(&received[..head_bytes]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let body_bytes = length
            .and_then(|length| length.trim().parse().ok())
            .ok_or_else(|| Error::new(ErrorKind::InvalidData, "a response without a content-length"))?;
        Ok(Self { bytes: head_bytes + END_OF_HEAD.len() + body_bytes, body_bytes })
    }
}

fn main() -> io::Result<()> {
    let usage = || Error::new(ErrorKind::InvalidInput, "usage: floor ADDRESS:PORT REQUESTS CONNECTIONS");
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().ok_or_else(usage)?;
    let mut number = || arguments.next().and_then(|text| text.parse::<usize>().ok()).ok_or_else(usage);
    let (requests, connections) = (number()?, number()?);

    let begun = Instant::now();
    let body_bytes = make_requests(&address, requests, connections)?;
    let seconds = begun.elapsed().as_secs_f64();
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    let cpu_s = (used.user_time().num_microseconds() + used.system_time().num_microseconds()) as f64 / 1e6;
    writeln!(
        io::stdout(),
        r#"{{"requests":{requests},"body_bytes":{body_bytes},"elapsed_s":{seconds},"cpu_s":{cpu_s}}}"#
    )
}

/// Makes all requests, and returns the bytes of the bodies of their responses.
fn make_requests(address: &str, requests: usize, connections: usize) -> io::Result<usize> {
    let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let mut in_flight = Vec::with_capacity(connections.min(requests));
    for key in 0..connections.min(requests) {
        let mut stream = TcpStream::connect(address)?;
        epoll.add(stream.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, key as u64))?;
        stream.write_all(request.as_bytes())?;
        in_flight.push(Connection { stream, received: 0 });
    }

    let mut response: Option<Response> = None;
    let (mut sent, mut finished) = (in_flight.len(), 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut events = [EpollEvent::empty(); EVENTS];
    while finished < requests {
        let ready = epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..ready] {
            let connection = &mut in_flight[event.data() as usize];
            // Level-triggered: there is data, so that a blocking read does not block.
            let received = connection.stream.read(&mut buffer)?;
            if received == 0 {
                return Err(Error::new(ErrorKind::UnexpectedEof, "the server has closed a connection"));
            }
            if connection.received == 0 && !buffer[..received].starts_with(STATUS_LINE) {
                return Err(Error::new(ErrorKind::InvalidData, "a response that does not begin with HTTP/1.1 200"));
            }
            connection.received += received;
            let whole = match &response {
                Some(Response { bytes, .. }) => *bytes,
                None => response.insert(Response::of(&buffer[..received])?).bytes,
            };
            if connection.received > whole {
                return Err(Error::new(ErrorKind::InvalidData, "a response that is longer than the first"));
            }
            if connection.received < whole {
                continue;
            }
            connection.received = 0;
            finished += 1;
            if sent < requests {
                connection.stream.write_all(request.as_bytes())?;
                sent += 1;
            }
        }
    }
    Ok(finished * response.map_or(0, |response| response.body_bytes))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Responds to every request of one connection, of any length.
    fn serving(response: &'static [u8]) -> io::Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        std::thread::spawn(move || -> io::Result<()> {
            let (mut stream, _) = listener.accept()?;
            while stream.read(&mut [0; 1024])? > 0 {
                stream.write_all(response)?;
            }
            Ok(())
        });
        Ok(address)
    }

    #[test]
    fn responses_are_counted_with_their_bodies() -> io::Result<()> {
        let address = serving(b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 2\r\n\r\nab")?;
        assert_eq!(10, make_requests(&address, 5, 1)?);
        Ok(())
    }

    #[test]
    fn a_wrong_response_is_an_error() -> io::Result<()> {
        for (expected, response) in [
            ("a response that does not begin with HTTP/1.1 200", &b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"[..]),
            ("a response without a content-length", b"HTTP/1.1 200 OK\r\n\r\n"),
            ("a response whose headers arrive in pieces", b"HTTP/1.1 200 OK\r\n"),
            ("a response that is longer than the first", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab"),
        ] {
            let found = make_requests(&serving(response)?, 2, 1).err().map(|error| error.to_string());
            assert_eq!(Some(expected.to_owned()), found);
        }
        Ok(())
    }
}
