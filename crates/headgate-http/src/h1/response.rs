//! Parses one response from bytes, however they are cut into reads. It does no I/O: bytes go in, a response comes out.
//!
//! Bytes are parsed in the buffer that they were read into; only a head that comes in pieces is assembled first. So an idle
//! or waiting connection needs no buffer of its own. With ten thousand connections, buffers would take most of the memory and
//! cause most of the cache misses.

use crate::h1::chunked;
use crate::h1::framing::Framing;
use crate::h1::head::{self, Head, HeaderBuffer, MAX_HEAD_BYTES, ParsedHead};
use crate::h1::parse::parse;
pub(crate) use crate::incoming::WantedBody;
use headgate_core::error::{ErrorKind, Failure};

use crate::incoming::{IncomingBody, MIN_GROWTH_BYTES};
use crate::redirect::Redirects;

/// The most interim responses (1xx) before the final one.
const MAX_INTERIM: u32 = 100;
/// The longest unwanted rest of a body that is read to keep the connection, because a new connection would cost more.
const MAX_DRAINED_BYTES: u64 = 64 * 1024;

#[derive(Debug)]
enum ReaderState {
    Head,
    Length {
        left: u64,
    },
    Chunked(chunked::ChunkedDecoder),
    UntilClose,
    /// The rest of the body is unwanted and is not read.
    Abandoned,
    Done,
}

/// Parses a response as its bytes come.
#[derive(Debug)]
pub(crate) struct ResponseReader {
    state: ReaderState,
    to_head: bool,
    /// Bodies of redirects that are followed are unwanted.
    redirects: Redirects,
    /// The beginning of a head that comes in pieces.
    partial: Vec<u8>,
    /// The length of the part of `partial` that has been searched for the end of the head.
    searched: usize,
    interim: u32,
    /// The head of the final response, once it is complete.
    pub head: Option<Head>,
    pub body: IncomingBody,
    /// Unrequested bytes came after the end of the response.
    pub excess: bool,
}

impl ResponseReader {
    /// Creates a reader of a response. `to_head`: the request's method is HEAD, so that no body follows, whatever the head
    /// announces.
    pub(crate) fn new(to_head: bool, body: IncomingBody, redirects: Redirects) -> Self {
        Self {
            state: ReaderState::Head,
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

    /// Returns how many bytes of memory the response holds.
    pub(crate) fn held_bytes(&self) -> usize {
        let headers = self.head.as_ref().map_or(0, |head| head.headers.bytes());
        self.body.bytes.capacity() + self.partial.capacity() + headers
    }

    /// Returns whether the head is complete and the next bytes of the body are wanted.
    pub(crate) fn has_wanted_body(&self) -> bool {
        self.head.is_some() && !self.is_dropping()
    }

    /// Returns whether nothing more needs to be read.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, ReaderState::Done | ReaderState::Abandoned)
    }

    /// Returns whether the response is complete and no bytes came after it.
    pub(crate) fn is_at_end(&self) -> bool {
        matches!(self.state, ReaderState::Done) && !self.excess
    }

    /// Returns whether a short, unwanted rest of the body is being read.
    pub(crate) fn is_draining(&self) -> bool {
        !self.is_done() && self.head.is_some() && self.is_dropping()
    }

    /// Parses the bytes of one read.
    ///
    /// # Errors
    /// `protocol` or `body_too_large`. If `head` is set, only the body failed; `body` holds what came before the error.
    pub(crate) fn feed(&mut self, data: &[u8]) -> Result<(), Failure> {
        let fed = self.feed_part(data);
        if self.head.is_none() {
            return fed;
        }
        match self.body.wanted {
            // What came with the head is kept, and no more is read.
            WantedBody::AtMost(_) => fed.and_then(|()| self.body.check()),
            WantedBody::FirstBytes(_) | WantedBody::Nothing if self.is_dropping() && !self.is_done() => {
                let is_short = matches!(self.state, ReaderState::Length { left } if left <= MAX_DRAINED_BYTES);
                // An error can only be in the unwanted part.
                if !is_short || fed.is_err() {
                    self.abandon();
                }
                Ok(())
            }
            WantedBody::FirstBytes(_) | WantedBody::Nothing => fed,
        }
    }

    /// Stops reading a body whose rest is unwanted.
    pub(crate) fn abandon(&mut self) {
        self.state = ReaderState::Abandoned;
    }

    /// Returns whether the next bytes of the body are dropped.
    fn is_dropping(&self) -> bool {
        match self.body.wanted {
            WantedBody::AtMost(_) => false,
            WantedBody::FirstBytes(_) => self.body.is_cut,
            WantedBody::Nothing => true,
        }
    }

    fn feed_part(&mut self, data: &[u8]) -> Result<(), Failure> {
        if !matches!(self.state, ReaderState::Head) {
            return self.feed_body(data);
        }
        if self.partial.is_empty() {
            if let Some(used) = self.feed_heads(data)? {
                return self.feed_body(&data[used..]);
            }
            return Ok(());
        }
        // The head is parsed once its end has come: parsing it after each byte of a slow server would cost too much.
        let mut partial = std::mem::take(&mut self.partial);
        if partial.capacity() - partial.len() < data.len() {
            // As with a body, only reserved memory is used.
            partial.reserve_exact(data.len().max(MIN_GROWTH_BYTES));
        }
        partial.extend_from_slice(data);
        if !has_end(&partial, &mut self.searched) && partial.len() <= MAX_HEAD_BYTES && head::is_head_start(&partial) {
            self.partial = partial;
            return Ok(());
        }
        match self.feed_heads(&partial)? {
            Some(used) => self.feed_body(&partial[used..]),
            None => Ok(()),
        }
    }

    /// Ends the response because the server closed the connection, which completes a body without a length.
    ///
    /// # Errors
    /// `connection_closed`: the response is incomplete.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        match self.state {
            ReaderState::UntilClose | ReaderState::Done | ReaderState::Abandoned => {
                self.state = ReaderState::Done;
                Ok(())
            }
            ReaderState::Length { .. } if self.is_draining() => {
                self.abandon();
                Ok(())
            }
            ReaderState::Head if self.partial.is_empty() => Err(closed("without a response")),
            // The head may be broken rather than cut off.
            ReaderState::Head => {
                parse(&self.partial, self.to_head)?;
                Err(closed("in the middle of the head"))
            }
            ReaderState::Length { .. } | ReaderState::Chunked(_) => Err(closed("in the middle of the body")),
        }
    }

    /// Parses interim heads and the final one. Returns their length in bytes, or `None` if the final head is incomplete: then
    /// its beginning is in `partial`.
    fn feed_heads(&mut self, data: &[u8]) -> Result<Option<usize>, Failure> {
        let mut used = 0;
        while let Some((head, length)) = parse(&data[used..], self.to_head)? {
            used += length;
            if head.status >= 200 {
                self.begin_body(head);
                return Ok(Some(used));
            }
            if head.status == 101 {
                return Err(Failure::new(
                    ErrorKind::Protocol,
                    "the server switched protocols without a request to do so",
                ));
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
            Framing::Empty => ReaderState::Done,
            Framing::Length(left) => ReaderState::Length { left },
            Framing::Chunked => ReaderState::Chunked(chunked::ChunkedDecoder::default()),
            Framing::UntilClose => ReaderState::UntilClose,
        };
        if self.redirects.follows(head.status, &head.headers) {
            self.body.wanted = WantedBody::Nothing;
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
            ReaderState::Head | ReaderState::Abandoned => {}
            ReaderState::Done => self.excess = true,
            ReaderState::Length { left } => {
                let length = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= length as u64;
                if *left == 0 {
                    self.state = ReaderState::Done;
                }
                self.excess = length < data.len();
                self.body.grow_for(length);
                self.body.append(&data[..length]);
            }
            ReaderState::UntilClose => {
                self.body.grow_for(data.len());
                self.body.append(data);
            }
            ReaderState::Chunked(decoder) => {
                self.body.grow_for(data.len());
                let progress = decoder.decode(data, |piece| self.body.append(piece));
                let progress = progress.map_err(|message| Failure::new(ErrorKind::Protocol, message))?;
                if progress.done {
                    self.state = ReaderState::Done;
                    self.excess = progress.consumed < data.len();
                }
            }
        }
        Ok(())
    }
}

