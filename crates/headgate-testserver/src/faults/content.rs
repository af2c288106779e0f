//! Faults of content: the body is framed correctly, but is not in its content encoding, or decodes to far more than it seems.

use std::io::{self, Write};
use std::sync::OnceLock;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

use super::fault::Fault;
use super::fault::FaultStep::{Make, Send};
use crate::content::gzip;

const MEBIBYTE: usize = 1024 * 1024;
/// The decoded size of a bomb.
const BOMB_MEBIBYTES: usize = 1024;
const EMPTY_MEMBERS: usize = 800_000;
/// The largest block (RFC 8878 section 3.1.1.2).
const ZSTD_BLOCK_BYTES: usize = 128 * 1024;
const ZSTD_LAST_BLOCK: u32 = 1;
const ZSTD_REPEATED_BYTE: u32 = 1 << 1;
const SAMPLE: &[u8] = b"Hello, World! Hello, World! Hello, World! Hello, World! Hello, World! Hello, World!";

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "truncated-gzip",
        description: "sends gzip that ends in the middle, framed as if whole",
        steps: &[Make(truncated_gzip)],
    },
    Fault {
        name: "corrupt-gzip",
        description: "sends gzip with a broken byte in the middle",
        steps: &[Make(corrupt_gzip)],
    },
    Fault {
        name: "gzip-bad-checksum",
        description: "sends gzip whose checksum is wrong",
        steps: &[Make(gzip_bad_checksum)],
    },
    Fault {
        name: "gzip-trailing-garbage",
        description: "sends gzip, then bytes that are none, which a client may accept",
        steps: &[Make(gzip_trailing_garbage)],
    },
    Fault {
        name: "not-gzip",
        description: "sends plain text and calls it gzip",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 13\r\n\r\nHello, World!")],
    },
    Fault {
        name: "empty-gzip",
        description: "sends no byte and calls it gzip",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n")],
    },
    Fault {
        name: "gzip-twice",
        description: "sends gzip of gzip and says so, which is allowed",
        steps: &[Make(gzip_twice)],
    },
    Fault {
        name: "raw-deflate",
        description: "sends deflate without its zlib frame, as some servers do",
        steps: &[Make(raw_deflate)],
    },
    Fault {
        name: "unknown-encoding",
        description: "sends an unknown content-encoding",
        steps: &[Send(b"HTTP/1.1 200 OK\r\nContent-Encoding: rot13\r\nContent-Length: 13\r\n\r\nUryyb, Jbeyq!")],
    },
    Fault {
        name: "gzip-bomb",
        description: "sends 1 MiB of gzip that inflates to 1 GiB",
        steps: &[Make(|| Ok(encoded("gzip", &gzip_bomb(BOMB_MEBIBYTES)?)))],
    },
    Fault {
        name: "brotli-bomb",
        description: "sends 16 KiB of brotli that inflate to 1 GiB",
        steps: &[Make(|| Ok(encoded("br", &brotli_bomb(BOMB_MEBIBYTES)?)))],
    },
    Fault {
        name: "zstd-bomb",
        description: "sends 32 KiB of zstd that inflate to 1 GiB",
        steps: &[Make(|| Ok(encoded("zstd", &zstd_bomb(BOMB_MEBIBYTES))))],
    },
    Fault {
        name: "brotli-window",
        description: "sends 52 bytes of brotli that inflate to 64 MiB, with a window of 16 MiB",
        steps: &[Make(|| Ok(encoded("br", BROTLI_WINDOW)))],
    },
    Fault {
        name: "zstd-windows",
        description: "sends 8 MiB of zeros in zstd five times over, each of which fills a window of 8 MiB",
        steps: &[Make(|| Ok(encoded("zstd, zstd, zstd, zstd, zstd", &zstd_windows(5))))],
    },
    Fault {
        name: "deflated-nothing",
        description: "sends 2 KB of deflate twice over 800,000 members of gzip, which come to nothing",
        steps: &[Make(|| Ok(encoded("gzip, deflate, deflate", &deflated_nothing()?)))],
    },
];

/// 64 MiB of zeros with the largest window, encoded by the `brotli` crate with quality 5.
const BROTLI_WINDOW: &[u8] = &[
    0xcf, 0xff, 0xff, 0x7f, 0x00, 0x24, 0x00, 0xe2, 0xb1, 0x40, 0x72, 0xef, 0xff, 0xf9, 0xff, 0xff, 0x0f, 0x80, 0x04,
    0x40, 0x1c, 0x16, 0x80, 0xee, 0xfd, 0x3f, 0xff, 0xff, 0xff, 0x01, 0x90, 0x00, 0x88, 0xc3, 0x02, 0xd0, 0xbd, 0xff,
    0xe7, 0xff, 0xff, 0x3f, 0x00, 0x12, 0x00, 0x71, 0x58, 0x00, 0xba, 0xf7, 0xff, 0x03,
];

