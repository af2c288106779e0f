//! Reads one response from bytes, however they are cut into reads. No I/O: bytes go in, a response comes out.
//!
//! Bytes are looked at where they were read; only a head that comes in pieces is put together first. So an idle or
//! waiting connection has no buffer of its own, which is most of the memory, and of the cache misses, of ten thousand
//! of them.

use crate::http::h1::chunked;
use crate::http::h1::head::{self, Head, HeaderRoom, MAX_HEAD_BYTES, ParsedHead};
use crate::http::h1::meaning::Framing;
use crate::http::h1::parse::parse;
pub use crate::http::incoming::Wanted;
use crate::http::incoming::{IncomingBody, MIN_GROWTH_BYTES};
use crate::http::redirect::Redirects;
use crate::model::error::{ErrorKind, Failure};

/// Interim responses (1xx) before the final one.
const MAX_INTERIM: u32 = 100;
/// So much of a body that nobody wants is read rather than closing the connection, which would cost more.
const MAX_DRAINED_BYTES: u64 = 64 * 1024;

#[derive(Debug)]
enum State {
    Head,
    Length {
        left: u64,
    },
    Chunked(chunked::Decoder),
    UntilClose,
    /// The rest is not wanted, and not known to be little.
    LeftOff,
    Done,
}

/// A response in the making.
#[derive(Debug)]
pub struct ResponseReader {
    state: State,
    to_head: bool,
    /// Nobody wants the bodies of those that are followed.
    redirects: Redirects,
    /// A head that came in pieces, as far as it came.
    partial: Vec<u8>,
    /// How far `partial` has been searched for the end of the head.
    searched: usize,
    interim: u32,
    /// The final response's head, once it is whole.
    pub head: Option<Head>,
    pub body: IncomingBody,
    /// Bytes came after the end of the response, which nobody asked for.
    pub excess: bool,
}

impl ResponseReader {
    /// `to_head`: the request's method is HEAD, so that no body comes whatever the head says.
    pub fn new(to_head: bool, body: IncomingBody, redirects: Redirects) -> Self {
        Self {
            state: State::Head,
            to_head,
            redirects,
            partial: Vec::new(),
            searched: 0,
            interim: 0,
            head: None,
            body,
            excess: false,
        }
    }

    /// Returns the bytes of memory that it has taken for what it was fed.
    pub fn held_bytes(&self) -> usize {
        let headers = self.head.as_ref().map_or(0, |head| head.headers.bytes());
        self.body.bytes.capacity() + self.partial.capacity() + headers
    }

    /// Returns whether what comes of the body is wanted, as far as is known.
    pub fn has_wanted_body(&self) -> bool {
        self.head.is_some() && !self.drops()
    }

