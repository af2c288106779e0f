//! Deflate in its three wrappings (RFC 1950, 1951, 1952), as far as its input has come.

use std::io;

use flate2::{Decompress, FlushDecompress, Status};

use super::decompress::{Decompressor, Progress};

/// The largest window there is (RFC 1950 section 2.2).
const WINDOW_BITS: u8 = 15;
/// With what a gzip member begins (RFC 1952 section 2.3.1).
const GZIP_MAGIC: u8 = 0x1f;

/// Gzip members in a row. What follows them and is none is ignored, as curl and browsers do: some servers fill up with zeros.
pub(super) struct Gzip(Decompress);

impl Gzip {
    pub(super) fn new() -> Self {
        Self(Decompress::new_gzip(WINDOW_BITS))
    }
}

impl Decompressor for Gzip {
    fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<Progress> {
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

/// Zlib is meant by `deflate`; some servers send bare deflate. The first two bytes tell (RFC 1950 section 2.2).
#[derive(Default)]
pub(super) struct Deflate {
    first: Option<u8>,
    /// `None`: the two bytes have not come.
    state: Option<Decompress>,
}

impl Decompressor for Deflate {
    fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> io::Result<Progress> {
        if let Some(state) = &mut self.state {
            return inflate(state, input, output);
        }
        let Some(first) = self.first else {
            self.first = input.first().copied();
            return Ok(Progress { consumed: input.len().min(1), written: 0, has_ended: false });
        };
        // A stream of one byte is not whole.
        let Some(second) = input.first() else { return Ok(Progress { consumed: 0, written: 0, has_ended: false }) };
        let is_zlib = first & 0x0f == 8 && u16::from_be_bytes([first, *second]) % 31 == 0;
        let state = self.state.insert(Decompress::new(is_zlib));
        // No byte of the output is in the first byte alone.
        inflate(state, &[first], output)?;
        inflate(state, input, output)
    }
}

fn inflate(state: &mut Decompress, input: &[u8], output: &mut [u8]) -> io::Result<Progress> {
    let (before_in, before_out) = (state.total_in(), state.total_out());
    let status = state.decompress(input, output, FlushDecompress::None)?;
    Ok(Progress {
        consumed: (state.total_in() - before_in) as usize,
        written: (state.total_out() - before_out) as usize,
        has_ended: status == Status::StreamEnd,
    })
}
