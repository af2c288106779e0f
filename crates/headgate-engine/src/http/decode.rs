//! Content codings (RFC 9110 section 8.4.1), undone piece by piece, so that the cap on a body's size holds for what comes
//! out while it comes out: a gzip bomb ends at the cap, not in memory.
//!
//! Several gzip members, or zstd frames, in a row are one body. Codings may be nested up to [`MAX_CODINGS`] deep (urllib3's
//! CVE-2025-66418 is what happens without that bound). A body in a coding that we did not ask for stays as it came.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::time::Instant;

use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};

use crate::model::error::{ErrorKind, Failure};
use crate::model::headers::Headers;
use crate::model::message::OptionName;
use crate::model::outcome::Body;

/// How many codings may be applied one over the other.
const MAX_CODINGS: usize = 5;
/// A zstd window of more than 8 MiB is refused (RFC 9659 section 3).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// What is decoded between two looks at the cap and the memory budget.
const STEP_BYTES: usize = 64 * 1024;
/// Input that the brotli decoder takes at a time.
const BROTLI_INPUT_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The codings of a response, in the order in which they were applied; `None` where one is unknown to us.
fn codings(headers: &Headers) -> Result<Option<Vec<Coding>>, Failure> {
    let mut codings = Vec::new();
    for value in headers.get_all("content-encoding") {
        for name in value.split(|byte| *byte == b',') {
            let coding = match name.trim_ascii().to_ascii_lowercase().as_slice() {
                b"" | b"identity" => continue,
                b"gzip" | b"x-gzip" => Coding::Gzip,
                b"deflate" => Coding::Deflate,
                b"br" => Coding::Brotli,
                b"zstd" => Coding::Zstd,
                _ => return Ok(None),
            };
            if codings.len() == MAX_CODINGS {
                let message = format!("more than {MAX_CODINGS} content codings over one another");
                return Err(Failure::new(ErrorKind::Decode, message));
            }
            codings.push(coding);
        }
    }
    Ok(Some(codings))
}

/// Undoes the content codings that `headers` name.
///
/// # Errors
/// `body_too_large`: what comes out passes `max_bytes`. `decode`: the body is not in that coding, or is cut off. `timeout`:
/// it is not done `by` then.
///
/// Cancelling it drops the body.
pub async fn decode(headers: &Headers, body: Body, max_bytes: u64, by: Instant) -> Result<Body, Failure> {
    let Some(codings) = codings(headers)? else { return Ok(body) };
    if body.bytes.is_empty() || codings.is_empty() {
        return Ok(body);
    }
    // One reservation for what came and what comes out: two of them could wait for each other.
    let Body { bytes: encoded, mut reservation } = body;
    let mut reader: Box<dyn Read + '_> = Box::new(Cursor::new(&encoded));
    for coding in codings.into_iter().rev() {
        reader = undo(coding, Box::new(Capped { inner: reader, left: max_bytes, by }))?;
    }
    let mut decoded = Vec::new();
    loop {
        reservation.grow(STEP_BYTES as u64).await;
        let step = match reader.by_ref().take(STEP_BYTES as u64).read_to_end(&mut decoded) {
            Err(error) if error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<TooLarge>) => {
                return Err(too_large(max_bytes));
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let message = "the body was not decoded in time";
                return Err(Failure::new(ErrorKind::Timeout, message).with_option(OptionName::TimeoutS));
            }
            Err(error) => {
                let message = format!("the body is not in the content coding it claims: {error}");
                return Err(Failure::new(ErrorKind::Decode, message));
            }
            Ok(step) => step,
        };
        if decoded.len() as u64 > max_bytes {
            return Err(too_large(max_bytes));
        }
        if step < STEP_BYTES {
            reservation.shrink_to(decoded.len() as u64);
            return Ok(Body { bytes: decoded, reservation });
        }
        // The worker's other lanes have their turn between two pieces of a large body.
        tokio::task::yield_now().await;
    }
}

fn too_large(max_bytes: u64) -> Failure {
    let message = format!("the body is larger than {max_bytes} bytes when decoded");
    Failure::new(ErrorKind::BodyTooLarge, message).with_option(OptionName::MaxBodyBytes)
}

/// What one coding hands to the next has the cap of the body, too: gibibytes of compressed nothing can be in a body
/// compressed twice that comes to no byte at all.
struct Capped<R> {
    inner: R,
    left: u64,
    /// Input can be made that takes long to decode and comes to nothing.
    by: Instant,
}

#[derive(Debug, thiserror::Error)]
#[error("the body is too large within its codings")]
struct TooLarge;

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.by <= Instant::now() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| io::Error::other(TooLarge))?;
        Ok(read)
    }
}

fn undo<'a>(coding: Coding, inner: Box<dyn Read + 'a>) -> Result<Box<dyn Read + 'a>, Failure> {
    let mut inner = BufReader::new(inner);
    Ok(match coding {
        Coding::Gzip => Box::new(GzipMembers { member: Some(GzDecoder::new(inner)) }),
        Coding::Deflate => {
            // Meant is the zlib format; some servers send bare deflate. The first two bytes tell (RFC 1950 section 2.2).
            let head = inner.fill_buf().unwrap_or_default();
            let zlib = matches!(head, [method, flags, ..]
                if method & 0x0f == 8 && u16::from_be_bytes([*method, *flags]) % 31 == 0);
            if zlib { Box::new(ZlibDecoder::new(inner)) } else { Box::new(DeflateDecoder::new(inner)) }
        }
        Coding::Brotli => Box::new(brotli::Decompressor::new(inner, BROTLI_INPUT_BYTES)),
        Coding::Zstd => {
            let failed = |error: io::Error| Failure::new(ErrorKind::Decode, format!("zstd: {error}"));
            let mut decoder = zstd::stream::read::Decoder::with_buffer(inner).map_err(failed)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(failed)?;
            Box::new(decoder)
        }
    })
}

