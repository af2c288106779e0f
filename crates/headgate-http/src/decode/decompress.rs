//! Reads through a decompressor. If the input has not arrived yet, reading fails with `WouldBlock`, and continues once there is
//! more. Everything that can be decoded of the input so far is returned before.

use std::io::{self, BufRead, Read};

/// A decompressor from memory to memory.
pub(super) trait Decompressor {
    /// Decompresses some of `input` into some of `output`; `input` is empty if there is no more.
    fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<DecompressProgress>;

    /// Starts another stream if `next`, the byte after the end of the last one, starts one. Returns whether it does.
    fn restart(&mut self, next: u8) -> bool {
        let _ = next;
        false
    }
}

/// The progress of one call of a decompressor.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecompressProgress {
    pub(super) consumed: usize,
    pub(super) written: usize,
    pub(super) has_ended: bool,
}

/// Decompresses `inner` while it is read. Bytes after the end of the compressed stream are ignored.
pub(super) struct DecompressReader<R, D> {
    inner: R,
    decompressor: D,
    has_ended: bool,
}

impl<R, D> DecompressReader<R, D> {
    pub(super) fn new(inner: R, decompressor: D) -> Self {
        Self { inner, decompressor, has_ended: false }
    }
}

impl<R: BufRead, D: Decompressor> Read for DecompressReader<R, D> {
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
            // Without input, output of earlier input may still follow.
            let DecompressProgress { consumed, written, has_ended } = self.decompressor.decompress(input, buffer)?;
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
