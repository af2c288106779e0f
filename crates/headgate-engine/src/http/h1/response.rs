//! Reads one response from bytes, however they are cut into reads. No I/O: bytes go in, a response comes out.
//!
//! Bytes are looked at where they were read; only a head that comes in pieces is put together first. So an idle or
//! waiting connection has no buffer of its own, which is most of the memory, and of the cache misses, of ten thousand
//! of them.

use crate::http::h1::chunked;
use crate::http::h1::head::{self, Framing, Head, HeaderRoom, MAX_HEAD_BYTES, ParsedHead};
use crate::model::error::{ErrorKind, Failure};
use crate::model::message::OptionName;
use crate::model::reason::Reason;

/// Interim responses (1xx) before the final one.
const MAX_INTERIM: u32 = 100;
/// What a body's memory grows by beyond what came: as much as it has, within these bounds.
const MIN_GROWTH_BYTES: usize = 4096;
const MAX_GROWTH_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
enum State {
    Head,
    Length { left: u64 },
    Chunked(chunked::Decoder),
    UntilClose,
    Done,
}

/// A response in the making.
#[derive(Debug)]
pub struct ResponseReader {
    state: State,
    to_head: bool,
    max_body_bytes: u64,
    /// A head that came in pieces, as far as it came.
    partial: Vec<u8>,
    /// How far `partial` has been searched for the end of the head.
    searched: usize,
    interim: u32,
    /// The final response's head, once it is whole.
    pub head: Option<Head>,
    pub body: Vec<u8>,
    /// Bytes received for the body, before any decoding but that of chunks.
    pub body_bytes: u64,
    /// Bytes came after the end of the response, which nobody asked for.
    pub excess: bool,
}

impl ResponseReader {
    /// `to_head`: the request's method is HEAD, so that no body comes whatever the head says.
    pub fn new(to_head: bool, max_body_bytes: u64) -> Self {
        Self {
            state: State::Head,
            to_head,
            max_body_bytes,
            partial: Vec::new(),
            searched: 0,
            interim: 0,
            head: None,
            body: Vec::new(),
            body_bytes: 0,
            excess: false,
        }
    }

    /// Memory that it has taken for what it was fed.
    pub fn held_bytes(&self) -> usize {
        let headers = self.head.as_ref().map_or(0, |head| head.headers.bytes());
        self.body.capacity() + self.partial.capacity() + headers
    }

