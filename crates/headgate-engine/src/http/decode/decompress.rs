//! Reads through a decompressor, from input that may not be there yet: then reading fails with `WouldBlock`, and goes on
//! where it was when there is more. Whatever can be decoded of the input that was there comes out before.

use std::io::{self, BufRead, Read};

/// A decompressor from memory to memory.
pub(super) trait Decompressor {
    /// Decompresses some of `input`, which is empty where there is no more, into some of `output`.
    fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<Progress>;

    /// Begins another stream if `next`, the byte behind the one that has ended, begins one. Returns whether it does.
    fn restart(&mut self, next: u8) -> bool {
        let _ = next;
        false
    }
}

/// How far one call of a decompressor came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) consumed: usize,
    pub(super) written: usize,
    pub(super) has_ended: bool,
}

/// Reads what a decompressor makes of `inner`. What follows the end of the compressed stream is ignored.
pub(super) struct Decompressed<R, D> {
    inner: R,
    decompressor: D,
    has_ended: bool,
}

impl<R, D> Decompressed<R, D> {
    pub(super) fn new(inner: R, decompressor: D) -> Self {
        Self { inner, decompressor, has_ended: false }
    }
}

impl<R: BufRead, D: Decompressor> Read for Decompressed<R, D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.has_ended {
                let next = self.inner.fill_buf()?.first();
                if !next.is_some_and(|next| self.decompressor.restart(*next)) {
                    return Ok(0);
                }
            }
            let (input, is_blocked) = match self.inner.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (&[][..], true),
                input => (input?, false),
            };
            let is_empty = input.is_empty();
            // What was consumed before may have something left to come out.
            let Progress { consumed, written, has_ended } = self.decompressor.decompress(input, buffer)?;
            self.inner.consume(consumed);
            self.has_ended = has_ended;
            if written > 0 {
                return Ok(written);
            }
            if !has_ended && consumed == 0 {
                return Err(match (is_blocked, is_empty) {
                    (true, _) => io::ErrorKind::WouldBlock.into(),
                    (false, true) => io::ErrorKind::UnexpectedEof.into(),
                    (false, false) => io::Error::new(io::ErrorKind::InvalidData, "it is corrupt"),
                });
            }
        }
    }
}
