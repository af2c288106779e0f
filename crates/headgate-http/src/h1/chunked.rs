//! Decodes the chunked transfer coding (RFC 9112 section 7.1), however the bytes are cut into reads.
//!
//! The decoder is strict: a size is hexadecimal digits, and lines end in CR LF. Extensions and trailers are skipped, and
//! bounded: otherwise a server could send them for ever without sending a body.

/// The most digits of a size.
const MAX_SIZE_DIGITS: u8 = 16;
/// The most bytes of extensions in all chunks together.
const MAX_EXTENSION_BYTES: u32 = 16 * 1024;
/// The most bytes of trailers.
const MAX_TRAILER_BYTES: u32 = 16 * 1024;

/// The part of the body that the decoder expects next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// The size, of which `digits` have been read.
    Size {
        digits: u8,
    },
    /// Blanks after the size.
    Blank,
    /// Extensions, which reach to the end of the line.
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The beginning of a trailer line, or the CR of the final empty line.
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
    Done,
}

#[derive(Debug, Clone)]
pub(crate) struct ChunkedDecoder {
    state: ChunkState,
    /// Bytes of the current chunk that have not come yet.
    left: u64,
    extension_bytes: u32,
    trailer_bytes: u32,
}

/// How much of its input [`ChunkedDecoder::decode`] has consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Consumed {
    /// Bytes of the input that belong to the body; the rest of the input follows it.
    pub consumed: usize,
    /// The body is complete.
    pub done: bool,
}

impl Default for ChunkedDecoder {
    fn default() -> Self {
        Self { state: ChunkState::Size { digits: 0 }, left: 0, extension_bytes: 0, trailer_bytes: 0 }
    }
}

impl ChunkedDecoder {
    /// Decodes `data` and passes the decoded bytes to `pass_on`.
    ///
    /// # Errors
    /// Returns a message for the user if `data` violates the chunked coding.
    pub(crate) fn decode(&mut self, data: &[u8], mut pass_on: impl FnMut(&[u8])) -> Result<Consumed, &'static str> {
        let mut at = 0;
        while at < data.len() && self.state != ChunkState::Done {
            if self.state == ChunkState::Data {
                let length = (data.len() - at).min(usize::try_from(self.left).unwrap_or(usize::MAX));
                pass_on(&data[at..at + length]);
                self.left -= length as u64;
                at += length;
                if self.left == 0 {
                    self.state = ChunkState::DataCr;
                }
                continue;
            }
            self.state = self.step(data[at])?;
            at += 1;
        }
        Ok(Consumed { consumed: at, done: self.state == ChunkState::Done })
    }

    fn step(&mut self, byte: u8) -> Result<ChunkState, &'static str> {
        Ok(match (self.state, byte) {
            (ChunkState::Size { digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = (byte as char).to_digit(16).unwrap_or_default();
                if digits == MAX_SIZE_DIGITS {
                    return Err("the size of a chunk is too large");
                }
                self.left = self.left << 4 | u64::from(digit);
                ChunkState::Size { digits: digits + 1 }
            }
            (ChunkState::Size { digits: 1.. } | ChunkState::Blank | ChunkState::Extension, b'\r') => ChunkState::SizeLf,
            (ChunkState::Size { digits: 1.. } | ChunkState::Blank, b';') => ChunkState::Extension,
            (ChunkState::Size { digits: 1.. } | ChunkState::Blank, b' ' | b'\t') => {
                count(&mut self.extension_bytes, MAX_EXTENSION_BYTES, "the chunk extensions are too long")?;
                ChunkState::Blank
            }
            (ChunkState::Size { .. } | ChunkState::Blank, _) => {
                return Err("the size of a chunk is not a hexadecimal number");
            }
            (ChunkState::Extension, b'\n') => return Err("the size of a chunk does not end in CR LF"),
            (ChunkState::Extension, _) => {
                count(&mut self.extension_bytes, MAX_EXTENSION_BYTES, "the chunk extensions are too long")?;
                ChunkState::Extension
            }
            (ChunkState::SizeLf, b'\n') if self.left > 0 => ChunkState::Data,
            (ChunkState::SizeLf | ChunkState::TrailerLf, b'\n') => ChunkState::TrailerStart,
            (ChunkState::SizeLf, _) => return Err("the size of a chunk does not end in CR LF"),
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => ChunkState::Size { digits: 0 },
            (ChunkState::DataCr | ChunkState::DataLf, _) => return Err("a chunk is longer than its size says"),
            (ChunkState::TrailerStart, b'\r') => ChunkState::EndLf,
            (ChunkState::EndLf, b'\n') => ChunkState::Done,
            (ChunkState::EndLf, _) => return Err("the last chunk does not end in CR LF"),
            (ChunkState::Trailer, b'\r') => ChunkState::TrailerLf,
            (ChunkState::TrailerLf, _) | (ChunkState::TrailerStart | ChunkState::Trailer, b'\n') => {
                return Err("a trailer does not end in CR LF");
            }
            (ChunkState::TrailerStart | ChunkState::Trailer, _) => {
                count(&mut self.trailer_bytes, MAX_TRAILER_BYTES, "the trailers are too long")?;
                ChunkState::Trailer
            }
            (ChunkState::Data | ChunkState::Done, _) => self.state,
        })
    }
}