/// Gzip members in a row (RFC 1952 section 2.2). What follows them and is none is ignored, as curl and browsers do: some
/// servers fill up with zeros.
struct GzipMembers<R> {
    /// `None` after the last.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let length = member.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            let Some(mut rest) = self.member.take().map(GzDecoder::into_inner) else { break };
            // One byte is always there to be looked at; two may be apart.
            if rest.fill_buf()?.first() == Some(&0x1f) {
                self.member = Some(GzDecoder::new(rest));
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).expect("memory");
        encoder.finish().expect("memory")
    }

    fn brotli(data: &[u8]) -> Vec<u8> {
        let mut encoded = Vec::new();
        brotli::CompressorWriter::new(&mut encoded, 4096, 5, 22).write_all(data).expect("memory");
        encoded
    }

    fn decoded(coding: &str, bytes: Vec<u8>, max_bytes: u64) -> Result<Vec<u8>, ErrorKind> {
        decoded_by(coding, bytes, max_bytes, Instant::now() + Duration::from_secs(60))
    }

    fn decoded_by(coding: &str, bytes: Vec<u8>, max_bytes: u64, by: Instant) -> Result<Vec<u8>, ErrorKind> {
        let headers = Headers::from_iter([("Content-Encoding", coding.as_bytes())]);
        let body = Body { bytes, ..Body::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("an event loop");
        let decoded = runtime.block_on(decode(&headers, body, max_bytes, by));
        decoded.map(|body| body.bytes).map_err(|failure| failure.kind)
    }

    #[test]
    fn members_that_meet_at_the_end_of_a_buffer_are_all_read() {
        let stored = |length: usize| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
            encoder.write_all(&vec![b'x'; length]).expect("memory");
            encoder.finish().expect("memory")
        };
        for length in 8150..8200 {
            let encoded = [stored(length), gzip(b"second")].concat();
            let plain = [vec![b'x'; length], b"second".to_vec()].concat();
            assert_eq!(Ok(plain), decoded("gzip", encoded, 1 << 20), "{length}");
        }
    }

    #[test]
    fn decoding_ends_with_its_time() {
        let by = Instant::now();
        assert_eq!(Err(ErrorKind::Timeout), decoded_by("gzip", gzip(b"hello"), 1 << 20, by));
    }

    #[test]
    fn each_coding_is_undone() {
        let plain = b"hello, hello, hello".repeat(10_000);
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(&plain).expect("memory");
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
        deflate.write_all(&plain).expect("memory");
        for (coding, encoded) in [
            ("gzip", gzip(&plain)),
            ("X-GZIP", [gzip(&plain[..100_000]), gzip(&plain[100_000..])].concat()),
            ("gzip", [gzip(&plain), vec![0; 512]].concat()),
            ("deflate", zlib.finish().expect("memory")),
            ("deflate", deflate.finish().expect("memory")),
            ("br", brotli(&plain)),
            ("zstd", zstd::encode_all(&*plain, 3).expect("memory")),
            ("gzip, br", brotli(&gzip(&plain))),
            ("identity", plain.clone()),
            ("unheard-of", plain.clone()),
            ("gzip, gzip, gzip, gzip, gzip", gzip(&gzip(&gzip(&gzip(&gzip(&plain)))))),
        ] {
            assert_eq!(Ok(plain.clone()), decoded(coding, encoded, plain.len() as u64), "{coding}");
        }
    }

    #[test]
    fn what_comes_out_is_capped_while_it_comes_out() {
        let bomb = gzip(&vec![0; 64 << 20]);
        assert_eq!(Err(ErrorKind::BodyTooLarge), decoded("gzip", bomb.clone(), 1 << 20));
        assert_eq!(Err(ErrorKind::BodyTooLarge), decoded("br, gzip", gzip(&brotli(&vec![0; 1 << 20])), (1 << 20) - 1));
    }

    #[test]
    fn what_is_between_two_codings_is_capped_as_well() {
        // A gzip member of nothing, over and over: it shrinks to next to nothing, and comes to nothing.
        let nothing = gzip(b"").repeat(100_000);
        assert_eq!(Ok(Vec::new()), decoded("gzip, gzip", gzip(&nothing), nothing.len() as u64));
        for (outer, encoded) in [("gzip", gzip(&nothing)), ("br", brotli(&nothing))] {
            let coding = format!("gzip, {outer}");
            assert_eq!(Err(ErrorKind::BodyTooLarge), decoded(&coding, encoded, nothing.len() as u64 - 1), "{outer}");
        }
    }

    #[test]
    fn a_body_that_is_cut_off_or_something_else_is_a_failure() {
        let plain = b"hello, hello, hello".repeat(100);
        let cut = |mut encoded: Vec<u8>| {
            encoded.truncate(encoded.len() / 2);
            encoded
        };
        for (coding, encoded) in [
            ("gzip", cut(gzip(&plain))),
            ("br", cut(brotli(&plain))),
            ("zstd", cut(zstd::encode_all(&*plain, 3).expect("memory"))),
            ("gzip", b"not gzip at all".to_vec()),
            ("zstd", b"not zstd at all".to_vec()),
            ("gzip, gzip, gzip, gzip, gzip, gzip", plain.clone()),
        ] {
            assert_eq!(Err(ErrorKind::Decode), decoded(coding, encoded, 1 << 20), "{coding}");
        }
    }
}