/// Returns a response with correct headers for this encoding and `body`.
fn encoded(encoding: &str, body: &[u8]) -> Vec<u8> {
    let headers = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n", body.len());
    [headers.as_bytes(), body].concat()
}

fn truncated_gzip() -> io::Result<Vec<u8>> {
    let whole = gzip(SAMPLE)?;
    Ok(encoded("gzip", &whole[..whole.len() / 2]))
}

fn corrupt_gzip() -> io::Result<Vec<u8>> {
    let mut body = gzip(SAMPLE)?;
    // The first byte of the deflate stream, after the 10 bytes of the header: a block of an invalid type.
    body[10] = 0b111;
    Ok(encoded("gzip", &body))
}

fn gzip_bad_checksum() -> io::Result<Vec<u8>> {
    let mut body = gzip(SAMPLE)?;
    let checksum = body.len() - 8;
    body[checksum] ^= 0xff;
    Ok(encoded("gzip", &body))
}

fn gzip_trailing_garbage() -> io::Result<Vec<u8>> {
    let mut body = gzip(SAMPLE)?;
    body.extend_from_slice(b"these bytes are no gzip");
    Ok(encoded("gzip", &body))
}

fn gzip_twice() -> io::Result<Vec<u8>> {
    Ok(encoded("gzip, gzip", &gzip(&gzip(SAMPLE)?)?))
}

fn raw_deflate() -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(SAMPLE)?;
    Ok(encoded("deflate", &encoder.finish()?))
}

/// Encodes `mebibytes` MiB of zeros. Compressing a gibibyte would take seconds. But after a flush, a deflate stream is at a byte
/// boundary, and the encoded form of the next mebibyte can be repeated.
fn gzip_bomb(mebibytes: usize) -> io::Result<Vec<u8>> {
    let zeros = vec![0; MEBIBYTE];
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    let mut flushed = [0; 2];
    for bytes in &mut flushed {
        encoder.write_all(&zeros)?;
        encoder.flush()?;
        *bytes = encoder.get_ref().len();
    }
    let [first, second] = flushed;
    let stream = encoder.finish()?;

    let mut checksum = Crc::new();
    let mut zeros_checksum = Crc::new();
    zeros_checksum.update(&zeros);

    let mut bomb = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff".to_vec();
    bomb.extend_from_slice(&stream[..first]);
    checksum.combine(&zeros_checksum);
    for _ in 1..mebibytes {
        bomb.extend_from_slice(&stream[first..second]);
        checksum.combine(&zeros_checksum);
    }
    bomb.extend_from_slice(&stream[second..]);
    bomb.extend_from_slice(&checksum.sum().to_le_bytes());
    bomb.extend_from_slice(&((mebibytes * MEBIBYTE) as u32).to_le_bytes());
    Ok(bomb)
}

/// Encodes `mebibytes` MiB of zeros like [`gzip_bomb`]; the encoded mebibytes are the same from the third on.
fn brotli_bomb(mebibytes: usize) -> io::Result<Vec<u8>> {
    let zeros = vec![0; MEBIBYTE];
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 18);
    let mut flushed = [0; 3];
    for bytes in &mut flushed {
        encoder.write_all(&zeros)?;
        encoder.flush()?;
        *bytes = encoder.get_ref().len();
    }
    let [_, second, third] = flushed;
    let stream = encoder.into_inner();

    let mut bomb = stream[..second].to_vec();
    for _ in 2..mebibytes {
        bomb.extend_from_slice(&stream[second..third]);
    }
    bomb.extend_from_slice(&stream[third..]);
    Ok(bomb)
}

/// Encodes `mebibytes` MiB of zeros as blocks of one repeated byte (RFC 8878 section 3.1.1) of the largest size, 128 KiB.
fn zstd_bomb(mebibytes: usize) -> Vec<u8> {
    let mut bomb = 0xFD2F_B528_u32.to_le_bytes().to_vec();
    // Frame header: no content size, no checksum; a window of 128 KiB = 2^(10 + 7).
    bomb.extend_from_slice(&[0, 7 << 3]);
    let blocks = mebibytes * MEBIBYTE / ZSTD_BLOCK_BYTES;
    for block in 1..=blocks {
        let is_last = if block == blocks { ZSTD_LAST_BLOCK } else { 0 };
        let header = is_last | ZSTD_REPEATED_BYTE | (ZSTD_BLOCK_BYTES as u32) << 3;
        bomb.extend_from_slice(&header.to_le_bytes()[..3]);
        bomb.push(0);
    }
    bomb
}