fn count(bytes: &mut u32, max: u32, too_many: &'static str) -> Result<(), &'static str> {
    *bytes += 1;
    if *bytes > max { Err(too_many) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes `data` in pieces of the given lengths, which are cycled. Returns the body and the bytes after it.
    fn decode(data: &[u8], pieces: &[usize]) -> Result<(Vec<u8>, Vec<u8>), &'static str> {
        let mut decoder = ChunkedDecoder::default();
        let mut body = Vec::new();
        let mut rest = data;
        for length in pieces.iter().cycle() {
            let piece = &rest[..rest.len().min(*length)];
            let progress = decoder.decode(piece, |piece| body.extend_from_slice(piece))?;
            rest = &rest[progress.consumed..];
            if progress.done {
                return Ok((body, rest.to_vec()));
            }
            if rest.is_empty() {
                return Err("cut off");
            }
        }
        unreachable!("pieces are cycled")
    }

    #[test]
    fn chunks_extensions_and_trailers_are_read() {
        for data in [
            "5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\nrest",
            "05;name=\"value\"\r\nhello\r\n7 ;x\r\n, world\r\n000\r\nTrailer: yes\r\nAnother: one\r\n\r\nrest",
        ] {
            assert_eq!(Ok((b"hello, world".to_vec(), b"rest".to_vec())), decode(data.as_bytes(), &[1000]), "{data}");
        }
    }

    #[test]
    fn invalid_chunks_are_refused() {
        let long_extension = format!("1;{}\r\n", "x".repeat(20_000));
        let long_trailer = format!("0\r\n{}", "x: y\r\n".repeat(5000));
        for (message, data) in [
            ("the size of a chunk is not a hexadecimal number", "\r\n"),
            ("the size of a chunk is not a hexadecimal number", "-5\r\nhello\r\n0\r\n\r\n"),
            ("the size of a chunk is not a hexadecimal number", "0x5\r\nhello\r\n0\r\n\r\n"),
            ("the size of a chunk is too large", "fffffffffffffffff\r\n"),
            ("the size of a chunk is not a hexadecimal number", "5\nhello\n0\n\n"),
            ("the size of a chunk does not end in CR LF", "5;a\nhello"),
            ("a chunk is longer than its size says", "4\r\nhello\r\n0\r\n\r\n"),
            ("a trailer does not end in CR LF", "0\r\nx: y\n\n"),
            ("the chunk extensions are too long", &long_extension),
            ("the size of a chunk is not a hexadecimal number", "5 garbage\r\nhello\r\n0\r\n\r\n"),
            ("the size of a chunk is too large", "00000000000000005\r\nhello\r\n0\r\n\r\n"),
            ("the trailers are too long", &long_trailer),
        ] {
            assert_eq!(Err(message), decode(data.as_bytes(), &[1000]), "{data:.40}");
        }
    }

    proptest! {
        #[test]
        fn the_body_does_not_depend_on_how_the_bytes_are_cut(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..50), 0..8),
            pieces in proptest::collection::vec(1_usize..20, 1..5),
        ) {
            let mut data: Vec<u8> = Vec::new();
            for chunk in &chunks {
                data.extend(format!("{:x}\r\n", chunk.len()).bytes().chain(chunk.iter().copied()).chain(*b"\r\n"));
            }
            data.extend(b"0\r\n\r\n");
            prop_assert_eq!(Ok((chunks.concat(), Vec::new())), decode(&data, &pieces));
        }

        #[test]
        fn garbage_decodes_the_same_at_once_and_in_pieces(
            data in "[0-3a;\r\n]{0,60}", pieces in proptest::collection::vec(1_usize..5, 1..5),
        ) {
            prop_assert_eq!(decode(data.as_bytes(), &[1000]), decode(data.as_bytes(), &pieces));
        }
    }
}