    /// Returns whether nothing more is to be read.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done | State::LeftOff)
    }

    /// Returns whether the response has come to its end, and nothing behind it.
    pub fn is_at_end(&self) -> bool {
        matches!(self.state, State::Done) && !self.excess
    }

    /// Returns whether what is still to come is little, and not wanted.
    pub fn is_draining(&self) -> bool {
        !self.is_done() && self.head.is_some() && self.drops()
    }

    /// Takes in what was read.
    ///
    /// # Errors
    /// `protocol` or `body_too_large`. If `head` is there, the head was fine and the body is not; what is in `body` came.
    pub fn feed(&mut self, data: &[u8]) -> Result<(), Failure> {
        let fed = self.feed_part(data);
        if self.head.is_none() {
            return fed;
        }
        match self.body.wanted {
            // What came with the head is kept, and no more is waited for.
            Wanted::AtMost(_) => fed.and_then(|()| self.body.check()),
            Wanted::FirstBytes(_) | Wanted::Nothing if self.drops() && !self.is_done() => {
                let is_little = matches!(self.state, State::Length { left } if left <= MAX_DRAINED_BYTES);
                // Whatever is wrong with it is behind what is wanted.
                if !is_little || fed.is_err() {
                    self.leave_off();
                }
                Ok(())
            }
            Wanted::FirstBytes(_) | Wanted::Nothing => fed,
        }
    }

    /// Leaves off where it is, of a body that is not wanted any further.
    pub fn leave_off(&mut self) {
        self.state = State::LeftOff;
    }

    /// Whether what comes of the body is dropped.
    fn drops(&self) -> bool {
        match self.body.wanted {
            Wanted::AtMost(_) => false,
            Wanted::FirstBytes(_) => self.body.is_cut,
            Wanted::Nothing => true,
        }
    }

    fn feed_part(&mut self, data: &[u8]) -> Result<(), Failure> {
        if !matches!(self.state, State::Head) {
            return self.feed_body(data);
        }
        if self.partial.is_empty() {
            if let Some(used) = self.feed_heads(data)? {
                return self.feed_body(&data[used..]);
            }
            return Ok(());
        }
        // A head is parsed when its end is there, not at each byte of one that comes drop by drop.
        let mut partial = std::mem::take(&mut self.partial);
        if partial.capacity() - partial.len() < data.len() {
            // As with a body: what is taken is set aside.
            partial.reserve_exact(data.len().max(MIN_GROWTH_BYTES));
        }
        partial.extend_from_slice(data);
        if !has_end(&partial, &mut self.searched) && partial.len() <= MAX_HEAD_BYTES && is_begin(&partial) {
            self.partial = partial;
            return Ok(());
        }
        match self.feed_heads(&partial)? {
            Some(used) => self.feed_body(&partial[used..]),
            None => Ok(()),
        }
    }

    /// The connection was closed: that is an end for some bodies, and for nothing else.
    ///
    /// # Errors
    /// `closed`: the response is not whole.
    pub fn end(&mut self) -> Result<(), Failure> {
        match self.state {
            State::UntilClose | State::Done | State::LeftOff => {
                self.state = State::Done;
                Ok(())
            }
            State::Length { .. } if self.is_draining() => {
                self.leave_off();
                Ok(())
            }
            State::Head if self.partial.is_empty() => Err(closed("without an answer")),
            // What came may be broken rather than cut off.
            State::Head => {
                parse(&self.partial, self.to_head)?;
                Err(closed("in the middle of the head"))
            }
            State::Length { .. } | State::Chunked(_) => Err(closed("in the middle of the body")),
        }
    }

    /// Reads heads, interim ones first. How many bytes they are, or `None` if the final one is not whole: then what came of it
    /// is in `partial`.
    fn feed_heads(&mut self, data: &[u8]) -> Result<Option<usize>, Failure> {
        let mut used = 0;
        while let Some((head, length)) = parse(&data[used..], self.to_head)? {
            used += length;
            if head.status >= 200 {
                self.begin_body(head);
                return Ok(Some(used));
            }
            if head.status == 101 {
                return Err(Failure::new(ErrorKind::Protocol, "the server switched protocols without being asked"));
            }
            self.interim += 1;
            if self.interim > MAX_INTERIM {
                let message = format!("more than {MAX_INTERIM} interim responses");
                return Err(Failure::new(ErrorKind::Protocol, message));
            }
            if used == data.len() {
                return Ok(None);
            }
        }
        self.partial = data[used..].to_vec();
        self.searched = 0;
        Ok(None)
    }

    fn begin_body(&mut self, head: Head) {
        self.state = match head.framing {
            Framing::Empty => State::Done,
            Framing::Length(left) => State::Length { left },
            Framing::Chunked => State::Chunked(chunked::Decoder::default()),
            Framing::UntilClose => State::UntilClose,
        };
        if self.redirects.lead_on(head.status, &head.headers) {
            self.body.wanted = Wanted::Nothing;
        }
        if let Framing::Length(length) = head.framing {
            self.body.set_length(length);
        }
        self.head = Some(head);
    }

    fn feed_body(&mut self, data: &[u8]) -> Result<(), Failure> {
        if data.is_empty() {
            return Ok(());
        }
        match &mut self.state {
            State::Head | State::LeftOff => {}
            State::Done => self.excess = true,
            State::Length { left } => {
                let length = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= length as u64;
                if *left == 0 {
                    self.state = State::Done;
                }
                self.excess = length < data.len();
                self.body.make_room(length);
                self.body.append(&data[..length]);
            }
            State::UntilClose => {
                self.body.make_room(data.len());
                self.body.append(data);
            }
            State::Chunked(decoder) => {
                self.body.make_room(data.len());
                let progress = decoder.decode(data, |piece| self.body.append(piece));
                let progress = progress.map_err(|message| Failure::new(ErrorKind::Protocol, message))?;
                if progress.done {
                    self.state = State::Done;
                    self.excess = progress.consumed < data.len();
                }
            }
        }
        Ok(())
    }
}

/// An answer that one read has brought whole, as it lies there.
#[derive(Debug)]
pub struct WholeAnswer<'a> {
    pub head: ParsedHead<'a>,
    /// `None`: it is not wanted.
    pub body: Option<&'a [u8]>,
}

/// The answer in `data`, if it begins and ends there and nothing about it needs a closer look, as most do. Anything else is
/// for a [`ResponseReader`], errors included.
pub fn whole<'a>(
    data: &'a [u8],
    room: &'a mut HeaderRoom<'a>,
    to_head: bool,
    wanted: Wanted,
) -> Option<WholeAnswer<'a>> {
    let head = head::parse_in_place(data, room, to_head).ok()??;
    let body = &data[head.length..];
    let length = match head.framing {
        Framing::Empty => 0,
        Framing::Length(length) => length,
        Framing::Chunked | Framing::UntilClose => return None,
    };
    let is_plain = match wanted {
        Wanted::Nothing => true,
        Wanted::AtMost(bytes) | Wanted::FirstBytes(bytes) => !head.encoded && length <= bytes,
    };
    let is_whole = head.status >= 200 && body.len() as u64 == length;
    (is_whole && is_plain).then_some(WholeAnswer { head, body: (wanted != Wanted::Nothing).then_some(body) })
}

fn closed(when: &str) -> Failure {
    Failure::new(ErrorKind::Closed, format!("the server closed the connection {when}"))
}

/// Whether an empty line is in `data`; `searched` remembers how far it was looked for.
fn has_end(data: &[u8], searched: &mut usize) -> bool {
    for at in memchr::memchr_iter(b'\n', &data[*searched..]) {
        let after = &data[*searched + at + 1..];
        if matches!(after, [b'\n', ..] | [b'\r', b'\n', ..]) {
            return true;
        }
    }
    // The line break of an end that is half there is looked at again.
    *searched = data.len().saturating_sub(3);
    false
}

/// Whether it may still become a head.
fn is_begin(data: &[u8]) -> bool {
    let begin = &data[..data.len().min(7)];
    *begin == b"HTTP/1."[..begin.len()]
}

#[cfg(test)]
mod tests;
