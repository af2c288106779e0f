//! Compressed files as plain bytes, one member (gzip) or frame (zstd) after another.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// The decompressed bytes of `reader`.
    pub(super) fn decode(self, mut reader: impl BufRead + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::None => Box::new(reader),
            // No member at all is an empty file, as `gzip -c < /dev/null | head -c 0` leaves one; the decoder would call it cut short.
            Self::Gzip if reader.fill_buf()?.is_empty() => Box::new(io::empty()),
            Self::Gzip => Box::new(MultiGzDecoder::new(reader)),
            // The library's own bound holds: a window of more than 128 MiB is refused.
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(reader)?),
        })
    }
}

/// Counts what was consumed, which is exact to the byte also where it reads ahead.
pub(super) struct Counted<R> {
    reader: BufReader<R>,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Counted<R> {
    pub(super) fn new(reader: R, buffer_bytes: usize, bytes: Arc<AtomicU64>) -> Self {
        Self { reader: BufReader::with_capacity(buffer_bytes, reader), bytes }
    }

    fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.count(read);
        Ok(read)
    }
}

impl<R: Read> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.reader.consume(bytes);
        self.count(bytes);
    }
}
