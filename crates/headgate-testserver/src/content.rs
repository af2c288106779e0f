//! Bodies of any length that depend on the seed alone: lower-case letters, so that they are readable and compressible.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::{GzEncoder, ZlibEncoder};

const BLOCK_BYTES: usize = 64 * 1024;
/// The number of members of `gzip-members`.
const GZIP_MEMBERS: usize = 3;
const BROTLI_QUALITY: u32 = 1;
const BROTLI_WINDOW: u32 = 20;
const BROTLI_BUFFER_BYTES: usize = 4096;
const ZSTD_LEVEL: i32 = 1;

/// One block of text, which is repeated for longer bodies.
#[derive(Debug)]
pub(crate) struct SeededText {
    block: Bytes,
}

impl SeededText {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self { block: std::iter::repeat_with(|| random.u8(b'a'..=b'z')).take(BLOCK_BYTES).collect() }
    }

    /// Returns the first `bytes` bytes.
    pub(crate) fn bytes(&self, bytes: usize) -> Vec<u8> {
        self.block.iter().copied().cycle().take(bytes).collect()
    }

    /// Returns the offset in the first block at which the text continues as it does after `bytes` bytes.
    pub(crate) fn offset(&self, bytes: u64) -> usize {
        (bytes % self.block.len() as u64) as usize
    }

    /// Returns the first `bytes` bytes in pieces of at most a block, without copying.
    pub(crate) fn pieces(&self, bytes: u64) -> impl DoubleEndedIterator<Item = Bytes> {
        let blocks = bytes.div_ceil(BLOCK_BYTES as u64);
        (0..blocks).map(move |block| {
            let rest = bytes - block * BLOCK_BYTES as u64;
            self.block.slice(..rest.min(BLOCK_BYTES as u64) as usize)
        })
    }
}

/// A content encoding, by its name in `/encoded/…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentEncoding {
    Gzip,
    GzipMembers,
    Deflate,
    Brotli,
    Zstd,
}

impl ContentEncoding {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "gzip" => Some(ContentEncoding::Gzip),
            "gzip-members" => Some(ContentEncoding::GzipMembers),
            "deflate" => Some(ContentEncoding::Deflate),
            "br" => Some(ContentEncoding::Brotli),
            "zstd" => Some(ContentEncoding::Zstd),
            _ => None,
        }
    }

    /// Returns the value of `Content-Encoding`.
    pub(crate) fn token(self) -> &'static str {
        match self {
            ContentEncoding::Gzip | ContentEncoding::GzipMembers => "gzip",
            ContentEncoding::Deflate => "deflate",
            ContentEncoding::Brotli => "br",
            ContentEncoding::Zstd => "zstd",
        }
    }

    pub(crate) fn encode(self, plain: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            ContentEncoding::Gzip => gzip(plain),
            ContentEncoding::GzipMembers => {
                let members = plain.chunks(plain.len().div_ceil(GZIP_MEMBERS).max(1)).map(gzip);
                members.collect::<io::Result<Vec<_>>>().map(|members| members.concat())
            }
            ContentEncoding::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(plain)?;
                encoder.finish()
            }
            ContentEncoding::Brotli => {
                let mut output = Vec::new();
                let mut encoder =
                    brotli::CompressorWriter::new(&mut output, BROTLI_BUFFER_BYTES, BROTLI_QUALITY, BROTLI_WINDOW);
                encoder.write_all(plain)?;
                // The drop writes the end of the stream.
                drop(encoder);
                Ok(output)
            }
            ContentEncoding::Zstd => zstd::encode_all(plain, ZSTD_LEVEL),
        }
    }
}

pub(crate) fn gzip(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_to_the_bytes() {
        let content = SeededText::new(7);
        for bytes in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES] {
            assert_eq!(content.bytes(bytes), content.pieces(bytes as u64).collect::<Vec<_>>().concat(), "{bytes}");
        }
    }

    #[test]
    fn the_seed_determines_the_text() {
        assert_eq!(SeededText::new(1).bytes(100), SeededText::new(1).bytes(100));
        assert_ne!(SeededText::new(1).bytes(100), SeededText::new(2).bytes(100));
    }
}