/// A complete response that borrows from the bytes of one read.
#[derive(Debug)]
pub struct WholeResponse<'a> {
    pub head: ParsedHead<'a>,
    /// `None`: the body is unwanted.
    pub body: Option<&'a [u8]>,
}

/// Parses a response that begins and ends in `data` and needs no decoding, as most do. Returns `None` for all others and for
/// errors: those are for a [`ResponseReader`].
pub(crate) fn parse_whole<'a>(
    data: &'a [u8],
    buffer: &'a mut HeaderBuffer<'a>,
    to_head: bool,
    wanted: WantedBody,
) -> Option<WholeResponse<'a>> {
    let head = head::parse_in_place(data, buffer, to_head).ok()??;
    let body = &data[head.length..];
    let length = match head.framing {
        Framing::Empty => 0,
        Framing::Length(length) => length,
        Framing::Chunked | Framing::UntilClose => return None,
    };
    let is_plain = match wanted {
        WantedBody::Nothing => true,
        WantedBody::AtMost(bytes) | WantedBody::FirstBytes(bytes) => !head.encoded && length <= bytes,
    };
    let is_whole = head.status >= 200 && body.len() as u64 == length;
    (is_whole && is_plain).then_some(WholeResponse { head, body: (wanted != WantedBody::Nothing).then_some(body) })
}

fn closed(when: &str) -> Failure {
    Failure::new(ErrorKind::ConnectionClosed, format!("the server closed the connection {when}"))
}

/// Returns whether `data` has an empty line; `searched` is how far it has been searched.
fn has_end(data: &[u8], searched: &mut usize) -> bool {
    for at in memchr::memchr_iter(b'\n', &data[*searched..]) {
        let after = &data[*searched + at + 1..];
        if matches!(after, [b'\n', ..] | [b'\r', b'\n', ..]) {
            return true;
        }
    }
    // The end may be cut in two, so the last bytes are searched a second time.
    *searched = data.len().saturating_sub(3);
    false
}

#[cfg(test)]
mod tests;
