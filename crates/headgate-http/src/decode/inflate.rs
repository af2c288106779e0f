//! Decompresses deflate in its three formats (RFC 1950, 1951, 1952), as far as the input has arrived.

use std::io;

use flate2::{Decompress, FlushDecompress, Status};

use super::decompress::{DecompressProgress, Decompressor};

/// The largest window (RFC 1950 section 2.2).
const WINDOW_BITS: u8 = 15;
/// The first byte of a gzip member (RFC 1952 section 2.3.1).
const GZIP_MAGIC: u8 = 0x1f;

/// Decompresses gzip members in a row. Like curl and browsers, it ignores other bytes after them: some servers append zeros.
pub(super) struct Gzip(Decompress);

impl Gzip {
    pub(super) fn new() -> Self {
        Self(Decompress::new_gzip(WINDOW_BITS))
    }
}

impl Decompressor for Gzip {
    fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<DecompressProgress> {
        inflate(&mut self.0, input, output)
    }

    fn restart(&mut self, next: u8) -> bool {
        let is_member = next == GZIP_MAGIC;
        if is_member {
            *self = Self::new();
        }
        is_member
    }
}

/// Decompresses the encoding `deflate`, which is zlib; some servers send raw deflate. The first two bytes decide which (RFC
/// 1950 section 2.2).
#[derive(Default)]
pub(super) struct Deflate {
    first: Option<u8>,
    /// `None` until two bytes have arrived.
    state: Option<Decompress>,
}

impl Decompressor for Deflate {
    fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<DecompressProgress> {
        if let Some(state) = &mut self.state {
            return inflate(state, input, output);
        }
        let Some(first) = self.first else {
            self.first = input.first().copied();
            return Ok(DecompressProgress { consumed: input.len().min(1), written: 0, has_ended: false });
        };
        // A stream of one byte is incomplete.
        let Some(second) = input.first() else {
            return Ok(DecompressProgress { consumed: 0, written: 0, has_ended: false });
        };
        let is_zlib = first & 0x0f == 8 && u16::from_be_bytes([first, *second]) % 31 == 0;
        let state = self.state.insert(Decompress::new(is_zlib));
        // The first byte alone produces no output.
        inflate(state, &[first], output)?;
        inflate(state, input, output)
    }
}

fn inflate(state: &mut Decompress, input: &[u8], output: &mut [u8]) -> io::Result<DecompressProgress> {
    let (before_in, before_out) = (state.total_in(), state.total_out());
    let status = state.decompress(input, output, FlushDecompress::None)?;
    Ok(DecompressProgress {
        consumed: (state.total_in() - before_in) as usize,
        written: (state.total_out() - before_out) as usize,
        has_ended: status == Status::StreamEnd,
    })
}