    /// How much more memory it may take for what one read brings, beyond as many bytes again.
    pub fn growth_bytes(&self) -> usize {
        self.body.len().clamp(MIN_GROWTH_BYTES, MAX_GROWTH_BYTES)
    }

    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Takes in what was read.
    ///
    /// # Errors
    /// `protocol` or `body_too_large`. If `head` is there, the head was fine and the body is not.
    pub fn feed(&mut self, data: &[u8]) -> Result<(), Failure> {
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
            State::UntilClose | State::Done => {
                self.state = State::Done;
                Ok(())
            }
            State::Head if self.partial.is_empty() => Err(closed("without an answer")),
            // What came may be broken rather than cut off.
            State::Head => {
                head::parse(&self.partial, self.to_head)?;
                Err(closed("in the middle of the head"))
            }
            State::Length { .. } | State::Chunked(_) => Err(closed("in the middle of the body")),
        }
    }

    /// Reads heads, interim ones first. How many bytes they are, or `None` if the final one is not whole: then what came of it
    /// is in `partial`.
    fn feed_heads(&mut self, data: &[u8]) -> Result<Option<usize>, Failure> {
        let mut used = 0;
        while let Some((head, length)) = head::parse(&data[used..], self.to_head)? {
            used += length;
            if head.status >= 200 {
                self.begin_body(head)?;
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

    fn begin_body(&mut self, head: Head) -> Result<(), Failure> {
        let framing = head.framing;
        self.head = Some(head);
        self.state = match framing {
            Framing::Empty => State::Done,
            Framing::Length(length) if length > self.max_body_bytes => {
                return Err(self.too_large(&format!("{length} bytes")));
            }
            Framing::Length(left) => State::Length { left },
            Framing::Chunked => State::Chunked(chunked::Decoder::default()),
            Framing::UntilClose => State::UntilClose,
        };
        Ok(())
    }

    fn feed_body(&mut self, data: &[u8]) -> Result<(), Failure> {
        if data.is_empty() {
            return Ok(());
        }
        self.make_room(data.len());
        match &mut self.state {
            State::Head => Ok(()),
            State::Done => {
                self.excess = true;
                Ok(())
            }
            State::Length { left } => {
                let length = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                self.body.extend_from_slice(&data[..length]);
                self.body_bytes += length as u64;
                *left -= length as u64;
                if *left == 0 {
                    self.state = State::Done;
                }
                self.excess = length < data.len();
                Ok(())
            }
            State::UntilClose => {
                if self.body_bytes + data.len() as u64 > self.max_body_bytes {
                    return Err(self.too_large("more"));
                }
                self.body.extend_from_slice(data);
                self.body_bytes += data.len() as u64;
                Ok(())
            }
            State::Chunked(decoder) => {
                let progress = decoder.decode(data, &mut self.body, self.max_body_bytes);
                self.body_bytes = self.body.len() as u64;
                let progress = progress.map_err(|message| Failure::new(ErrorKind::Protocol, message))?;
                let Some(progress) = progress else { return Err(self.too_large("more")) };
                if progress.done {
                    self.state = State::Done;
                    self.excess = progress.consumed < data.len();
                }
                Ok(())
            }
        }
    }

    /// Makes room for so many bytes more, without leaving it to `Vec` how much that is: it is set aside before it is taken.
    fn make_room(&mut self, incoming: usize) {
        let left = match self.state {
            State::Length { left } => usize::try_from(left).unwrap_or(usize::MAX),
            State::Chunked(_) | State::UntilClose => usize::MAX,
            State::Head | State::Done => return,
        };
        if self.body.capacity() - self.body.len() < incoming {
            self.body.reserve_exact(self.growth_bytes().max(incoming).min(left));
        }
    }

    fn too_large(&self, bytes: &str) -> Failure {
        let detail = format!("{bytes}, where {} bytes are allowed", self.max_body_bytes);
        Failure::new(ErrorKind::BodyTooLarge, Reason::new("the body is larger than it may be").with(detail))
            .with_option(OptionName::MaxBodyBytes)
    }
}

/// An answer that one read has brought whole, as it lies there.
#[derive(Debug)]
pub struct WholeAnswer<'a> {
    pub head: ParsedHead<'a>,
    pub body: &'a [u8],
}

/// The answer in `data`, if it begins and ends there and nothing about it needs a closer look, as most do. Anything else is
/// for a [`ResponseReader`], errors included.
pub fn whole<'a>(
    data: &'a [u8],
    room: &'a mut HeaderRoom<'a>,
    to_head: bool,
    max_body_bytes: u64,
) -> Option<WholeAnswer<'a>> {
    let head = head::parse_in_place(data, room, to_head).ok()??;
    let body = &data[head.length..];
    let length = match head.framing {
        Framing::Empty => 0,
        Framing::Length(length) => length,
        Framing::Chunked | Framing::UntilClose => return None,
    };
    let is_plain = head.status >= 200 && !head.encoded && body.len() as u64 == length && length <= max_body_bytes;
    is_plain.then_some(WholeAnswer { head, body })
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: u64 = 1000;

    /// Status, body, and whether more followed; or what went wrong, and the status if the head had come.
    type Read = Result<(u16, Vec<u8>, bool), (ErrorKind, Option<u16>)>;

    /// Reads `data` in pieces of these lengths, then the end of the connection.
    fn read(data: &[u8], pieces: &[usize]) -> Read {
        let mut reader = ResponseReader::new(false, MAX);
        let mut rest = data;
        let mut lengths = pieces.iter().cycle();
        let outcome = loop {
            if rest.is_empty() {
                break reader.end();
            }
            let (piece, after) = rest.split_at(rest.len().min(*lengths.next().expect("cycled")));
            rest = after;
            if let Err(failure) = reader.feed(piece) {
                break Err(failure);
            }
        };
        let status = reader.head.as_ref().map(|head| head.status);
        match outcome {
            Ok(()) => Ok((status.unwrap_or_default(), reader.body, reader.excess)),
            Err(failure) => Err((failure.kind, status)),
        }
    }

    fn text(parts: &[&str]) -> Vec<u8> {
        parts.concat().into_bytes()
    }

    #[test]
    fn responses_are_read_to_their_end() {
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
        for (expected, data) in [
            ((200, "hello", false), text(&["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"])),
            ((200, "hello", false), text(&["HTTP/1.1 200 OK\r\n\r\nhello"])),
            (
                (200, "hello", false),
                text(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]),
            ),
            ((201, "hello", false), text(&[interim, "HTTP/1.1 201 Made\r\nContent-Length: 5\r\n\r\nhello"])),
            ((204, "", false), text(&["HTTP/1.1 204 No Content\r\n\r\n"])),
            ((200, "hell", true), text(&["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello"])),
            ((204, "", true), text(&["HTTP/1.1 204 No Content\r\n\r\nbody"])),
        ] {
            let (status, body, excess) = expected;
            for pieces in [&[10_000][..], &[1], &[3, 7]] {
                let expected = Ok((status, body.as_bytes().to_vec(), excess));
                assert_eq!(expected, read(&data, pieces), "{}", String::from_utf8_lossy(&data));
            }
        }
    }

    #[test]
    fn what_goes_wrong_is_told_apart() {
        let endless_interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(101);
        for (kind, status, data) in [
            (ErrorKind::Closed, None, text(&[""])),
            (ErrorKind::Closed, None, text(&["HTTP/1.1 200 OK\r\nContent-"])),
            (ErrorKind::Closed, Some(200), text(&["HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello"])),
            (
                ErrorKind::Closed,
                Some(200),
                text(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"]),
            ),
            (ErrorKind::Protocol, None, text(&["<html>no head at all"])),
            (ErrorKind::Protocol, None, text(&["HTTP/1.1 101 Switching Protocols\r\n\r\n"])),
            (ErrorKind::Protocol, None, text(&[&endless_interim])),
            (ErrorKind::Protocol, Some(200), text(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello"])),
            (ErrorKind::BodyTooLarge, Some(200), text(&["HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n"])),
            (ErrorKind::BodyTooLarge, Some(200), text(&["HTTP/1.1 200 OK\r\n\r\n", &"x".repeat(1001)])),
        ] {
            for pieces in [&[100_000][..], &[1], &[3, 7]] {
                assert_eq!(Err((kind, status)), read(&data, pieces), "{}", String::from_utf8_lossy(&data));
            }
        }
    }

    #[test]
    fn a_head_drop_by_drop_is_not_parsed_at_each_drop() {
        let mut searched = 0;
        let mut data = b"HTTP/1.1 200 OK\r\n".to_vec();
        assert!(!has_end(&data, &mut searched));
        assert_eq!(14, searched);
        data.extend(b"\r");
        assert!(!has_end(&data, &mut searched));
        data.extend(b"\n");
        assert!(has_end(&data, &mut searched));
    }

    proptest! {
        #[test]
        fn how_the_bytes_are_cut_does_not_matter(
            head in "(HTTP/1.1 (100|200|204|304|999) x\r\n)?(Content-Length: [0-9]{1,2}\r\n|Transfer-Encoding: chunked\r\n){0,2}(\r?\n)?",
            body in "[0-9a\r\n]{0,40}",
            pieces in proptest::collection::vec(1_usize..9, 1..5),
        ) {
            let data = text(&[&head, &body]);
            prop_assert_eq!(read(&data, &[100_000]), read(&data, &pieces));
            if let Some(whole) = whole(&data, &mut head::header_room(), false, MAX) {
                let expected = Ok((whole.head.status, whole.body.to_vec(), false));
                prop_assert_eq!(expected, read(&data, &[100_000]));
            }
        }
    }
}
