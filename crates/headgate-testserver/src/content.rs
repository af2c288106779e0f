//! Bodies of any length, the same for the same seed: lower-case letters, so that they can be read and compressed.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::{GzEncoder, ZlibEncoder};

const BLOCK_BYTES: usize = 64 * 1024;
/// Members of a gzip body that has several.
const GZIP_MEMBERS: usize = 3;
const BROTLI_QUALITY: u32 = 1;
const BROTLI_WINDOW: u32 = 20;
const BROTLI_BUFFER_BYTES: usize = 4096;
const ZSTD_LEVEL: i32 = 1;

/// One block of text; bodies are it, repeated.
#[derive(Debug)]
pub(crate) struct Content {
    block: Bytes,
}

impl Content {
    pub fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self { block: std::iter::repeat_with(|| random.u8(b'a'..=b'z')).take(BLOCK_BYTES).collect() }
    }

    /// The first `bytes` bytes.
    pub fn bytes(&self, bytes: usize) -> Vec<u8> {
        self.block.iter().copied().cycle().take(bytes).collect()
    }

    /// Where in the first block the text goes on as it does behind `bytes` bytes.
    pub fn offset(&self, bytes: u64) -> usize {
        (bytes % self.block.len() as u64) as usize
    }

    /// The first `bytes` bytes in pieces of at most a block: nothing is copied.
    pub fn pieces(&self, bytes: u64) -> impl DoubleEndedIterator<Item = Bytes> {
        let blocks = bytes.div_ceil(BLOCK_BYTES as u64);
        (0..blocks).map(move |block| {
            let rest = bytes - block * BLOCK_BYTES as u64;
            self.block.slice(..rest.min(BLOCK_BYTES as u64) as usize)
        })
    }
}

/// A content-coding, and how `/encoded/…` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    GzipMembers,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "gzip" => Some(Coding::Gzip),
            "gzip-members" => Some(Coding::GzipMembers),
            "deflate" => Some(Coding::Deflate),
            "br" => Some(Coding::Brotli),
            "zstd" => Some(Coding::Zstd),
            _ => None,
        }
    }

    /// The value of `Content-Encoding`.
    pub fn token(self) -> &'static str {
        match self {
            Coding::Gzip | Coding::GzipMembers => "gzip",
            Coding::Deflate => "deflate",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    pub fn encode(self, plain: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Coding::Gzip => gzip(plain),
            Coding::GzipMembers => {
                let members = plain.chunks(plain.len().div_ceil(GZIP_MEMBERS).max(1)).map(gzip);
                members.collect::<io::Result<Vec<_>>>().map(|members| members.concat())
            }
            Coding::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(plain)?;
                encoder.finish()
            }
            Coding::Brotli => {
                let mut output = Vec::new();
                let mut encoder =
                    brotli::CompressorWriter::new(&mut output, BROTLI_BUFFER_BYTES, BROTLI_QUALITY, BROTLI_WINDOW);
                encoder.write_all(plain)?;
                // Dropping it writes the end of the stream.
                drop(encoder);
                Ok(output)
            }
            Coding::Zstd => zstd::encode_all(plain, ZSTD_LEVEL),
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
    fn pieces_are_the_bytes() {
        let content = Content::new(7);
        for bytes in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES] {
            assert_eq!(content.bytes(bytes), content.pieces(bytes as u64).collect::<Vec<_>>().concat(), "{bytes}");
        }
    }

    #[test]
    fn a_seed_decides_the_content() {
        assert_eq!(Content::new(1).bytes(100), Content::new(1).bytes(100));
        assert_ne!(Content::new(1).bytes(100), Content::new(2).bytes(100));
    }
}
