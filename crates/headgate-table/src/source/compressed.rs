//! Compressed files as plain bytes, one member (gzip) or frame (zstd) after another.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;
use zstd::zstd_safe::get_error_name;
use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;

use super::input_error::InputError;

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

    /// Returns the decompressed bytes of `reader`.
    ///
    /// # Errors
    /// `UnexpectedEof`: the input is empty, or ends in the middle of a member or frame.
    pub(super) fn decode(self, mut reader: impl BufRead + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::None => Box::new(reader),
            _ if reader.fill_buf()?.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            Self::Gzip if reader.fill_buf()?.first() != Some(&GZIP_FIRST_BYTE) => {
                return Err(InputError::NotGzip.into());
            }
            Self::Gzip => Box::new(GzipMembers::new(Box::new(reader))),
            // The library's own bound applies: it refuses a window of more than 128 MiB.
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(reader)?),
        })
    }
}

/// The first byte of a member (RFC 1952 section 2.3.1).
const GZIP_FIRST_BYTE: u8 = 0x1F;

/// The members of a gzip file, one after another. `flate2::MultiGzDecoder` takes whatever follows a member for the next
/// one; like gzip(1), we skip zeros that pad the file.
struct GzipMembers {
    decoder: GzDecoder<Box<dyn BufRead + Send>>,
    ended: bool,
}

impl GzipMembers {
    fn new(reader: Box<dyn BufRead + Send>) -> Self {
        Self { decoder: GzDecoder::new(reader), ended: false }
    }

    /// Moves to the next member, and returns whether there is one.
    fn next_member(&mut self) -> io::Result<bool> {
        let reader = self.decoder.get_mut();
        let mut padded = false;
        loop {
            let buffer = match reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            let zeros = buffer.iter().take_while(|byte| **byte == 0).count();
            match buffer.get(zeros) {
                None if buffer.is_empty() => return Ok(false),
                None => {
                    padded = true;
                    reader.consume(zeros);
                }
                Some(&GZIP_FIRST_BYTE) if zeros == 0 && !padded => break,
                Some(_) => {
                    reader.consume(zeros);
                    return Err(InputError::NotGzip.into());
                }
            }
        }
        // Reuses the decoder's memory.
        let reader = self.decoder.reset(Box::new(io::empty()));
        self.decoder.reset(reader);
        Ok(true)
    }
}

impl Read for GzipMembers {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !buffer.is_empty() {
            let read = self.decoder.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            self.ended = !self.next_member()?;
        }
        Ok(0)
    }
}

/// Returns whether a frame was refused because its window exceeds the library's limit. The error carries only its name.
pub(super) fn is_window_too_large(error: &io::Error) -> bool {
    let code = (ZSTD_ErrorCode::ZSTD_error_frameParameter_windowTooLarge as usize).wrapping_neg();
    error.get_ref().is_some_and(|cause| cause.to_string() == get_error_name(code))
}

/// Counts the consumed bytes, exactly even where the reader buffers ahead.
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
