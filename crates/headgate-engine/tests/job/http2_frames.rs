//! An HTTP/2 server whose frames a test writes one by one (RFC 9113 sections 4 and 6).

use std::io::{Read, Write};
use std::net::TcpStream;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GO_AWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// `:status: 200`, from the static table (RFC 7541 appendix A).
pub const STATUS_200: &[u8] = &[0x88];
pub const NO_ERROR: u32 = 0;
pub const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;
pub const HTTP_1_1_REQUIRED: u32 = 13;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// The server's end of a connection.
pub struct Peer<S = TcpStream> {
    pub stream: S,
    /// The flow-control window that the client announces for each stream.
    pub window: u32,
}

impl<S: Read + Write> Peer<S> {
    /// Reads the client's preface, and announces how many streams it may open at once.
    pub fn greet(stream: S, max_streams: u32) -> Option<Self> {
        let mut peer = Self::listen(stream)?;
        peer.allow(max_streams)?;
        Some(peer)
    }

    /// Reads the client's preface, and announces nothing.
    pub fn listen(mut stream: S) -> Option<Self> {
        let mut preface = [0; PREFACE.len()];
        stream.read_exact(&mut preface).ok()?;
        assert_eq!(PREFACE, preface);
        Some(Self { stream, window: 65_535 })
    }

    pub fn allow(&mut self, max_streams: u32) -> Option<()> {
        self.send(SETTINGS, 0, 0, &[&[0, 3][..], &max_streams.to_be_bytes()].concat())
    }

    /// Sends a frame. Returns `None` if the client has closed the connection.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Option<()> {
        let [_, high, middle, low] = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![high, middle, low, kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame).ok()
    }

    /// Reads the next frame. Returns `None` if the client has closed the connection.
    pub fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        if head[3] == SETTINGS {
            for setting in payload.chunks_exact(6).filter(|setting| setting.starts_with(&[0, 4])) {
                self.window = u32::from_be_bytes(setting[2..].try_into().unwrap());
            }
        }
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// Reads frames up to one of this kind, and acknowledges settings and pings before it.
    pub fn read_to(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.read()?;
            if frame.kind == kind {
                return Some(frame);
            }
            if matches!(frame.kind, SETTINGS | PING) && frame.flags & ACK == 0 {
                self.send(frame.kind, ACK, 0, if frame.kind == PING { &frame.payload } else { &[] })?;
            }
        }
    }

    /// Waits for a request, and returns its stream.
    pub fn request(&mut self) -> Option<u32> {
        self.read_to(HEADERS).map(|head| head.stream)
    }

    pub fn respond(&mut self, stream: u32, body: &[u8]) -> Option<()> {
        self.send(HEADERS, END_HEADERS, stream, STATUS_200)?;
        self.send(DATA, END_STREAM, stream, body)
    }

    pub fn reset(&mut self, stream: u32, code: u32) -> Option<()> {
        self.send(RST_STREAM, 0, stream, &code.to_be_bytes())
    }

    pub fn go_away(&mut self, last: u32, code: u32) -> Option<()> {
        self.send(GO_AWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
    }

    /// Responds to this many requests, and announces before the last of them that it accepts no more.
    pub fn serve_some(&mut self, count: usize, body: &[u8]) -> Option<()> {
        for left in (0..count).rev() {
            let stream = self.request()?;
            if left == 0 {
                self.go_away(stream, NO_ERROR)?;
            }
            self.respond(stream, body)?;
        }
        Some(())
    }

    /// Responds to all requests until the client closes the connection.
    pub fn serve(&mut self, body: &[u8]) -> Option<()> {
        loop {
            let stream = self.request()?;
            self.respond(stream, body)?;
        }
    }
}
