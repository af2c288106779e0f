//! Codings undone one over the other, in one thread, as far as the meter lets them.

use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};

use super::brotli::Brotli;
use super::coding::Coding;
use super::inflate::{Inflate, Wrapping};
use super::meter::{Meter, Stop};

/// A zstd window of more than 8 MiB is refused (RFC 9659 section 3).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// What is decoded between two looks at the cap.
const STEP_BYTES: u64 = 64 * 1024;
/// What a decoder takes before anything has passed it: its state, its tables and the buffer below it.
const LAYER_BYTES: u64 = 64 * 1024;
/// The same of zstd, which also takes its input a block at a time.
const ZSTD_LAYER_BYTES: u64 = 384 * 1024;

/// Appends to `output` what becomes of `encoded`.
///
/// # Errors
/// Where the meter has stopped, that is why. If it has not, the body is not in its coding.
pub(super) fn undo_all<'a>(
    codings: &[Coding],
    encoded: &'a [u8],
    max_bytes: u64,
    meter: &Rc<Meter<'a>>,
    output: &mut Vec<u8>,
) -> io::Result<()> {
    let mut reader = layers(codings, Box::new(encoded), max_bytes, meter)?;
    loop {
        if output.len() == output.capacity() {
            // Exactly what was set aside; large blocks are moved by the system, without a copy.
            let more = (output.len() as u64 / 4).max(STEP_BYTES);
            meter.draw(more)?;
            output.reserve_exact(more as usize);
        }
        let room = (output.capacity() - output.len()) as u64;
        let step = room.min(STEP_BYTES);
        let read = reader.by_ref().take(step).read_to_end(output)?;
        if (read as u64) < step {
            return Ok(());
        }
    }
}

/// What becomes of `encoded`, a piece at a time.
///
/// # Errors
/// As [`undo_all`], also of reading it.
pub(super) fn layers<'a>(
    codings: &[Coding],
    encoded: Box<dyn Read + 'a>,
    max_bytes: u64,
    meter: &Rc<Meter<'a>>,
) -> io::Result<impl Read + 'a> {
    let passing = |inner, window| Passing { inner, left: max_bytes, window, meter: meter.clone() };
    let mut reader = passing(encoded, 0);
    for coding in codings.iter().rev() {
        reader = passing(undo(*coding, reader, meter)?, coding.window_bytes());
    }
    Ok(reader)
}

impl Coding {
    /// What it looks back to at the most: as much of that as has passed is in its memory. Brotli tells of it by itself.
    fn window_bytes(self) -> u64 {
        match self {
            Self::Zstd => 1 << ZSTD_WINDOW_LOG_MAX,
            Self::Gzip | Self::Deflate | Self::Brotli => 0,
        }
    }
}

/// What one coding hands to the next has the cap of the body, too: gibibytes of compressed nothing can be in a body
/// compressed twice that comes to no byte at all.
struct Passing<'a> {
    inner: Box<dyn Read + 'a>,
    left: u64,
    window: u64,
    meter: Rc<Meter<'a>>,
}

impl Read for Passing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.meter.turn_is_over() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let within = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        // Up to the cap, everything passes; whether there is more is found out by a byte that does not.
        let is_over = within == 0 && !buffer.is_empty();
        let read = self.inner.read(if is_over { &mut buffer[..1] } else { &mut buffer[..within] })?;
        let passed = read as u64;
        self.meter.pass(passed)?;
        if is_over && read > 0 {
            return Err(self.meter.stop(Stop::TooLarge));
        }
        self.left -= passed;
        let kept = passed.min(self.window);
        self.window -= kept;
        if kept > 0 {
            self.meter.draw(kept)?;
        }
        Ok(read)
    }
}

/// What a decoder takes before anything has passed it.
pub(super) const fn layer_bytes(coding: Coding) -> u64 {
    match coding {
        Coding::Zstd => ZSTD_LAYER_BYTES,
        Coding::Gzip | Coding::Deflate | Coding::Brotli => LAYER_BYTES,
    }
}

fn undo<'a>(coding: Coding, inner: Passing<'a>, meter: &Rc<Meter<'a>>) -> io::Result<Box<dyn Read + 'a>> {
    meter.draw(layer_bytes(coding))?;
    let mut inner = BufReader::new(inner);
    Ok(match coding {
        Coding::Gzip if meter.has_turns() => Box::new(Inflate::new(inner, Wrapping::Gzip)),
        Coding::Deflate if meter.has_turns() => Box::new(Inflate::new(inner, Wrapping::ZlibOrBare)),
        Coding::Gzip => Box::new(GzipMembers { member: Some(GzDecoder::new(inner)) }),
        Coding::Deflate => {
            // Meant is the zlib format; some servers send bare deflate. The first two bytes tell (RFC 1950 section 2.2).
            let head = inner.fill_buf().unwrap_or_default();
            let zlib = matches!(head, [method, flags, ..]
                if method & 0x0f == 8 && u16::from_be_bytes([*method, *flags]) % 31 == 0);
            if zlib { Box::new(ZlibDecoder::new(inner)) } else { Box::new(DeflateDecoder::new(inner)) }
        }
        Coding::Brotli => Box::new(Brotli::new(inner, meter)),
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(inner)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
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