/// Returns a zstd frame with a window of 8 MiB: zeros as blocks of one repeated byte between `before` and `after`, which are at
/// most as long as a block.
fn zstd_frame(before: &[u8], zeros: usize, after: &[u8]) -> Vec<u8> {
    let mut frame = 0xFD2F_B528_u32.to_le_bytes().to_vec();
    frame.extend_from_slice(&[0, 13 << 3]);
    let mut block = |header: u32, content: &[u8]| {
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.extend_from_slice(content);
    };
    block((before.len() as u32) << 3, before);
    for _ in 0..zeros / ZSTD_BLOCK_BYTES {
        block(ZSTD_REPEATED_BYTE | (ZSTD_BLOCK_BYTES as u32) << 3, &[0]);
    }
    block(ZSTD_LAST_BLOCK | (after.len() as u32) << 3, after);
    frame
}

/// Returns nested zstd frames. Each starts with a skippable frame (RFC 8878 section 3.1.2), which fills the window of its decoder.
fn zstd_windows(layers: usize) -> Vec<u8> {
    const SKIPPED_BYTES: usize = 8 * MEBIBYTE;
    let skipped = [0x184D_2A50_u32.to_le_bytes(), (SKIPPED_BYTES as u32).to_le_bytes()].concat();
    let innermost = zstd_frame(b"", SKIPPED_BYTES, b"");
    (1..layers).fold(innermost, |inner, _| zstd_frame(&skipped, SKIPPED_BYTES, &inner))
}

fn deflated_nothing() -> io::Result<Vec<u8>> {
    static MADE: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(made) = MADE.get() {
        return Ok(made.clone());
    }
    let mut body = gzip(b"")?.repeat(EMPTY_MEMBERS);
    for _ in 0..2 {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&body)?;
        body = encoder.finish()?;
    }
    Ok(MADE.get_or_init(|| body).clone())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const MEBIBYTES: usize = 5;

    fn decoded(mut decoder: impl Read) -> Vec<u8> {
        let mut plain = Vec::new();
        decoder.read_to_end(&mut plain).expect("a bomb is well encoded");
        plain
    }

    #[test]
    fn bombs_decode_to_zeros_of_the_given_size() {
        let zeros = vec![0; MEBIBYTES * MEBIBYTE];
        let gzip = gzip_bomb(MEBIBYTES).expect("made in memory");
        let brotli = brotli_bomb(MEBIBYTES).expect("made in memory");
        let zstd = zstd_bomb(MEBIBYTES);
        assert!(zeros == decoded(flate2::read::GzDecoder::new(&gzip[..])));
        assert!(zeros == decoded(brotli::Decompressor::new(&brotli[..], 4096)));
        assert!(zeros == decoded(zstd::Decoder::new(&zstd[..]).expect("a frame")));
    }

    #[test]
    fn bombs_are_small() {
        assert!(gzip_bomb(BOMB_MEBIBYTES).expect("made in memory").len() < 1_200_000);
        assert!(brotli_bomb(BOMB_MEBIBYTES).expect("made in memory").len() < 32_000);
        assert!(zstd_bomb(BOMB_MEBIBYTES).len() < 33_000);
    }

    #[test]
    fn nested_encodings_are_valid() {
        let brotli = decoded(brotli::Decompressor::new(BROTLI_WINDOW, 4096));
        assert!(vec![0; 64 * MEBIBYTE] == brotli);
        let zstd = |encoded: Vec<u8>| decoded(zstd::Decoder::new(&encoded[..]).expect("a frame"));
        let windows = zstd_windows(5);
        assert!(windows.len() < 2000, "{}", windows.len());
        assert!(vec![0; 8 * MEBIBYTE] == (0..5).fold(windows, |encoded, _| zstd(encoded)));
        let nothing = deflated_nothing().expect("made in memory");
        assert!(nothing.len() < 2500, "{}", nothing.len());
        let members = (0..2).fold(nothing, |encoded, _| decoded(flate2::read::DeflateDecoder::new(&encoded[..])));
        assert!(gzip(b"").expect("made in memory").repeat(EMPTY_MEMBERS) == members);
    }

    #[test]
    fn corrupt_bodies_do_not_decode() {
        for make in [truncated_gzip, corrupt_gzip, gzip_bad_checksum] {
            let response = make().expect("made in memory");
            let body = response.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
            let mut plain = Vec::new();
            assert!(flate2::read::GzDecoder::new(&response[body..]).read_to_end(&mut plain).is_err());
        }
    }
}
