//! Deflate in its three wrappings, from input that may not be there yet: then reading fails with `WouldBlock`, and goes on
//! where it was when there is more. Whatever can be decoded of the input that was there comes out before.

use std::io::{self, BufRead, Read};

use flate2::{Decompress, FlushDecompress, Status};

/// The largest window there is (RFC 1950 section 2.2).
const WINDOW_BITS: u8 = 15;
/// With what a gzip member begins (RFC 1952 section 2.3.1).
const GZIP_MAGIC: u8 = 0x1f;

/// How deflate is wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapping {
    Gzip,
    /// Zlib is meant; some servers send bare deflate. The first two bytes tell (RFC 1950 section 2.2).
    ZlibOrBare,
}

pub(super) struct Inflate<R> {
    inner: R,
    wrapping: Wrapping,
    /// `None`: which it is to be isn't known yet.
    state: Option<Decompress>,
    /// Bytes that were read to find that out, and not decoded yet.
    head: Vec<u8>,
    /// A member has ended, or all there is.
    ended: bool,
}

impl<R: BufRead> Inflate<R> {
    pub(super) fn new(inner: R, wrapping: Wrapping) -> Self {
        let state = (wrapping == Wrapping::Gzip).then(|| Decompress::new_gzip(WINDOW_BITS));
        Self { inner, wrapping, state, head: Vec::new(), ended: false }
    }

    /// Reads the first two bytes, or as many as there are.
    fn find_out(&mut self) -> io::Result<Decompress> {
        while self.head.len() < 2 {
            let Some(byte) = self.inner.fill_buf()?.first().copied() else { break };
            self.inner.consume(1);
            self.head.push(byte);
        }
        let is_zlib = matches!(*self.head, [method, flags]
            if method & 0x0f == 8 && u16::from_be_bytes([method, flags]) % 31 == 0);
        Ok(Decompress::new(is_zlib))
    }

    /// Whether another gzip member follows. What follows and is none is ignored, as curl and browsers do.
    fn goes_on(&mut self) -> io::Result<bool> {
        if self.wrapping != Wrapping::Gzip || self.inner.fill_buf()?.first() != Some(&GZIP_MAGIC) {
            return Ok(false);
        }
        self.ended = false;
        self.state = Some(Decompress::new_gzip(WINDOW_BITS));
        Ok(true)
    }
}

impl<R: BufRead> Read for Inflate<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.ended && !self.goes_on()? {
            return Ok(0);
        }
        let mut state = match self.state.take() {
            Some(state) => state,
            None => self.find_out()?,
        };
        let read = self.inflate(&mut state, buffer);
        self.state = Some(state);
        read
    }
}

impl<R: BufRead> Inflate<R> {
    fn inflate(&mut self, state: &mut Decompress, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let from_head = !self.head.is_empty();
            let (input, blocked) = if from_head {
                (&self.head[..], false)
            } else {
                match self.inner.fill_buf() {
                    Ok(input) => (input, false),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => (&[][..], true),
                    Err(error) => return Err(error),
                }
            };
            let at_end = input.is_empty() && !blocked;
            let (before_in, before_out) = (state.total_in(), state.total_out());
            let status = state.decompress(input, buffer, FlushDecompress::None)?;
            let (consumed, written) =
                ((state.total_in() - before_in) as usize, (state.total_out() - before_out) as usize);
            if from_head {
                self.head.drain(..consumed);
            } else {
                self.inner.consume(consumed);
            }
            self.ended = status == Status::StreamEnd;
            if written > 0 {
                return Ok(written);
            }
            if self.ended {
                if !self.goes_on()? {
                    return Ok(0);
                }
                *state = Decompress::new_gzip(WINDOW_BITS);
            } else if blocked {
                return Err(io::ErrorKind::WouldBlock.into());
            } else if at_end {
                return Err(io::ErrorKind::UnexpectedEof.into());
            } else if consumed == 0 {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "corrupt deflate stream"));
            }
        }
    }
}
